//! A link beside a primary that a test plays: requests, patches that are lost, other links.

use crate::replication::frame::{self, Frame, Item, PROTOCOL, Plan};
use crate::replication::link::FRAME_SIZE_MAX;
use crate::replication::position::{Position, RUN, ReplicaOrigin, RunId};
use crate::replication::{Patch, PrimaryLink, Target};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

const RUN_ID: RunId = RunId([3; RUN]);

fn at(version: u64) -> Position {
    Position { run: RUN_ID, version }
}

fn link(primary: &TcpListener, takes_over: bool) -> PrimaryLink {
    let target = Target {
        host: "127.0.0.1".into(),
        port: primary.local_addr().unwrap().port(),
        user: None,
        password: None,
        own_port: 1,
        tls: None,
        timeout: Duration::from_secs(60),
        takes_over,
    };
    PrimaryLink::start(target, ReplicaOrigin::Own, RunId::random(), Arc::default(), None).unwrap()
}

/// A request of the usual size brings an entry of as many bytes, whatever the keys are: that of its
/// element, and those around it, the first and last key of the range and the cursor.
#[test]
fn a_frame_has_room_for_the_largest_entry() {
    let size = crate::Options::default().input_size_max + 5 * everbyte_kv::KEY_MAX;
    let line = format!("${size}\r\n");
    assert_eq!(frame::find(line.as_bytes(), FRAME_SIZE_MAX), Ok(None), "more has to come");
}

/// The next connection of the link, and its request.
fn accept(primary: &TcpListener) -> (TcpStream, String) {
    let (mut stream, _) = primary.accept().unwrap();
    let mut bytes = vec![0; 4096];
    let count = stream.read(&mut bytes).unwrap();
    (stream, String::from_utf8_lossy(&bytes[..count]).into_owned())
}

/// Sends a greeting, a copy as of version 1, and so many versions behind it, each a key.
fn send(stream: &mut TcpStream, versions: u64) {
    let mut frames = vec![Frame::Greeting { protocol: PROTOCOL, plan: Plan::WholeUnknown, chain: vec![RUN_ID] }];
    for version in 1..=versions {
        let base = (version > 1).then(|| at(version - 1));
        frames.push(Frame::Begin { target: at(version), base, cursor: Vec::new() });
        let items = vec![Item::Put(vec![0, version as u8], b"v".into())];
        frames.push(Frame::Part { items, cursor: vec![5] });
        frames.push(Frame::End);
    }
    let bytes: Vec<u8> = (0..).zip(&frames).flat_map(|(number, frame)| frame.bytes(number)).collect();
    stream.write_all(&bytes).unwrap();
}

fn take(link: &PrimaryLink) -> Patch {
    let end = Instant::now() + Duration::from_secs(300);
    loop {
        if let Some(patch) = link.take() {
            return patch;
        }
        assert!(Instant::now() < end, "a patch comes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// REPL-4: the patches behind a lost one are dropped before the stream begins again.
#[test]
fn patches_behind_a_lost_one_are_not_taken() {
    let primary = TcpListener::bind("127.0.0.1:0").unwrap();
    let link = link(&primary, false);
    let (mut stream, _) = accept(&primary);
    send(&mut stream, 3);
    let patch = take(&link);
    assert_eq!((&patch.from, &patch.origin), (&ReplicaOrigin::Own, &ReplicaOrigin::At(at(1))));
    let end = Instant::now() + Duration::from_secs(300);
    while !link.has_patch() {
        assert!(Instant::now() < end, "the next patch waits");
        std::thread::sleep(Duration::from_millis(1));
    }
    link.lost("for a test");
    assert!(!link.has_patch() && link.take().is_none());
    // The origin that is settled is known before the thread has dropped the patches.
    link.begin_again(ReplicaOrigin::Own);
    assert!(!link.has_patch() && link.take().is_none());
    let (mut stream, request) = accept(&primary);
    assert!(request.contains("\r\n$1\r\n\0\r\n"), "{request:?}");
    assert!(link.take().is_none());
    send(&mut stream, 2);
    for version in 1..=2 {
        let patch = take(&link);
        assert_eq!(patch.origin, ReplicaOrigin::At(at(version)));
        link.settled(patch.origin);
    }
    // A position that is not settled is not the one from which the next stream begins.
    send(&mut accept_again(&link, &primary), 1);
    assert_eq!(take(&link).origin, ReplicaOrigin::At(at(1)));
}

/// Breaks a link whose keys were replaced by keys of its own.
fn accept_again(link: &PrimaryLink, primary: &TcpListener) -> TcpStream {
    link.lost("for a test");
    link.begin_again(ReplicaOrigin::Own);
    accept(primary).0
}

/// A patch that another link has taken moves no position of this one.
#[test]
fn a_patch_of_the_link_before_is_not_counted() {
    let primary = TcpListener::bind("127.0.0.1:0").unwrap();
    let link = link(&primary, false);
    let (stream, _) = accept(&primary);
    link.settled(ReplicaOrigin::At(at(9)));
    drop(stream);
    let (mut stream, request) = accept(&primary);
    assert!(request.contains("\r\n$1\r\n\0\r\n"), "{request:?}");
    // Nor in place of one that this link has taken.
    send(&mut stream, 1);
    let patch = take(&link);
    link.settled(ReplicaOrigin::At(at(9)));
    link.settled(patch.origin.clone());
    drop(stream);
    let (_stream, request) = accept(&primary);
    assert!(request.contains(&*String::from_utf8_lossy(&patch.origin.bytes())), "{request:?}");
}

/// A primary that has become one is not asked for it again.
#[test]
fn a_link_takes_over_once() {
    let primary = TcpListener::bind("127.0.0.1:0").unwrap();
    let link = link(&primary, true);
    let (stream, request) = accept(&primary);
    assert!(request.contains("FAILOVER"), "{request:?}");
    drop(stream);
    let (mut stream, request) = accept(&primary);
    assert!(request.contains("FAILOVER"), "no greeting has come: {request:?}");
    send(&mut stream, 1);
    link.settled(take(&link).origin);
    drop(stream);
    let (_stream, request) = accept(&primary);
    assert!(request.contains("REPLICA\r\n"), "{request:?}");
}

/// Patches that wait when a connection ends are sent again, and taken once.
#[test]
fn patches_of_a_connection_that_has_ended_are_dropped() {
    let primary = TcpListener::bind("127.0.0.1:0").unwrap();
    let link = link(&primary, false);
    let (mut stream, _) = accept(&primary);
    send(&mut stream, 2);
    let end = Instant::now() + Duration::from_secs(300);
    while !link.has_patch() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(stream);
    let (mut stream, _) = accept(&primary);
    send(&mut stream, 1);
    let first = take(&link);
    assert_eq!((first.from.clone(), first.origin.clone()), (ReplicaOrigin::Own, ReplicaOrigin::At(at(1))));
    std::thread::sleep(Duration::from_millis(20));
    assert!(!link.has_patch(), "the patches before came twice");
}
