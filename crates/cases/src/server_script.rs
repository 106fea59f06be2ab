//! Runs lines of commands on a server, iteration by iteration, beside their model; and reads back
//! what a server holds.

use crate::server_groups::{Group, Stream, id};
use crate::server_model::{Databases, Held, LIBRARIES, Value, apply, expire, sweep, words};
use everbyte_kv::raw::Raw as _;
use everbyte_kv::{Kv, ManualClock};
use everbyte_media::Media;
use everbyte_server::{Options, ServerScript};
use everbyte_sim::{Op, Seen, Twin};
use everbyte_store::FindingKind;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

/// Clients of a script.
pub(crate) const CLIENTS: usize = 3;
/// Databases that scripts use.
const SPACES: [u8; 3] = [0, 1, 9];
/// Every deadline of a script has passed then.
const FAR: u64 = 4_000_000_000_000;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Error(String),
    Null,
    List(Vec<Reply>),
    /// A bulk string, a simple one or a number.
    Text(String),
}

fn reply(bytes: &mut &[u8]) -> Option<Reply> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, rest) = (String::from_utf8_lossy(&bytes[1..end]).into_owned(), &bytes[end + 2..]);
    let kind = bytes[0];
    *bytes = rest;
    Some(match kind {
        b'-' => Reply::Error(line),
        b'$' | b'*' if line == "-1" => Reply::Null,
        b'$' => {
            let (text, rest) = bytes.split_at(line.parse().ok()?);
            *bytes = &rest[2..];
            Reply::Text(String::from_utf8_lossy(text).into_owned())
        }
        b'*' => Reply::List((0..line.parse::<usize>().ok()?).map(|_| reply(bytes)).collect::<Option<_>>()?),
        _ => Reply::Text(line),
    })
}

fn replies(mut bytes: &[u8]) -> Vec<Reply> {
    std::iter::from_fn(|| reply(&mut bytes)).collect()
}

