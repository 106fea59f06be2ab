//! `everbyte fs` commands on a volume that another process has in use, and hostile clients of that
//! process. Skipped as the tests of mounts are.

use crate::common::Place;
use crate::mounts::{Server, works};
use everbyte_media::Options;
use everbyte_store::Store;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};

/// A place with a volume that a server has mounted.
fn place() -> Place {
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    place.good(&["fs", "mkfs", "spare", "--span", "64MiB"]);
    fs::create_dir(place.path("at")).unwrap();
    place
}

/// Every command that is passed on sees the mount as it is, and the mount sees its effect at once.
#[test]
fn commands_reach_a_volume_in_use() {
    if !works() {
        return;
    }
    let place = place();
    let server = Server::start(&place, &["--mount", "home=at"]);
    let socket = fs::symlink_metadata(place.path("everbyte.store.control")).unwrap();
    assert_eq!(socket.mode() & 0o777, 0o600);
    fs::write(place.path("at/note"), b"first").unwrap();
    assert_eq!(place.good(&["fs", "ls", "home:/"]), "note\n");
    assert!(place.good(&["--json", "fs", "ls", "home:/"]).contains("\"size\":5"));
    place.bad(&["fs", "ls", "home:/none"], 1, &["no such file"]);
    place.bad(&["fs", "ls", "none:/"], 1, &["none"]);

    place.good(&["fs", "snapshot", "create", "home", "monday"]);
    place.bad(&["fs", "snapshot", "create", "home", "monday"], 2, &["already"]);
    fs::write(place.path("at/note"), b"second").unwrap();
    assert_eq!(fs::read(place.path("at/note")).unwrap(), b"second");
    assert_eq!(place.good(&["fs", "snapshot", "list", "home"]), "monday\n");
    fs::create_dir(place.path("sub")).unwrap();
    let mut get = place.command(&["--json", "fs", "get", "home:/note", "old", "--snapshot", "monday"]);
    get.current_dir(place.path("sub")).env("EVERBYTE_STORE", place.path("everbyte.store"));
    assert!(get.status().unwrap().success());
    assert_eq!(fs::read(place.path("sub/old")).unwrap(), b"first");
    place.good(&["fs", "get", "home:/note", "new"]);
    assert_eq!(fs::read(place.path("new")).unwrap(), b"second");
    place.good(&["fs", "snapshot", "remove", "home", "monday"]);
    assert_eq!(place.good(&["fs", "snapshot", "list", "home"]), "");

    let blocks = || rustix::fs::statvfs(place.path("at")).unwrap().f_blocks;
    let before = blocks();
    place.good(&["fs", "grow", "home", "16MiB"]);
    assert!(blocks() < before);
    assert!(place.good(&["--json", "fs", "stat", "home"]).contains("\"size\":16777216"));

    place.good(&["fs", "quota", "set", "home", "user", "0", "--inodes", "2"]);
    assert!(place.good(&["fs", "quota", "list", "home"]).contains("user 0"));
    let error = fs::write(place.path("at/third"), b"").and_then(|()| fs::write(place.path("at/fourth"), b""));
    assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::QuotaExceeded);
    place.good(&["fs", "quota", "remove", "home", "user", "0"]);
    fs::write(place.path("at/fourth"), b"").unwrap();

    // The kernel had cached the listing, the absence of `tree`, and the file that is replaced.
    let see = |name: &str| fs::read_to_string(place.path("at").join(name)).unwrap_or_default();
    let count = || fs::read_dir(place.path("at")).unwrap().count();
    fs::create_dir_all(place.path("tree/inner")).unwrap();
    fs::write(place.path("tree/inner/leaf"), b"leaf").unwrap();
    fs::write(place.path("note"), b"third, and longer").unwrap();
    fs::hard_link(place.path("at/note"), place.path("at/twin")).unwrap();
    let (before, open) = (count(), fs::File::open(place.path("at/note")).unwrap());
    assert_eq!((see("note").as_str(), see("tree/inner/leaf").as_str()), ("second", ""));
    assert_eq!(open.metadata().unwrap().nlink(), 2);
    assert!(fs::metadata(place.path("at/tree")).is_err());
    place.bad(&["fs", "put", "note", "home:/"], 2, &["exists"]);
    let links = fs::metadata(place.path("at")).unwrap().nlink();
    place.good(&["fs", "put", "note", "tree", "home:/", "--replace"]);
    assert_eq!((see("note").as_str(), see("tree/inner/leaf").as_str()), ("third, and longer", "leaf"));
    assert_eq!((see("twin").as_str(), open.metadata().unwrap().nlink()), ("second", 1));
    assert_eq!((count(), fs::metadata(place.path("at")).unwrap().nlink()), (before + 1, links + 1));
    // Into directories that the kernel knows, whose rights change.
    fs::set_permissions(place.path("tree/inner"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(place.path("tree/inner/leaf"), b"new leaf").unwrap();
    place.good(&["fs", "put", "tree", "home:/", "--replace"]);
    assert_eq!(see("tree/inner/leaf"), "new leaf");
    assert_eq!(fs::metadata(place.path("at/tree/inner")).unwrap().mode() & 0o777, 0o700);
    // From the mount itself.
    place.good(&["fs", "put", "at/tree/inner", "home:/"]);
    assert_eq!(see("inner/leaf"), "new leaf");
    place.bad(&["fs", "put", "at/tree", "home:/tree/inner"], 2, &["cannot be copied into itself"]);

    // Verified while programs change the volume.
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (at, flag) = (place.path("at"), &ended);
        let load = scope.spawn(move || {
            let mut rounds = 0;
            while !flag.load(std::sync::atomic::Ordering::Relaxed) {
                let (name, next) = (at.join("busy"), at.join("tree/busy"));
                fs::write(&name, [7; 20_000]).unwrap();
                fs::rename(&name, &next).unwrap();
                fs::remove_file(&next).unwrap();
                rounds += 1;
            }
            rounds
        });
        let said: Vec<_> = (0..5).map(|_| place.run(&["fs", "fsck", "home"])).collect();
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(load.join().unwrap() > 0);
        for said in said {
            assert!(said.code == 0 && said.out.contains("whole"), "{said:?}");
        }
    });
    place.bad(&["fs", "scrub", "home"], 1, &["keeps no checksums"]);
    for words in [&["fs", "fsck", "home", "--repair"][..], &["fs", "fsck", "home", "--repair", "--dry-run"]] {
        place.bad(words, 4, &["mounted on", "fs umount", "verifies it"]);
    }
    let dumped = place.good(&["fs", "dump", "home:/tree/inner/leaf"]);
    assert!(dumped.contains("size: 8"), "{dumped}");
    assert!(place.good(&["--json", "fs", "dump", "home"]).contains("\"field\":\"head: magic\""));
    place.bad(&["fs", "dump", "home:/none"], 1, &["no such file"]);
    place.bad(&["fs", "dump", "none"], 1, &["none"]);

    // Made, repaired and dumped in the store that is served.
    assert_eq!(place.good(&["fs", "mkfs", "third", "--span", "64MiB", "--label", "mine"]), "made volume third\n");
    for name in ["third", "home"] {
        place.bad(&["fs", "mkfs", name], 2, &["exists"]);
    }
    place.good(&["fs", "put", "tree", "third:/"]);
    assert!(place.good(&["fs", "fsck", "third", "--repair", "--dry-run"]).contains("needs no repair"));
    assert!(place.good(&["fs", "fsck", "third", "--repair"]).ends_with("nothing was interrupted\n"));
    assert!(place.good(&["fs", "dump", "third:/tree/inner/leaf"]).contains("size: 8"));
    assert!(place.good(&["--json", "fs", "stat", "third"]).contains("\"label\":\"mine\""));

    // Not mounted, in the same store.
    place.good(&["fs", "put", "note", "spare:/"]);
    assert_eq!(place.good(&["fs", "ls", "spare:/"]), "note\n");
    place.good(&["fs", "snapshot", "create", "spare", "tuesday"]);
    assert_eq!(server.terminate(), 0);
    assert!(!place.path("everbyte.store.control").exists());
    assert_eq!(place.good(&["fs", "snapshot", "list", "spare"]), "tuesday\n");
    place.good(&["fs", "fsck", "home"]);
    place.good(&["check"]);
}

