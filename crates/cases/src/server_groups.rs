//! The model of streams and their consumer groups.

use std::collections::BTreeMap;

/// Milliseconds and sequence number.
pub(crate) type Id = (u64, u64);

/// A group: the last id delivered, and pending entries with their consumers and deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub last: Id,
    pub pending: BTreeMap<Id, (String, u64)>,
}

/// The values of one field of each entry, and the groups by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    pub entries: BTreeMap<Id, String>,
    pub groups: BTreeMap<String, Group>,
}

/// An id of a script or a reply, which has both parts.
pub(crate) fn id(word: &str) -> Id {
    let (ms, seq) = word.split_once('-').expect("an id has two parts");
    (ms.parse().expect("a number"), seq.parse().expect("a number"))
}

/// The key of a command about a stream that may change it.
pub(crate) fn key_of(words: &[String]) -> Option<&String> {
    match words[0].as_str() {
        "XADD" | "XDEL" | "XTRIM" | "XACK" | "XCLAIM" | "XAUTOCLAIM" => words.get(1),
        "XGROUP" => words.get(2),
        "XREADGROUP" => words.get(streams(words)),
        _ => None,
    }
}

/// The place of the first key of a read.
fn streams(words: &[String]) -> usize {
    words.iter().position(|word| word == "STREAMS").map_or(words.len(), |place| place + 1)
}

impl Stream {
    fn group(&mut self, name: &str) -> &mut Group {
        self.groups.get_mut(name).expect("it was answered without an error")
    }

    /// Does a command, which was answered without an error.
    pub(crate) fn apply(&mut self, words: &[String]) {
        let ids = |first: usize| words[first..].iter().map(|word| id(word)).collect::<Vec<_>>();
        match (words[0].as_str(), words[1].as_str()) {
            ("XADD", _) => drop(self.entries.insert(id(&words[2]), words[4].clone())),
            ("XDEL", _) => ids(2).iter().for_each(|id| drop(self.entries.remove(id))),
            // MAXLEN
            ("XTRIM", _) => {
                let length: usize = words[3].parse().expect("a number");
                while self.entries.len() > length {
                    self.entries.pop_first();
                }
            }
            ("XACK", _) => {
                // Of a group that is absent, none is acknowledged, which is no error.
                if let Some(group) = self.groups.get_mut(&words[2]) {
                    ids(3).iter().for_each(|id| drop(group.pending.remove(id)));
                }
            }
            // No idle time is asked for.
            ("XCLAIM", _) => self.claim(&words[2], &words[3], &ids(5)),
            ("XAUTOCLAIM", _) => {
                let all: Vec<Id> = self.group(&words[2]).pending.keys().copied().collect();
                self.claim(&words[2], &words[3], &all);
            }
            ("XGROUP", "CREATE") => {
                let group = Group { last: id(&words[4]), ..Group::default() };
                self.groups.insert(words[3].clone(), group);
            }
            ("XGROUP", "DESTROY") => drop(self.groups.remove(&words[3])),
            ("XGROUP", "DELCONSUMER") => self.group(&words[3]).pending.retain(|_, held| held.0 != words[4]),
            ("XREADGROUP", _) => {
                let count = words.iter().position(|word| word == "COUNT");
                let count = count.map_or(usize::MAX, |place| words[place + 1].parse().expect("a number"));
                let last = self.group(&words[2]).last;
                // New ones alone.
                let new: Vec<Id> = self.entries.keys().filter(|id| **id > last).take(count).copied().collect();
                let group = self.group(&words[2]);
                for id in new {
                    group.pending.insert(id, (words[3].clone(), 1));
                    group.last = id;
                }
            }
            (name, sub) => panic!("the model does not know {name} {sub}"),
        }
    }

    fn claim(&mut self, group: &str, consumer: &str, ids: &[Id]) {
        for id in ids {
            let is_there = self.entries.contains_key(id);
            let group = self.group(group);
            if !is_there {
                group.pending.remove(id);
            } else if let Some(held) = group.pending.get_mut(id) {
                *held = (consumer.into(), held.1 + 1);
            }
        }
    }
}
