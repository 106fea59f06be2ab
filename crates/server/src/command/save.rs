//! SAVE, BGSAVE, LASTSAVE: RDB files of all keys (`saves.rs`).

use super::fail::SYNTAX;
use super::{Call, Command, Fail, Outcome, is_word};

const RUNNING: Fail = Fail::text("ERR Background save already in progress");

/// Whether a command reads the settled version itself, so that all that its client wrote before has
/// to be settled.
pub(crate) fn waits_for_settled(command: &Command) -> bool {
    ["save", "cursor|range", "cursor|revrange", "cursor|prefix"].contains(&command.name)
}

/// Refuses where no file may be written, or one is being written.
fn ready(call: &Call<'_, '_>) -> Outcome {
    if call.shared.saves.directory().is_none() {
        return Err(Fail::text(
            "ERR this server saves no RDB files; start it with the option `backups` and a directory, or use everbyte export",
        ));
    }
    if call.shared.saves.is_running() { Err(RUNNING) } else { Ok(()) }
}

/// `SAVE`
pub(super) fn save(call: &mut Call<'_, '_>) -> Outcome {
    ready(call)?;
    let done = call.shared.saves.save(&call.shared.tables);
    done.map_err(|error| Fail::made(format!("ERR cannot save: {error}")))?;
    call.out.ok();
    Ok(())
}

/// `BGSAVE [SCHEDULE]`
pub(super) fn bgsave(call: &mut Call<'_, '_>) -> Outcome {
    match call.args.len() {
        1 => {}
        2 if is_word(call.args.get(1), "schedule") => {}
        _ => return Err(SYNTAX),
    }
    ready(call)?;
    call.shared.saves.want();
    call.out.simple(if call.client.executing { "Background saving scheduled" } else { "Background saving started" });
    Ok(())
}

/// `LASTSAVE`
pub(super) fn lastsave(call: &mut Call<'_, '_>) -> Outcome {
    call.out.integer(call.shared.saves.state().last as i64);
    Ok(())
}