const HELLO: &[u8] = b"everbyte control 3\0";

/// A client that has been greeted and has sent its request.
fn asked(place: &Place, request: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(place.path("everbyte.store.control")).unwrap();
    let mut hello = [0; 19];
    stream.read_exact(&mut hello).unwrap();
    assert_eq!(hello, HELLO);
    let _ = stream.write_all(request).and_then(|()| stream.shutdown(Shutdown::Write));
    stream
}

/// The kinds and the rests of the frames of an answer, as far as it was sent.
fn frames(stream: &mut UnixStream) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    let mut head = [0; 5];
    while stream.read_exact(&mut head).is_ok() {
        let mut rest = vec![0; u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize];
        assert!(rest.len() <= 1 << 16);
        if stream.read_exact(&mut rest).is_err() {
            break;
        }
        frames.push((head[0], rest));
    }
    frames
}

/// Sends bytes, ends the request, and returns the exit code and the text of the answer.
fn ask(place: &Place, request: &[u8]) -> (u8, String) {
    match frames(&mut asked(place, request)).pop() {
        Some((2, rest)) => (rest[0], String::from_utf8_lossy(&rest[1..]).into_owned()),
        _ => (255, String::new()), // a reset when the server read no further
    }
}

#[test]
fn hostile_clients_are_refused_and_hang_nothing() {
    if !works() {
        return;
    }
    let place = place();
    let server = Server::start(&place, &["--mount", "home=at"]);
    let hello = |words: &[u8]| [HELLO, b"/\0", words].concat();
    for (request, code, why) in [
        (b"".to_vec(), 2, "another version"),
        (b"\xff\0\xfe".repeat(1000), 2, "another version"),
        (b"everbyte control 2\0/\0fs\0ls\0home\0".to_vec(), 2, "another version"),
        (hello(b""), 2, "Usage"),
        (hello(b"fs\0fly\0home\0"), 2, "fly"),
        (hello(b"fs\0fsck\0home\0--repair\0"), 4, "mounted on"),
        (hello(b"fs\0mkfs\0home\0"), 2, "exists"),
        (hello(b"fs\0mkfs\0new\0--lanes=9999\0"), 2, "lanes"),
        (hello(b"fs\0dump\0home\0--page=18446744073709551615\0"), 0, ""),
        (hello(b"fs\0dump\0home\0--inode=18446744073709551615\0"), 0, ""),
        (hello(b"fs\0put\0/no/such/file\0home:/\0"), 5, "cannot read"),
        (hello(b"fs\0umount\0at\0"), 2, "does not run"),
        (hello(b"fs\0mount\0everbyte.store:home\0at\0"), 2, "does not run"),
        (hello(b"create\0x\0"), 2, "does not know"),
        (hello(b"fs\0ls\0home:\\x\0"), 2, "x"),
        (hello(b"fs\0ls\0home\0"), 0, ""),
    ] {
        let (found, text) = ask(&place, &request);
        assert!(found == code && text.contains(why), "{request:?}: {found} {text}");
    }
    // Oversized: the answer may be lost with the bytes that the server did not read.
    let (code, _) = ask(&place, &hello(&vec![b'a'; 4 << 20]));
    assert!(code == 2 || code == 255, "{code}");

    let silent = UnixStream::connect(place.path("everbyte.store.control")).unwrap();
    assert_eq!(place.good(&["fs", "ls", "home:/"]), "");
    drop(silent);

    // Another user, who was let near the socket.
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let socket = place.path("everbyte.store.control");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    std::thread::scope(|scope| {
        let of_other = scope.spawn(|| {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            ask(&place, &hello(b"fs\0ls\0home\0"))
        });
        let (code, text) = of_other.join().unwrap();
        assert!(code == 5 && text.contains("its own user"), "{code} {text}");
    });

    // A client that takes no part of a long answer, and one that leaves in the middle of it.
    for number in 0..3000 {
        fs::write(place.path("at").join(format!("{number}-{}", "x".repeat(200))), b"").unwrap();
    }
    let stalled = asked(&place, &hello(b"--json\0fs\0ls\0home\0"));
    let mut leaving = asked(&place, &hello(b"--json\0fs\0ls\0home\0"));
    assert_eq!(place.good(&["fs", "ls", "home:/"]).lines().count(), 3000);
    leaving.read_exact(&mut [0; 100]).unwrap();
    drop((stalled, leaving));
    assert_eq!(place.good(&["fs", "ls", "home:/"]).lines().count(), 3000);

    // A last client that stays silent does not keep the server from its end.
    let _silent = UnixStream::connect(&socket).unwrap();
    assert_eq!(server.terminate(), 0);
}

