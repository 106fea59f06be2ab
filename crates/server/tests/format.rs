//! Outside bytes never panic: the corpora of the protocol's fuzzer, and mutations of them.

mod common;

use common::{Ours, Reply};
use everbyte_server::fuzz_protocol;
use everbyte_workload::Random;

fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/protocol");
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    assert!(files.len() >= 10);
    files
}

fn mutated(random: &mut Random, corpus: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = corpus[random.index(corpus.len())].1.clone();
    for _ in 0..1 + random.index(8) {
        let at = random.index(bytes.len() + 1);
        match random.index(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.next() as u8),
            2 if at < bytes.len() => bytes[at] = random.next() as u8,
            3 if at < bytes.len() => bytes[at] ^= 1 << random.index(8),
            4 => {
                let other = &corpus[random.index(corpus.len())].1;
                let from = random.index(other.len() + 1);
                bytes.splice(at..at, other[from..].iter().copied());
            }
            _ => bytes.splice(at..at, *b"\r\n$").for_each(drop),
        }
    }
    bytes.truncate(20_000);
    bytes
}

#[test]
fn the_corpus_is_replayed() {
    for (name, bytes) in corpus() {
        println!("{name}");
        fuzz_protocol(&bytes);
    }
}

#[test]
fn mutations_of_the_corpus_never_panic() {
    let mut random = Random::new(common::seed("mutations_of"));
    let corpus = corpus();
    for _ in 0..3000 {
        fuzz_protocol(&mutated(&mut random, &corpus));
    }
}

/// The same against the whole server: whatever comes, it lives and answers the next client.
#[test]
fn the_server_survives_mutations() {
    use std::io::{Read, Write};
    let mut random = Random::new(common::seed("the_server_survives"));
    let corpus = corpus();
    let us = Ours::start();
    for round in 0..400 {
        let mut bytes = mutated(&mut random, &corpus);
        // Ending the server is another test's business.
        while let Some(at) = bytes.to_ascii_lowercase().windows(8).position(|word| word == b"shutdown") {
            bytes[at] = b'_';
        }
        let mut stream = std::net::TcpStream::connect(us.address).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read(&mut [0; 4096]);
        if round % 20 == 0 {
            assert_eq!(us.client().call(&["PING"]), Reply::Simple("PONG".into()), "round {round}");
        }
    }
}
