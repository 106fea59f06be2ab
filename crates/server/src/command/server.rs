//! Commands about the server process.

use super::fail::SYNTAX;
use super::{Call, Fail, Outcome, is_word};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A container without a subcommand is stopped by its arity; this answers a table that says
/// otherwise.
pub(super) fn container(call: &mut Call<'_, '_>) -> Outcome {
    Err(Fail::arity(&String::from_utf8_lossy(call.args.get(0)).to_ascii_lowercase()))
}

/// `TIME`: in a script that of the iteration.
pub(super) fn time(call: &mut Call<'_, '_>) -> Outcome {
    let now = match call.client.scripting {
        true => Duration::from_millis(call.keys.now()),
        false => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
    };
    call.out.array(2);
    call.out.bulk(now.as_secs().to_string().as_bytes());
    call.out.bulk(now.subsec_micros().to_string().as_bytes());
    Ok(())
}

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`: whatever the words, the store is closed whole;
/// there is no reply.
pub(super) fn shutdown(call: &mut Call<'_, '_>) -> Outcome {
    let (mut save, mut abort, mut nosave) = (false, false, false);
    for arg in call.args.from(1) {
        match arg {
            _ if is_word(arg, "save") => save = true,
            _ if is_word(arg, "nosave") => nosave = true,
            _ if is_word(arg, "abort") => abort = true,
            _ if is_word(arg, "now") || is_word(arg, "force") => {}
            _ => return Err(SYNTAX),
        }
    }
    if (save && nosave) || (abort && call.args.len() > 2) {
        return Err(SYNTAX);
    }
    if abort {
        return Err(Fail::text("ERR No shutdown in progress."));
    }
    call.shared.stopping = true;
    Ok(())
}