pub(crate) fn request(words: &[String]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// A server with its clock.
pub(crate) struct Server {
    script: ServerScript,
    clock: ManualClock,
}

impl Server {
    pub(crate) fn open(kv: &Kv, settles_later: bool) -> Result<Server, String> {
        let clock = ManualClock::default();
        let options = Options { clock: Arc::new(clock.clone()), ..Options::default() };
        let script = ServerScript::open(kv.clone(), CLIENTS, settles_later, options);
        Ok(Server { script: script.map_err(|error| error.to_string())?, clock })
    }

    /// One iteration at `now`; the replies that left, by client.
    fn turn(&mut self, now: u64, requests: &[(usize, Vec<u8>)]) -> Result<Vec<Vec<Reply>>, String> {
        self.clock.set(UNIX_EPOCH + Duration::from_millis(now));
        let left = self.script.iteration(requests).map_err(|error| error.to_string())?;
        Ok(left.iter().map(|bytes| replies(bytes)).collect())
    }

    /// The replies to lines of the first client, which must be no errors.
    pub(crate) fn ask(&mut self, now: u64, lines: &[String]) -> Result<Vec<Reply>, String> {
        let bytes = lines.iter().flat_map(|line| request(&words(line))).collect();
        let found = self.turn(now, &[(0, bytes)])?.swap_remove(0);
        match found.iter().find(|reply| matches!(reply, Reply::Error(_))) {
            Some(error) => Err(format!("{lines:?}: {error:?}")),
            None if found.len() < lines.len() => Err(format!("{lines:?}: {} replies", found.len())),
            None => Ok(found),
        }
    }

    /// The contents of all databases at `now`.
    pub(crate) fn read(&mut self, now: u64) -> Result<Databases, String> {
        let mut all = self.read_libraries(now)?;
        for space in SPACES {
            let found = self.ask(now, &[format!("SELECT {space}"), "KEYS *".into()])?;
            let [_, Reply::List(keys)] = &found[..] else { return Err(format!("KEYS: {found:?}")) };
            let mut names = Vec::new();
            for key in keys {
                let Reply::Text(key) = key else { return Err(format!("a key: {key:?}")) };
                names.push(key.as_str());
            }
            let lines = names.iter().flat_map(|key| [format!("TYPE {key}"), format!("PEXPIRETIME {key}")]);
            let facts = self.ask(now, &lines.collect::<Vec<_>>())?;
            let lines = names.iter().zip(facts.chunks(2)).map(|(key, facts)| match &facts[0] {
                Reply::Text(kind) if kind == "string" => format!("GET {key}"),
                Reply::Text(kind) if kind == "list" => format!("LRANGE {key} 0 -1"),
                Reply::Text(kind) if kind == "set" => format!("SMEMBERS {key}"),
                Reply::Text(kind) if kind == "zset" => format!("ZRANGE {key} 0 -1 WITHSCORES"),
                Reply::Text(kind) if kind == "stream" => format!("XRANGE {key} - +"),
                _ => format!("HGETALL {key}"),
            });
            let values = self.ask(now, &lines.collect::<Vec<_>>())?;
            for ((key, facts), found) in names.iter().zip(facts.chunks(2)).zip(values) {
                let [Reply::Text(kind), Reply::Text(deadline)] = facts else { return Err(format!("{facts:?}")) };
                let deadline = deadline.parse::<i64>().map_err(|error| error.to_string())?.max(0) as u64;
                let mut value = value(kind, found)?;
                if let Value::Stream(stream) = &mut value {
                    self.read_groups(now, key, stream)?;
                }
                all.insert((space, key.to_string()), Held { deadline, value });
            }
            let count = self.ask(now, &["DBSIZE".into()])?.swap_remove(0);
            if count != Reply::Text(keys.len().to_string()) {
                return Err(format!("{} keys in database {space}, and DBSIZE is {count:?}", keys.len()));
            }
        }
        Ok(all)
    }
}

impl Server {
    /// The libraries of functions.
    fn read_libraries(&mut self, now: u64) -> Result<Databases, String> {
        let found = self.ask(now, &["FUNCTION LIST WITHCODE".into()])?.swap_remove(0);
        let Reply::List(list) = found else { return Err(format!("libraries: {found:?}")) };
        let mut all = Databases::new();
        for facts in list {
            let facts = texts(facts)?;
            let (Some(name), Some(code)) = (facts.get(1), facts.last()) else { return Err(format!("{facts:?}")) };
            all.insert((LIBRARIES, name.clone()), Held { deadline: 0, value: Value::Text(code.clone()) });
        }
        Ok(all)
    }

    /// The groups of a stream of the database at hand.
    fn read_groups(&mut self, now: u64, key: &str, stream: &mut Stream) -> Result<(), String> {
        let found = self.ask(now, &[format!("XINFO GROUPS {key}")])?.swap_remove(0);
        for facts in texts(found)?.chunks(12) {
            let (name, count) = (&facts[1], &facts[5]);
            let mut group = Group { last: id(&facts[7]), ..Group::default() };
            let lines = [format!("XPENDING {key} {name} - + 1000"), format!("XINFO CONSUMERS {key} {name}")];
            let found = self.ask(now, &lines)?;
            for entry in texts(found[0].clone())?.chunks(4) {
                let deliveries = entry[3].parse().map_err(|_| format!("deliveries: {entry:?}"))?;
                group.pending.insert(id(&entry[0]), (entry[1].clone(), deliveries));
            }
            let consumers = texts(found[1].clone())?;
            let of_consumers: usize = consumers.chunks(6).filter_map(|facts| facts[3].parse::<usize>().ok()).sum();
            if *count != group.pending.len().to_string() || of_consumers != group.pending.len() {
                return Err(format!(
                    "{count} entries are pending, or {of_consumers}, and {:?} are found",
                    group.pending
                ));
            }
            stream.groups.insert(name.clone(), group);
        }
        Ok(())
    }
}

/// All texts of a reply, whatever lists they are in; nulls are empty ones.
fn texts(reply: Reply) -> Result<Vec<String>, String> {
    match reply {
        Reply::Text(text) => Ok(vec![text]),
        Reply::Null => Ok(vec![String::new()]),
        Reply::List(list) => Ok(list.into_iter().map(texts).collect::<Result<Vec<_>, _>>()?.concat()),
        Reply::Error(text) => Err(text),
    }
}

fn value(kind: &str, reply: Reply) -> Result<Value, String> {
    let list = match reply {
        Reply::Text(text) => return Ok(Value::Text(text)),
        Reply::List(list) => list,
        other => return Err(format!("a value: {other:?}")),
    };
    if kind == "stream" {
        let entries = entries(list)?.iter().map(|(name, value)| (id(name), value.clone())).collect();
        return Ok(Value::Stream(Stream { entries, ..Stream::default() }));
    }
    let mut texts = Vec::new();
    for item in list {
        let Reply::Text(text) = item else { return Err(format!("an element: {item:?}")) };
        texts.push(text);
    }
    Ok(match kind {
        "list" => Value::List(texts),
        "set" => Value::Set(texts.into_iter().collect()),
        "zset" => {
            let score = |text: &String| text.parse().map_err(|_| format!("a score: {text}"));
            let pairs = texts.chunks(2).map(|pair| Ok((pair[0].clone(), score(&pair[1])?)));
            Value::SortedSet(pairs.collect::<Result<_, String>>()?)
        }
        _ => Value::Hash(texts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()),
    })
}

/// Ids and the values of one field of a reply of XRANGE.
fn entries(list: Vec<Reply>) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for item in list {
        match &item {
            Reply::List(parts) => match &parts[..] {
                [Reply::Text(id), Reply::List(fields)] => match &fields[..] {
                    [Reply::Text(_), Reply::Text(value)] => found.push((id.clone(), value.clone())),
                    _ => return Err(format!("fields: {fields:?}")),
                },
                _ => return Err(format!("an entry: {parts:?}")),
            },
            other => return Err(format!("an entry: {other:?}")),
        }
    }
    Ok(found)
}

