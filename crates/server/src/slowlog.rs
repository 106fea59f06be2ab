//! Slow commands, and events that took long: SLOWLOG, LATENCY. Times of all commands: `times.rs`.
//!
//! A command's time is that of its execution in the event loop. Its reply may then wait for the
//! store to settle, which is counted by itself, as the event `aof-fsync-always`.
//!
//! Threads: the event loop alone; other loops have their own, and report them.

use crate::resp::parse::Args;
use std::collections::{BTreeMap, VecDeque};

/// Arguments of an entry at most.
const ARGS_MAX: usize = 32;
/// Bytes of an argument at most.
const ARG_SIZE_MAX: usize = 128;
/// Samples of an event at most.
const SAMPLES_MAX: usize = 160;

/// A slow command.
pub(crate) struct SlowCommand {
    /// Never given twice within one run of the server.
    pub id: u64,
    /// Seconds since 1970.
    pub time: u64,
    /// Microseconds.
    pub duration: u64,
    /// The first of its arguments, and their first bytes.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub peer: String,
    /// The first bytes of the client's name.
    pub name: Vec<u8>,
}

/// The newest slow commands, the newest first.
#[derive(Default)]
pub(crate) struct Slowlog {
    entries: VecDeque<SlowCommand>,
    next: u64,
}

/// The arguments of a command as others may see them: without passwords.
pub(crate) fn shown_args<'b>(args: &Args<'b>) -> impl Iterator<Item = &'b [u8]> + use<'b> {
    const HIDDEN: &[u8] = b"(redacted)";
    let is = |at: usize, word: &[u8]| at < args.len() && args.get(at).eq_ignore_ascii_case(word);
    let from = |word: &[u8]| (1..args.len()).find(|at| is(*at, word)).map_or(args.len(), |at| at + 1);
    let hidden = if is(0, b"auth") {
        1
    } else if is(0, b"hello") {
        from(b"auth")
    } else if is(0, b"config") {
        from(b"requirepass")
    } else if is(0, b"acl") && is(1, b"setuser") {
        3
    } else {
        args.len()
    };
    // Behind HELLO's password its other words are hidden, too.
    args.from(0).enumerate().map(move |(at, arg)| if at >= hidden { HIDDEN } else { arg })
}

/// The first bytes of an argument, or of a name.
pub(crate) fn cut(arg: &[u8]) -> Vec<u8> {
    let mut shown = arg[..arg.len().min(ARG_SIZE_MAX)].to_vec();
    if shown.len() < arg.len() {
        shown.extend_from_slice(format!("... ({} more bytes)", arg.len() - shown.len()).as_bytes());
    }
    shown
}

impl Slowlog {
    /// Adds a command, and drops old ones above `count_max`.
    pub(crate) fn add(&mut self, mut entry: SlowCommand, args: &Args<'_>, count_max: usize) {
        let count = args.len();
        let kept = if count > ARGS_MAX { ARGS_MAX - 1 } else { count };
        let mut list: Vec<Vec<u8>> = shown_args(args).take(kept).map(cut).collect();
        if kept < count {
            list.push(format!("... ({} more arguments)", count - kept).into_bytes());
        }
        (entry.id, entry.args) = (self.next, list);
        self.next += 1;
        self.entries.push_front(entry);
        self.entries.truncate(count_max);
    }

    /// Adds the commands of another loop, and drops old ones above `count_max`.
    pub(crate) fn absorb(&mut self, other: Slowlog, count_max: usize) {
        for mut entry in other.entries.into_iter().rev() {
            entry.id = self.next;
            self.next += 1;
            self.entries.push_front(entry);
        }
        self.entries.truncate(count_max);
    }

    /// How many there have been.
    pub(crate) fn count(&self) -> u64 {
        self.next
    }

    /// All entries, the newest first.
    pub(crate) fn entries(&self) -> &VecDeque<SlowCommand> {
        &self.entries
    }

    /// Drops all entries.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

/// The times of one event.
#[derive(Default)]
pub(crate) struct Event {
    /// Seconds since 1970, and the longest time within that second in milliseconds; the oldest
    /// first.
    pub samples: VecDeque<(u64, u64)>,
    /// The longest of all.
    pub longest: u64,
}

/// Events that took longer than the threshold.
#[derive(Default)]
pub(crate) struct Latency {
    events: BTreeMap<&'static str, Event>,
}

impl Latency {
    /// Adds a time of an event, in milliseconds, at a second since 1970.
    pub(crate) fn add(&mut self, name: &'static str, now: u64, time: u64) {
        let event = self.events.entry(name).or_default();
        event.longest = event.longest.max(time);
        match event.samples.back_mut() {
            Some(last) if last.0 == now => last.1 = last.1.max(time),
            _ => event.samples.push_back((now, time)),
        }
        if event.samples.len() > SAMPLES_MAX {
            event.samples.pop_front();
        }
    }

    /// Adds the times of another loop.
    pub(crate) fn absorb(&mut self, other: Latency) {
        for (name, event) in other.events {
            for (now, time) in event.samples {
                self.add(name, now, time);
            }
            let mine = self.events.entry(name).or_default();
            mine.longest = mine.longest.max(event.longest);
        }
    }

    /// All events by name.
    pub(crate) fn events(&self) -> &BTreeMap<&'static str, Event> {
        &self.events
    }

    /// An event.
    pub(crate) fn event(&self, name: &[u8]) -> Option<&Event> {
        self.events.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, event)| event)
    }

    /// Drops an event; whether there was one.
    pub(crate) fn drop_event(&mut self, name: &[u8]) -> bool {
        let before = self.events.len();
        self.events.retain(|known, _| known.as_bytes() != name);
        self.events.len() < before
    }

    /// Drops all events; how many there were.
    pub(crate) fn clear(&mut self) -> usize {
        std::mem::take(&mut self.events).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_keep_one_time_a_second() {
        let mut latency = Latency::default();
        for (now, time) in [(1, 5), (1, 9), (1, 3), (2, 4)] {
            latency.add("command", now, time);
        }
        let event = latency.event(b"command").unwrap();
        assert_eq!((event.longest, Vec::from(event.samples.clone())), (9, vec![(1, 9), (2, 4)]));
        (0..1000).for_each(|now| latency.add("command", now, 1));
        assert_eq!(latency.event(b"command").unwrap().samples.len(), SAMPLES_MAX);
        assert!(latency.drop_event(b"command") && !latency.drop_event(b"command"));
    }
}
