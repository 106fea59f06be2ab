//! CLIENT: who is connected.

use super::fail::{CLIENT_NAME, NOT_INTEGER, SYNTAX};
use super::kill::ClientType;
use super::{Call, Fail, Outcome, is_word};
use crate::clients::{Client, Closing, ReplyMode};
use crate::options::ClientDurability;
use crate::outbox::{Answer, Parcel};
use crate::resp::number::parse_integer;
use crate::server_state::ServerState;
use crate::stream::Address;
use everbyte_kv::raw::Raw as _;
use everbyte_media::Durability;

/// Whether a list of clients can show `name`.
fn showable(name: &[u8]) -> bool {
    name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

/// Names the connection by argument `index`.
pub(super) fn rename(call: &mut Call<'_, '_>, index: usize) -> Outcome {
    let name = call.args.get(index);
    if !showable(name) {
        return Err(CLIENT_NAME);
    }
    call.client.name = name.to_vec();
    Ok(())
}

/// `CLIENT ID`
pub(super) fn id(call: &mut Call<'_, '_>) -> Outcome {
    call.out.integer(call.client.id as i64);
    Ok(())
}

/// `CLIENT SETNAME name`
pub(super) fn set_name(call: &mut Call<'_, '_>) -> Outcome {
    rename(call, 2)?;
    call.out.ok();
    Ok(())
}

/// `CLIENT GETNAME`
pub(super) fn get_name(call: &mut Call<'_, '_>) -> Outcome {
    match call.client.name.is_empty() {
        true => call.out.null(),
        false => call.out.bulk(&call.client.name),
    }
    Ok(())
}

/// `CLIENT SETINFO LIB-NAME | LIB-VER text`
pub(super) fn set_info(call: &mut Call<'_, '_>) -> Outcome {
    let (option, text) = (call.args.get(2), call.args.get(3));
    let (name, field) = match option {
        _ if is_word(option, "lib-name") => ("lib-name", &mut call.client.library_name),
        _ if is_word(option, "lib-ver") => ("lib-ver", &mut call.client.library_version),
        _ => return Err(Fail::made([b"ERR Unrecognized option '", option, b"'"].concat())),
    };
    if !showable(text) {
        return Err(Fail::made(format!("ERR {name} cannot contain spaces, newlines or special characters.")));
    }
    *field = text.to_vec();
    call.out.ok();
    Ok(())
}

/// `CLIENT NO-EVICT ON | OFF`
pub(super) fn no_evict(call: &mut Call<'_, '_>) -> Outcome {
    let mode = call.args.get(2);
    if !is_word(mode, "on") && !is_word(mode, "off") {
        return Err(SYNTAX);
    }
    call.client.no_evict = is_word(mode, "on");
    call.out.ok();
    Ok(())
}

/// `CLIENT DURABILITY [ALWAYS | INTERVAL | PROCESS | DEFAULT]`: at least that of the store's mode;
/// without a word, the mode that the connection has.
pub(super) fn durability(call: &mut Call<'_, '_>) -> Outcome {
    let media = call.shared.kv.store().media();
    let of_store = match media.durability() {
        _ if media.fences_settle() => "always",
        Durability::Always => "always",
        Durability::Interval(_) => "interval",
        Durability::Process => "process",
    };
    let Some(word) = call.args.from(2).next() else {
        let always = call.shared.is_always(call.client);
        call.out.bulk(if always { "always" } else { of_store }.as_bytes());
        return Ok(());
    };
    let mode = match word {
        _ if call.args.len() > 3 => return Err(SYNTAX),
        _ if is_word(word, "always") => Some(ClientDurability::Always),
        _ if is_word(word, "interval") && of_store == "process" => {
            return Err(Fail::text("ERR the store is never synced in intervals: its durability mode is `process`"));
        }
        _ if is_word(word, "interval") || is_word(word, "process") => Some(ClientDurability::Store),
        _ if is_word(word, "default") => None,
        _ => return Err(Fail::text("ERR CLIENT DURABILITY is always, interval, process or default")),
    };
    call.client.switching |= call.client.durability != mode;
    call.client.durability = mode;
    call.out.ok();
    Ok(())
}

/// `CLIENT REPLY ON | OFF | SKIP`
pub(super) fn reply(call: &mut Call<'_, '_>) -> Outcome {
    let mode = call.args.get(2);
    call.client.reply_mode = match mode {
        _ if is_word(mode, "on") => ReplyMode::On,
        _ if is_word(mode, "off") => ReplyMode::Off,
        _ if is_word(mode, "skip") && call.client.reply_mode != ReplyMode::Off => ReplyMode::SkipNext,
        _ if is_word(mode, "skip") => ReplyMode::Off,
        _ => return Err(SYNTAX),
    };
    if call.client.reply_mode == ReplyMode::On {
        call.out.ok();
    }
    Ok(())
}

/// `CLIENT UNBLOCK id [TIMEOUT | ERROR]`
pub(super) fn unblock(call: &mut Call<'_, '_>) -> Outcome {
    let error = match call.args.from(3).next() {
        _ if call.args.len() > 4 => return Err(SYNTAX),
        None => false,
        Some(word) if is_word(word, "timeout") => false,
        Some(word) if is_word(word, "error") => true,
        Some(_) => return Err(Fail::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let id = parse_integer(call.args.get(2)).ok_or(NOT_INTEGER)?;
    let waiter = u64::try_from(id).ok().and_then(|id| call.shared.waiters.remove(id));
    call.out.integer(i64::from(waiter.is_some()));
    if let Some(waiter) = waiter {
        let answer = match error {
            true => Answer::new(waiter.reader, |out| out.error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK")),
            false => call.shared.wait_answer(&waiter),
        };
        call.shared.outbox.add(Parcel::Answer(answer));
    }
    Ok(())
}

/// `CLIENT INFO`
pub(super) fn info(call: &mut Call<'_, '_>) -> Outcome {
    let text = line(call.client, call.out.pending(), call.shared) + "\n";
    call.out.text(&text);
    Ok(())
}

/// `CLIENT LIST [TYPE normal | pubsub] [ID id ...]`
pub(super) fn list(call: &mut Call<'_, '_>) -> Outcome {
    let options: Vec<&[u8]> = call.args.from(2).collect();
    let mut wanted: Option<Vec<u64>> = None;
    let mut type_: Option<ClientType> = None;
    match options[..] {
        [] => {}
        [word, name] if is_word(word, "type") => type_ = Some(ClientType::parse(name)?),
        [word, ref ids @ ..] if is_word(word, "id") && !ids.is_empty() => {
            let number = |id: &&[u8]| parse_integer(id).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
            let ids: Option<Vec<u64>> = ids.iter().map(number).collect();
            wanted = Some(ids.ok_or(Fail::text("ERR Invalid client ID"))?);
        }
        _ => return Err(SYNTAX),
    }
    let wants = |client: &Client| {
        let named = wanted.as_ref().is_none_or(|wanted| wanted.contains(&client.id));
        named && type_.is_none_or(|type_| type_.fits(client))
    };
    let mut lines: Vec<(u64, String)> = Vec::new();
    if wants(call.client) {
        lines.push((call.client.id, line(call.client, call.out.pending(), call.shared)));
    }
    for other in call.others.iter().filter(|other| wants(&other.client)) {
        lines.push((other.client.id, line(&other.client, other.out.pending(), call.shared)));
    }
    lines.sort_unstable();
    let text: String = lines.into_iter().map(|(_, line)| line + "\n").collect();
    call.out.text(&text);
    call.room()
}

fn flags(client: &Client) -> String {
    let mode = client.tracking.as_ref();
    let marks = [
        (client.replica, 'S'),
        (client.subscribes(), 'P'),
        (client.transaction.is_some(), 'x'),
        (client.waiting || client.postponed, 'b'),
        (mode.is_some(), 't'),
        (mode.is_some_and(|mode| mode.broken), 'R'),
        (mode.is_some_and(|mode| mode.broadcast), 'B'),
        (client.closing == Closing::AfterReplies, 'c'),
        (client.closing == Closing::Now, 'A'),
        (matches!(client.peer, Address::Unix(_)), 'U'),
        (client.no_evict, 'e'),
    ];
    let flags: String = marks.into_iter().filter_map(|(is, mark)| is.then_some(mark)).collect();
    if flags.is_empty() { "N".into() } else { flags }
}

/// Facts about a client.
pub(super) fn line(client: &Client, pending: usize, shared: &ServerState) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let now = shared.now;
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} qbuf={} obl={} \
         events=r cmd={} user={} redir={} resp={} lib-name={} lib-ver={}",
        client.id,
        client.peer,
        client.local,
        client.descriptor,
        text(&client.name),
        now.saturating_duration_since(client.connected).as_secs(),
        now.saturating_duration_since(client.active).as_secs(),
        flags(client),
        client.database,
        client.subscriptions[0],
        client.subscriptions[1],
        client.subscriptions[2],
        client.transaction.as_ref().map_or(-1, |transaction| transaction.len() as i64),
        client.input_size,
        pending,
        client.command,
        text(shared.users.name(client.user)),
        client.tracking.as_ref().map_or(-1, |mode| mode.redirect.map_or(0, |redirect| redirect.client as i64)),
        client.resp,
        text(&client.library_name),
        text(&client.library_version),
    )
}

/// `CLIENT HELP`
pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    super::describe::help_of(call, "client")
}
