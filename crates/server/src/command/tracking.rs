//! CLIENT TRACKING and its kin. `tracking.rs` knows the readers of keys, `iteration/invalidate.rs`
//! tells them.

use super::fail::{NOT_INTEGER, SYNTAX};
use super::{Call, CommandTable, Fail, Flags, Outcome, is_word, key_places};
use crate::clients::Client;
use crate::outbox::Parcel;
use crate::resp::number::parse_integer;
use crate::resp::parse::Args;
use crate::server_state::ServerState;
use crate::tracking::{EACH_PREFIX, Tracker, TrackingMode};

/// Notes the keys that a client has read by a request, if it keeps copies.
pub(crate) fn remember(client: &Client, shared: &mut ServerState, row: usize, args: &Args<'_>) {
    let Some(mode) = &client.tracking else { return };
    let command = CommandTable::get().rows[row];
    // Of a script its commands count, and not the keys that it was given.
    let others = Flags::PUBSUB_KIND.union(Flags::SKIP_MONITOR);
    let reads = command.flags.contains(Flags::READONLY) && !command.flags.intersects(others);
    if !reads || mode.broadcast || mode.opt_in && !mode.caching || mode.opt_out && mode.caching {
        return;
    }
    let (tracker, max) = (Tracker { client: client.id, slot: client.slot }, shared.options.tracking_keys_max);
    for place in key_places(command, args, 0).unwrap_or_default() {
        for forgotten in shared.tracking.read(args.get(place.index), tracker, max) {
            shared.outbox.add(Parcel::Invalidation(forgotten));
        }
    }
}

/// A command has ended: CLIENT CACHING was for it, unless it was a CLIENT command, or one that is
/// queued.
pub(crate) fn end_command(client: &mut Client, args: &Args<'_>) {
    if let Some(mode) = &mut client.tracking
        && client.transaction.is_none()
        && !is_word(args.get(0), "client")
    {
        mode.caching = false;
    }
}

/// A client tracks no more.
pub(super) fn end(client: &mut Client, shared: &mut ServerState) {
    if client.tracking.take().is_some() {
        shared.tracking.forget(client.id);
    }
}

fn options(call: &Call<'_, '_>) -> Result<TrackingMode, Fail> {
    let mut mode = TrackingMode::default();
    let mut words = call.args.from(3);
    while let Some(word) = words.next() {
        match word {
            _ if is_word(word, "bcast") => mode.broadcast = true,
            _ if is_word(word, "optin") => mode.opt_in = true,
            _ if is_word(word, "optout") => mode.opt_out = true,
            _ if is_word(word, "noloop") => mode.no_loop = true,
            _ if is_word(word, "redirect") && words.len() > 0 => {
                let id = words.next().unwrap_or_default();
                if mode.redirect.is_some() {
                    return Err(Fail::text("ERR A client can only redirect to a single other client"));
                }
                let id = parse_integer(id).ok_or(NOT_INTEGER)?;
                let own = Some((call.client.id, call.client.slot));
                let others = call.others.iter().map(|other| (other.client.id, other.client.slot));
                let found = own.into_iter().chain(others).find(|(client, _)| i64::try_from(*client) == Ok(id));
                let (client, slot) =
                    found.ok_or(Fail::text("ERR The client ID you want redirect to does not exist"))?;
                mode.redirect = Some(Tracker { client, slot });
            }
            _ if is_word(word, "prefix") && words.len() > 0 => {
                mode.prefixes.insert(words.next().unwrap_or_default().to_vec());
            }
            _ => return Err(SYNTAX),
        }
    }
    Ok(mode)
}

