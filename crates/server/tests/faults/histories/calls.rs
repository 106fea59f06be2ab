//! The calls of a history: random commands on one key, and the reply that a key's content gives.

use crate::common::{Client, Reply, command};
use everbyte_workload::Random;
use everbyte_workload::linearizable::{Sequential, Timed};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// The content of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Content {
    Text(Option<String>),
    List(VecDeque<String>),
}

#[derive(Clone, Debug)]
pub(super) enum Command {
    Set(String),
    Get,
    GetSet(String),
    Del,
    Incr,
    Append(String),
    /// WATCH, GET with the first text as the reply, MULTI, SET, EXEC that was executed: no other
    /// call changed the key between the two, so it held the first text when EXEC took effect.
    Replace(Option<String>, String),
    Push(End, String),
    Pop(End),
    Len,
    /// LRANGE of the whole list.
    All,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Left,
    Right,
}

/// A command with its reply, if it came.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub command: Command,
    pub reply: Option<Reply>,
}

impl Sequential for Content {
    type Call = Call;

    fn after(&self, call: &Call) -> Option<Content> {
        let (after, reply) = self.apply(&call.command)?;
        call.reply.as_ref().is_none_or(|seen| *seen == reply).then_some(after)
    }
}

impl Content {
    /// The content after a command and the reply to it; `None`: it cannot be executed now.
    fn apply(&self, command: &Command) -> Option<(Content, Reply)> {
        let ok = Reply::Simple("OK".into());
        let bulk = |text: &Option<String>| text.clone().map_or(Reply::Null, |text| Reply::Bulk(text.into_bytes()));
        Some(match self {
            Content::Text(old) => {
                let (new, reply) = match command {
                    Command::Set(new) => (Some(new.clone()), ok),
                    Command::Get => (old.clone(), bulk(old)),
                    Command::GetSet(new) => (Some(new.clone()), bulk(old)),
                    Command::Del => (None, Reply::Integer(i64::from(old.is_some()))),
                    Command::Incr => {
                        let sum = old.as_ref().map_or(0, |text| text.parse::<i64>().expect("a number")) + 1;
                        (Some(sum.to_string()), Reply::Integer(sum))
                    }
                    Command::Append(tail) => {
                        let whole = old.clone().unwrap_or_default() + tail;
                        let len = whole.len() as i64;
                        (Some(whole), Reply::Integer(len))
                    }
                    Command::Replace(from, _) if from != old => return None,
                    Command::Replace(_, to) => (Some(to.clone()), Reply::List(vec![ok])),
                    other => unreachable!("{other:?} is for lists"),
                };
                (Content::Text(new), reply)
            }
            Content::List(list) => {
                let mut list = list.clone();
                let reply = match command {
                    Command::Push(end, value) => {
                        match end {
                            End::Left => list.push_front(value.clone()),
                            End::Right => list.push_back(value.clone()),
                        }
                        Reply::Integer(list.len() as i64)
                    }
                    Command::Pop(End::Left) => bulk(&list.pop_front()),
                    Command::Pop(End::Right) => bulk(&list.pop_back()),
                    Command::Len => Reply::Integer(list.len() as i64),
                    Command::All => Reply::List(list.iter().map(|value| bulk(&Some(value.clone()))).collect()),
                    other => unreachable!("{other:?} is for texts"),
                };
                (Content::List(list), reply)
            }
        })
    }
}

/// The keys of a history, each with its first content.
pub(super) const KEYS: [&str; 4] = ["number", "text", "list", "sum"];

/// The first content of a key.
pub(super) fn first(key: &str) -> Content {
    if key == "list" { Content::List(VecDeque::new()) } else { Content::Text(None) }
}

/// A client that records its calls.
pub(super) struct Recorder<'a> {
    pub client: Client,
    /// The time: every start and every end is one tick.
    pub clock: &'a AtomicU64,
    pub random: Random,
    /// Calls by the index of their key. Calls without a reply have the end `u64::MAX`.
    pub calls: [Vec<Timed<Call>>; KEYS.len()],
}