/// A long command tells its progress; it ends when the client has gone, and leaves no part of the
/// file that it was copying.
#[test]
fn a_long_command_tells_its_progress_and_ends_with_its_client() {
    if !works() {
        return;
    }
    let place = place();
    fs::write(place.path("large"), vec![7; 4 << 20]).unwrap();
    let server = Server::start(&place, &["--mount", "home=at"]);
    let put = |name: &str| {
        let path = place.path(name).to_str().unwrap().to_owned();
        [HELLO, b"/\0fs\0put\0", path.as_bytes(), b"\0home:/\0"].concat()
    };
    let answer = frames(&mut asked(&place, &put("large")));
    let is_first = |(kind, rest): &(u8, Vec<u8>)| *kind == 1 && rest.ends_with(b"copying") && rest[16] == 1;
    assert!(is_first(&answer[0]), "{answer:?}");
    assert_eq!(answer.last().unwrap(), &(2, vec![0]), "{answer:?}");
    assert_eq!(fs::metadata(place.path("at/large")).unwrap().len(), 4 << 20);

    // Zeros that are no hole are read, and take no room in the volume.
    let mut huge = fs::File::create(place.path("huge")).unwrap();
    (0..512).for_each(|_| huge.write_all(&vec![0; 1 << 20]).unwrap());
    let mut client = asked(&place, &put("huge"));
    client.read_exact(&mut [0; 5]).unwrap();
    drop(client);
    assert_eq!(place.good(&["fs", "ls", "home:/"]), "large\n");
    assert_eq!(server.terminate(), 0);
    place.good(&["fs", "fsck", "home"]);
}

