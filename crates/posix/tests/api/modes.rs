//! The bits that lend a file's user and group: which calls keep them, and for which users.

use crate::{files, make, root};
use everbyte_posix::acl::Tag;
use everbyte_posix::{Acl, AllocateMode, Errno, Files, OpenFile, OpenFlags, Process, RenameFlags, SetXattr, User};

/// The group of the file `f`, which belongs to user 7.
const GROUP: u32 = 20;
/// The attribute of a program that lends it capabilities, and a value.
const CAPABILITY: (&[u8], [u8; 20]) =
    (b"security.capability", [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

fn made() -> (Files, Process) {
    let files = files();
    let process = root(&files);
    process.set_mode("/", 0o777).unwrap();
    make(&process, "f", b"");
    process.set_owner("f", Some(7), Some(GROUP)).unwrap();
    (files, process)
}

/// The file's owner, in these groups.
fn owner(files: &Files, gid: u32, groups: &[u32]) -> Process {
    files.process(User { uid: 7, gid, groups: groups.to_vec() }).unwrap()
}

fn mode(process: &Process, path: &str) -> u16 {
    process.status(path).unwrap().permissions
}

fn lend_capability(process: &Process) {
    process.set_xattr("f", CAPABILITY.0, &CAPABILITY.1, SetXattr::Any).unwrap();
}

fn lends_capability(process: &Process) -> bool {
    match process.xattr("f", CAPABILITY.0) {
        Ok(value) => value == CAPABILITY.1,
        Err(error) => error != Errno::ENODATA,
    }
}

/// A mode, and a list of rights, set the bit of the group for its members and for root alone.
#[test]
fn only_members_of_a_group_lend_it() {
    let (files, process) = made();
    let outsider = owner(&files, 7, &[8]);
    for user in [&owner(&files, GROUP, &[]), &owner(&files, 7, &[8, GROUP]), &process] {
        user.set_mode("f", 0o6755).unwrap();
        assert_eq!(mode(&process, "f"), 0o6755);
        let list = Acl::of_mode(0o750).bytes();
        user.set_xattr("f", b"system.posix_acl_access", &list, SetXattr::Any).unwrap();
        assert_eq!(mode(&process, "f"), 0o6750);
    }
    let list = Acl::of_mode(0o755).bytes();
    outsider.set_xattr("f", b"system.posix_acl_access", &list, SetXattr::Any).unwrap();
    assert_eq!(mode(&process, "f"), 0o4755);
    process.set_mode("f", 0o6755).unwrap();
    let named = [(Tag::Owner, 7), (Tag::User(9), 5), (Tag::OwningGroup, 5), (Tag::Mask, 5), (Tag::Other, 5)];
    let list = Acl::new(named.to_vec()).unwrap().bytes();
    outsider.set_xattr("f", b"system.posix_acl_access", &list, SetXattr::Any).unwrap();
    assert_eq!(mode(&process, "f"), 0o4755, "a list that says more than a mode");
    process.set_mode("f", 0o2755).unwrap();
    outsider.set_mode("f", 0o6755).unwrap();
    assert_eq!(mode(&process, "f"), 0o4755);
}

/// A new owner or group takes the bits away. The bit of a group that may not run the file lends
/// nothing: it stays where the caller is a member.
#[test]
fn another_owner_takes_lent_rights_away() {
    let (files, process) = made();
    let (member, outsider) = (owner(&files, 7, &[GROUP]), owner(&files, 7, &[8]));
    let cases: [(&Process, u16, u16); 8] = [
        (&member, 0o6755, 0o0755),
        (&member, 0o2644, 0o2644),
        (&member, 0o6644, 0o2644),
        (&outsider, 0o2755, 0o0755),
        (&outsider, 0o2644, 0o0644),
        (&process, 0o6755, 0o0755),
        (&process, 0o6644, 0o2644),
        (&process, 0o0755, 0o0755),
    ];
    for (user, before, after) in cases {
        for (uid, gid) in [(Some(7), None), (None, Some(GROUP)), (Some(7), Some(GROUP))] {
            process.set_mode("f", before).unwrap();
            lend_capability(&process);
            user.set_owner("f", uid, gid).unwrap();
            assert_eq!(mode(&process, "f"), after, "{before:o} by {:?}", user.user());
            assert!(!lends_capability(&process), "{before:o} by {:?}", user.user());
        }
    }
    // A write that is not root's does the same.
    for (user, before, after) in [(&member, 0o2644, 0o2644), (&outsider, 0o2644, 0o0644), (&process, 0o6755, 0o6755)] {
        process.set_mode("f", before).unwrap();
        lend_capability(&process);
        user.truncate("f", 5).unwrap();
        assert_eq!(mode(&process, "f"), after, "{before:o} by {:?}", user.user());
        assert!(!lends_capability(&process), "{before:o} by {:?}", user.user());
    }
    assert_eq!(member.set_owner("f", None, Some(8)).unwrap_err(), Errno::EPERM);
    outsider.set_owner("f", None, Some(8)).unwrap();
    // The bits of a directory mean something else, and stay.
    process.make_directory("d", 0o755).unwrap();
    process.set_mode("d", 0o6755).unwrap();
    process.set_owner("d", Some(7), Some(GROUP)).unwrap();
    assert_eq!(mode(&process, "d"), 0o6755);
}

/// Each call on an open file that changes its bytes takes the bits away, also one of them alone,
/// and leaves them to root and where it changes nothing. Capabilities go also where root changes
/// bytes, but for those that a cache writes back.
#[test]
fn each_change_of_bytes_takes_lent_rights_away() {
    let (files, process) = made();
    let outsider = owner(&files, 7, &[8]);
    let [from, page] = [("from", 10), ("page", 4096)].map(|(name, len)| make(&process, name, &vec![1; len]));
    let allocate = |file: &OpenFile, mode| file.allocate(mode, 0, 5000).unwrap();
    let write = |file: &OpenFile| assert_eq!(file.write_at(b"1", 0).unwrap(), 1);
    type Call<'c> = (OpenFlags, &'c dyn Fn(&OpenFile));
    let calls: [Call<'_>; 11] = [
        (OpenFlags::RDWR, &write),
        (OpenFlags::WRONLY | OpenFlags::APPEND, &write),
        (OpenFlags::RDWR | OpenFlags::TRUNC, &|_| ()),
        (OpenFlags::RDWR, &|file| file.set_size(5000).unwrap()),
        (OpenFlags::RDWR, &|file| file.set_size(500).unwrap()),
        (OpenFlags::RDWR, &|file| allocate(file, AllocateMode::empty())),
        (OpenFlags::RDWR, &|file| allocate(file, AllocateMode::KEEP_SIZE)),
        (OpenFlags::RDWR, &|file| allocate(file, AllocateMode::PUNCH_HOLE | AllocateMode::KEEP_SIZE)),
        (OpenFlags::RDWR, &|file| file.allocate(AllocateMode::INSERT_RANGE, 0, 4096).unwrap()),
        (OpenFlags::RDWR, &|file| assert_eq!(from.copy_range(0, file, 0, 10).unwrap(), 10)),
        (OpenFlags::RDWR, &|file| assert_eq!(page.clone_range(0, file, 0, 4096).unwrap(), 4096)),
    ];
    for (number, (flags, call)) in calls.into_iter().enumerate() {
        for (user, before, after) in [
            (&outsider, 0o6777, 0o0777),
            (&outsider, 0o4777, 0o0777),
            (&outsider, 0o2777, 0o0777),
            (&outsider, 0o2767, 0o0767),
            (&process, 0o6777, 0o6777),
        ] {
            process.set_mode("f", before).unwrap();
            lend_capability(&process);
            call(&user.open("f", flags, 0).unwrap());
            assert_eq!(mode(&process, "f"), after, "call {number}, {before:o} by {:?}", user.user());
            assert!(!lends_capability(&process), "call {number}, {before:o} by {:?}", user.user());
        }
    }
    process.set_mode("f", 0o6777).unwrap();
    lend_capability(&process);
    let file = outsider.open("f", OpenFlags::RDWR, 0).unwrap();
    assert_eq!((file.write_at(b"", 0).unwrap(), file.read_at(&mut [0; 9], 0).unwrap()), (0, 9));
    outsider.make_link("other", "other").unwrap();
    outsider.rename("f", "other", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(mode(&process, "f"), 0o6777, "over the link");
    outsider.rename("f", "other", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(file.write_back_at(b"1", 0).unwrap(), 1);
    assert_eq!(mode(&process, "f"), 0o6777);
    assert!(lends_capability(&process));
}

/// A file in a directory that hands its group on: the group's bit only where its maker is a member,
/// or the group may not run it.
#[test]
fn a_new_file_lends_no_group_of_others() {
    let (files, process) = made();
    process.make_directory("d", 0o777).unwrap();
    process.set_owner("d", None, Some(GROUP)).unwrap();
    process.set_mode("d", 0o2777).unwrap();
    let (member, outsider) = (owner(&files, 7, &[GROUP]), owner(&files, 7, &[8]));
    for (number, (user, asked, given)) in [
        (&member, 0o2755, 0o2755),
        (&outsider, 0o2755, 0o0755),
        (&outsider, 0o2745, 0o2745),
        (&process, 0o2755, 0o2755),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("d/{number}");
        drop(user.open(&*path, crate::MAKE, asked).unwrap());
        let status = process.status(&*path).unwrap();
        assert_eq!((status.permissions, status.gid), (given, GROUP), "{asked:o} by {:?}", user.user());
    }
    outsider.make_directory("d/below", 0o755).unwrap();
    assert_eq!(mode(&process, "d/below"), 0o2755);
}

/// In a full volume the bits change alone, without a page for the list beside them. A caller that
/// passes on the changes of others takes them, and capabilities, and nothing else.
#[test]
fn a_full_volume_takes_lent_rights_away() {
    let (files, process) = made();
    let entries = [(1, 7, u32::MAX), (2, 6, 9), (4, 5, u32::MAX), (16, 7, u32::MAX), (32, 5, u32::MAX)];
    let entry = |(tag, rights, id): (u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let list = [2_u32.to_le_bytes().to_vec(), entries.into_iter().flat_map(entry).collect()].concat();
    let access = b"system.posix_acl_access";
    process.set_xattr("f", access, &list, SetXattr::Any).unwrap();
    let filler = make(&process, "filler", b"");
    let full = (0..).find_map(|page| filler.write_at(&[1; 4096], page * 4096).err());
    assert_eq!(full.unwrap(), Errno::ENOSPC);
    process.set_mode("f", 0o6775).unwrap();
    assert_eq!(process.set_mode("f", 0o6755).unwrap_err(), Errno::ENOSPC, "the list says another thing");
    let stranger = User::new(9, 9);
    assert_eq!(owner(&files, 7, &[]).drop_privileges("f", &stranger).unwrap_err(), Errno::EPERM);
    process.drop_privileges("f", &User::root()).unwrap();
    assert_eq!(mode(&process, "f"), 0o6775);
    process.drop_privileges("f", &stranger).unwrap();
    assert_eq!(mode(&process, "f"), 0o0775);
    drop(filler);
    process.remove("filler").unwrap();
    lend_capability(&process);
    process.drop_privileges("f", &stranger).unwrap();
    assert!(!lends_capability(&process));
    assert_eq!(process.xattr("f", access).unwrap(), list);
}

/// A program that serves others changes files as root: the bits go by the user that it serves. The
/// bit of a group that may not run the file stays where a member of it changes the file.
#[test]
fn the_bits_go_by_the_user_that_is_served() {
    let (_files, process) = made();
    let member = User { groups: vec![GROUP], ..User::new(9, 9) };
    for (by, kept) in [(&member, 0o2666), (&User::new(9, GROUP), 0o2666), (&User::new(9, 9), 0o0666)] {
        for touches in [false, true] {
            process.set_mode("f", 0o6666).unwrap();
            if touches { process.touch("f", by) } else { process.drop_privileges("f", by) }.unwrap();
            assert_eq!(mode(&process, "f"), kept, "{by:?}");
        }
    }
}

/// In a sticky directory others may add names, and no attributes to the directory itself.
#[test]
fn limits_and_rights_of_attributes() {
    let (files, process) = made();
    let member = owner(&files, 7, &[]);
    let set = |path: &str, len: usize| member.set_xattr(path, b"user.a", &vec![1; len], SetXattr::Any);
    set("f", 65_000).unwrap();
    assert_eq!(set("f", 65_536).unwrap_err(), Errno::ENOSPC, "with its name it is too long for the file");
    assert_eq!(set("f", 65_537).unwrap_err(), Errno::E2BIG);
    process.make_directory("d", 0o777).unwrap();
    process.set_mode("d", 0o777).unwrap();
    set("d", 1).unwrap();
    process.set_mode("d", 0o1777).unwrap();
    assert_eq!(set("d", 2).unwrap_err(), Errno::EPERM);
    assert_eq!(process.xattr("d", b"user.a").unwrap(), [1]);
    // A symbolic link itself has neither lists nor attributes of users.
    process.make_link("d", "link").unwrap();
    assert_eq!(process.link_xattr("link", b"user.a").unwrap_err(), Errno::ENODATA);
    let set = |name: &[u8], value: &[u8]| process.set_link_xattr("link", name, value, SetXattr::Any);
    assert_eq!(set(b"user.a", &[1]).unwrap_err(), Errno::EPERM);
    let list = Acl::of_mode(0o700).bytes();
    for name in [&b"system.posix_acl_access"[..], b"system.posix_acl_default"] {
        assert_eq!(set(name, &list).unwrap_err(), Errno::EOPNOTSUPP);
        assert_eq!(process.link_xattr("link", name).unwrap_err(), Errno::EOPNOTSUPP);
        assert_eq!(process.remove_link_xattr("link", name).unwrap_err(), Errno::EOPNOTSUPP);
    }
    set(b"trusted.a", b"kept").unwrap();
    assert_eq!(process.link_xattrs("link").unwrap(), [b"trusted.a"]);
    assert_eq!(member.link_xattrs("link").unwrap().len(), 0);
    assert_eq!(member.link_xattr("link", b"trusted.a").unwrap_err(), Errno::ENODATA);
}
