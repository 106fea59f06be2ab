//! SUBSCRIBE, PUBLISH and their kin. `channels.rs` knows the subscribers, `outbox.rs` says when a
//! message leaves.

use super::{Call, Command, Fail, Flags, Outcome, describe};
use crate::channels::{SUBSCRIPTIONS, Subscription};
use crate::clients::{Client, ReplyMode};
use crate::glob::{LetterCase, matches};
use crate::outbox::{Message, Parcel};
use crate::server_state::ServerState;

/// Whether a command is about the client's own subscriptions: the parts of its reply are pushes.
pub(crate) fn listens(command: &Command) -> bool {
    command.flags.contains(Flags::PUBSUB_KIND.union(Flags::NOSCRIPT))
}

/// Ends all subscriptions of a client.
pub(super) fn end(client: &mut Client, shared: &mut ServerState) {
    shared.channels.forget(client.id);
    (client.subscriptions, client.subscriptions_memory) = ([0; 3], 0);
}

/// The number of subscriptions that a reply tells: those of shards are counted by themselves.
fn count(client: &Client, kind: Subscription) -> i64 {
    let of = |kind: Subscription| i64::from(client.subscriptions[kind as usize]);
    if kind == Subscription::Shard { of(kind) } else { of(Subscription::Channel) + of(Subscription::Pattern) }
}

/// One part of the reply: a push, of which CLIENT REPLY OFF takes nothing away.
fn tell(call: &mut Call<'_, '_>, words: [&str; 3], kind: Subscription, name: Option<&[u8]>) {
    call.out.push(3);
    call.out.bulk(words[kind as usize].as_bytes());
    match name {
        Some(name) => call.out.bulk(name),
        None => call.out.null(),
    }
    call.out.integer(count(call.client, kind));
}

fn add(call: &mut Call<'_, '_>, kind: Subscription) -> Outcome {
    for name in call.args.from(1) {
        call.shared.channels.subscribe(kind, call.client, name);
        tell(call, ["subscribe", "psubscribe", "ssubscribe"], kind, Some(name));
    }
    Ok(())
}

fn remove(call: &mut Call<'_, '_>, kind: Subscription) -> Outcome {
    const WORDS: [&str; 3] = ["unsubscribe", "punsubscribe", "sunsubscribe"];
    let all = if call.args.len() == 1 { call.shared.channels.names(kind, call.client.id) } else { Vec::new() };
    if call.args.len() == 1 && all.is_empty() {
        tell(call, WORDS, kind, None);
    }
    for name in call.args.from(1).chain(all.iter().map(Vec::as_slice)) {
        call.shared.channels.unsubscribe(kind, call.client, name);
        tell(call, WORDS, kind, Some(name));
    }
    Ok(())
}

/// `SUBSCRIBE channel [channel ...]`
pub(super) fn subscribe(call: &mut Call<'_, '_>) -> Outcome {
    add(call, Subscription::Channel)
}

/// `PSUBSCRIBE pattern [pattern ...]`
pub(super) fn psubscribe(call: &mut Call<'_, '_>) -> Outcome {
    add(call, Subscription::Pattern)
}