impl Recorder<'_> {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// A random call, recorded.
    pub(crate) fn call(&mut self) -> io::Result<()> {
        let at = self.random.index(KEYS.len());
        let (key, random) = (KEYS[at], &mut self.random);
        let value = random.below(1 << 40).to_string(); // no other call writes the same
        let end = random.pick(&[End::Left, End::Right]);
        let call = match key {
            "list" => match random.index(9) {
                0..4 => Command::Push(end, value),
                4..8 => Command::Pop(end),
                _ => Command::Len,
            },
            _ => match (random.index(12), key) {
                (0..3, _) => Command::Get,
                (3, _) => Command::Set(value),
                (4, _) => Command::GetSet(value),
                (5, _) => Command::Del,
                (6..9, _) => return self.replace(at, value),
                (_, "text") => Command::Append(value),
                _ => Command::Incr,
            },
        };
        self.one(at, call).map(drop)
    }

    /// A read of every key.
    pub(crate) fn read_all(&mut self) -> io::Result<()> {
        (0..KEYS.len()).try_for_each(|at| {
            let read = if KEYS[at] == "list" { Command::All } else { Command::Get };
            self.one(at, read).map(drop)
        })
    }

    /// One command that is one call.
    fn one(&mut self, at: usize, call: Command) -> io::Result<Reply> {
        let (key, start) = (KEYS[at], self.tick());
        let reply = self.client.try_call(&call.words(key));
        self.record(at, start, call, reply)
    }

    /// Compare and swap, by WATCH.
    fn replace(&mut self, at: usize, to: String) -> io::Result<()> {
        let key = KEYS[at];
        self.client.try_call(&["WATCH", key])?;
        let from = match self.one(at, Command::Get)? {
            Reply::Bulk(text) => Some(String::from_utf8(text).expect("a text")),
            Reply::Null => None,
            other => panic!("GET {key}: {other:?}"),
        };
        let start = self.tick();
        let words = [command(&["MULTI"]), command(&["SET", key, &to]), command(&["EXEC"])];
        let sent = self.client.stream.write_all(&words.concat());
        let replies = sent.and_then(|()| (0..3).map(|_| self.client.try_reply()).collect::<io::Result<Vec<_>>>());
        match replies.map(|mut replies| replies.pop().expect("of EXEC")) {
            Ok(Reply::Null) => Ok(()), // another call was first: nothing happened
            reply => self.record(at, start, Command::Replace(from, to), reply).map(drop),
        }
    }

    fn record(&mut self, at: usize, start: u64, call: Command, reply: io::Result<Reply>) -> io::Result<Reply> {
        let end = if reply.is_ok() { self.tick() } else { u64::MAX };
        let call = Call { command: call, reply: reply.as_ref().ok().cloned() };
        self.calls[at].push(Timed { start, end, certain: reply.is_ok(), call });
        reply
    }
}

impl Command {
    /// The command's words. [`Command::Replace`] has more than one command.
    fn words(&self, key: &str) -> Vec<String> {
        let (verb, value) = match self {
            Command::Set(value) => ("SET", Some(value)),
            Command::Get => ("GET", None),
            Command::GetSet(value) => ("GETSET", Some(value)),
            Command::Del => ("DEL", None),
            Command::Incr => ("INCR", None),
            Command::Append(tail) => ("APPEND", Some(tail)),
            Command::Push(End::Left, value) => ("LPUSH", Some(value)),
            Command::Push(End::Right, value) => ("RPUSH", Some(value)),
            Command::Pop(End::Left) => ("LPOP", None),
            Command::Pop(End::Right) => ("RPOP", None),
            Command::Len => ("LLEN", None),
            Command::All => return ["LRANGE", key, "0", "-1"].map(String::from).into(),
            Command::Replace(..) => unreachable!("sent by `replace`"),
        };
        [verb, key].into_iter().chain(value.map(String::as_str)).map(String::from).collect()
    }
}
