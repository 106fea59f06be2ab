//! Keyspace events: messages on channels about the changes of keys (`notify-keyspace-events`).
//!
//! The names of events are those of Redis. Which events a command makes follows from its name, its
//! words and the keys that it has changed, so commands themselves know nothing of them. An event
//! leaves as a message does (PUSH-1 to PUSH-3, `outbox.rs`): once the change is settled, in the
//! order of the changes, and not at all if the change is taken back.

use crate::keyspace::Touch;
use crate::resp::number::parse_integer;
use crate::resp::parse::Args;

bitflags::bitflags! {
    /// Kinds of events, and the channels on which they are told.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(crate) struct Events: u16 {
        /// On the channel of the key.
        const KEYSPACE = 1;
        /// On the channel of the event.
        const KEYEVENT = 1 << 1;
        /// Keys of any type.
        const GENERIC = 1 << 2;
        /// Strings.
        const STRING = 1 << 3;
        /// Lists.
        const LIST = 1 << 4;
        /// Sets.
        const SET = 1 << 5;
        /// Hashes.
        const HASH = 1 << 6;
        /// Sorted sets.
        const SORTED_SET = 1 << 7;
        /// Keys whose deadlines have passed.
        const EXPIRED = 1 << 8;
        /// Keys that were removed to make room.
        const EVICTED = 1 << 9;
        /// Streams.
        const STREAM = 1 << 10;
        /// Keys that were not found: never told.
        const MISS = 1 << 11;
        /// Modules, of which there are none.
        const MODULE = 1 << 12;
        /// New keys: never told.
        const NEW = 1 << 13;
    }
}

/// Letters of the kinds that `A` stands for, in the order in which they are written.
const LETTERS: [(u8, Events); 10] = [
    (b'g', Events::GENERIC),
    (b'$', Events::STRING),
    (b'l', Events::LIST),
    (b's', Events::SET),
    (b'h', Events::HASH),
    (b'z', Events::SORTED_SET),
    (b'x', Events::EXPIRED),
    (b'e', Events::EVICTED),
    (b't', Events::STREAM),
    (b'd', Events::MODULE),
];

/// The other letters: `n` comes with the letters above, if not all of them are chosen.
const CHANNELS: [(u8, Events); 3] = [(b'K', Events::KEYSPACE), (b'E', Events::KEYEVENT), (b'm', Events::MISS)];

fn all_kinds() -> Events {
    LETTERS.iter().fold(Events::empty(), |all, (_, kind)| all | *kind)
}

impl Events {
    /// The events that letters choose.
    pub(crate) fn parse(text: &[u8]) -> Option<Events> {
        text.iter().try_fold(Events::empty(), |chosen, letter| {
            let kind = match letter {
                b'A' => all_kinds(),
                b'n' => Events::NEW,
                letter => LETTERS.iter().chain(&CHANNELS).find(|(known, _)| known == letter)?.1,
            };
            Some(chosen | kind)
        })
    }

    /// The letters that choose these events.
    pub(crate) fn text(self) -> String {
        let mut text = String::new();
        if self.contains(all_kinds()) {
            text.push('A');
        } else {
            let named = LETTERS.iter().filter(|(_, kind)| self.contains(*kind));
            text.extend(named.map(|(letter, _)| char::from(*letter)));
            if self.contains(Events::NEW) {
                text.push('n');
            }
        }
        let named = CHANNELS.iter().filter(|(_, kind)| self.contains(*kind));
        text.extend(named.map(|(letter, _)| char::from(*letter)));
        text
    }

    /// Whether anything is told at all.
    pub(crate) fn is_on(self) -> bool {
        self.intersects(Events::KEYSPACE | Events::KEYEVENT)
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub kind: Events,
    pub name: &'static str,
    pub database: u8,
    pub key: Vec<u8>,
}

impl Event {
    fn new(kind: Events, name: &'static str, database: u8, key: &[u8]) -> Event {
        Event { kind, name, database, key: key.to_vec() }
    }

