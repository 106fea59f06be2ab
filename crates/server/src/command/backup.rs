//! BACKUP: copies of the store as of one moment, while it is served.

use super::fail::SYNTAX;
use super::{Call, Fail, Outcome, is_word};
use crate::backups::{Refusal, Status};
use everbyte_kv::raw::Raw as _;

/// `BACKUP START name [SINCE name]`: begins to copy the store to a file in the directory of
/// backups. The copy is of a moment after the command.
pub(super) fn start(call: &mut Call<'_, '_>) -> Outcome {
    let since = match call.args.len() {
        3 => None,
        5 if is_word(call.args.get(3), "since") => Some(call.args.get(4)),
        _ => return Err(SYNTAX),
    };
    let store = call.shared.kv.store().clone();
    call.shared.backups.start(&store, call.args.get(2), since).map_err(|refusal| match refusal {
        Refusal::NoDirectory => {
            Fail::text("ERR this server makes no backups; start it with the option `backups` and a directory")
        }
        Refusal::Name => Fail::text("ERR a backup is named by a plain file name, without / and not beginning with ."),
        Refusal::Running => Fail::text("ERR another backup is in progress; see BACKUP STATUS"),
        Refusal::NoThread => Fail::text("ERR the system gives no thread for a backup; try again"),
    })?;
    call.out.simple("Backup started");
    Ok(())
}

/// `BACKUP STATUS`: names and values; `state` is none, running, done or failed.
pub(super) fn status(call: &mut Call<'_, '_>) -> Outcome {
    let number = |number: u64| number.to_string();
    let fields: Vec<(&str, String)> = match call.shared.backups.status() {
        Status::None => vec![("state", "none".into())],
        Status::Running(done, total) => {
            vec![("state", "running".into()), ("done", number(done)), ("total", number(total))]
        }
        Status::Done(summary) => vec![
            ("state", "done".into()),
            ("pages", number(summary.pages)),
            ("stored", number(summary.stored)),
            ("bytes", number(summary.size)),
            ("held_back_us", number(summary.pause.as_micros() as u64)),
        ],
        Status::Failed(error) => vec![("state", "failed".into()), ("error", error)],
    };
    call.out.map(fields.len());
    for (name, value) in fields {
        call.out.bulk(name.as_bytes());
        call.out.bulk(value.as_bytes());
    }
    Ok(())
}
