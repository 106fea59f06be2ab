//! Quotas: limits hold in every call, counters are what the files have, and damage is told.

use everbyte_fs::layout::{self, QuotaHead, QuotaRecord};
use everbyte_fs::{
    Allocate, Error, FileKind, Ino, NewFile, QuotaKind, QuotaLimit, QuotaLimits, Rename, Result, SetAttributes,
    SetXattr, Update, Volume, VolumeOptions,
};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};

const ROOT: Ino = Ino::ROOT;
const PAGE: u64 = 4096;

fn file(uid: u32, gid: u32) -> NewFile<'static> {
    NewFile { uid, gid, ..NewFile::new(FileKind::Regular, 0o644) }
}

fn directory(uid: u32, gid: u32) -> NewFile<'static> {
    NewFile { uid, gid, ..NewFile::new(FileKind::Directory, 0o755) }
}

fn hard(pages: u64, inodes: u64) -> QuotaLimits {
    let limit = |hard| QuotaLimit { hard, ..QuotaLimit::default() };
    QuotaLimits { bytes: limit(pages * PAGE), inodes: limit(inodes) }
}

fn store() -> Store {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    Store::format(media, &FormatOptions::default()).unwrap()
}

fn create(store: &Store) -> Volume {
    let options = VolumeOptions { span: Some(16 << 20), lanes: 2, ..VolumeOptions::default() };
    Volume::create(store, "volume", &options).unwrap()
}

fn usage(volume: &Volume, kind: QuotaKind, id: u32) -> (u64, u64) {
    let quotas = volume.quotas().unwrap();
    let quota = quotas.iter().find(|quota| (quota.kind, quota.id) == (kind, id)).expect("it has limits");
    (quota.bytes / PAGE, quota.inodes)
}

