//! Listings: cookies that stay valid, directories that are removed or large.

use crate::{MAKE, files, make, root};
use everbyte_posix::{Errno, OpenFlags, RenameFlags, Seek, User};
use everbyte_workload::Random;
use std::collections::BTreeSet;

/// While names come and go, a listing in small steps tells each name once that stays.
#[test]
fn a_listing_tells_what_stays_once() {
    let files = files();
    let process = root(&files);
    process.make_directory("d", 0o755).unwrap();
    let stays = |number: usize| format!("d/stays-{number}-{}", "x".repeat(number % 120));
    for number in 0..150 {
        make(&process, &stays(number), b"");
    }
    let mut random = Random::new(3);
    for size in [1, 2, 7, 64] {
        let directory = process.open("d", OpenFlags::DIRECTORY, 0).unwrap();
        let mut seen: Vec<Vec<u8>> = Vec::new();
        loop {
            let entries = directory.entries(size).unwrap();
            if entries.is_empty() {
                break;
            }
            seen.extend(entries.into_iter().map(|entry| entry.name));
            let other = format!("d/other-{}", random.below(30));
            drop(process.open(other.as_str(), MAKE, 0o600).unwrap());
            drop(process.remove(format!("d/other-{}", random.below(30)).as_str()));
        }
        assert_eq!(&seen[..2], [b".".to_vec(), b"..".to_vec()]);
        seen.retain(|name| name.starts_with(b"stays"));
        assert_eq!(seen.len(), 150, "in steps of {size}");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), 150);
    }
}

/// A cookie leads back to its place, also in a file that was opened later.
#[test]
fn a_cookie_is_a_place() {
    let files = files();
    let process = root(&files);
    for number in 0..20 {
        make(&process, &format!("file-{number}"), b"");
    }
    let directory = process.open("/", OpenFlags::empty(), 0).unwrap();
    let all = directory.entries(100).unwrap();
    assert_eq!(all.len(), 22);
    assert!(directory.entries(100).unwrap().is_empty());
    for (index, entry) in all.iter().enumerate() {
        let later = process.open("/", OpenFlags::empty(), 0).unwrap();
        later.seek(Seek::Start(entry.next)).unwrap();
        assert_eq!(later.entries(100).unwrap(), all[index + 1..]);
    }
    directory.seek(Seek::Start(0)).unwrap();
    assert_eq!(directory.entries(3).unwrap(), all[..3]);
}

/// A directory that was removed while it is open has no entries and gets none.
#[test]
fn a_removed_directory_is_empty() {
    let files = files();
    let mut process = root(&files);
    process.make_directory("d", 0o755).unwrap();
    let open = process.open("d", OpenFlags::DIRECTORY, 0).unwrap();
    process.change_directory("d").unwrap();
    assert_eq!(process.working_directory().unwrap(), b"/d");
    process.rename("/d", "/e", RenameFlags::empty()).unwrap();
    assert_eq!(process.working_directory().unwrap(), b"/e");
    process.remove_directory("/e").unwrap();
    assert_eq!(process.working_directory().unwrap_err(), Errno::ENOENT);
    assert_eq!(process.open("f", MAKE, 0o600).unwrap_err(), Errno::ENOENT);
    assert_eq!(process.make_directory((&open, "f"), 0o700).unwrap_err(), Errno::ENOENT);
    assert_eq!(process.status("..").unwrap_err(), Errno::ENOENT);
    assert_eq!(open.entries(9).unwrap_err(), Errno::ENOENT);
    assert_eq!(process.status(".").unwrap().links, 0);
    process.change_directory("/").unwrap();
    drop(open);
    assert_eq!(files.volume().check(), []);
}

/// The entry `..` of a directory changes when it moves to another one: each of two directories that
/// exchange their names has to be writable, and those of one directory do not.
#[test]
fn a_directory_that_moves_is_writable() {
    let files = files();
    let (process, user) = (root(&files), files.process(User::new(7, 7)).unwrap());
    for open in ["a", "b"] {
        process.make_directory(open, 0o777).unwrap();
        process.set_mode(open, 0o777).unwrap();
    }
    user.make_directory("a/own", 0o755).unwrap();
    for other in ["a/other", "b/other"] {
        process.make_directory(other, 0o755).unwrap();
    }
    let rename = |from: &str, to: &str, flags| user.rename(from, to, flags).map_err(|error| error.errno());
    for (from, to) in [("a/own", "b/other"), ("b/other", "a/own")] {
        assert_eq!(rename(from, to, RenameFlags::EXCHANGE), Err(Errno::EACCES));
    }
    assert_eq!(rename("b/other", "a/new", RenameFlags::empty()), Err(Errno::EACCES));
    rename("a/own", "a/other", RenameFlags::EXCHANGE).unwrap();
    rename("a/other", "b/other", RenameFlags::empty()).unwrap(); // it is the user's own now
    assert_eq!(process.status("b/other").unwrap().uid, 7);
    assert_eq!(files.volume().check(), []);
}

/// Threads that resolve paths while directories come and go get an answer of some moment: never a
/// file of another path.
#[test]
fn a_path_never_leads_to_another_path() {
    let files = files();
    let maker = root(&files);
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            for round in 0..3000 {
                let name = if round % 2 == 0 { "even" } else { "odd" };
                maker.make_directory(name, 0o755).unwrap();
                make(&maker, &format!("{name}/file"), name.as_bytes());
                maker.remove(format!("{name}/file").as_str()).unwrap();
                maker.remove_directory(name).unwrap();
            }
        });
        let process = root(&files);
        while !changes.is_finished() {
            for name in ["even", "odd"] {
                match process.open(format!("{name}/file").as_str(), OpenFlags::empty(), 0) {
                    Ok(file) => {
                        let mut bytes = [0; 8];
                        let len = file.read_at(&mut bytes, 0).unwrap();
                        let is_prefix = name.as_bytes().starts_with(&bytes[..len]);
                        assert!(is_prefix, "{name} has {:?}", &bytes[..len]);
                    }
                    Err(error) => assert_eq!(error, Errno::ENOENT),
                }
            }
        }
    });
    assert_eq!(files.volume().check(), []);
}
