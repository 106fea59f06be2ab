//! `everbyte fs quota ..`: limits of users, groups and projects of a volume.

use super::fs::Volumes;
use crate::args::{QuotaArgs, QuotaCommand, QuotaOwner, QuotaSetArgs};
use crate::failure::Failure;
use crate::output::Output;
use everbyte_fs::{Quota, QuotaKind, QuotaLimit, QuotaLimits, Volume};
use serde_json::{Value, json};

/// Seconds above a soft limit unless the caller says otherwise: a week, as other systems have it.
const GRACE: u32 = 7 * 24 * 60 * 60;

pub(super) fn run(volumes: Volumes, command: &QuotaCommand, output: &Output) -> Result<(), Failure> {
    match command {
        QuotaCommand::List(listed) => list(&volumes, &listed.volume, output),
        QuotaCommand::Set(set) => change(volumes, &set.owner, |old| limits(old, set), output),
        QuotaCommand::Remove(owner) => change(volumes, owner, |_| QuotaLimits::default(), output),
    }
}

fn kind(owner: QuotaOwner) -> QuotaKind {
    match owner {
        QuotaOwner::User => QuotaKind::User,
        QuotaOwner::Group => QuotaKind::Group,
        QuotaOwner::Project => QuotaKind::Project,
    }
}

/// The limits of an owner after `set`.
fn limits(old: QuotaLimits, set: &QuotaSetArgs) -> QuotaLimits {
    let limit = |old: QuotaLimit, soft: Option<u64>, hard: Option<u64>| {
        let kept = if old.grace > 0 { old.grace } else { GRACE };
        let (soft, hard) = (soft.unwrap_or(old.soft), hard.unwrap_or(old.hard));
        QuotaLimit { soft, hard, grace: if soft == 0 { 0 } else { set.grace.unwrap_or(kept) } }
    };
    QuotaLimits {
        bytes: limit(old.bytes, set.soft_bytes, set.bytes),
        inodes: limit(old.inodes, set.soft_inodes, set.inodes),
    }
}

fn change(
    volumes: Volumes,
    owner: &QuotaArgs,
    new: impl FnOnce(QuotaLimits) -> QuotaLimits,
    output: &Output,
) -> Result<(), Failure> {
    let volume = volumes.volume(&owner.volume)?;
    let kind = kind(owner.kind);
    let find = |volume: &Volume| -> Result<Option<Quota>, Failure> {
        Ok(volume.quotas()?.into_iter().find(|quota| (quota.kind, quota.id) == (kind, owner.id)))
    };
    let old = find(&volume)?;
    let new = new(old.map_or(QuotaLimits::default(), |quota| quota.limits));
    if old.is_none() && new == QuotaLimits::default() {
        return Err(Failure::No(format!("volume {} has no limits of {kind} {}", owner.volume, owner.id)));
    }
    volume.set_quota(kind, owner.id, &new)?;
    let now = find(&volume)?;
    volumes.done(volume)?;
    match now {
        Some(quota) => output.say(line(&quota), value(&quota)),
        None => {
            let value = json!({ "volume": owner.volume, "kind": kind.to_string(), "id": owner.id });
            output.say(format!("removed the limits of {kind} {} of volume {}", owner.id, owner.volume), value)
        }
    }
}

fn list(volumes: &Volumes, name: &str, output: &Output) -> Result<(), Failure> {
    volumes.volume(name)?.quotas()?.iter().try_for_each(|quota| output.say(line(quota), value(quota)))
}

fn line(quota: &Quota) -> String {
    let Quota { kind, id, limits, bytes, inodes, since } = quota;
    let part = |what: &str, used: u64, limit: QuotaLimit, since: i64| {
        let text = |limit: u64| if limit == 0 { "-".into() } else { limit.to_string() };
        let above = if since == 0 { "" } else { " (above soft)" };
        format!("{what} {used} soft {} hard {}{above}", text(limit.soft), text(limit.hard))
    };
    let bytes = part("bytes", *bytes, limits.bytes, since[0]);
    format!("{kind} {id}: {bytes}, {}", part("inodes", *inodes, limits.inodes, since[1]))
}

fn value(quota: &Quota) -> Value {
    let part = |used: u64, limit: QuotaLimit, since: i64| {
        let since = (since != 0).then_some(since);
        json!({ "used": used, "soft": limit.soft, "hard": limit.hard, "grace_s": limit.grace, "above_since_ns": since })
    };
    json!({
        "kind": quota.kind.to_string(),
        "id": quota.id,
        "bytes": part(quota.bytes, quota.limits.bytes, quota.since[0]),
        "inodes": part(quota.inodes, quota.limits.inodes, quota.since[1]),
    })
}
