//! Promises of docs/semantics/volume.md that need no crash.

use everbyte_fs::{
    Allocate, Error, FileKind, Found, Ino, LINKS_MAX, NewFile, Rename, SetXattr, Usage, Volume, VolumeOptions, layout,
    model,
};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};

const FILE: NewFile<'_> =
    NewFile { kind: FileKind::Regular, permissions: 0o644, uid: 0, gid: 0, device: 0, target: b"", xattrs: &[] };
const DIRECTORY: NewFile<'_> = NewFile { kind: FileKind::Directory, ..FILE };

fn volume(span: u64) -> (Store, Volume) {
    let media = Media::anonymous(128 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let volume = Volume::create(&store, "volume", &VolumeOptions { span: Some(span), ..Default::default() }).unwrap();
    (store, volume)
}

fn content(volume: &Volume, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0; volume.attributes(ino).unwrap().size as usize];
    assert_eq!(volume.read(ino, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// A name that another file has got since it was found keeps that file.
#[test]
fn a_found_file_loses_its_name_and_a_later_one_does_not() {
    let (_store, volume) = volume(8 << 20);
    let old = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    let found = volume.find(Ino::ROOT, b"file").unwrap().unwrap();
    volume.unlink(Ino::ROOT, b"file").unwrap();
    assert!(matches!(volume.unlink_found(Ino::ROOT, b"file", &found), Err(Error::NotFound)));
    let new = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    assert_eq!(new, old, "a file of the same number");
    assert!(!volume.unlink_found(Ino::ROOT, b"file", &found).unwrap());
    assert_eq!(volume.lookup(Ino::ROOT, b"file").unwrap(), Some(new));
    let found = volume.find(Ino::ROOT, b"file").unwrap().unwrap();
    assert!(volume.unlink_found(Ino::ROOT, b"file", &found).unwrap());
    assert_eq!(volume.lookup(Ino::ROOT, b"file").unwrap(), None);
    assert_eq!(volume.check(), []);
}

/// A rename of files that were found changes nothing if a name leads to another file since, or to a
/// directory.
#[test]
fn found_files_are_renamed_and_later_ones_are_not() {
    let (_store, volume) = volume(8 << 20);
    let make = |name: &[u8], new| volume.make(Ino::ROOT, name, new).unwrap();
    let find = |name: &[u8]| volume.find(Ino::ROOT, name).unwrap();
    let (one, two) = (make(b"one", &FILE), make(b"two", &FILE));
    make(b"directory", &DIRECTORY);
    let (found, other, directory) = (find(b"one").unwrap(), find(b"two"), find(b"directory"));
    let rename =
        |to: (&[u8], Option<&Found>), mode| volume.rename_found(Ino::ROOT, (b"one", &found), to, mode).unwrap();
    for mode in [Rename::Replace, Rename::NoReplace, Rename::Exchange] {
        assert!(!rename((b"two", None), mode), "{mode:?}: another call has made `two`");
        assert!(!rename((b"new", other.as_ref()), mode), "{mode:?}: `two` is gone");
        assert!(!rename((b"directory", directory.as_ref()), mode), "{mode:?}: it is a directory");
    }
    assert!(rename((b"two", other.as_ref()), Rename::Exchange));
    assert!(!rename((b"new", None), Rename::Replace), "`one` is another file since");
    assert_eq!((find(b"one").unwrap().ino, find(b"two").unwrap().ino), (two, one));
    assert_eq!(volume.check(), []);
}

#[test]
fn a_file_without_a_name_lives_while_it_is_held() {
    let (_store, volume) = volume(8 << 20);
    let file = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    volume.append(file, &model::bytes(100_000, 1)).unwrap();
    let free = volume.usage().free_pages;
    let (held, again) = (volume.hold(file).unwrap(), volume.hold(file).unwrap());
    volume.unlink(Ino::ROOT, b"file").unwrap();
    assert_eq!(content(&volume, file), model::bytes(100_000, 1));
    volume.append(file, b"more").unwrap();
    drop(held);
    assert_eq!(content(&volume, file).len(), 100_004);
    assert_eq!(volume.check(), []);
    drop(again);
    assert!(matches!(volume.attributes(file), Err(Error::Stale { .. })));
    assert_eq!(volume.usage().free_pages, free + 25, "its pages are free");

    let directory = volume.make(Ino::ROOT, b"directory", &DIRECTORY).unwrap();
    let held = volume.hold(directory).unwrap();
    volume.remove_directory(Ino::ROOT, b"directory").unwrap();
    assert!(matches!(volume.make(directory, b"late", &FILE), Err(Error::Stale { .. })), "it gets no new names");
    let other = volume.make(Ino::ROOT, b"other", &FILE).unwrap();
    let renamed = volume.rename(Ino::ROOT, b"other", directory, b"late", Rename::Replace);
    assert!(matches!(renamed, Err(Error::Stale { ino }) if ino == directory), "nor by a renaming: {renamed:?}");
    assert_eq!(volume.lookup(Ino::ROOT, b"other").unwrap(), Some(other));
    drop(held);

    let unnamed = volume.make_unnamed(&FILE).unwrap();
    volume.append(unnamed.ino(), b"linked").unwrap();
    volume.link(unnamed.ino(), Ino::ROOT, b"named").unwrap();
    let file = unnamed.ino();
    drop(unnamed);
    assert_eq!(content(&volume, file), b"linked");
    drop(volume.make_unnamed(&FILE).unwrap());
    assert_eq!(volume.check(), []);
    let again = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    assert!(volume.attributes(again).unwrap().generation > 0, "its number held another file");
}

/// A number that held another file has another generation, also where a crash freed it.
#[test]
fn a_number_has_a_new_generation_after_a_crash() {
    for kind in [FILE, DIRECTORY] {
        let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
        let store = Store::format(media.clone(), &FormatOptions::default()).unwrap();
        let volume = Volume::create(&store, "volume", &VolumeOptions::default()).unwrap();
        volume.make(Ino::ROOT, b"gone", &kind).unwrap();
        let gone = volume.lookup(Ino::ROOT, b"gone").unwrap().unwrap();
        std::mem::forget(volume.hold(gone).unwrap()); // the process ends with the file open
        match kind.kind {
            FileKind::Directory => volume.remove_directory(Ino::ROOT, b"gone").unwrap(),
            _ => volume.unlink(Ino::ROOT, b"gone").unwrap(),
        }
        let generation = volume.attributes(gone).unwrap().generation;
        let store = Store::attach(media.clone()).unwrap();
        let next = Volume::open(store.object("volume").unwrap()).unwrap();
        assert_eq!(next.recovery().orphans, [gone]);
        let again = next.make(Ino::ROOT, b"again", &FILE).unwrap();
        assert_eq!(again, gone, "the lowest number is taken first");
        assert_eq!(next.attributes(again).unwrap().generation, generation + 1);
        assert_eq!(next.check(), []);
    }
}

/// Every call that needs room is refused, and has changed nothing.
#[test]
fn a_full_volume_refuses_and_keeps_what_it_has() {
    let (_store, volume) = volume(2 << 20);
    let root = Ino::ROOT;
    let [small, large, sparse] = [b"small", b"large", b"spars"].map(|name| volume.make(root, name, &FILE).unwrap());
    volume.append(small, &[1; 100]).unwrap();
    volume.append(large, &[2; 10_000]).unwrap();
    for number in 0..8 {
        volume.write(sparse, number * 8192, &[3; 10]).unwrap(); // its inode has no slot left
    }
    let fill = volume.make(root, b"fill", &FILE).unwrap();
    let is_full = |error: &Error| matches!(error, Error::NoSpace { .. });
    while volume.append(fill, &[4; 4096]).map_err(|error| assert!(is_full(&error), "{error}")).is_ok() {}
    let usage = volume.usage();
    assert_eq!(usage.free_pages, 0);
    let before = model::read(&volume).unwrap();
    let refused = |what: &str, outcome: everbyte_fs::Result<()>| {
        assert!(outcome.as_ref().is_err_and(is_full), "{what}: {outcome:?}");
        assert_eq!(model::read(&volume).unwrap(), before, "{what}");
        assert_eq!(volume.usage(), usage, "{what}");
        assert_eq!(volume.check(), [], "{what}");
    };
    refused("a small file leaves its inode", volume.write(small, 50, &[9; 200]));
    refused("an append of a page", volume.append(large, &[9; 5000]).map(drop));
    refused("an overwrite", volume.write(large, 100, &[9; 600]));
    refused("an overwrite of many pages", volume.write(fill, 0, &[9; 40_000]));
    refused("a write into a hole", volume.write(sparse, 4096, &[9]));
    refused("a punched edge", volume.allocate(large, 10, 10, everbyte_fs::Allocate::Punch));
    refused("allocation", volume.allocate(sparse, 0, 100_000, everbyte_fs::Allocate::Grow));
    refused("a long target", {
        let target = [b'x'; 500];
        volume.make(root, b"link", &NewFile { kind: FileKind::Link, target: &target, ..FILE }).map(drop)
    });
    for number in 0..64 {
        if let Err(error) = volume.link(small, root, format!("link {number}").as_bytes()) {
            assert!(is_full(&error), "{error}");
            break;
        }
        assert!(number < 63, "the directory needs a page at last");
    }
    volume.write(large, 100, &[9; 10]).unwrap(); // at its place: it needs no page
    volume.rename(root, b"fill", root, b"large", Rename::Replace).unwrap();
    volume.unlink(root, b"large").unwrap();
    volume.write(small, 50, &[9; 200]).unwrap();
    volume.link(small, root, b"one more").unwrap();
    assert_eq!(volume.check(), []);
}

#[test]
fn names_of_every_byte_and_length() {
    let (store, volume) = volume(8 << 20);
    let mut made = Vec::new();
    for byte in (1..=255).filter(|&byte| byte != b'/' && byte != b'.') {
        made.push(vec![byte]);
    }
    made.extend((2..=255).map(|len| vec![b'n'; len]));
    for name in &made {
        volume.make(Ino::ROOT, name, &FILE).unwrap();
    }
    for bad in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
        assert!(matches!(volume.make(Ino::ROOT, bad, &FILE), Err(Error::BadName)), "{bad:?}");
    }
    let long = [b'n'; 256];
    assert!(matches!(volume.make(Ino::ROOT, &long, &FILE), Err(Error::NameTooLong { len: 256 })));
    assert!(matches!(volume.lookup(Ino::ROOT, &long), Err(Error::NameTooLong { len: 256 })));
    drop(volume);
    let volume = Volume::open(store.object("volume").unwrap()).unwrap();
    let mut found = Vec::new();
    let mut cookie = 0;
    while let [.., last] = &volume.entries(Ino::ROOT, cookie, 7).unwrap()[..] {
        let next = last.next;
        found.extend(volume.entries(Ino::ROOT, cookie, 7).unwrap().into_iter().map(|entry| entry.name));
        cookie = next;
    }
    found.sort();
    made.sort();
    assert_eq!(found, made);
    for name in &made {
        assert!(volume.lookup(Ino::ROOT, name).unwrap().is_some(), "{name:?}");
        volume.unlink(Ino::ROOT, name).unwrap();
    }
    assert_eq!(volume.check(), []);
}

/// A listing that goes on while names come and go tells every name that stays exactly once.
#[test]
fn a_listing_goes_on_while_names_change() {
    let (_store, volume) = volume(8 << 20);
    for number in 0..200 {
        volume.make(Ino::ROOT, format!("stays {number}").as_bytes(), &FILE).unwrap();
    }
    let mut found = Vec::new();
    let mut cookie = 0;
    for round in 0.. {
        let entries = volume.entries(Ino::ROOT, cookie, 5).unwrap();
        let Some(last) = entries.last() else { break };
        cookie = last.next;
        found.extend(entries.into_iter().map(|entry| entry.name).filter(|name| name.starts_with(b"stays")));
        volume.make(Ino::ROOT, format!("comes {round}").as_bytes(), &FILE).unwrap();
        if round > 3 {
            volume.unlink(Ino::ROOT, format!("comes {}", round - 3).as_bytes()).unwrap();
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 200);
}

/// Each name leads to its file and is listed once; half of them go, and their lines are used again.
#[test]
fn a_hundred_thousand_names_in_a_directory() {
    const NAMES: u64 = 100_000;
    let (store, volume) = volume(64 << 20);
    let directory = volume.make(Ino::ROOT, b"many", &DIRECTORY).unwrap();
    let files = [b"a", b"b"].map(|name| volume.make(Ino::ROOT, name, &FILE).unwrap());
    let name = |number: u64| format!("message-{number}").into_bytes();
    for number in 0..NAMES {
        volume.link(files[number as usize % 2], directory, &name(number)).unwrap();
    }
    let used = volume.usage().pages - volume.usage().free_pages;
    drop(volume);
    let volume = Volume::open(store.object("volume").unwrap()).unwrap();
    let (mut listed, mut cookie) = (vec![false; NAMES as usize], 0);
    loop {
        let entries = volume.entries(directory, cookie, 999).unwrap();
        let Some(last) = entries.last() else { break };
        cookie = last.next;
        for entry in entries {
            let number: u64 = std::str::from_utf8(&entry.name[8..]).unwrap().parse().unwrap();
            assert_eq!(entry.ino, files[number as usize % 2]);
            assert!(!std::mem::replace(&mut listed[number as usize], true), "{number} twice");
        }
    }
    assert!(listed.iter().all(|&is_listed| is_listed));
    assert_eq!(volume.attributes(files[1]).unwrap().links, NAMES / 2 + 1);
    for number in (1..NAMES).step_by(2) {
        volume.unlink(directory, &name(number)).unwrap();
    }
    for number in 0..NAMES {
        let expected = Some(files[0]).filter(|_| number % 2 == 0);
        assert_eq!(volume.lookup(directory, &name(number)).unwrap(), expected);
    }
    for number in (1..NAMES).step_by(2) {
        volume.link(files[0], directory, &name(number)).unwrap();
    }
    assert_eq!(volume.usage().pages - volume.usage().free_pages, used, "lines are used again");
    assert_eq!(volume.check(), []);
}

/// Fields of times and owners: what a call changes, and what it leaves.
#[test]
fn calls_change_the_times_that_they_should() {
    use std::sync::atomic::{AtomicI64, Ordering};
    static NOW: AtomicI64 = AtomicI64::new(0);
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let clock = || NOW.load(Ordering::Relaxed);
    let options = VolumeOptions { span: Some(8 << 20), clock, ..Default::default() };
    let volume = Volume::create(&store, "volume", &options).unwrap();
    let root = Ino::ROOT;
    let times = |ino| {
        let found = volume.attributes(ino).unwrap();
        (found.born, found.modified, found.changed)
    };
    let at = |now: i64| NOW.store(now, Ordering::Relaxed);
    at(10);
    let file = volume.make(root, b"file", &FILE).unwrap();
    assert_eq!((times(file), times(root)), ((10, 10, 10), (0, 10, 10)));
    for (now, len) in [(20, 10), (30, 4000), (40, 5000)] {
        at(now);
        volume.append(file, &vec![1; len]).unwrap();
        assert_eq!(times(file), (10, now, now));
    }
    at(50);
    volume.write(file, 4096, &[1; 4096]).unwrap();
    volume.write(file, 5000, &[2; 10]).unwrap();
    assert_eq!(times(file), (10, 50, 50));
    at(60);
    volume.link(file, root, b"other").unwrap();
    assert_eq!((times(file), times(root)), ((10, 50, 60), (0, 60, 60)));
    at(70);
    volume.rename(root, b"other", root, b"third", Rename::Replace).unwrap();
    assert_eq!((times(file), times(root)), ((10, 50, 70), (0, 70, 70)));
    at(80);
    volume.unlink(root, b"third").unwrap();
    assert_eq!((times(file), times(root)), ((10, 50, 80), (0, 80, 80)));
    at(90);
    volume.resize(file, 100).unwrap();
    assert_eq!(times(file), (10, 90, 90));
    at(100);
    let set = everbyte_fs::SetAttributes { modified: Some(-5), accessed: Some(7), gid: Some(9), ..Default::default() };
    volume.set_attributes(file, &set).unwrap();
    assert_eq!(times(file), (10, -5, 100));
    let found = volume.attributes(file).unwrap();
    assert_eq!((found.accessed, found.gid, found.uid), (7, 9, 0));
    let ranges: [&dyn Fn(); 5] = [
        &|| volume.allocate(file, 0, 16_384, Allocate::Grow).unwrap(),
        &|| volume.insert(file, 4096, 4096).unwrap(),
        &|| volume.collapse(file, 0, 4096).unwrap(),
        &|| volume.allocate(file, 100, 5000, Allocate::Punch).unwrap(),
        &|| volume.allocate(file, 100, 5000, Allocate::ZeroKeepSize).unwrap(),
    ];
    for (now, change) in (110..).zip(ranges) {
        at(now);
        change();
        assert_eq!(times(file), (10, now, now));
    }
    let other = volume.make(root, b"other", &FILE).unwrap();
    at(120);
    volume.rename(root, b"file", root, b"other", Rename::Exchange).unwrap();
    assert_eq!((times(file), times(other), times(root)), ((10, 114, 120), (114, 114, 120), (0, 120, 120)));
    at(130);
    volume.link(other, root, b"kept").unwrap();
    at(140);
    volume.rename(root, b"other", root, b"file", Rename::Replace).unwrap();
    assert_eq!((times(file), times(other), times(root)), ((10, 114, 140), (114, 114, 140), (0, 140, 140)));
    assert_eq!(volume.check(), []);
}

#[test]
fn threads_in_directories_of_their_own() {
    let (_store, volume) = volume(64 << 20);
    let work = |number: u64| {
        let directory = volume.make(Ino::ROOT, format!("directory {number}").as_bytes(), &DIRECTORY).unwrap();
        for round in 0..200_u64 {
            let name = |round: u64| format!("file {round}").into_bytes();
            let file = volume.make(directory, &name(round), &FILE).unwrap();
            volume.append(file, &model::bytes(round * 37, number as u8)).unwrap();
            volume.write(file, round * 3, &model::bytes(round * 11, 7)).unwrap();
            if round >= 20 {
                volume.rename(directory, &name(round - 10), directory, &name(round - 20), Rename::Replace).unwrap();
            }
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|number| _ = scope.spawn(move || work(number))));
    assert_eq!(volume.check(), []);
    let before = model::read(&volume).unwrap();
    let free = volume.usage().free_pages;
    let object = volume.object().clone();
    drop(volume);
    let volume = Volume::open(object).unwrap();
    assert_eq!(model::read(&volume).unwrap(), before);
    assert_eq!(volume.usage().free_pages, free);
}

/// A file and a directory with as many links as they may have get no more, whichever call adds one.
#[test]
fn links_have_a_limit() {
    let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
    let store = Store::format(media.clone(), &FormatOptions::default()).unwrap();
    let options = VolumeOptions { span: Some(8 << 20), lanes: 1, ..VolumeOptions::default() };
    let volume = Volume::create(&store, "volume", &options).unwrap();
    let make = |parent, name: &str, new| volume.make(parent, name.as_bytes(), new).unwrap();
    let file = make(Ino::ROOT, "file", &FILE);
    let full = make(Ino::ROOT, "full", &DIRECTORY);
    let inside = make(full, "inside", &FILE);
    let moved = make(Ino::ROOT, "moved", &DIRECTORY);
    let inodes = volume.object().prime().get() + (layout::LANES_PAGE + 1 + 2) * layout::PAGE;
    let set_links = |ino: Ino, links: u64| {
        let at = inodes + ino.0 * layout::INODE + layout::inode::LINKS;
        let section = media.section(); // its pages are guarded
        assert_eq!(layout::number(media.load(at)), volume.attributes(ino).unwrap().links);
        media.store(at, everbyte_media::sealed::seal_low(links));
        drop(section);
    };
    let refused = |outcome: everbyte_fs::Result<()>, of: Ino| {
        assert!(matches!(outcome, Err(Error::TooManyLinks { ino, .. }) if ino == of), "{outcome:?}");
    };
    set_links(file, LINKS_MAX - 1);
    volume.link(file, Ino::ROOT, b"last").unwrap();
    refused(volume.link(file, Ino::ROOT, b"more"), file);
    set_links(full, LINKS_MAX - 1);
    make(full, "last", &DIRECTORY);
    refused(volume.make(full, b"more", &DIRECTORY).map(drop), full);
    refused(volume.rename(Ino::ROOT, b"moved", full, b"more", Rename::Replace), full);
    refused(volume.rename(Ino::ROOT, b"moved", full, b"inside", Rename::Exchange), full);
    refused(volume.rename(full, b"inside", Ino::ROOT, b"moved", Rename::Exchange), full);
    assert_eq!(
        (volume.lookup(Ino::ROOT, b"moved").unwrap(), volume.lookup(full, b"inside").unwrap()),
        (Some(moved), Some(inside))
    );
    // Files are no links of their directory, and a directory inside of it is none more.
    make(full, "other", &FILE);
    volume.rename(full, b"last", full, b"renamed", Rename::Replace).unwrap();
    set_links(file, 2);
    set_links(full, 3);
    assert_eq!(volume.check(), []);
}

/// Pages that were allocated behind the end go with a size that stays, and keep ranges from moving
/// them beyond the largest size.
#[test]
fn pages_behind_the_end_follow_the_size_and_the_ranges() {
    let (_store, volume) = volume(8 << 20);
    let file = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    volume.append(file, &[1; 5000]).unwrap();
    let used = || volume.usage().pages - volume.usage().free_pages;
    let before = used();
    volume.allocate(file, 0, 40_000, Allocate::KeepSize).unwrap();
    assert_eq!(used(), before + 8);
    volume.resize(file, 5000).unwrap();
    assert_eq!(used(), before);
    volume.allocate(file, everbyte_fs::FILE_MAX - 4096, 4096, Allocate::KeepSize).unwrap();
    assert!(matches!(volume.insert(file, 0, 4096), Err(Error::TooLarge { .. })));
    volume.resize(file, 5000).unwrap();
    volume.insert(file, 0, 4096).unwrap();
    assert_eq!((used(), volume.check()), (before, vec![]));
}

/// Volumes of one store grow side by side, are opened together, and one of them is removed.
#[test]
fn volumes_of_one_store_are_apart() {
    let media = Media::anonymous(128 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let names = ["home", "mail", "spool"];
    let make = |name: &str| {
        let options = VolumeOptions { span: Some(32 << 20), ..VolumeOptions::default() };
        let volume = Volume::create(&store, name, &options).unwrap();
        for round in 0..60 {
            let file = volume.make(Ino::ROOT, format!("{name} {round}").as_bytes(), &FILE).unwrap();
            volume.append(file, &model::bytes(100_000, name.len() as u8 + round)).unwrap();
        }
        model::read(&volume).unwrap()
    };
    let before: Vec<_> = std::thread::scope(|scope| {
        let running = names.map(|name| scope.spawn(move || make(name)));
        running.map(|thread| thread.join().unwrap()).into()
    });
    let open = |name: &str| Volume::open(store.object(name).unwrap()).unwrap();
    let uuids = names.map(|name| open(name).uuid());
    assert!(uuids[0] != uuids[1] && uuids[1] != uuids[2]);
    store.remove_object("mail").unwrap();
    for (name, before) in names.iter().zip(before).filter(|(name, _)| **name != "mail") {
        let volume = open(name);
        assert_eq!((model::read(&volume).unwrap(), volume.check()), (before, vec![]), "{name}");
    }
    assert!(store.object("mail").is_err());
}

/// Threads that move directories into each other, and make and remove files in them, never make a
/// circle or wait for each other.
#[test]
fn threads_that_rename_directories_make_no_circle() {
    let (_store, volume) = volume(16 << 20);
    for name in [b"a", b"b", b"c"] {
        volume.make(Ino::ROOT, name, &DIRECTORY).unwrap();
    }
    let work = |seed: u64| {
        let mut random = everbyte_workload::Random::new(seed);
        for _ in 0..400 {
            let path = |random: &mut everbyte_workload::Random| {
                let mut at = Ino::ROOT;
                for _ in 0..random.below(3) {
                    let name = [b'a' + random.below(3) as u8];
                    at = volume.lookup(at, &name).ok().flatten().unwrap_or(at);
                }
                (at, vec![b'a' + random.below(4) as u8])
            };
            let ((from, name), (to, new)) = (path(&mut random), path(&mut random));
            drop(match random.below(5) {
                0 => volume.make(from, &name, &FILE).map(drop),
                1 => volume.unlink(from, &name),
                2 => volume.make(from, &name, &DIRECTORY).map(drop),
                3 => volume.remove_directory(from, &name),
                _ => volume.rename(from, &name, to, &new, random.pick(&[Rename::Replace, Rename::Exchange])),
            });
        }
    };
    std::thread::scope(|scope| (0..3).for_each(|seed| _ = scope.spawn(move || work(seed))));
    assert_eq!(volume.check(), []);
}

#[test]
fn what_may_not_be_is_refused() {
    let (store, volume) = volume(8 << 20);
    let root = Ino::ROOT;
    let file = volume.make(root, b"file", &FILE).unwrap();
    let directory = volume.make(root, b"directory", &DIRECTORY).unwrap();
    volume.make(directory, b"inner", &DIRECTORY).unwrap();
    let inner = volume.lookup(directory, b"inner").unwrap().unwrap();
    assert!(matches!(volume.rename(root, b"directory", inner, b"x", Rename::Replace), Err(Error::Loop { .. })));
    assert!(matches!(volume.rename(root, b"directory", directory, b"x", Rename::Replace), Err(Error::Loop { .. })));
    assert!(matches!(
        volume.rename(root, b"directory", directory, b"inner", Rename::Exchange),
        Err(Error::Loop { .. })
    ));
    assert!(matches!(
        volume.rename(directory, b"inner", root, b"directory", Rename::Exchange),
        Err(Error::Loop { .. })
    ));
    assert!(matches!(
        volume.rename(directory, b"inner", root, b"directory", Rename::Replace),
        Err(Error::NotEmpty { .. })
    ));
    assert!(matches!(
        volume.rename(root, b"file", root, b"directory", Rename::Replace),
        Err(Error::IsADirectory { .. })
    ));
    assert!(matches!(
        volume.rename(root, b"directory", root, b"file", Rename::Replace),
        Err(Error::NotADirectory { .. })
    ));
    assert!(matches!(volume.link(directory, root, b"again"), Err(Error::IsADirectory { .. })));
    assert!(matches!(volume.unlink(root, b"directory"), Err(Error::IsADirectory { .. })));
    assert!(matches!(volume.remove_directory(root, b"file"), Err(Error::NotADirectory { .. })));
    assert!(matches!(volume.remove_directory(root, b"directory"), Err(Error::NotEmpty { .. })));
    assert!(matches!(volume.make(file, b"x", &FILE), Err(Error::NotADirectory { .. })));
    assert!(matches!(volume.read(directory, 0, &mut [0]), Err(Error::IsADirectory { .. })));
    assert!(matches!(volume.write(directory, 0, &[0]), Err(Error::IsADirectory { .. })));
    assert!(matches!(volume.write(file, everbyte_fs::FILE_MAX, &[0]), Err(Error::TooLarge { .. })));
    assert!(matches!(volume.resize(file, everbyte_fs::FILE_MAX + 1), Err(Error::TooLarge { .. })));
    assert!(matches!(volume.attributes(Ino(250)), Err(Error::Stale { .. })));
    assert!(matches!(volume.attributes(Ino(1 << 60)), Err(Error::Stale { .. })));
    assert!(matches!(volume.attributes(Ino(0)), Err(Error::Stale { .. })));
    assert!(Volume::open(store.object("volume").unwrap()).is_err(), "a volume is open once");
    volume.resize(file, everbyte_fs::FILE_MAX).unwrap(); // a hole of 256 TiB
    volume.write(file, everbyte_fs::FILE_MAX - 1, b"!").unwrap();
    let mut last = [0; 2];
    assert_eq!(volume.read(file, everbyte_fs::FILE_MAX - 2, &mut last).unwrap(), 2);
    assert_eq!(&last, b"\0!");
    assert_eq!(volume.check(), []);
}

#[test]
fn extended_attributes_are_set_replaced_and_removed() {
    use everbyte_fs::SetXattr;
    let (store, volume) = volume(8 << 20);
    let file = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    let used = |volume: &Volume| volume.usage().pages - volume.usage().free_pages;
    let before = used(&volume);
    volume.set_xattr(file, b"user.a", b"first", SetXattr::Any).unwrap();
    volume.set_xattr(file, b"user.b", &model::bytes(60_000, 3), SetXattr::Create).unwrap();
    volume.set_xattr(file, b"user.a", b"", SetXattr::Replace).unwrap();
    assert_eq!(volume.xattrs(file).unwrap(), [b"user.a", b"user.b"]);
    assert_eq!(
        (volume.xattr(file, b"user.a").unwrap(), volume.xattr(file, b"user.b").unwrap().len()),
        (vec![], 60_000)
    );
    assert!(matches!(volume.set_xattr(file, b"user.a", b"x", SetXattr::Create), Err(Error::Exists)));
    assert!(matches!(volume.set_xattr(file, b"user.c", b"x", SetXattr::Replace), Err(Error::NoAttribute { .. })));
    assert!(matches!(volume.remove_xattr(file, b"user.c"), Err(Error::NoAttribute { .. })));
    assert!(matches!(volume.xattr(file, b"user.c"), Err(Error::NoAttribute { .. })));
    let much = vec![1; 6000];
    assert!(matches!(volume.set_xattr(file, b"user.c", &much, SetXattr::Any), Err(Error::TooLarge { .. })));
    assert!(matches!(volume.set_xattr(file, b"", b"", SetXattr::Any), Err(Error::BadName)));
    assert!(matches!(volume.set_xattr(file, &[b'n'; 256], b"", SetXattr::Any), Err(Error::NameTooLong { .. })));
    assert_eq!(volume.check(), []);
    drop(volume);
    let volume = Volume::open(store.object("volume").unwrap()).unwrap();
    assert_eq!(volume.xattr(file, b"user.b").unwrap(), model::bytes(60_000, 3));
    volume.remove_xattr(file, b"user.b").unwrap();
    volume.remove_xattr(file, b"user.a").unwrap();
    assert_eq!((volume.xattrs(file).unwrap().len(), used(&volume)), (0, before));
    volume.set_xattr(file, b"user.a", b"gone with the file", SetXattr::Any).unwrap();
    volume.unlink(Ino::ROOT, b"file").unwrap();
    assert_eq!((used(&volume), volume.check()), (before, vec![]));
}

#[test]
fn data_and_holes_are_told_apart() {
    let (_store, volume) = volume(8 << 20);
    let file = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    let next = |at| (volume.next_data(file, at).unwrap(), volume.next_hole(file, at).unwrap());
    assert_eq!(next(0), (None, None));
    volume.append(file, b"small").unwrap();
    assert_eq!((next(2), next(5)), ((Some(2), Some(5)), (None, None)));
    volume.write(file, 20_000, &[1; 5000]).unwrap();
    volume.allocate(file, 40_000, 10_000, everbyte_fs::Allocate::Grow).unwrap();
    assert_eq!(volume.attributes(file).unwrap().size, 50_000);
    assert_eq!((next(0), next(4096)), ((Some(0), Some(4096)), (Some(16_384), Some(4096))));
    assert_eq!((next(20_000), next(28_672)), ((Some(20_000), Some(28_672)), (None, Some(28_672))));
    volume.write(file, 49_999, b"!").unwrap();
    assert_eq!((next(30_000), next(49_999)), ((Some(49_152), Some(30_000)), (Some(49_999), Some(50_000))));
    assert!(matches!(volume.next_data(Ino::ROOT, 0), Err(Error::NotAFile { .. })));
}

#[test]
fn ranges_leave_a_file_and_come_into_it() {
    let (_store, volume) = volume(8 << 20);
    let file = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    let mut bytes = model::bytes(50_000, 1);
    volume.append(file, &bytes).unwrap();
    volume.insert(file, 8192, 12_288).unwrap();
    bytes.splice(8192..8192, vec![0; 12_288]);
    assert!(content(&volume, file) == bytes);
    volume.collapse(file, 4096, 8192).unwrap();
    bytes.drain(4096..12_288);
    assert!(content(&volume, file) == bytes);
    let used = volume.usage().pages - volume.usage().free_pages;
    volume.collapse(file, 0, 40_960).unwrap();
    bytes.drain(..40_960);
    assert!(content(&volume, file) == bytes);
    assert_eq!(volume.usage().pages - volume.usage().free_pages, used - 8, "its holes had no pages");
    for (at, len) in [(1, 4096), (0, 100), (0, 0), (0, 1 << 20)] {
        assert!(matches!(volume.collapse(file, at, len), Err(Error::Unaligned { .. })), "{at} {len}");
    }
    assert!(matches!(volume.insert(file, 1 << 20, 4096), Err(Error::Unaligned { .. })));
    // Exactly to the end, and exactly at the end.
    let whole = volume.make(Ino::ROOT, b"whole", &FILE).unwrap();
    volume.append(whole, &[1; 8192]).unwrap();
    assert!(matches!(volume.collapse(whole, 4096, 4096), Err(Error::Unaligned { .. })));
    assert!(matches!(volume.insert(whole, 8192, 4096), Err(Error::Unaligned { .. })));
    let most = everbyte_fs::FILE_MAX - 4096;
    assert!(matches!(volume.insert(file, 0, most), Err(Error::TooLarge { .. })));
    assert_eq!(volume.check(), []);
}

/// A change of more words than a lane holds takes pages for the rest, and gives them back.
#[test]
fn a_change_may_be_longer_than_a_lane() {
    let (_store, volume) = volume(16 << 20);
    let file = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    for number in 0..600 {
        volume.write(file, number * 8192, &model::bytes(10, number as u8)).unwrap();
    }
    let used = |volume: &Volume| volume.usage().pages - volume.usage().free_pages;
    let (before, bytes) = (used(&volume), content(&volume, file));
    volume.insert(file, 0, 4096).unwrap();
    assert!(content(&volume, file)[4096..] == bytes);
    volume.collapse(file, 0, 4096).unwrap();
    assert!(content(&volume, file) == bytes);
    assert_eq!((used(&volume), volume.check()), (before, vec![]));
}

/// Lines and slots that become free are used again: a directory and a chain of extents do not grow
/// while names and holes come and go.
#[test]
fn lines_and_slots_are_used_again() {
    let (_store, volume) = volume(8 << 20);
    let directory = volume.make(Ino::ROOT, b"directory", &DIRECTORY).unwrap();
    for round in 0..100_u32 {
        let name = [b'a' + (round % 26) as u8; 250];
        volume.make(directory, &name, &FILE).unwrap();
        volume.rename(directory, &name, directory, &[b'Z'; 200], Rename::NoReplace).unwrap();
        volume.unlink(directory, &[b'Z'; 200]).unwrap();
    }
    assert_eq!(volume.attributes(directory).unwrap().size, 4096);
    let file = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    for number in 0..8 {
        volume.write(file, number * 8192, &[1; 10]).unwrap();
    }
    let mut allocated = 0;
    for round in 0..600 {
        let at = round % 8 * 8192;
        volume.allocate(file, at, 4096, everbyte_fs::Allocate::Punch).unwrap();
        volume.write(file, at, &[2; 10]).unwrap();
        if round == 20 {
            allocated = volume.attributes(file).unwrap().allocated;
        }
    }
    assert_eq!(volume.attributes(file).unwrap().allocated, allocated, "the chain does not grow");
    assert_eq!(volume.check(), []);
}

/// A volume grows by as much as there is room for.
#[test]
fn the_last_cluster_of_a_span_is_used() {
    let (_store, volume) = volume(8 * everbyte_store::CLUSTER);
    let file = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    while volume.append(file, &[1; 4096]).is_ok() {}
    let usage = volume.usage();
    assert_eq!((usage.free_pages, usage.pages), (0, usage.pages_max));
    // Also where one call asks for more than there is room for.
    let (_store, volume) = self::volume(8 * everbyte_store::CLUSTER);
    let file = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    let free = (volume.usage().pages_max - volume.usage().pages + volume.usage().free_pages) * 4096;
    assert!(matches!(volume.append(file, &vec![1; free as usize + 1]), Err(Error::NoSpace { .. })));
    volume.append(file, &vec![1; free as usize]).unwrap();
    assert_eq!(volume.check(), []);
}

/// A file or directory that another one replaces gives back its inode and its pages at once.
#[test]
fn a_replaced_file_gives_back_what_it_had() {
    let (_store, volume) = volume(8 << 20);
    for kind in [FILE, DIRECTORY] {
        let usage = volume.usage();
        let new = volume.make(Ino::ROOT, b"new", &kind).unwrap();
        let alone = volume.usage();
        let old = volume.make(Ino::ROOT, b"old", &kind).unwrap();
        volume.set_xattr(old, b"user.a", &[1; 5000], everbyte_fs::SetXattr::Any).unwrap();
        match kind.kind {
            FileKind::Directory => {
                volume.make(old, b"inner", &FILE).unwrap();
                volume.unlink(old, b"inner").unwrap(); // leaves a page of lines
            }
            _ => volume.append(old, &[1; 9000]).map(drop).unwrap(),
        }
        volume.rename(Ino::ROOT, b"new", Ino::ROOT, b"old", Rename::Replace).unwrap();
        // The volume may have grown meanwhile.
        let Usage { pages, free_pages, free_inodes, .. } = volume.usage();
        assert_eq!((pages - free_pages, free_inodes), (alone.pages - alone.free_pages, alone.free_inodes));
        assert_eq!(volume.lookup(Ino::ROOT, b"old").unwrap(), Some(new));
        match kind.kind {
            FileKind::Directory => volume.remove_directory(Ino::ROOT, b"old").unwrap(),
            _ => volume.unlink(Ino::ROOT, b"old").unwrap(),
        }
        // The first name of the root took a page, which stays.
        assert_eq!(volume.usage().free_inodes, usage.free_inodes);
        assert_eq!(volume.check(), []);
    }
}

/// Pages that were allocated ahead of use, and lie in a hole's range in part, are still the file's.
#[test]
fn a_hole_leaves_allocated_pages_at_its_edges() {
    let (_store, volume) = volume(8 << 20);
    let file = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    volume.resize(file, 30_000).unwrap();
    volume.allocate(file, 0, 5 * 4096, Allocate::KeepSize).unwrap();
    volume.write(file, 0, &[7; 4096]).unwrap();
    volume.allocate(file, 4096 + 100, 2 * 4096, Allocate::Punch).unwrap();
    assert_eq!(volume.attributes(file).unwrap().allocated, 4 * 4096, "one whole page has gone");
    volume.allocate(file, 4000, 3 * 4096, Allocate::Punch).unwrap();
    assert_eq!(volume.attributes(file).unwrap().allocated, 3 * 4096, "the page at its end stays");
    assert_eq!(volume.next_hole(file, 0).unwrap(), Some(4096));
    assert_eq!(volume.check(), []);
}

/// Attributes that end just before the end of a page, at it, and behind it.
#[test]
fn attributes_have_the_pages_that_they_fill() {
    let (_store, volume) = volume(8 << 20);
    let file = volume.make(Ino::ROOT, b"file", &FILE).unwrap();
    let used = || volume.usage().pages - volume.usage().free_pages;
    let before = used();
    // A head of 16 bytes; each attribute has one of 5, and its name.
    let head = 16 + 5 + b"user.a".len() as u64;
    for len in [4095, 4096, 4097, 4096 + 15, 8192, 8192 + 16, 8192 + 17] {
        volume.set_xattr(file, b"user.a", &vec![len as u8; (len - head) as usize], SetXattr::Any).unwrap();
        let wanted = len.div_ceil(4096);
        assert_eq!(used() - before, wanted, "{len} bytes");
        assert_eq!(volume.check(), [], "{len} bytes");
    }
    volume.remove_xattr(file, b"user.a").unwrap();
    assert_eq!(used(), before);
}

/// Threads that rename and exchange files of one directory, and copy between the same ones, do not
/// wait for each other for ever, and every name leads to one of the files.
#[test]
fn threads_rename_files_of_one_directory() {
    let (_store, volume) = volume(16 << 20);
    let names: [&[u8]; 3] = [b"a", b"b", b"c"];
    let files = names.map(|name| volume.make(Ino::ROOT, name, &FILE).unwrap());
    files.iter().for_each(|&file| _ = volume.append(file, &model::bytes(10_000, 1)).unwrap());
    let work = |seed: u64| {
        let mut random = everbyte_workload::Random::new(seed);
        for _ in 0..400 {
            let (from, to) = (random.below(3) as usize, random.below(3) as usize);
            match random.below(3) {
                0 if from != to => _ = volume.copy_range(files[from], 0, files[to], 0, 4096).unwrap(),
                _ => volume.rename(Ino::ROOT, names[from], Ino::ROOT, names[to], Rename::Exchange).unwrap(),
            }
        }
    };
    std::thread::scope(|scope| (0..3).for_each(|seed| _ = scope.spawn(move || work(seed))));
    let mut found = names.map(|name| volume.lookup(Ino::ROOT, name).unwrap().unwrap());
    found.sort();
    assert_eq!((found, volume.check()), (files, vec![]));
}