/// Whether one of two prefixes begins with the other.
fn overlap(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn collision(call: &Call<'_, '_>, old: Option<&TrackingMode>) -> Outcome {
    let words: Vec<&[u8]> = call.args.from(3).collect();
    let behind = words.iter().skip(1).zip(&words).filter(|(_, word)| is_word(word, "prefix"));
    let prefixes: Vec<&[u8]> = behind.map(|(prefix, _)| *prefix).collect();
    for (index, prefix) in prefixes.iter().enumerate() {
        let known = old.and_then(|old| old.prefixes.iter().find(|known| overlap(known, prefix)));
        let same = prefixes[index + 1..].iter().find(|other| overlap(prefix, other));
        let (kind, other): (&[u8], &[u8]) = match (known, same) {
            (Some(known), _) => (b"an existing prefix '", known),
            (None, Some(other)) => (b"another provided prefix '", other),
            (None, None) => continue,
        };
        let end: &[u8] = b"'. Prefixes for a single client must not overlap.";
        return Err(Fail::made([b"ERR Prefix '", *prefix, b"' overlaps with ", kind, other, end].concat()));
    }
    Ok(())
}

/// `CLIENT TRACKING ON | OFF [REDIRECT client] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT]
/// [NOLOOP]`
pub(super) fn tracking(call: &mut Call<'_, '_>) -> Outcome {
    let mut mode = options(call)?;
    let word = call.args.get(2);
    if is_word(word, "off") {
        call.client.switching |= call.client.tracking.is_some();
        end(call.client, call.shared);
        call.out.ok();
        return Ok(());
    }
    if !is_word(word, "on") {
        return Err(SYNTAX);
    }
    let old = call.client.tracking.as_deref();
    let refusal = match old {
        _ if !mode.broadcast && !mode.prefixes.is_empty() => "PREFIX option requires BCAST mode to be enabled",
        Some(old) if old.broadcast != mode.broadcast => {
            "You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with \
             a different mode."
        }
        _ if mode.broadcast && (mode.opt_in || mode.opt_out) => "OPTIN and OPTOUT are not compatible with BCAST",
        _ if mode.opt_in && mode.opt_out => "You can't specify both OPTIN mode and OPTOUT mode",
        Some(old) if mode.opt_in && old.opt_out || mode.opt_out && old.opt_in => {
            "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with \
             a different mode."
        }
        _ => "",
    };
    if !refusal.is_empty() {
        return Err(Fail::made(format!("ERR {refusal}")));
    }
    if mode.broadcast {
        collision(call, old)?;
        if mode.prefixes.is_empty() {
            mode.prefixes.insert(Vec::new());
        }
        mode.prefixes.extend(old.map(|old| old.prefixes.clone()).unwrap_or_default());
    }
    mode.prefixes_memory = mode.prefixes.iter().map(|prefix| EACH_PREFIX + 2 * prefix.len()).sum();
    mode.caching = old.is_some_and(|old| old.caching);
    let tracker = Tracker { client: call.client.id, slot: call.client.slot };
    call.shared.tracking.add(tracker, &mode.prefixes);
    call.client.tracking = Some(Box::new(mode));
    // TRACK-2: changes before this one are not noted. So the client reads nothing older than them:
    // its next request comes once they are settled, and the rest of an EXEC sees them.
    call.keys.read_newest();
    (call.client.turn_over, call.client.switching) = (true, true);
    call.out.ok();
    Ok(())
}

/// `CLIENT CACHING YES | NO`
pub(super) fn caching(call: &mut Call<'_, '_>) -> Outcome {
    let Some(mode) = &mut call.client.tracking else {
        return Err(Fail::text(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    let word = call.args.get(2);
    let (fits, text) = match word {
        _ if is_word(word, "yes") => {
            (mode.opt_in, "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
        }
        _ if is_word(word, "no") => {
            (mode.opt_out, "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
        }
        _ => return Err(SYNTAX),
    };
    if !fits {
        return Err(Fail::text(text));
    }
    mode.caching = true;
    call.out.ok();
    Ok(())
}

fn redirection(client: &Client) -> i64 {
    client.tracking.as_ref().map_or(-1, |mode| mode.redirect.map_or(0, |redirect| redirect.client as i64))
}

/// `CLIENT GETREDIR`
pub(super) fn get_redirection(call: &mut Call<'_, '_>) -> Outcome {
    call.out.integer(redirection(call.client));
    Ok(())
}

/// `CLIENT TRACKINGINFO`
pub(super) fn info(call: &mut Call<'_, '_>) -> Outcome {
    let none = TrackingMode::default();
    let mode = call.client.tracking.as_deref().unwrap_or(&none);
    let flags = [
        (true, if call.client.tracking.is_some() { "on" } else { "off" }),
        (mode.broadcast, "bcast"),
        (mode.opt_in, "optin"),
        (mode.opt_in && mode.caching, "caching-yes"),
        (mode.opt_out, "optout"),
        (mode.opt_out && mode.caching, "caching-no"),
        (mode.no_loop, "noloop"),
        (mode.broken, "broken_redirect"),
    ];
    let flags = Vec::from_iter(flags.into_iter().filter(|(is, _)| *is));
    call.out.map(3);
    call.out.bulk(b"flags");
    call.out.set(flags.len());
    flags.into_iter().for_each(|(_, name)| call.out.bulk(name.as_bytes()));
    call.out.bulk(b"redirect");
    call.out.integer(redirection(call.client));
    call.out.bulk(b"prefixes");
    call.out.array(mode.prefixes.len());
    mode.prefixes.iter().for_each(|prefix| call.out.bulk(prefix));
    Ok(())
}