    /// The event of a key whose deadline has passed.
    pub(crate) fn expired(database: u8, key: &[u8]) -> Event {
        Event::new(Events::EXPIRED, "expired", database, key)
    }

    /// The event of a key that was removed to make room.
    pub(crate) fn evicted(database: u8, key: &[u8]) -> Event {
        Event::new(Events::EVICTED, "evicted", database, key)
    }

    /// Channels and messages that tell it.
    pub(crate) fn messages(&self, chosen: Events) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        let told = |on| chosen.contains(self.kind) && chosen.contains(on);
        let channel = |form: &str, name: &[u8]| [format!("__{form}@{}__:", self.database).as_bytes(), name].concat();
        let (name, key) = (self.name.as_bytes(), &self.key[..]);
        let keyspace = told(Events::KEYSPACE).then(|| (channel("keyspace", key), name.to_vec()));
        let event = told(Events::KEYEVENT).then(|| (channel("keyevent", name), key.to_vec()));
        keyspace.into_iter().chain(event)
    }
}

/// The event of a command that changes keys in one way only.
fn plain(name: &[u8]) -> Option<(Events, &'static str)> {
    const STRING: Events = Events::STRING;
    const LIST: Events = Events::LIST;
    const SET: Events = Events::SET;
    const HASH: Events = Events::HASH;
    const SORTED_SET: Events = Events::SORTED_SET;
    const STREAM: Events = Events::STREAM;
    const GENERIC: Events = Events::GENERIC;
    Some(match name {
        b"set" | b"setex" | b"psetex" | b"setnx" | b"getset" | b"mset" | b"msetnx" | b"bitop" => (STRING, "set"),
        b"append" => (STRING, "append"),
        b"setrange" => (STRING, "setrange"),
        b"incr" | b"decr" | b"incrby" | b"decrby" => (STRING, "incrby"),
        b"incrbyfloat" => (STRING, "incrbyfloat"),
        b"setbit" | b"bitfield" => (STRING, "setbit"),
        b"pfadd" | b"pfmerge" => (STRING, "pfadd"),
        b"lpush" | b"lpushx" => (LIST, "lpush"),
        b"rpush" | b"rpushx" => (LIST, "rpush"),
        b"lpop" | b"blpop" => (LIST, "lpop"),
        b"rpop" | b"brpop" => (LIST, "rpop"),
        b"linsert" => (LIST, "linsert"),
        b"lset" => (LIST, "lset"),
        b"lrem" => (LIST, "lrem"),
        b"ltrim" => (LIST, "ltrim"),
        b"sort" => (LIST, "sortstore"),
        b"sadd" => (SET, "sadd"),
        b"srem" => (SET, "srem"),
        b"spop" => (SET, "spop"),
        b"sinterstore" => (SET, "sinterstore"),
        b"sunionstore" => (SET, "sunionstore"),
        b"sdiffstore" => (SET, "sdiffstore"),
        b"hset" | b"hmset" | b"hsetnx" => (HASH, "hset"),
        b"hincrby" => (HASH, "hincrby"),
        b"hincrbyfloat" => (HASH, "hincrbyfloat"),
        b"hdel" => (HASH, "hdel"),
        b"zadd" | b"geoadd" => (SORTED_SET, "zadd"),
        b"zincrby" => (SORTED_SET, "zincr"),
        b"zrem" => (SORTED_SET, "zrem"),
        b"zremrangebyrank" => (SORTED_SET, "zremrangebyrank"),
        b"zremrangebyscore" => (SORTED_SET, "zremrangebyscore"),
        b"zremrangebylex" => (SORTED_SET, "zremrangebylex"),
        b"zpopmin" | b"bzpopmin" => (SORTED_SET, "zpopmin"),
        b"zpopmax" | b"bzpopmax" => (SORTED_SET, "zpopmax"),
        b"zunionstore" => (SORTED_SET, "zunionstore"),
        b"zinterstore" => (SORTED_SET, "zinterstore"),
        b"zdiffstore" => (SORTED_SET, "zdiffstore"),
        b"zrangestore" => (SORTED_SET, "zrangestore"),
        b"geosearchstore" => (SORTED_SET, "geosearchstore"),
        b"georadius" | b"georadiusbymember" => (SORTED_SET, "georadiusstore"),
        b"xadd" => (STREAM, "xadd"),
        b"xdel" => (STREAM, "xdel"),
        b"xtrim" => (STREAM, "xtrim"),
        b"xsetid" => (STREAM, "xsetid"),
        b"expire" | b"pexpire" | b"expireat" | b"pexpireat" => (GENERIC, "expire"),
        b"persist" => (GENERIC, "persist"),
        b"restore" => (GENERIC, "restore"),
        _ => return None,
    })
}

