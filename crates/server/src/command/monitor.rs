//! MONITOR: a client sees every command that others give, but for those of operators.
//!
//! A line tells of a command, so it leaves as a push does (PUSH-1 to PUSH-3, `outbox.rs`): once
//! what the command did is settled. Passwords are not shown.

use super::{Call, Command, Fail, Flags, Outcome};
use crate::clients::Client;
use crate::outbox::Parcel;
use crate::resp::parse::Args;
use crate::server_state::{Monitor, ServerState};
use crate::slowlog::shown_args;
use std::time::UNIX_EPOCH;

/// `MONITOR`
pub(super) fn monitor(call: &mut Call<'_, '_>) -> Outcome {
    if call.client.executing {
        return Err(Fail::text("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    if !call.client.monitors {
        (call.client.monitors, call.client.switching) = (true, true);
        let since = call.shared.channels.number();
        call.shared.monitors.push(Monitor { client: call.client.id, slot: call.client.slot, since });
    }
    call.out.ok();
    Ok(())
}

/// A client sees no more of others' commands.
pub(crate) fn end(client: &mut Client, shared: &mut ServerState) {
    if std::mem::take(&mut client.monitors) {
        shared.monitors.retain(|monitor| monitor.client != client.id);
    }
}

/// Tells those that see all commands of one, unless it tells by itself.
pub(crate) fn feed(shared: &mut ServerState, client: &Client, command: &Command, args: &Args<'_>) {
    if !command.flags.intersects(Flags::ADMIN.union(Flags::SKIP_MONITOR)) {
        feed_always(shared, client, args);
    }
}

/// Tells those that see all commands of one.
pub(super) fn feed_always(shared: &mut ServerState, client: &Client, args: &Args<'_>) {
    // Above that size every monitor is disconnected, as its lines are delivered.
    if shared.monitors.is_empty() || shared.outbox.lines_size() > shared.options.push_size_max {
        return;
    }
    let since = shared.options.clock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let author = if client.scripting { "lua".to_string() } else { client.peer.to_string() };
    let head = format!("+{}.{:06} [{} {author}]", since.as_secs(), since.subsec_micros(), client.database);
    let mut line = head.into_bytes();
    for arg in shown_args(args) {
        line.extend_from_slice(b" \"");
        arg.iter().for_each(|byte| escape(*byte, &mut line));
        line.push(b'"');
    }
    line.extend_from_slice(b"\r\n");
    let number = shared.channels.number();
    shared.outbox.add(Parcel::Line { number, line });
}

/// A byte as it is shown.
fn escape(byte: u8, line: &mut Vec<u8>) {
    match byte {
        b'\\' | b'"' => line.extend_from_slice(&[b'\\', byte]),
        b'\n' => line.extend_from_slice(b"\\n"),
        b'\r' => line.extend_from_slice(b"\\r"),
        b'\t' => line.extend_from_slice(b"\\t"),
        0x07 => line.extend_from_slice(b"\\a"),
        0x08 => line.extend_from_slice(b"\\b"),
        b' '..=b'~' => line.push(byte),
        _ => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
    }
}