/// `SSUBSCRIBE channel [channel ...]`
pub(super) fn ssubscribe(call: &mut Call<'_, '_>) -> Outcome {
    if call.client.executing {
        return Err(Fail::text("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    add(call, Subscription::Shard)
}

/// `UNSUBSCRIBE [channel ...]`
pub(super) fn unsubscribe(call: &mut Call<'_, '_>) -> Outcome {
    remove(call, Subscription::Channel)
}

/// `PUNSUBSCRIBE [pattern ...]`
pub(super) fn punsubscribe(call: &mut Call<'_, '_>) -> Outcome {
    remove(call, Subscription::Pattern)
}

/// `SUNSUBSCRIBE [channel ...]`
pub(super) fn sunsubscribe(call: &mut Call<'_, '_>) -> Outcome {
    remove(call, Subscription::Shard)
}

fn send(call: &mut Call<'_, '_>, shard: bool) -> Outcome {
    let number = call.shared.channels.number();
    let (channel, text) = (call.args.get(1).to_vec(), call.args.get(2).to_vec());
    let mut message = Message { channel, text, shard, number, except: None };
    let (mut receivers, mut own) = (0, Vec::new());
    for (pattern, subscribers) in call.shared.channels.groups(&message.channel, shard, number) {
        for subscriber in subscribers {
            receivers += 1;
            if subscriber.client == call.client.id {
                own.push(pattern);
            }
        }
    }
    // The publisher gets its own push before its reply, and waits for both. CLIENT REPLY OFF takes
    // the reply alone away, but in a transaction all of it.
    let silent = call.client.reply_mode != ReplyMode::On;
    let direct = !(silent && call.client.executing);
    if direct && !own.is_empty() {
        // A script reads the number alone.
        let scripting = call.client.scripting;
        let out = if scripting { &mut call.shared.own_pushes } else { &mut *call.out };
        own.into_iter().for_each(|pattern| message.write(pattern, out));
        message.except = Some(call.client.id);
        call.client.told = silent;
    }
    if !call.client.told {
        call.out.integer(receivers);
    }
    if receivers > 0 {
        call.shared.outbox.add(Parcel::Message(message));
    }
    Ok(())
}

/// `PUBLISH channel message`
pub(super) fn publish(call: &mut Call<'_, '_>) -> Outcome {
    send(call, false)
}

/// `SPUBLISH channel message`
pub(super) fn spublish(call: &mut Call<'_, '_>) -> Outcome {
    send(call, true)
}

fn active(call: &mut Call<'_, '_>, kind: Subscription, word: &str) -> Outcome {
    if call.args.len() > 3 {
        return Err(Fail::made(format!(
            "ERR unknown subcommand or wrong number of arguments for '{word}'. Try PUBSUB HELP."
        )));
    }
    let pattern = call.args.from(2).next();
    let fits = |name: &&[u8]| pattern.is_none_or(|pattern| matches(pattern, name, LetterCase::Exact));
    let names = Vec::from_iter(call.shared.channels.active(kind).filter(fits));
    call.out.array(names.len());
    names.into_iter().for_each(|name| call.out.bulk(name));
    call.room()
}

fn numbers(call: &mut Call<'_, '_>, kind: Subscription) -> Outcome {
    let names = call.args.from(2);
    call.out.array(2 * names.len());
    for name in names {
        call.out.bulk(name);
        call.out.integer(call.shared.channels.subscribers_count(kind, name) as i64);
    }
    call.room()
}

/// `PUBSUB CHANNELS [pattern]`
pub(super) fn channels(call: &mut Call<'_, '_>) -> Outcome {
    let word = String::from_utf8_lossy(call.args.get(1)).into_owned();
    active(call, Subscription::Channel, &word)
}

/// `PUBSUB SHARDCHANNELS [pattern]`
pub(super) fn shard_channels(call: &mut Call<'_, '_>) -> Outcome {
    let word = String::from_utf8_lossy(call.args.get(1)).into_owned();
    active(call, Subscription::Shard, &word)
}

/// `PUBSUB NUMSUB [channel ...]`
pub(super) fn numsub(call: &mut Call<'_, '_>) -> Outcome {
    numbers(call, Subscription::Channel)
}

/// `PUBSUB SHARDNUMSUB [channel ...]`
pub(super) fn shard_numsub(call: &mut Call<'_, '_>) -> Outcome {
    numbers(call, Subscription::Shard)
}

/// `PUBSUB NUMPAT`
pub(super) fn numpat(call: &mut Call<'_, '_>) -> Outcome {
    call.out.integer(call.shared.channels.active_count(Subscription::Pattern) as i64);
    Ok(())
}

/// `PUBSUB HELP`
pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    describe::help_of(call, "pubsub")
}

/// How many names have subscribers, by kind.
pub(crate) fn figures(shared: &ServerState) -> [usize; 3] {
    SUBSCRIPTIONS.map(|kind| shared.channels.active_count(kind))
}
