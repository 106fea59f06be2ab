//! The case of a followed server: its snapshot and each transaction of its stream are there whole
//! or not at all, and all of them that were acknowledged to it.

use crate::Case;
use crate::server::{MAX, served};
use crate::server_import::file;
use crate::server_model::{Databases, apply, words};
use crate::server_script::{observe, request};
use everbyte_media::Media;
use everbyte_server::{ImportOptions, ImportSource, RedisServer, import};
use everbyte_sim::{Explorer, Failure, Order, Report, Twin};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const CASES: &[Case] = &[Case {
    name: "server-import-follow",
    crate_name: "server",
    about: "a server is followed: its snapshot and each of its transactions are whole or absent, and acknowledged when settled",
    total: 600,
    program,
}];

/// The offset of the snapshot.
const START: u64 = 1000;
/// Keys that the snapshot replaces.
const BEFORE: &[&str] = &["SET a before", "RPUSH old x"];
/// Keys of the snapshot.
const SNAPSHOT: &[&str] = &["SET a 1", "RPUSH l one", "SELECT 9", "SADD s m n"];
/// The stream: each line a transaction, whose first command says the database.
const STREAM: &[&[&str]] = &[
    &["SELECT 0", "SET a 2", "RPUSH l two", "SET b ~200b"],
    &["SELECT 0", "SET c 3"],
    &["SELECT 9", "SADD s o", "HSET h f v", "SET a nine"],
    &["SELECT 0", "RPUSH l three", "SET a 4"],
];

/// The words of the next request of the import; `None` at the end of the connection.
fn next(input: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let line = |input: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        (input.read_line(&mut line).ok()? > 0).then(|| line.trim_end().to_string())
    };
    loop {
        let head = line(input)?;
        let Some(count) = head.strip_prefix('*') else { continue };
        let mut words = Vec::new();
        for _ in 0..count.parse().ok()? {
            let size = line(input)?.strip_prefix('$')?.parse::<usize>().ok()?;
            let mut word = vec![0; size + 2];
            input.read_exact(&mut word).ok()?;
            words.push(String::from_utf8_lossy(&word[..size]).into_owned());
        }
        return Some(words);
    }
}

/// Serves one import: the snapshot, then the stream, each step once the one before is acknowledged.
fn serve(listener: &TcpListener, snapshot: &[u8], all: &Databases, twin: &Twin<'_, Databases>) -> Option<()> {
    let (mut to, _) = listener.accept().ok()?;
    let mut from = BufReader::new(to.try_clone().ok()?);
    loop {
        match next(&mut from)?[0].as_str() {
            "PING" => to.write_all(b"+PONG\r\n").ok()?,
            "PSYNC" => break,
            _ => to.write_all(b"+OK\r\n").ok()?,
        }
    }
    let ask = request(&["REPLCONF", "GETACK", "*"].map(String::from));
    let mut offset = START;
    let mut step = |twin_op, bytes: &[u8], sent: u64| {
        to.write_all(bytes).ok()?;
        to.write_all(&ask).ok()?;
        offset += sent;
        while next(&mut from)?.get(2)?.parse::<u64>().ok()? < offset {}
        twin.acked(twin_op);
        offset += ask.len() as u64;
        Some(())
    };
    let (held, head) = (all.clone(), format!("+FULLRESYNC id {START}\r\n${}\r\n", snapshot.len()));
    let op = twin.begin("a snapshot", move |all| *all = held.clone());
    step(op, &[head.as_bytes(), snapshot].concat(), 0)?;
    for lines in STREAM {
        let space = lines[0].strip_prefix("SELECT ")?.parse().ok()?;
        let commands: Vec<Vec<String>> = lines[1..].iter().map(|line| words(line)).collect();
        let mut bytes = request(&words(lines[0]));
        bytes.extend(request(&words("MULTI")));
        commands.iter().for_each(|command| bytes.extend(request(command)));
        bytes.extend(request(&words("EXEC")));
        let op = twin.begin("a transaction", move |all| commands.iter().for_each(|command| apply(all, space, command)));
        let sent = bytes.len() as u64;
        step(op, &bytes, sent)?;
    }
    Some(())
}

fn program(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let ((image, before), (snapshot, all)) = (served(MAX, BEFORE), file(SNAPSHOT));
    let options = ImportOptions { clear: true, batch_size: 150, ..ImportOptions::default() };
    let program = |media: Media, twin: &Twin<'_, Databases>| {
        let kv = crate::kv::open(&media).expect("a whole store");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let source = ImportSource::Server(RedisServer { address, user: None, password: None });
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let served = serve(&listener, &snapshot, &all, twin);
                ended.store(true, Ordering::Release);
                served
            });
            let done = import(&kv, &source, &options, &mut |_| !ended.load(Ordering::Acquire));
            let served = server.join().expect("no panic");
            done.expect("a whole stream");
            served.expect("all is acknowledged");
        });
    };
    explorer
        .recovery(64, 2)
        .floor(8)
        .explore_twin(&image, &before, Order::InOrder, program, |media, seen| observe(&media, seen))
}