fn sound(kv: &Kv) -> Result<(), String> {
    let mut findings = Vec::new();
    everbyte_server::check(kv, &mut |finding| findings.push(finding.to_string()));
    if findings.is_empty() { Ok(()) } else { Err(format!("check of the server's tables: {findings:?}")) }
}

/// The contents after recovery; then the tables must be sound and of use, whatever the time is.
pub(crate) fn observe(media: &Media, seen: &Seen) -> Result<Databases, String> {
    let kv = crate::kv::open(media)?;
    let mut server = Server::open(&kv, false)?;
    seen.recovered();
    sound(&kv)?;
    let all = server.read(0)?;
    let mut expected = all.clone();
    let after = [
        "DEL after:l after:h after:s",
        "RPUSH after:l a b",
        "HSET after:h f v",
        "SADD after:s m n",
        "SET after t PXAT 2000000000000",
        "PEXPIREAT after:h 2000000000000",
    ];
    for (space, lines) in [(0, &after[..]), (9, &after[1..2])] {
        let lines = Vec::from_iter(lines.iter().map(|line| line.to_string()));
        server.ask(1, &[format!("SELECT {space}")])?;
        server.ask(1, &lines)?;
        lines.iter().for_each(|line| apply(&mut expected, space, &words(line)));
    }
    let compare = |found: Databases, expected: &Databases, when: &str| {
        if found == *expected { Ok(()) } else { Err(format!("{expected:?} expected {when}, found {found:?}")) }
    };
    compare(server.read(1)?, &expected, "after more commands")?;
    sound(&kv)?;
    server.ask(FAR, &["PING".into()])?;
    sweep(&mut expected, FAR);
    compare(server.read(FAR)?, &expected, "after a sweep")?;
    sound(&kv)?;
    let mut findings = kv.check();
    findings.extend(kv.store().check());
    findings.retain(|finding| finding.kind != FindingKind::Note);
    if findings.is_empty() { Ok(all) } else { Err(format!("check: {findings:?}")) }
}

/// The effects of an operation's commands: of each none, or a command of a database, or several of
/// a transaction.
type Done = Arc<Mutex<Vec<Vec<(u8, Vec<String>)>>>>;

/// A command that has no reply yet.
struct Asked {
    /// Of a command that waits, the one that feeds it, if it is known.
    operation: usize,
    place: usize,
    space: u8,
    words: Vec<String>,
}

/// An operation of the model.
struct Operation {
    op: Op,
    done: Done,
    /// Commands without a reply.
    left: usize,
    acked: bool,
}

/// The operation of a command that waits.
const UNKNOWN: usize = usize::MAX;

