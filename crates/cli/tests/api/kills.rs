//! Kills of the program between two of its system calls: each file is whole or absent, the store is
//! sound, and the next run of the command ends the work. strace(1) sends the signal; without it, or
//! where it may trace no process, nothing is tested. A long run kills before each call.

use crate::common::Place;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// Runs a command, which strace kills before the call that `inject` names; whether it did, and the
/// system calls of the first thread. `None`: it cannot be traced here.
fn traced(place: &Place, words: &[&str], inject: &str) -> Option<(bool, Vec<String>)> {
    let command = place.command(words);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "trace", "-e", inject]).arg(command.get_program()).args(command.get_args());
    command.get_envs().filter(|(_, value)| value.is_none()).for_each(|(name, _)| _ = strace.env_remove(name));
    let said = strace.current_dir(place.folder.path()).output().ok()?;
    let trace = fs::read_to_string(place.path("trace")).ok()?;
    let calls = trace.lines().filter_map(|line| line.split_once(' '));
    let first = calls.clone().next()?.0;
    let name = |(thread, call): (&str, &str)| {
        let name = call.split_once('(')?.0.trim();
        (thread == first && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())).then(|| name.into())
    };
    let is_killed = said.status.signal() == Some(9);
    assert!(is_killed || said.status.success(), "everbyte {words:?}: {said:?}");
    Some((is_killed, calls.filter_map(name).collect()))
}

/// Kills a command at several points. Before each the store is that of `base`; after each, `check`
/// is told whether the command has ended by itself.
fn kills(place: &Place, words: &[&str], check: impl Fn(bool)) {
    fs::copy(place.path("everbyte.store"), place.path("base")).unwrap();
    let run = |inject: &str| {
        fs::copy(place.path("base"), place.path("everbyte.store")).unwrap();
        traced(place, words, inject)
    };
    let Some((false, calls)) = run("trace=all") else {
        return eprintln!("skipped: strace traces no process here");
    };
    check(true);
    // The first calls load the program and open the store.
    let count = calls.len();
    let is_long = std::env::var("EVERBYTE_SOAK").is_ok();
    let points = if is_long { 0..count } else { count / 2..count };
    for point in points.step_by(if is_long { 1 } else { count / 6 }) {
        let (name, before) = (&calls[point], &calls[..point]);
        let nth = 1 + before.iter().filter(|other| *other == name).count();
        println!("everbyte {words:?}: killed before call {point} of {count}, {name}");
        let (is_killed, _) = run(&format!("inject={name}:signal=KILL:when={nth}")).expect("it was traced before");
        check(!is_killed);
    }
}

/// The files below a path: their bytes, or the target of a link; directories have none.
fn tree(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![path.to_path_buf()];
    while let Some(next) = open.pop() {
        let metadata = fs::symlink_metadata(&next).unwrap();
        let bytes = match () {
            () if metadata.is_file() => fs::read(&next).unwrap(),
            () if metadata.is_symlink() => fs::read_link(&next).unwrap().into_os_string().into_encoded_bytes(),
            () => {
                open.extend(fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
        };
        found.insert(next.strip_prefix(path).unwrap().display().to_string(), bytes);
    }
    found
}

/// A store with a volume that has the file `old`, and files to be copied in `source`.
fn place() -> Place {
    let place = Place::with_store();
    place.good(&["fs", "mkfs", "home", "--size", "8MiB"]);
    fs::create_dir_all(place.path("source/inner")).unwrap();
    fs::write(place.path("source/large"), [b'l'; 200_000]).unwrap();
    fs::write(place.path("source/small"), "remember").unwrap();
    fs::hard_link(place.path("source/small"), place.path("source/inner/linked")).unwrap();
    symlink("nowhere", place.path("source/inner/link")).unwrap();
    fs::write(place.path("old"), [b'o'; 9000]).unwrap();
    place.good(&["fs", "put", "old", "home"]);
    place
}

fn require_whole(place: &Place) {
    assert!(place.good(&["fs", "fsck", "home"]).starts_with("volume home is whole"));
}

fn got(place: &Place, from: &str) -> BTreeMap<String, Vec<u8>> {
    place.good(&["fs", "get", "--replace", from, "got"]);
    let found = tree(&place.path("got"));
    fs::remove_dir_all(place.path("got")).unwrap();
    found
}

#[test]
fn a_killed_put_leaves_whole_files() {
    let place = place();
    let source = tree(&place.path("source"));
    let all: BTreeMap<String, Vec<u8>> = source
        .iter()
        .map(|(name, bytes)| (format!("source/{name}"), bytes.clone()))
        .chain([("old".to_string(), vec![b'o'; 9000])])
        .collect();
    kills(&place, &["fs", "put", "source", "home"], |is_done| {
        require_whole(&place);
        let found = got(&place, "home:/");
        assert_eq!(found.get("old"), all.get("old"));
        for (name, bytes) in &found {
            assert!(all.get(name) == Some(bytes), "{name}");
        }
        assert!(!is_done || found.len() == all.len());
        place.good(&["fs", "put", "--replace", "source", "home"]);
        assert!(got(&place, "home:/") == all);
    });
}

#[test]
fn a_killed_get_leaves_whole_files() {
    let place = place();
    place.good(&["fs", "put", "source", "home"]);
    let source = tree(&place.path("source"));
    kills(&place, &["fs", "get", "home:/source", "copy"], |is_done| {
        require_whole(&place);
        if !place.path("copy").exists() {
            return assert!(!is_done);
        }
        let copied = tree(&place.path("copy"));
        for (name, bytes) in copied.iter().filter(|(name, _)| source.contains_key(*name)) {
            assert!(source[name] == *bytes, "{name}");
        }
        assert!(!is_done || copied == source);
        fs::remove_dir_all(place.path("copy")).unwrap();
    });
}

#[test]
fn a_killed_increment_is_whole_or_absent() {
    let place = place();
    place.good(&["backup", "everbyte.store", "whole"]);
    place.good(&["fs", "put", "source", "home"]);
    let source = tree(&place.path("source"));
    kills(&place, &["backup", "everbyte.store", "part", "--since", "whole"], |is_done| {
        if !place.path("part").exists() {
            assert!(!is_done);
            place.good(&["backup", "everbyte.store", "part", "--since", "whole"]);
        }
        fs::remove_file(place.path("everbyte.store")).unwrap();
        place.good(&["restore", "whole", "part", "everbyte.store"]);
        require_whole(&place);
        assert!(got(&place, "home:/source") == source);
        fs::remove_file(place.path("part")).unwrap();
    });
}

#[test]
fn a_killed_growth_leaves_one_of_two_sizes() {
    let place = place();
    kills(&place, &["fs", "grow", "home", "9MiB"], |is_done| {
        let stat: serde_json::Value = serde_json::from_str(&place.good(&["--json", "fs", "stat", "home"])).unwrap();
        let size = stat["size"].as_u64().map(|size| size >> 20);
        assert!(size == Some(9) || size == Some(8) && !is_done, "{stat}");
        require_whole(&place);
        place.good(&["fs", "grow", "home", "9MiB"]);
    });
}