/// Whether a command tells its own event also of a key that is gone by then, before `del`: those
/// that remove elements.
fn removes(name: &str) -> bool {
    const REMOVE: [&str; 14] = [
        "lpop",
        "rpop",
        "lrem",
        "ltrim",
        "srem",
        "spop",
        "hdel",
        "zrem",
        "zremrangebyrank",
        "zremrangebyscore",
        "zremrangebylex",
        "zpopmin",
        "zpopmax",
        "xtrim",
    ];
    REMOVE.contains(&name)
}

/// The events of a command that has changed keys. `is_there` looks whether a key is there now.
pub(crate) fn events(args: &Args<'_>, touched: &[Touch], is_there: &mut dyn FnMut(u8, &[u8]) -> bool) -> Vec<Event> {
    let changed: Vec<(u8, &[u8])> = touched
        .iter()
        .filter_map(|touch| match touch {
            Touch::Changed(database, key) => Some((*database, &key[..])),
            Touch::Swept(..) | Touch::Evicted(..) | Touch::Told(..) | Touch::Stream(..) | Touch::Cleared(_) => None,
        })
        .collect();
    let mut events: Vec<Event> = touched
        .iter()
        .filter_map(|touch| match touch {
            Touch::Stream(database, key, name) => Some(Event::new(Events::STREAM, name, *database, key)),
            _ => None,
        })
        .collect();
    let (Some(&(database, _)), true) = (changed.last(), args.len() > 1) else { return events };
    let name = args.get(0).to_ascii_lowercase();
    let mut add = |kind, name, database, key: &[u8]| events.push(Event::new(kind, name, database, key));
    const GENERIC: Events = Events::GENERIC;
    match &name[..] {
        b"del" | b"unlink" | b"getdel" | b"delrange" => {
            changed.iter().for_each(|(database, key)| add(GENERIC, "del", *database, key));
        }
        b"rename" | b"renamenx" if args.len() == 3 => {
            add(GENERIC, "rename_from", database, args.get(1));
            add(GENERIC, "rename_to", database, args.get(2));
        }
        b"copy" if args.len() > 2 => add(GENERIC, "copy_to", database, args.get(2)),
        b"move" => {
            add(GENERIC, "move_from", database, args.get(1));
            let there = changed.iter().find(|(other, _)| *other != database);
            there.iter().for_each(|(there, key)| add(GENERIC, "move_to", *there, key));
        }
        b"mset" | b"msetnx" => {
            let keys = args.from(1).step_by(2);
            keys.for_each(|key| add(Events::STRING, "set", database, key));
        }
        b"lmove" | b"blmove" | b"rpoplpush" | b"brpoplpush" if args.len() > 2 => {
            let rotates = name.ends_with(b"poplpush");
            let from_left = !rotates && is(args, 3, "left");
            let to_left = rotates || is(args, 4, "left");
            let (source, target) = (args.get(1), args.get(2));
            add(Events::LIST, if to_left { "lpush" } else { "rpush" }, database, target);
            add(Events::LIST, if from_left { "lpop" } else { "rpop" }, database, source);
            if !is_there(database, source) {
                add(GENERIC, "del", database, source);
            }
        }
        b"smove" if args.len() > 2 => {
            let (source, target) = (args.get(1), args.get(2));
            add(Events::SET, "srem", database, source);
            if !is_there(database, source) {
                add(GENERIC, "del", database, source);
            }
            if changed.iter().any(|(_, key)| *key == target) {
                add(Events::SET, "sadd", database, target);
            }
        }
        b"lmpop" | b"blmpop" | b"zmpop" | b"bzmpop" => {
            let scored = name.ends_with(b"zmpop");
            let end = behind_keys(args, if name.starts_with(b"b") { 2 } else { 1 });
            let first = ["left", "min"].iter().any(|word| is(args, end, word));
            let (kind, popped) = match (scored, first) {
                (false, true) => (Events::LIST, "lpop"),
                (false, false) => (Events::LIST, "rpop"),
                (true, true) => (Events::SORTED_SET, "zpopmin"),
                (true, false) => (Events::SORTED_SET, "zpopmax"),
            };
            each_once(&changed, &mut |database, key| {
                add(kind, popped, database, key);
                if !is_there(database, key) {
                    add(GENERIC, "del", database, key);
                }
            });
        }
        b"getex" => {
            let (database, key) = (database, args.get(1));
            let told = if is(args, 2, "persist") { "persist" } else { "expire" };
            add(GENERIC, if is_there(database, key) { told } else { "del" }, database, key);
        }
        plain_name => {
            let Some((kind, told)) = plain(plain_name) else { return events };
            let told = if plain_name == b"zadd" && increments(args) { "zincr" } else { told };
            let expires = match plain_name {
                b"setex" | b"psetex" => true,
                b"set" => (3..args.len()).any(|at| ["ex", "px", "exat", "pxat"].iter().any(|word| is(args, at, word))),
                _ => false,
            };
            each_once(&changed, &mut |database, key| {
                // A deadline that has passed is told later, when the key is removed.
                let there = is_there(database, key) || expires;
                if there || removes(told) {
                    add(kind, told, database, key);
                }
                if expires && there {
                    add(GENERIC, "expire", database, key);
                }
                if !there {
                    add(GENERIC, "del", database, key);
                }
            });
        }
    }
    events
}