/// A server whose iterations are operations of a model. A command that is answered with an error
/// has done nothing; nothing else is believed of a reply.
pub(crate) struct Program<'p> {
    twin: &'p Twin<'p, Databases>,
    server: Server,
    /// Whether each command is committed by itself.
    pub careful: bool,
    /// Whether a commit is settled at once.
    pub fences_settle: bool,
    sweep_next: u64,
    /// The time of the last iteration.
    now: u64,
    spaces: [u8; CLIENTS],
    /// Commands since MULTI.
    queued: [Option<Vec<Vec<String>>>; CLIENTS],
    asked: [VecDeque<Asked>; CLIENTS],
    /// Clients whose command at the front waited.
    fed: [bool; CLIENTS],
    /// Keys that the next iteration evicts.
    victims: Vec<(u8, String)>,
    operations: Vec<Operation>,
}

impl<'p> Program<'p> {
    pub(crate) fn new(media: &Media, twin: &'p Twin<'p, Databases>, settles_later: bool) -> Program<'p> {
        let kv = crate::kv::open(media).expect("a whole store");
        Program {
            twin,
            server: Server::open(&kv, settles_later).expect("whole tables"),
            careful: false,
            fences_settle: media.fences_settle(),
            sweep_next: 0,
            now: 0,
            spaces: [0; CLIENTS],
            queued: [const { None }; CLIENTS],
            asked: [const { VecDeque::new() }; CLIENTS],
            fed: [false; CLIENTS],
            victims: Vec::new(),
            operations: Vec::new(),
        }
    }

    fn begin(&mut self, name: String, now: u64, sweeps: bool) {
        let done = Done::default();
        let later = Arc::clone(&done);
        let change = move |all: &mut Databases| {
            if sweeps {
                sweep(all, now);
            }
            for (space, words) in later.lock().expect("no panic").iter().flatten() {
                expire(all, *space, now, words);
                apply(all, *space, words);
            }
        };
        let op = self.twin.begin(name, change);
        self.operations.push(Operation { op, done, left: 0, acked: false });
    }

    /// One iteration at `now`, in which clients send lines: an operation, or several if the server
    /// is careful. Returns the replies that left.
    pub(crate) fn iteration(&mut self, now: u64, lines: &[(usize, &[&str])]) -> Vec<Vec<Reply>> {
        self.iteration_for(now, lines, &[])
    }

    /// One iteration as above, in which these keys of databases are evicted.
    pub(crate) fn iteration_evicting(
        &mut self,
        now: u64,
        lines: &[(usize, &[&str])],
        victims: &[(u8, &str)],
    ) -> Vec<Vec<Reply>> {
        self.victims = victims.iter().map(|(space, key)| (*space, key.to_string())).collect();
        self.iteration(now, lines)
    }

    /// A client sends a line that waits, in an iteration of its own that no operation is.
    pub(crate) fn wait(&mut self, now: u64, client: usize, line: &str) {
        let (server, words) = (&mut self.server, words(line));
        let requests = [(client, request(&words))];
        self.now = now;
        let left = self.twin.on_its_thread(|| server.turn(now, &requests)).expect("sim barriers do not fail");
        assert!(left.iter().all(Vec::is_empty), "it waits: {left:?}");
        let space = self.spaces[client];
        self.asked[client].push_back(Asked { operation: UNKNOWN, place: 0, space, words });
    }

    /// One iteration as above, in which clients that wait get what they wait for: that belongs to
    /// the operation, behind its commands, and a reply which tells of it acknowledges all.
    pub(crate) fn iteration_for(&mut self, now: u64, lines: &[(usize, &[&str])], waiting: &[usize]) -> Vec<Vec<Reply>> {
        // As the server does it: ten times a second.
        let sweeps = now >= self.sweep_next;
        self.now = now;
        if sweeps {
            self.sweep_next = now + 100;
        }
        let first = self.operations.len();
        self.begin(format!("iteration at {now}"), now, sweeps);
        // Their place is before the commands: these name other keys.
        let gone = std::mem::take(&mut self.victims).into_iter();
        let gone = gone.map(|(space, key)| (space, vec!["DEL".to_string(), key])).collect();
        self.operations[first].done.lock().expect("no panic").push(gone);
        let mut requests = Vec::new();
        for (client, lines) in lines {
            let mut bytes = Vec::new();
            for line in *lines {
                let words = words(line);
                bytes.extend(request(&words));
                if self.careful {
                    self.begin(format!("{line} at {now}"), now, false);
                }
                if words[0] == "SELECT" {
                    self.spaces[*client] = words[1].parse().expect("a number");
                }
                let (index, space) = (self.operations.len() - 1, self.spaces[*client]);
                let operation = &mut self.operations[index];
                operation.left += 1;
                let mut done = operation.done.lock().expect("no panic");
                done.push(Vec::new());
                self.asked[*client].push_back(Asked { operation: index, place: done.len() - 1, space, words });
            }
            requests.push((*client, bytes));
        }
        for client in waiting {
            let index = self.operations.len() - 1;
            let asked = self.asked[*client].front_mut().filter(|asked| asked.operation == UNKNOWN);
            let mut done = self.operations[index].done.lock().expect("no panic");
            done.push(Vec::new());
            let asked = asked.expect("it waits");
            (asked.operation, asked.place) = (index, done.len() - 1);
            self.fed[*client] = true;
        }
        let server = &mut self.server;
        let left = self.twin.on_its_thread(|| server.turn(now, &requests)).expect("sim barriers do not fail");
        if self.careful {
            self.twin.acked(self.operations[first].op);
        }
        self.answered(&left);
        left
    }

    /// The replies to a line that only reads, in an iteration of its own that no operation is: it
    /// tells of the settled state, whatever is pending.
    pub(crate) fn look(&mut self, now: u64, client: usize, line: &str) -> Vec<Reply> {
        let (server, requests) = (&mut self.server, [(client, request(&words(line)))]);
        let mut left = self.twin.on_its_thread(|| server.turn(now, &requests)).expect("sim barriers do not fail");
        let found = left.swap_remove(client);
        assert!(left.iter().all(Vec::is_empty), "others wait: {left:?}");
        found
    }

    /// Settles what was asked of the settler, on a thread of its own.
    pub(crate) fn settle(&mut self) -> Vec<Vec<Reply>> {
        let server = &mut self.server;
        let left = self.twin.on_its_thread(|| server.script.settle()).expect("sim barriers do not fail");
        let left = left.iter().map(|bytes| replies(bytes)).collect::<Vec<_>>();
        self.answered(&left);
        left
    }

    /// The server holds what the model does.
    pub(crate) fn compare(&mut self) {
        // An iteration that writes nothing and sweeps nothing: nothing of it is explored.
        assert_eq!(self.server.read(self.now), Ok(self.twin.model()));
    }

    fn answered(&mut self, left: &[Vec<Reply>]) {
        for (client, replies) in left.iter().enumerate().take(CLIENTS) {
            for reply in replies {
                let Asked { operation, place, space, words } =
                    self.asked[client].pop_front().expect("one reply to each command");
                let is_queued = *reply == Reply::Text("QUEUED".into());
                let done = match (words[0].as_str(), reply) {
                    ("EXEC", Reply::List(items)) => {
                        let queued = self.queued[client].take().expect("MULTI before EXEC");
                        let pairs = queued.into_iter().zip(items);
                        pairs.filter(|(_, item)| !is_error(item)).map(|(words, _)| (space, words)).collect()
                    }
                    ("EXEC" | "DISCARD", _) => {
                        self.queued[client] = None;
                        Vec::new()
                    }
                    (_, reply) if is_error(reply) => Vec::new(),
                    ("MULTI", _) => {
                        self.queued[client] = Some(Vec::new());
                        Vec::new()
                    }
                    _ if is_queued => {
                        self.queued[client].as_mut().expect("MULTI before it").push(words);
                        Vec::new()
                    }
                    _ => vec![(space, words)],
                };
                let operation = &mut self.operations[operation];
                let tells = !done.is_empty();
                operation.done.lock().expect("no panic")[place] = done;
                let is_fed = std::mem::take(&mut self.fed[client]);
                operation.left -= usize::from(!is_fed);
                let is_known = if is_fed { tells } else { operation.left == 0 };
                if is_known && !std::mem::replace(&mut operation.acked, true) {
                    self.twin.acked(operation.op);
                }
            }
        }
    }
}

pub(crate) fn is_error(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(_))
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        let waits = self.operations.iter().any(|operation| operation.left > 0);
        assert!(!waits || std::thread::panicking(), "every command was answered");
    }
}
