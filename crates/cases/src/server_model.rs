//! A plain model of a server's databases: what each command does to them, if it is answered without
//! an error.

use crate::server_groups::Stream;
use std::collections::{BTreeMap, BTreeSet};

/// By database and key.
pub(crate) type Databases = BTreeMap<(u8, String), Held>;

/// A key's value and deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Milliseconds since 1970; 0: none.
    pub deadline: u64,
    pub value: Value,
}

/// A value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    List(Vec<String>),
    Set(BTreeSet<String>),
    Hash(BTreeMap<String, String>),
    /// Scores by member.
    SortedSet(BTreeMap<String, i64>),
    Stream(Stream),
}

impl Value {
    fn is_empty(&self) -> bool {
        match self {
            Value::Text(_) => false,
            Value::List(list) => list.is_empty(),
            Value::Set(set) => set.is_empty(),
            Value::Hash(hash) => hash.is_empty(),
            Value::SortedSet(scores) => scores.is_empty(),
            // It keeps its last id.
            Value::Stream(_) => false,
        }
    }
}

/// The database of the model in which the libraries of functions are, which no client can select.
pub(crate) const LIBRARIES: u8 = u8::MAX;

/// A library of one function, which gives each of its arguments as a command; a comma is between
/// the words of one.
fn library(name: &str) -> String {
    format!(
        "#!lua name={name}\nredis.register_function('{name}', function(_, commands) for _, line in ipairs(commands) do \
         local words = {{}} for word in string.gmatch(line, '[^,]+') do words[#words + 1] = word end \
         redis.call(unpack(words)) end return 'done' end)"
    )
}

/// The words of a line. A word such as `~700a` stands for 700 times `a`, and one such as `@each`
/// for the code of a library.
pub(crate) fn words(line: &str) -> Vec<String> {
    let long = |word: &str| {
        let (count, letter) = word.strip_prefix('~')?.split_at_checked(word.len() - 2)?;
        Some(letter.repeat(count.parse().ok()?))
    };
    let expanded = |word: &str| word.strip_prefix('@').map(library).or_else(|| long(word));
    line.split(' ').map(|word| expanded(word).unwrap_or_else(|| word.into())).collect()
}

/// Every key whose deadline has passed goes.
pub(crate) fn sweep(all: &mut Databases, now: u64) {
    all.retain(|_, held| held.deadline == 0 || held.deadline >= now);
}

/// Expired keys that a command names go before it is done.
pub(crate) fn expire(all: &mut Databases, space: u8, now: u64, words: &[String]) {
    let is_due = |held: &Held| held.deadline != 0 && held.deadline < now;
    all.retain(|(of, key), held| !(*of == space && is_due(held) && words[1..].contains(key)));
}

fn entry<'m>(all: &'m mut Databases, at: &(u8, String), empty: Value) -> &'m mut Value {
    &mut all.entry(at.clone()).or_insert(Held { deadline: 0, value: empty }).value
}

fn list<'m>(all: &'m mut Databases, at: &(u8, String)) -> &'m mut Vec<String> {
    match entry(all, at, Value::List(Vec::new())) {
        Value::List(list) => list,
        other => panic!("a command about a list was done to {other:?}"),
    }
}

fn set<'m>(all: &'m mut Databases, at: &(u8, String)) -> &'m mut BTreeSet<String> {
    match entry(all, at, Value::Set(BTreeSet::new())) {
        Value::Set(set) => set,
        other => panic!("a command about a set was done to {other:?}"),
    }
}

fn hash<'m>(all: &'m mut Databases, at: &(u8, String)) -> &'m mut BTreeMap<String, String> {
    match entry(all, at, Value::Hash(BTreeMap::new())) {
        Value::Hash(hash) => hash,
        other => panic!("a command about a hash was done to {other:?}"),
    }
}

fn scores<'m>(all: &'m mut Databases, at: &(u8, String)) -> &'m mut BTreeMap<String, i64> {
    match entry(all, at, Value::SortedSet(BTreeMap::new())) {
        Value::SortedSet(scores) => scores,
        other => panic!("a command about a sorted set was done to {other:?}"),
    }
}