/// The argument behind the keys whose number is the argument `at`.
fn behind_keys(args: &Args<'_>, at: usize) -> usize {
    let count = if at < args.len() { parse_integer(args.get(at)) } else { None };
    at + 1 + count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0).min(args.len())
}

/// Whether the options of ZADD have INCR: scores and members follow them, and may be called so.
fn increments(args: &Args<'_>) -> bool {
    const OTHERS: [&str; 5] = ["nx", "xx", "gt", "lt", "ch"];
    let options =
        (2..args.len()).take_while(|at| is(args, *at, "incr") || OTHERS.iter().any(|word| is(args, *at, word)));
    options.into_iter().any(|at| is(args, at, "incr"))
}

fn is(args: &Args<'_>, at: usize, word: &str) -> bool {
    at < args.len() && args.get(at).eq_ignore_ascii_case(word.as_bytes())
}

/// Gives `each` the keys once.
fn each_once(changed: &[(u8, &[u8])], each: &mut dyn FnMut(u8, &[u8])) {
    for (place, one) in changed.iter().enumerate() {
        if !changed[..place].contains(one) {
            each(one.0, one.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_choose_events_and_come_back() {
        for (given, text) in
            [("", ""), ("KEA", "AKE"), ("g$lshzxetdKE", "AKE"), ("lE", "lE"), ("EnlK", "lnKE"), ("Am", "Am")]
        {
            assert_eq!(Events::parse(given.as_bytes()).unwrap().text(), text);
        }
        assert_eq!(Events::parse(b"KEq"), None);
        assert!(!Events::parse(b"A").unwrap().is_on());
    }
}
