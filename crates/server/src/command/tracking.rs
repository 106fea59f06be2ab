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
use std::collections::BTreeSet;

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

/// The mode that a request asks for, and its prefixes in their order.
fn options<'c>(call: &Call<'c, '_>) -> Result<(TrackingMode, Vec<&'c [u8]>), Fail> {
    let (mut mode, mut prefixes) = (TrackingMode::default(), Vec::new());
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
            _ if is_word(word, "prefix") && words.len() > 0 => prefixes.extend(words.next()),
            _ => return Err(SYNTAX),
        }
    }
    mode.prefixes.extend(prefixes.iter().map(|prefix| prefix.to_vec()));
    Ok((mode, prefixes))
}

/// Whether one of two prefixes begins with the other.
fn overlap(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// The index of the first prefix that overlaps with a known one or with another one. In order, the
/// strings that begin with a string follow it, so the prefixes of each are on a stack.
fn first_overlap(prefixes: &[&[u8]], known: &BTreeSet<Vec<u8>>) -> Option<usize> {
    let given = prefixes.iter().enumerate().map(|(index, prefix)| (*prefix, Some(index)));
    let mut all: Vec<_> = given.chain(known.iter().map(|known| (&known[..], None))).collect();
    all.sort_unstable();
    // Each with the first of the given ones up to it.
    let mut stack: Vec<(&[u8], Option<usize>)> = Vec::new();
    let mut found: Option<usize> = None;
    for (prefix, index) in all {
        stack.truncate(stack.iter().rposition(|(under, _)| prefix.starts_with(under)).map_or(0, |last| last + 1));
        let under = stack.last().map(|(_, first)| *first);
        let first = under.flatten().into_iter().chain(index).min();
        if under.is_some() {
            found = found.into_iter().chain(first).min();
        }
        stack.push((prefix, first));
    }
    found
}

/// The error names the overlap that a comparison of each prefix in its order would find first.
fn collision(prefixes: &[&[u8]], known: &BTreeSet<Vec<u8>>) -> Outcome {
    let Some(index) = first_overlap(prefixes, known) else { return Ok(()) };
    let prefix = prefixes[index];
    let known = known.iter().find(|known| overlap(known, prefix));
    let same = || prefixes[index + 1..].iter().find(|other| overlap(prefix, other));
    let (kind, other): (&[u8], &[u8]) = match known {
        Some(known) => (b"an existing prefix '", known),
        None => (b"another provided prefix '", same().unwrap_or(&prefix)),
    };
    let end: &[u8] = b"'. Prefixes for a single client must not overlap.";
    Err(Fail::made([b"ERR Prefix '", prefix, b"' overlaps with ", kind, other, end].concat()))
}

/// `CLIENT TRACKING ON | OFF [REDIRECT client] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT]
/// [NOLOOP]`
pub(super) fn tracking(call: &mut Call<'_, '_>) -> Outcome {
    let (mut mode, prefixes) = options(call)?;
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
        let none = BTreeSet::new();
        collision(&prefixes, old.map_or(&none, |old| &old.prefixes))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn said(prefixes: &[&[u8]], known: &BTreeSet<Vec<u8>>) -> Option<Vec<u8>> {
        collision(prefixes, known).err().map(|fail| fail.reply().into_owned())
    }

    /// Each prefix in its order is compared with the known ones, then with those behind it.
    fn by_pairs<'p>(prefixes: &'p [&[u8]], known: &'p BTreeSet<Vec<u8>>) -> Option<(usize, &'p [u8])> {
        prefixes.iter().enumerate().find_map(|(index, prefix)| {
            let behind = prefixes[index + 1..].iter().copied();
            let mut others = known.iter().map(Vec::as_slice).chain(behind);
            others.find(|other| overlap(prefix, other)).map(|other| (index, other))
        })
    }

    #[test]
    fn the_overlap_of_prefixes_is_that_of_a_comparison_by_pairs() {
        let (mut state, mut overlaps) = (7u64, 0);
        let mut random = |end: u64| {
            state = state.wrapping_mul(0xd129_0212_a0b6_37b5).rotate_left(29) ^ 0x5851_f42d_4c95_7f2d;
            (state >> 17) % end
        };
        for _ in 0..3000 {
            let mut word = || Vec::from_iter((0..random(6)).map(|_| b"abc"[random(3) as usize]));
            let given: Vec<_> = (0..4).map(|_| [word(), word()].concat()).collect();
            let known: BTreeSet<_> = (0..3).map(|_| [word(), word(), word()].concat()).collect();
            let prefixes: Vec<&[u8]> = given.iter().map(Vec::as_slice).collect();
            let expected = by_pairs(&prefixes, &known);
            assert_eq!(first_overlap(&prefixes, &known), expected.map(|(index, _)| index), "{given:?} {known:?}");
            let text = said(&prefixes, &known);
            assert_eq!(text.is_some(), expected.is_some());
            if let (Some(text), Some((index, other))) = (text, expected) {
                let [prefix, other] = [prefixes[index], other].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
                let text = String::from_utf8_lossy(&text).into_owned();
                assert!(text.starts_with(&format!("ERR Prefix '{prefix}' overlaps with ")), "{text}");
                assert!(text.contains(&format!(" prefix '{other}'. ")), "{text} {other}");
                overlaps += 1;
            }
        }
        assert!((500..2500).contains(&overlaps), "{overlaps}");
    }

    /// Pairs would be ten thousand million.
    #[test]
    fn very_many_prefixes_are_compared_in_their_order() {
        let mut words: Vec<String> =
            (0..100_000u32).map(|number| format!("{:08x}:", number.wrapping_mul(40503))).collect();
        words.push("last:".into());
        let prefixes: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        assert_eq!(first_overlap(&prefixes, &BTreeSet::new()), None);
        assert_eq!(first_overlap(&prefixes, &BTreeSet::from([b"last:k".to_vec()])), Some(100_000));
    }
}