#[track_caller]
fn is_refused<T>(outcome: Result<T>, kind: QuotaKind, id: u32, limit: &str) {
    match outcome.map(drop) {
        Err(Error::Quota { kind: found, id: found_id, limit: found_limit, .. }) => {
            assert_eq!((found, found_id, found_limit), (kind, id, limit));
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn require_whole(volume: &Volume) {
    let findings = volume.check();
    assert!(findings.is_empty(), "{findings:?}");
}

/// Every call that takes a page or an inode is refused at the limit of its owner, has changed
/// nothing then, and goes on when there is room.
#[test]
fn each_call_that_takes_pages_or_inodes_is_charged() {
    let volume = create(&store());
    let (user, group) = (QuotaKind::User, QuotaKind::Group);
    let target = vec![b'l'; 300];
    type Call = fn(&Volume, Ino, &[u8]) -> Result<()>;
    let calls: &[(&str, u64, Call)] = &[
        ("a write behind the end", 2, |volume, ino, _| volume.append(ino, &[1; 8192]).map(drop)),
        ("a small file leaves its inode", 1, |volume, ino, _| volume.write(ino, 0, &[2; 300])),
        ("a write into a hole", 1, |volume, ino, _| volume.write(ino, 40_960, &[3; 10])),
        ("allocation", 3, |volume, ino, _| volume.allocate(ino, 0, 3 * PAGE, Allocate::Grow)),
        ("zeros", 2, |volume, ino, _| volume.allocate(ino, 81_920, 2 * PAGE, Allocate::Zero)),
        ("attributes", 2, |volume, ino, _| volume.set_xattr(ino, b"user.a", &[4; 5000], SetXattr::Any)),
        ("attributes by a decision", 1, |volume, ino, _| {
            volume.update(ino, |_| {
                Ok::<_, Error>(Update { xattrs: vec![(b"user.b", Some(vec![5; 10]))], ..Update::default() })
            })
        }),
        ("a clone", 4, |volume, ino, _| {
            let source = volume.lookup(ROOT, b"source")?.expect("it was made");
            volume.clone_range(source, 0, ino, 0, 4 * PAGE).map(drop)
        }),
        ("a copy", 2, |volume, ino, _| {
            let source = volume.lookup(ROOT, b"source")?.expect("it was made");
            volume.copy_range(source, 1, ino, 0, 5000).map(drop)
        }),
        ("a long link", 1, |volume, _, target| {
            volume.make(ROOT, b"link", &NewFile { kind: FileKind::Link, target, ..file(7, 8) }).map(drop)
        }),
        ("an unnamed link", 1, |volume, _, target| {
            volume.make_unnamed(&NewFile { kind: FileKind::Link, target, ..file(7, 8) }).map(drop)
        }),
        ("extents beyond eight", 10, |volume, ino, _| {
            (0..9).try_for_each(|number| volume.write(ino, number * 8192, &[6; 10]))
        }),
        ("names of a directory", 1, |volume, _, _| {
            let directory = volume.lookup(ROOT, b"d")?.expect("it was made");
            volume.make(directory, b"new", &file(0, 0)).map(drop)
        }),
    ];
    let source = volume.make(ROOT, b"source", &file(0, 0)).unwrap();
    volume.append(source, &[9; 16_384]).unwrap();
    for &(about, pages, call) in calls {
        for room in 0..=pages {
            volume.remove_quotas().unwrap();
            let ino = volume.make(ROOT, b"file", &file(7, 8)).unwrap();
            volume.make(ROOT, b"d", &directory(7, 8)).unwrap();
            volume.set_quota(user, 7, &hard(0, 100)).unwrap();
            let before = usage(&volume, user, 7);
            volume.set_quota(user, 7, &hard(before.0 + room, 100)).unwrap();
            if before.0 + room == 0 {
                volume.set_quota(group, 8, &hard(1, 100)).unwrap();
                volume.append(ino, &[1; 8192]).unwrap_err();
                volume.set_quota(group, 8, &QuotaLimits::default()).unwrap();
                volume.set_quota(user, 7, &hard(1, 100)).unwrap();
            }
            let held = (room == pages, usage(&volume, user, 7));
            let outcome = call(&volume, ino, &target);
            if before.0 + room > 0 && room < pages {
                is_refused(outcome, user, 7, "bytes");
            } else if room == pages {
                outcome.unwrap_or_else(|error| panic!("{about}: {error}"));
                let unnamed = u64::from(about == "an unnamed link");
                assert_eq!(usage(&volume, user, 7).0, held.1.0 + pages - unnamed, "{about}");
            }
            require_whole(&volume);
            for name in [&b"file"[..], b"link"] {
                drop(volume.unlink(ROOT, name));
            }
            let d = volume.lookup(ROOT, b"d").unwrap().unwrap();
            drop(volume.unlink(d, b"new"));
            volume.remove_directory(ROOT, b"d").unwrap();
            assert_eq!(usage(&volume, user, 7), (0, 0), "{about}: everything is given back");
            require_whole(&volume);
        }
    }
}

#[test]
fn inodes_have_limits_and_removal_makes_room() {
    let volume = create(&store());
    volume.set_quota(QuotaKind::Group, 5, &hard(0, 3)).unwrap();
    volume.make(ROOT, b"a", &file(1, 5)).unwrap();
    volume.make(ROOT, b"d", &directory(2, 5)).unwrap();
    let held = volume.make_unnamed(&file(3, 5)).unwrap();
    is_refused(volume.make(ROOT, b"b", &file(1, 5)), QuotaKind::Group, 5, "inodes");
    is_refused(volume.make_unnamed(&file(1, 5)), QuotaKind::Group, 5, "inodes");
    let white = Rename::Whiteout { replace: false, file: NewFile { kind: FileKind::CharDevice, ..file(1, 5) } };
    is_refused(volume.rename(ROOT, b"a", ROOT, b"c", white), QuotaKind::Group, 5, "inodes");
    assert!(volume.lookup(ROOT, b"a").unwrap().is_some());
    drop(held);
    volume.rename(ROOT, b"a", ROOT, b"c", white).unwrap();
    volume.link(volume.lookup(ROOT, b"c").unwrap().unwrap(), ROOT, b"c2").unwrap(); // no inode
    assert_eq!(usage(&volume, QuotaKind::Group, 5).1, 3);
    volume.unlink(ROOT, b"a").unwrap();
    volume.unlink(ROOT, b"c").unwrap();
    volume.make(ROOT, b"b", &file(1, 5)).unwrap();
    volume.rename(ROOT, b"b", ROOT, b"c2", Rename::Replace).unwrap(); // frees what it replaces
    volume.make(ROOT, b"b", &file(1, 5)).unwrap_or_else(|error| panic!("{error}"));
    require_whole(&volume);
}

#[test]
fn a_new_owner_is_charged_and_the_old_one_is_not() {
    let volume = create(&store());
    let a = volume.make(ROOT, b"a", &file(1, 1)).unwrap();
    volume.append(a, &[1; 20_000]).unwrap();
    volume.set_xattr(a, b"user.a", b"b", SetXattr::Any).unwrap();
    for id in [1, 2] {
        volume.set_quota(QuotaKind::User, id, &hard(6, 10)).unwrap();
        volume.set_quota(QuotaKind::Project, id, &hard(6, 10)).unwrap();
    }
    assert_eq!(usage(&volume, QuotaKind::User, 1), (6, 1));
    let owner = |uid| SetAttributes { uid: Some(uid), ..SetAttributes::default() };
    let b = volume.make(ROOT, b"b", &file(2, 1)).unwrap();
    volume.append(b, &[1; 200]).unwrap();
    is_refused(volume.set_attributes(a, &owner(2)), QuotaKind::User, 2, "bytes");
    assert_eq!(volume.attributes(a).unwrap().uid, 1);
    volume.unlink(ROOT, b"b").unwrap();
    volume.set_attributes(a, &owner(2)).unwrap();
    assert_eq!((usage(&volume, QuotaKind::User, 1), usage(&volume, QuotaKind::User, 2)), ((0, 0), (6, 1)));
    let project = |project| SetAttributes { project: Some(project), ..SetAttributes::default() };
    volume.set_attributes(a, &project(2)).unwrap();
    // A chown and a change of attributes in one step.
    let update = || Update { set: owner(1), xattrs: vec![(b"user.a", Some(vec![0; 5000]))] };
    volume.set_quota(QuotaKind::Project, 2, &hard(7, 10)).unwrap();
    is_refused(volume.update(a, |_| Ok::<_, Error>(update())), QuotaKind::User, 1, "bytes");
    volume.set_quota(QuotaKind::User, 1, &hard(7, 10)).unwrap();
    volume.set_quota(QuotaKind::Project, 2, &hard(6, 10)).unwrap();
    is_refused(volume.update(a, |_| Ok::<_, Error>(update())), QuotaKind::Project, 2, "bytes");
    volume.set_quota(QuotaKind::Project, 2, &QuotaLimits::default()).unwrap();
    volume.update(a, |_| Ok::<_, Error>(update())).unwrap();
    assert_eq!((usage(&volume, QuotaKind::User, 1), usage(&volume, QuotaKind::User, 2)), ((7, 1), (0, 0)));
    require_whole(&volume);
}

#[test]
fn a_directory_passes_its_project_on() {
    let volume = create(&store());
    let home = volume.make(ROOT, b"home", &directory(1, 1)).unwrap();
    let set = SetAttributes { project: Some(9), inherits_project: Some(true), ..SetAttributes::default() };
    volume.set_attributes(home, &set).unwrap();
    let a = volume.make(home, b"a", &file(1, 1)).unwrap();
    let sub = volume.make(home, b"sub", &directory(1, 1)).unwrap();
    let deep = volume.make(sub, b"deep", &file(1, 1)).unwrap();
    for (ino, inherits) in [(a, false), (sub, true), (deep, false)] {
        let found = volume.attributes(ino).unwrap();
        assert_eq!((found.project, found.inherits_project), (9, inherits));
    }
    let set = SetAttributes { inherits_project: Some(true), ..SetAttributes::default() };
    assert!(matches!(volume.set_attributes(a, &set), Err(Error::NotADirectory { .. })));
    let unnamed = volume.make_unnamed_in(home, &file(1, 1)).unwrap();
    volume.link(unnamed.ino(), home, b"named").unwrap();
    // A file of another project does not come in; one of this project goes out.
    let other = volume.make(ROOT, b"other", &file(1, 1)).unwrap();
    let outside = |outcome: Result<()>| assert!(matches!(outcome, Err(Error::OtherProject { project: 9, .. })));
    outside(volume.link(other, home, b"other"));
    outside(volume.rename(ROOT, b"other", home, b"other", Rename::Replace));
    outside(volume.rename(ROOT, b"other", home, b"a", Rename::Replace));
    outside(volume.rename(home, b"a", ROOT, b"other", Rename::Exchange));
    outside(volume.rename(ROOT, b"other", home, b"a", Rename::Exchange));
    volume.rename(home, b"a", ROOT, b"out", Rename::Replace).unwrap();
    volume.rename(ROOT, b"out", sub, b"in", Rename::Replace).unwrap();
    let white = Rename::Whiteout { replace: false, file: NewFile { kind: FileKind::CharDevice, ..file(1, 1) } };
    volume.rename(sub, b"in", ROOT, b"out", white).unwrap();
    assert_eq!(volume.attributes(volume.lookup(sub, b"in").unwrap().unwrap()).unwrap().project, 9);
    let set = SetAttributes { inherits_project: Some(false), ..SetAttributes::default() };
    volume.set_attributes(home, &set).unwrap();
    volume.link(other, home, b"other").unwrap();
    require_whole(&volume);
}

/// Files that share pages are charged for them each; files of snapshots are not charged.
#[test]
fn shared_pages_count_for_each_file_and_snapshots_for_none() {
    let volume = create(&store());
    let a = volume.make(ROOT, b"a", &file(1, 1)).unwrap();
    volume.append(a, &[1; 40_960]).unwrap();
    volume.set_xattr(a, b"user.a", b"b", SetXattr::Any).unwrap();
    volume.set_quota(QuotaKind::User, 1, &hard(30, 3)).unwrap();
    assert_eq!(usage(&volume, QuotaKind::User, 1), (11, 1));
    let b = volume.make(ROOT, b"b", &file(1, 1)).unwrap();
    volume.clone_range(a, 0, b, 0, 0).unwrap();
    assert_eq!(usage(&volume, QuotaKind::User, 1), (21, 2));
    volume.snapshot(b"s").unwrap();
    assert_eq!(usage(&volume, QuotaKind::User, 1), (21, 2));
    require_whole(&volume);
    volume.write(b, 0, &[2; 9000]).unwrap(); // new pages take the place of shared ones
    volume.resize(a, 100).unwrap();
    assert_eq!(usage(&volume, QuotaKind::User, 1), (12, 2));
    let held = volume.hold(volume.lookup(volume.snapshot_root(b"s").unwrap(), b"a").unwrap().unwrap()).unwrap();
    volume.remove_snapshot(b"s").unwrap();
    drop(held);
    volume.collapse(b, 0, 8192).unwrap();
    volume.insert(b, 0, 8192).unwrap();
    volume.allocate(b, 8192, 8192, Allocate::Punch).unwrap();
    assert_eq!(usage(&volume, QuotaKind::User, 1), (8, 2));
    volume.remove_xattr(a, b"user.a").unwrap();
    assert_eq!(usage(&volume, QuotaKind::User, 1), (7, 2));
    require_whole(&volume);
}

/// Limits and counters come again after a closing, and after none; and so do shared pages.
#[test]
fn a_closed_volume_keeps_its_counters_and_its_shared_pages() {
    let store = store();
    let volume = create(&store);
    let a = volume.make(ROOT, b"a", &file(1, 1)).unwrap();
    volume.append(a, &[1; 40_960]).unwrap();
    let b = volume.make(ROOT, b"b", &file(1, 2)).unwrap();
    volume.clone_range(a, 0, b, 0, 0).unwrap();
    let c = volume.make(ROOT, b"c", &file(1, 2)).unwrap();
    volume.clone_range(a, 8192, c, 0, 16_384).unwrap();
    let soft = QuotaLimit { soft: 5 * PAGE, hard: 100 * PAGE, grace: 1000 };
    let inodes = QuotaLimit { soft: 2, hard: 9, grace: 1000 };
    volume.set_quota(QuotaKind::User, 1, &QuotaLimits { bytes: soft, inodes }).unwrap();
    volume.set_quota(QuotaKind::Group, 2, &hard(50, 9)).unwrap();
    let before = volume.quotas().unwrap();
    assert!(!before[0].since.contains(&0) && before[1].bytes == 14 * PAGE, "{before:?}");
    volume.close().unwrap();
    let volume = Volume::open(store.object("volume").unwrap()).unwrap();
    assert!(volume.recovery().saved);
    assert_eq!(volume.quotas().unwrap(), before);
    require_whole(&volume);
    volume.write(b, 0, &[2; 20_000]).unwrap(); // pages that `a` has still
    volume.unlink(ROOT, b"a").unwrap();
    volume.unlink(ROOT, b"c").unwrap();
    require_whole(&volume);
    let before: Vec<_> = volume.quotas().unwrap().iter().map(|quota| (quota.bytes, quota.inodes)).collect();
    drop(volume);
    let volume = Volume::open(store.object("volume").unwrap()).unwrap();
    assert!(!volume.recovery().saved);
    let after: Vec<_> = volume.quotas().unwrap().iter().map(|quota| (quota.bytes, quota.inodes)).collect();
    assert_eq!(after, before);
    require_whole(&volume);
    volume.remove_quotas().unwrap();
    assert!(volume.quotas().unwrap().is_empty());
    require_whole(&volume);
    volume.close().unwrap();
    assert!(Volume::open(store.object("volume").unwrap()).unwrap().recovery().saved);
}

#[test]
fn limits_are_set_replaced_removed_and_listed() {
    let volume = create(&store());
    for id in (0..300).rev() {
        volume.set_quota(QuotaKind::User, id, &hard(u64::from(id) + 1, 5)).unwrap();
    }
    volume.set_quota(QuotaKind::Project, 1, &hard(1, 1)).unwrap();
    volume.set_quota(QuotaKind::User, 7, &hard(99, 1)).unwrap();
    volume.set_quota(QuotaKind::User, 8, &QuotaLimits::default()).unwrap();
    volume.set_quota(QuotaKind::Group, 8, &QuotaLimits::default()).unwrap(); // has none
    let all = volume.quotas().unwrap();
    assert_eq!(all.len(), 300);
    assert!(all.windows(2).all(|two| (two[0].kind, two[0].id) < (two[1].kind, two[1].id)));
    assert_eq!(all[7].limits, hard(99, 1));
    let bad = |limits: QuotaLimits| {
        assert!(matches!(volume.set_quota(QuotaKind::User, 1, &limits), Err(Error::BadOption { .. })))
    };
    bad(QuotaLimits { bytes: QuotaLimit { soft: 8192, hard: 4096, grace: 0 }, ..QuotaLimits::default() });
    bad(QuotaLimits { bytes: QuotaLimit { soft: 0, hard: 5000, grace: 0 }, ..QuotaLimits::default() });
    bad(QuotaLimits { inodes: QuotaLimit { soft: 8, hard: 4, grace: 0 }, ..QuotaLimits::default() });
    require_whole(&volume);
}

/// Threads of one group never pass its limit together, and together reach it.
#[test]
fn threads_share_a_limit_exactly() {
    let volume = create(&store());
    volume.set_quota(QuotaKind::Group, 3, &hard(200, 0)).unwrap();
    let files: Vec<Ino> =
        (0..4).map(|uid| volume.make(ROOT, format!("{uid}").as_bytes(), &file(uid, 3)).unwrap()).collect();
    std::thread::scope(|scope| {
        for &ino in &files {
            let volume = &volume;
            scope.spawn(move || {
                for round in 0..400 {
                    match volume.append(ino, &[1; 4096]) {
                        Ok(_) | Err(Error::Quota { .. }) => (),
                        Err(error) => panic!("{error}"),
                    }
                    assert!(usage(volume, QuotaKind::Group, 3).0 <= 200);
                    if round % 50 == 49 && round < 300 {
                        volume.resize(ino, 0).unwrap();
                    }
                }
            });
        }
    });
    let mut total = usage(&volume, QuotaKind::Group, 3).0;
    while volume.append(files[0], &[1; 4096]).is_ok() {
        total += 1;
    }
    assert_eq!((total, usage(&volume, QuotaKind::Group, 3).0), (200, 200));
    require_whole(&volume);
}

/// Each flipped bit of the list is an error with its place; the volume opens, and the limits can be
/// removed.
#[test]
fn a_damaged_list_is_told_and_can_be_removed() {
    let store = store();
    let volume = create(&store);
    volume.set_quota(QuotaKind::User, 1, &hard(10, 10)).unwrap();
    volume.set_quota(QuotaKind::User, 2, &hard(10, 10)).unwrap();
    drop(volume);
    let media = store.media().clone();
    let start = store.object("volume").unwrap().prime().get();
    let word_at = start + layout::QUOTAS_AT;
    let page = layout::Place::of(media.load(word_at)).unwrap().page;
    let list = start + page * PAGE;
    let (head, record) = (size_of::<QuotaHead>() as u64, size_of::<QuotaRecord>() as u64);
    let words = (0..(head + 2 * record) / 8).map(|word| list + word * 8).chain([word_at]);
    for (number, at) in words.enumerate() {
        let old = media.load(at);
        media.store(at, old ^ 1 << (number * 7 % 64));
        let volume = Volume::open(store.object("volume").unwrap()).unwrap();
        let Err(Error::Damaged(damage)) = volume.quotas() else { panic!("word {number}") };
        assert!(damage.offset.is_some_and(|offset| offset <= at && at - offset < 64), "{damage:?} for {at}");
        assert!(matches!(volume.set_quota(QuotaKind::User, 1, &hard(1, 1)), Err(Error::Damaged(_))));
        assert!(volume.check().iter().any(|finding| finding.at == damage.offset.unwrap()));
        drop(volume);
        media.store(at, old);
    }
    media.store(list + 8, media.load(list + 8) ^ 1);
    let volume = Volume::open(store.object("volume").unwrap()).unwrap();
    volume.remove_quotas().unwrap();
    volume.set_quota(QuotaKind::User, 1, &hard(10, 10)).unwrap();
    drop(volume);
    require_whole(&Volume::open(store.object("volume").unwrap()).unwrap());
}

/// A change of limits that is refused takes no page: over a page that cannot be read, and on a full
/// volume.
#[test]
fn a_refused_change_of_limits_takes_no_page() {
    let store = store();
    let volume = create(&store);
    volume.set_quota(QuotaKind::User, 1, &hard(10, 10)).unwrap();
    let a = volume.make(ROOT, b"a", &file(2, 2)).unwrap();
    while volume.append(a, &[1; 4096]).is_ok() {}
    let full = volume.usage();
    assert!(matches!(volume.set_quota(QuotaKind::User, 2, &hard(9999, 9)), Err(Error::NoSpace { .. })));
    assert_eq!(volume.usage(), full);
    volume.resize(a, 8192).unwrap();
    let before = volume.usage();
    store.media().raise_memory_error(volume.object().prime() + (before.pages - 1) * PAGE);
    for _ in 0..2 {
        volume.set_quota(QuotaKind::User, 2, &hard(9999, 9)).unwrap_err();
        volume.remove_quotas().unwrap_err();
        assert_eq!(volume.usage(), before);
    }
}
