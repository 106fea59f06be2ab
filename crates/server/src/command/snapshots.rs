//! SNAPSHOT: versions of all keys that have names. They stay readable until their names are
//! removed, across restarts too; CURSOR reads them.

use super::blocking::{Wait, wait};
use super::describe::help_of;
use super::{Call, Fail, Outcome};
use crate::resp::reply::Replies;
use crate::server_state::Naming;
use everbyte_kv::{Error, RESERVED_VERSIONS};
use std::time::UNIX_EPOCH;

pub(super) const NO_SNAPSHOT: Fail = Fail::text("ERR no snapshot has this name; see SNAPSHOT LIST");

/// The name of a snapshot.
pub(super) fn snapshot_name(name: &[u8]) -> Result<String, Fail> {
    let name = std::str::from_utf8(name).map_err(|_| Fail::text("ERR the name of a snapshot is UTF-8"))?;
    match name.starts_with(RESERVED_VERSIONS) {
        true => Err(Fail::text("ERR names that begin with server/ are the server's own")),
        false => Ok(name.to_string()),
    }
}

/// The reply of SNAPSHOT CREATE, or of SNAPSHOT DROP.
pub(crate) fn snapshot_reply(done: everbyte_kv::Result<()>, drops: bool, out: &mut Replies) {
    match done {
        Ok(()) if drops => out.integer(1),
        Ok(()) => out.ok(),
        Err(Error::NoVersion { .. }) => out.integer(0),
        Err(Error::VersionExists { .. }) => out.error(b"ERR a snapshot has this name already"),
        Err(error) => out.error(&Fail::Store(error).reply()),
    }
}

/// The client waits until it is done, when the iteration has committed.
fn ask(call: &mut Call<'_, '_>, drops: bool) -> Outcome {
    let name = snapshot_name(call.args.get(2))?;
    if call.shared.replication.is_mixed() {
        return Err(Fail::text("ERR the keys are on the way between two versions of the primary; try again"));
    }
    call.shared.naming.push(Naming { client: call.client.id, name, drops });
    wait(call, std::iter::empty(), Wait::for_no_key(None));
    Ok(())
}

/// `SNAPSHOT CREATE name`
pub(super) fn create(call: &mut Call<'_, '_>) -> Outcome {
    ask(call, false)
}

/// `SNAPSHOT DROP name`: 1 if there was one.
pub(super) fn drop_snapshot(call: &mut Call<'_, '_>) -> Outcome {
    ask(call, true)
}

/// `SNAPSHOT LIST`: name, version, and seconds since 1970 of each.
pub(super) fn list(call: &mut Call<'_, '_>) -> Outcome {
    let mut versions = call.shared.kv.versions()?;
    versions.retain(|version| !version.name.starts_with(RESERVED_VERSIONS));
    call.out.array(versions.len());
    for version in versions {
        let seconds = version.named_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        call.out.array(3);
        call.out.bulk(version.name.as_bytes());
        call.out.integer(version.version.get() as i64);
        call.out.integer(seconds as i64);
    }
    Ok(())
}

/// `SNAPSHOT HELP`
pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    help_of(call, "snapshot")
}
