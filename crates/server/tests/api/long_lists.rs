//! One list with very many elements: they are pushed in pipelines, read and changed in the middle,
//! and found again after a restart. `EVERBYTE_SOAK` is their number in a long run.

use crate::common::{Client, Ours, command};
use everbyte_kv::Kv;
use everbyte_server::Options;
use everbyte_store::{CreateOptions, Store};
use std::fmt::Write as _;
use std::io::Read as _;
use std::ops::Range;

/// Elements of a command that pushes, and of a reply.
const TOGETHER: usize = 1000;
/// Commands that are sent before a reply is read.
const PIPELINE: usize = 16;

fn element(number: u32) -> String {
    format!("element:{number}")
}

fn bulk(out: &mut String, element: &str) {
    write!(out, "${}\r\n{element}\r\n", element.len()).unwrap();
}

/// A server's list, and the list as it has to be, by the numbers of its elements.
struct Long {
    client: Client,
    expected: Vec<u32>,
}

impl Long {
    /// Sends a command, and compares its reply byte for byte.
    fn ask(&mut self, words: &[&str], reply: &str) {
        self.client.send(&command(words));
        self.hear(reply, &words[..words.len().min(4)]);
    }

    fn hear(&mut self, reply: &str, words: &[&str]) {
        let mut found = vec![0; reply.len()];
        self.client.stream.read_exact(&mut found).unwrap();
        let at = found.iter().zip(reply.as_bytes()).position(|(one, other)| one != other);
        if let Some(at) = at {
            let from = at.saturating_sub(60);
            let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[from..bytes.len().min(at + 60)]).into_owned();
            panic!("{words:?}: {:?} in place of {:?}", shown(&found), shown(reply.as_bytes()));
        }
    }

    fn push(&mut self, numbers: Range<u32>) {
        let all: Vec<u32> = numbers.collect();
        for part in all.chunks(TOGETHER * PIPELINE) {
            let (mut requests, mut replies) = (Vec::new(), String::new());
            for numbers in part.chunks(TOGETHER) {
                let words = ["RPUSH".into(), "list".into()].into_iter().chain(numbers.iter().map(|one| element(*one)));
                requests.extend(command(&words.collect::<Vec<String>>()));
                self.expected.extend(numbers);
                write!(replies, ":{}\r\n", self.expected.len()).unwrap();
            }
            self.client.send(&requests);
            self.hear(&replies, &["RPUSH"]);
        }
    }

    fn range(&mut self, indexes: Range<usize>) {
        let mut reply = format!("*{}\r\n", indexes.len());
        self.expected[indexes.clone()].iter().for_each(|number| bulk(&mut reply, &element(*number)));
        self.ask(&["LRANGE", "list", &indexes.start.to_string(), &(indexes.end - 1).to_string()], &reply);
    }

    /// Compares the number of elements, and those around some places.
    fn look(&mut self, places: &[usize]) {
        let count = self.expected.len();
        self.ask(&["LLEN", "list"], &format!(":{count}\r\n"));
        for place in [0, count / 4, count / 2, count - 1].iter().chain(places) {
            self.range(place.saturating_sub(20)..(place + 20).min(count));
            let mut reply = String::new();
            bulk(&mut reply, &element(self.expected[*place]));
            self.ask(&["LINDEX", "list", &place.to_string()], &reply);
            self.ask(&["LINDEX", "list", &format!("-{}", count - place)], &reply);
        }
    }

    /// Inserts a new element before or behind the one at a place.
    fn insert(&mut self, place: usize, side: &str, number: u32) {
        let pivot = element(self.expected[place]);
        self.expected.insert(place + usize::from(side == "AFTER"), number);
        let count = self.expected.len();
        self.ask(&["LINSERT", "list", side, &pivot, &element(number)], &format!(":{count}\r\n"));
        self.look(&[place]);
    }

    /// Removes the first elements of a number, the last ones if `limit` is below zero.
    fn remove(&mut self, number: u32, limit: i64) {
        let mut places: Vec<usize> = (0..self.expected.len()).filter(|at| self.expected[*at] == number).collect();
        let most = if limit == 0 { usize::MAX } else { limit.unsigned_abs() as usize }.min(places.len());
        places = if limit < 0 { places.split_off(places.len() - most) } else { places[..most].to_vec() };
        let mut at = 0;
        self.expected.retain(|_| {
            at += 1;
            places.binary_search(&(at - 1)).is_err()
        });
        self.ask(&["LREM", "list", &limit.to_string(), &element(number)], &format!(":{most}\r\n"));
        self.look(&places.iter().map(|place| (*place).min(self.expected.len() - 1)).collect::<Vec<_>>());
    }

    fn all(&mut self) {
        for start in (0..self.expected.len()).step_by(TOGETHER) {
            self.range(start..(start + TOGETHER).min(self.expected.len()));
        }
    }
}

#[test]
fn a_very_long_list_is_changed_in_the_middle_and_is_there_after_a_restart() {
    let count = everbyte_workload::soak().unwrap_or(0).max(5000) as u32;
    let middle = count as usize / 2;
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = dir.path().join("store");
    let kv = Kv::create(&Store::create(&path, &CreateOptions::default()).unwrap(), "kv").unwrap();
    let us = Ours::on(kv, tempfile::tempdir().unwrap(), Options::default());
    let mut long = Long { client: us.client(), expected: Vec::new() };
    long.push(0..count);
    long.look(&[1, 1000, middle + 7, count as usize - 1000]);
    let new = count..;
    for ((place, side), number) in
        [(100, "BEFORE"), (middle - 9, "AFTER"), (count as usize - 50, "BEFORE")].into_iter().zip(new)
    {
        long.insert(place, side, number);
    }
    // One number at several places.
    for place in [3, middle / 2, middle, middle + 11, count as usize - 5] {
        long.expected[place] = u32::MAX;
        long.ask(&["LSET", "list", &place.to_string(), &element(u32::MAX)], "+OK\r\n");
    }
    let first = format!(":{}\r\n", middle / 2);
    long.ask(&["LPOS", "list", &element(u32::MAX), "RANK", "2"], &first);
    long.remove(u32::MAX, -1);
    long.remove(u32::MAX, 2);
    long.remove(u32::MAX, 0);
    long.remove(middle as u32 + 100, 1);
    let (from, to) = (10, long.expected.len() - 7);
    long.expected = long.expected[from..to].to_vec();
    long.ask(&["LTRIM", "list", &from.to_string(), &format!("-{}", 8)], "+OK\r\n");
    long.look(&[]);

    drop(us);
    let kv = Kv::open(&Store::open(&path, &everbyte_media::Options::default()).unwrap(), "kv").unwrap();
    let us = Ours::on(kv, tempfile::tempdir().unwrap(), Options::default());
    long.client = us.client();
    long.look(&[]);
    long.all();
    long.insert(middle, "BEFORE", count + 10);
    long.ask(&["UNLINK", "list"], ":1\r\n");
    long.ask(&["DBSIZE"], ":0\r\n");
}