/// The socket of a server that was killed is taken over; a file of its name is left alone.
#[test]
fn an_old_socket_is_taken_over() {
    if !works() {
        return;
    }
    let place = place();
    let socket = place.path("everbyte.store.control");
    drop(UnixListener::bind(&socket).unwrap());
    let server = Server::start(&place, &["--mount", "home=at"]);
    assert_eq!(place.good(&["fs", "ls", "home:/"]), "");
    assert_eq!(server.terminate(), 0);
    fs::write(&socket, b"a file").unwrap();
    let server = Server::start(&place, &["--mount", "home=at"]);
    place.bad(&["fs", "ls", "home:/"], 4, &["in use", "no socket"]);
    assert_eq!(server.terminate(), 0);
    assert_eq!(fs::read(&socket).unwrap(), b"a file");
    fs::remove_file(&socket).unwrap();

    // Another program listens there, with other words.
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| listener.accept().unwrap().0.write_all(b"HTTP/1.1 400 Bad Request\r\n").unwrap());
        let server = Server::start(&place, &["--mount", "home=at"]);
        let said = server.terminate_and_read();
        assert!(said.contains("no control socket") && said.contains("another program"), "{said}");
    });
    assert!(UnixStream::connect(&socket).is_ok(), "its socket is left alone");
}

/// A store in use whose socket belongs to another user, was left by a process that has ended, or is
/// that of another program: refused with the reason.
#[test]
fn foreign_sockets_are_refused_with_the_reason() {
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--span", "64MiB"]);
    let socket = place.path("everbyte.store.control");
    let store = Store::open(&place.path("everbyte.store"), &Options::default()).unwrap();
    let refused = |code, why: &[&str]| place.bad(&["fs", "ls", "home:/"], code, why);
    let said = refused(4, &["in use"]);
    assert!(!said.err.contains("control"), "{said:?}");

    drop(UnixListener::bind(&socket).unwrap());
    refused(4, &["in use", "left by a process that has ended"]);
    fs::remove_file(&socket).unwrap();

    // Silent, closing, and with other words.
    for words in [None, Some(&b""[..]), Some(b"HTTP/1.1 400 Bad Request\r\n"), Some(b"everbyte control 2\0")] {
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                match words {
                    Some(words) => stream.write_all(words).unwrap(),
                    None => drop(stream.read_to_end(&mut Vec::new())),
                }
            });
            refused(5, &["does not answer as everbyte", "not run"]);
        });
        fs::remove_file(&socket).unwrap();
    }

    // Greeting as everbyte does, and answering with bytes that are no frames.
    for answer in [&b""[..], b"\x00\xff\xff\xff\xff", b"\x07\0\0\0\0", b"\x02\x01\0\0\0\x09", b"\0\x05\0\0\0ab"] {
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(HELLO).unwrap();
                stream.read_to_end(&mut Vec::new()).unwrap();
                stream.write_all(answer).unwrap();
            });
            refused(5, &["has not answered", "may have run"]);
        });
        fs::remove_file(&socket).unwrap();
    }

    // A queue of clients that is full.
    let socket_fd =
        rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket_fd, &rustix::net::SocketAddrUnix::new(&socket).unwrap()).unwrap();
    rustix::net::listen(&socket_fd, 0).unwrap();
    let waiting = UnixStream::connect(&socket).unwrap();
    refused(4, &["in use", "queue of clients"]);
    drop((waiting, socket_fd));
    fs::remove_file(&socket).unwrap();

    if rustix::process::geteuid().is_root() {
        fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let listener = std::thread::scope(|scope| {
            let of_other = scope.spawn(|| {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
                UnixListener::bind(&socket).unwrap()
            });
            of_other.join().unwrap()
        });
        refused(5, &["user 65534", "nothing was asked"]);
        drop(listener);
    }
    store.close().unwrap();
}