fn stream<'m>(all: &'m mut Databases, at: &(u8, String)) -> &'m mut Stream {
    match entry(all, at, Value::Stream(Stream::default())) {
        Value::Stream(stream) => stream,
        other => panic!("a command about a stream was done to {other:?}"),
    }
}

fn number(word: &str) -> i64 {
    word.parse().expect("a number")
}

fn index(list: &[String], word: &str) -> usize {
    let number: i64 = word.parse().expect("an index");
    if number < 0 { (list.len() as i64 + number).max(0) as usize } else { number as usize }
}

/// Does a command of database `space`. Commands that only read do nothing.
pub(crate) fn apply(all: &mut Databases, space: u8, words: &[String]) {
    let here = |key: &String| (space, key.clone());
    let rest = || words.iter().skip(2);
    let text = |word: &String| Held { deadline: 0, value: Value::Text(word.clone()) };
    let Some(key) = words.get(1) else {
        match words[0].as_str() {
            "FLUSHALL" => all.retain(|(of, _), _| *of == LIBRARIES),
            "FLUSHDB" => all.retain(|(of, _), _| *of != space),
            _ => {}
        }
        return;
    };
    if let Some(key) = crate::server_groups::key_of(words) {
        if ["XDEL", "XTRIM", "XACK"].contains(&words[0].as_str()) && !all.contains_key(&here(key)) {
            return; // which is no error
        }
        return stream(all, &here(key)).apply(words);
    }
    let at = here(key);
    match words[0].as_str() {
        "FUNCTION" => {
            let name = |code: &str| code.lines().next().and_then(|line| Some(line.split_once('=')?.1.to_string()));
            match (words[1].as_str(), words.last()) {
                ("LOAD", Some(code)) => {
                    all.insert((LIBRARIES, name(code).expect("a name")), text(code));
                }
                ("DELETE", Some(name)) => drop(all.remove(&(LIBRARIES, name.clone()))),
                ("FLUSH", _) => all.retain(|(of, _), _| *of != LIBRARIES),
                _ => {}
            }
        }
        "FCALL" => {
            for line in words.iter().skip(3) {
                let words: Vec<String> = line.split(',').map(str::to_string).collect();
                apply(all, space, &words);
            }
        }
        "SET" => {
            let deadline = match words.get(3).map(String::as_str) {
                Some("PXAT") => words[4].parse().expect("a time"),
                Some("KEEPTTL") => all.get(&at).map_or(0, |held| held.deadline),
                _ => 0,
            };
            all.insert(at, Held { deadline, ..text(&words[2]) });
        }
        "MSET" => words[1..].chunks(2).for_each(|pair| drop(all.insert(here(&pair[0]), text(&pair[1])))),
        "APPEND" => match entry(all, &at, Value::Text(String::new())) {
            Value::Text(found) => found.push_str(&words[2]),
            other => panic!("a command about a string was done to {other:?}"),
        },
        "DEL" => words[1..].iter().for_each(|key| drop(all.remove(&here(key)))),
        "PEXPIREAT" => drop(all.get_mut(&at).map(|held| held.deadline = words[2].parse().expect("a time"))),
        "PERSIST" => drop(all.get_mut(&at).map(|held| held.deadline = 0)),
        "RENAME" => {
            let held = all.remove(&at).expect("it was answered without an error");
            all.insert(here(&words[2]), held);
        }
        "SWAPDB" => {
            let [one, other] = [1_usize, 2].map(|place| words[place].parse::<u8>().expect("a number"));
            let moved = |space| match space {
                space if space == one => other,
                space if space == other => one,
                space => space,
            };
            *all = std::mem::take(all).into_iter().map(|((space, key), held)| ((moved(space), key), held)).collect();
        }
        "COPY" => {
            let there = words
                .iter()
                .position(|word| word == "DB")
                .map_or(space, |place| words[place + 1].parse().expect("a number"));
            let target = (there, words[2].clone());
            let replaces = words.iter().any(|word| word == "REPLACE");
            if let Some(held) = all.get(&at).cloned().filter(|_| replaces || !all.contains_key(&target)) {
                all.insert(target, held);
            }
        }
        "MOVE" => {
            let target = (words[2].parse().expect("a number"), key.clone());
            if !all.contains_key(&target)
                && let Some(held) = all.remove(&at)
            {
                all.insert(target, held);
            }
        }
        "HSET" => hash(all, &at).extend(words[2..].chunks(2).map(|pair| (pair[0].clone(), pair[1].clone()))),
        "HDEL" => rest().for_each(|field| drop(hash(all, &at).remove(field))),
        "SADD" => set(all, &at).extend(rest().cloned()),
        "SREM" => {
            let set = set(all, &at);
            rest().for_each(|member| _ = set.remove(member));
        }
        "SMOVE" => {
            if set(all, &at).remove(&words[3]) {
                set(all, &here(&words[2])).insert(words[3].clone());
            }
        }
        "SUNIONSTORE" | "SINTERSTORE" | "SDIFFSTORE" => {
            let mut sets = rest().map(|key| set(all, &here(key)).clone()).collect::<Vec<_>>().into_iter();
            let first = sets.next().expect("a set");
            let made = sets.fold(first, |made, other| match words[0].as_str() {
                "SUNIONSTORE" => &made | &other,
                "SINTERSTORE" => &made & &other,
                _ => &made - &other,
            });
            all.insert(at, Held { deadline: 0, value: Value::Set(made) });
        }
        "DELRANGE" => {
            all.retain(|(of, name), _| *of != space || !(key..&words[2]).contains(&name));
        }
        "RPUSH" => list(all, &at).extend(rest().cloned()),
        "LPUSH" => rest().for_each(|value| list(all, &at).insert(0, value.clone())),
        // The first key of a waiting client gets the element.
        "BLPOP" => drop(list(all, &at).drain(..1)),
        "LPOP" | "RPOP" => {
            let list = list(all, &at);
            let count = words.get(2).map_or(1, |count| count.parse().expect("a number")).min(list.len());
            let range = if words[0] == "LPOP" { 0..count } else { list.len() - count..list.len() };
            list.drain(range);
        }
        "LSET" => {
            let list = list(all, &at);
            let place = index(list, &words[2]);
            list[place].clone_from(&words[3]);
        }
        "LINSERT" => {
            let list = list(all, &at);
            if let Some(place) = list.iter().position(|value| *value == words[3]) {
                list.insert(place + usize::from(words[2] == "AFTER"), words[4].clone());
            }
        }
        // All of them.
        "LREM" => list(all, &at).retain(|value| *value != words[3]),
        "LTRIM" => {
            let list = list(all, &at);
            let (from, last) = (index(list, &words[2]), index(list, &words[3]));
            list.truncate(last + 1);
            list.drain(..from.min(list.len()));
        }
        "LMOVE" | "BLMOVE" => {
            let source = list(all, &at);
            if !source.is_empty() {
                let value = if words[3] == "LEFT" { source.remove(0) } else { source.remove(source.len() - 1) };
                let target = list(all, &here(&words[2]));
                let place = if words[4] == "LEFT" { 0 } else { target.len() };
                target.insert(place, value);
            }
        }
        "ZADD" => scores(all, &at).extend(words[2..].chunks(2).map(|pair| (pair[1].clone(), number(&pair[0])))),
        "ZINCRBY" => *scores(all, &at).entry(words[3].clone()).or_insert(0) += number(&words[2]),
        "ZREM" => {
            let scores = scores(all, &at);
            rest().for_each(|member| _ = scores.remove(member));
        }
        "ZREMRANGEBYSCORE" => {
            let range = number(&words[2])..=number(&words[3]);
            scores(all, &at).retain(|_, score| !range.contains(score));
        }
        "ZPOPMIN" | "BZPOPMIN" => {
            let scores = scores(all, &at);
            let first =
                scores.iter().min_by_key(|(member, score)| (**score, *member)).map(|(member, _)| member.clone());
            first.map(|member| scores.remove(&member));
        }
        "ZUNIONSTORE" => {
            let mut made = BTreeMap::new();
            for key in &words[3..] {
                for (member, score) in scores(all, &here(key)).clone() {
                    *made.entry(member).or_insert(0) += score;
                }
            }
            all.insert(at, Held { deadline: 0, value: Value::SortedSet(made) });
        }
        "SELECT" | "XREAD" | "GET" => {}
        other => panic!("the model does not know {other}"),
    }
    all.retain(|_, held| !held.value.is_empty());
}
