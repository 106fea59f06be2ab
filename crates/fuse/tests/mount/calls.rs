//! The calls that the kernel passes on, made by this process and by others.

use crate::harness::{Mounted, works};
use crate::programs::has;
use everbyte_media::BackendChoice;
use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, Mode, RenameFlags, SeekFrom, XattrFlags};
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Names, types, links, renames, bytes, holes, copies, attributes, locks: each as on a local file
/// system, and again after the volume is mounted anew.
#[test]
fn programs_see_a_local_file_system() {
    if !works() {
        return;
    }
    let mut on = Mounted::new();
    let (a, b, d) = (on.path("a"), on.path("b"), on.path("d"));
    fs::create_dir(&d).unwrap();
    fs::write(&a, b"0123456789").unwrap();
    fs::hard_link(&a, d.join("a")).unwrap();
    assert_eq!(fs::metadata(&a).unwrap().nlink(), 2);
    symlink("../a", d.join("link")).unwrap();
    assert_eq!(fs::read(d.join("link")).unwrap(), b"0123456789");
    fs::write(&b, b"b").unwrap();
    let rename = |flags| rustix::fs::renameat_with(CWD, &a, CWD, &b, flags);
    assert_eq!(rename(RenameFlags::NOREPLACE).unwrap_err(), rustix::io::Errno::EXIST);
    rename(RenameFlags::EXCHANGE).unwrap();
    assert_eq!((fs::read(&a).unwrap(), fs::read(&b).unwrap().len()), (b"b".to_vec(), 10));
    rename(RenameFlags::WHITEOUT).unwrap();
    assert!(fs::symlink_metadata(&a).unwrap().file_type().is_char_device());
    let device = rustix::fs::makedev(259, 300);
    rustix::fs::mknodat(CWD, on.path("block"), FileType::BlockDevice, Mode::RUSR, device).unwrap();
    assert_eq!(fs::metadata(on.path("block")).unwrap().rdev(), device);

    let file = File::options().read(true).write(true).create_new(true).open(on.path("bytes")).unwrap();
    file.write_all_at(&[7; 20_000], 100_000).unwrap();
    let keep = FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | keep, 104_000, 8192).unwrap();
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(0)).unwrap(), 98_304);
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(100_000)).unwrap(), 106_496);
    for below_zero in [SeekFrom::Data(u64::MAX), SeekFrom::Hole(u64::MAX)] {
        assert_eq!(rustix::fs::seek(&file, below_zero).unwrap_err(), rustix::io::Errno::NXIO);
    }
    let copy = File::options().read(true).write(true).create_new(true).open(on.path("copy")).unwrap();
    let (mut from, mut to) = (98_304, 0);
    assert_eq!(rustix::fs::copy_file_range(&file, Some(&mut from), &copy, Some(&mut to), 8192).unwrap(), 8192);
    let mut bytes = vec![0; 8192];
    copy.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes[..100_000 - 98_304].iter().all(|&byte| byte == 0) && bytes[1696..5696].iter().all(|&byte| byte == 7));
    let mut appended = File::options().append(true).open(on.path("copy")).unwrap();
    appended.write_all(b"end").unwrap();
    assert_eq!(copy.metadata().unwrap().len(), 8195);
    copy.set_len(10).unwrap();
    rustix::fs::fsync(&copy).unwrap();
    rustix::fs::fsync(File::open(&d).unwrap()).unwrap();

    rustix::fs::setxattr(&b, "user.note", b"text", XattrFlags::CREATE).unwrap();
    let mut value = [0; 16];
    assert_eq!(rustix::fs::getxattr(&b, "user.note", &mut value).unwrap(), 4);
    assert_eq!(rustix::fs::getxattr(&b, "user.note", &mut value[..4]).unwrap(), 4, "as much room as it has bytes");
    assert_eq!(rustix::fs::getxattr(&b, "user.note", &mut value[..3]).unwrap_err(), rustix::io::Errno::RANGE);
    let again = rustix::fs::setxattr(&b, "user.note", b"text", XattrFlags::CREATE);
    assert_eq!(again.unwrap_err(), rustix::io::Errno::EXIST);

    let other = File::open(&b).unwrap();
    let mine = File::open(&b).unwrap();
    mine.lock().unwrap();
    assert!(other.try_lock().is_err());
    mine.unlock().unwrap();
    other.try_lock().unwrap();

    // A file that lost its name is used on.
    let mut gone = File::options().read(true).write(true).create_new(true).open(on.path("gone")).unwrap();
    fs::remove_file(on.path("gone")).unwrap();
    gone.write_all(b"still").unwrap();
    gone.rewind().unwrap();
    let mut text = String::new();
    gone.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), gone.metadata().unwrap().nlink()), ("still", 0));
    // Neither for reading nor for writing: for calls that do not touch bytes.
    rustix::fs::open(&b, rustix::fs::OFlags::from_bits_retain(3), Mode::empty()).unwrap();
    // A change of nothing sets a time, also of a link.
    for path in [b.clone(), d.join("link")] {
        let changed = || fs::symlink_metadata(&path).map(|of| (of.ctime(), of.ctime_nsec())).unwrap();
        let before = changed();
        rustix::fs::chownat(CWD, &path, None, None, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        assert!(changed() > before, "{path:?}");
    }
    let space = rustix::fs::statvfs(&on.at).unwrap();
    assert!(space.f_ffree > 0 && space.f_ffree < space.f_files);
    assert!(space.f_bsize == 4096 && space.f_bfree > 0 && space.f_bfree <= space.f_blocks && space.f_namemax == 255);

    let number = fs::metadata(&b).unwrap().ino();
    drop((file, copy, appended, mine, other, gone));
    on.unmount();
    on.check();
    on.mount();
    assert_eq!(fs::metadata(&b).unwrap().ino(), number, "numbers are persistent");
    assert_eq!(rustix::fs::getxattr(&b, "user.note", &mut value).unwrap(), 4);
    assert_eq!(fs::metadata(on.path("copy")).unwrap().len(), 10);
}

/// A directory of many files is listed whole, by small steps too, and while names go.
#[test]
fn a_large_directory_is_listed_whole() {
    if !works() {
        return;
    }
    let on = Mounted::new();
    for number in 0..1500 {
        fs::write(on.path(&format!("{number}-{}", "x".repeat(number % 200))), b"").unwrap();
    }
    let used = || rustix::fs::statvfs(&on.at).map(|of| of.f_files - of.f_ffree).unwrap();
    let with_all = used();
    let count = || fs::read_dir(&on.at).unwrap().filter(|entry| entry.as_ref().unwrap().metadata().is_ok()).count();
    assert_eq!((count(), count()), (1500, 1500), "from the volume, and from the kernel's cache");
    for entry in fs::read_dir(&on.at).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(count(), 0);
    // The kernel tells a moment later that it has forgotten them: every answer of the listings.
    assert!((0..100_000).any(|_| used() + 1500 == with_all), "{} inodes of removed files are kept", used());
}

fn as_user(words: &[&str], mask: &str) -> bool {
    let script = format!("umask {mask}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).args(words).uid(65_534).gid(65_534);
    command.stderr(std::process::Stdio::null()).status().unwrap().success()
}

/// The kernel checks rights; new files belong to the caller, with its mask; a user that changes a
/// program takes its set-id bits and its capabilities.
#[test]
fn rights_are_those_of_the_caller() {
    if !works() {
        return;
    }
    let on = Mounted::new();
    fs::set_permissions(&on.at, fs::Permissions::from_mode(0o1777)).unwrap();
    let [made, secret, program] = ["made", "secret", "program"].map(|name| on.path(name));
    assert!(as_user(&["touch", made.to_str().unwrap()], "027"));
    let found = fs::metadata(&made).unwrap();
    assert_eq!((found.uid(), found.gid(), mode(&made)), (65_534, 65_534, 0o640));
    assert!(as_user(&["mkdir", on.path("d").to_str().unwrap()], "077"));
    assert_eq!(mode(&on.path("d")), 0o700);
    assert!(as_user(&["mkfifo", on.path("p").to_str().unwrap()], "027"));
    assert_eq!(mode(&on.path("p")), 0o640);
    assert!(as_user(&["ln", "-s", "x", on.path("l").to_str().unwrap()], "077"));
    assert_eq!(fs::symlink_metadata(on.path("l")).unwrap().uid(), 65_534);

    fs::write(&secret, b"secret").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o640)).unwrap();
    let secret = secret.to_str().unwrap();
    assert!(!as_user(&["cat", secret], "0") && !as_user(&["rm", "-f", secret], "0"), "mode and sticky bit");
    rustix::fs::chownat(CWD, secret, None, Some(rustix::fs::Gid::from_raw(4321)), AtFlags::empty()).unwrap();
    let of_group = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--groups", "4321", "cat", secret])
        .output()
        .unwrap();
    assert!(of_group.status.success(), "a further group counts: {of_group:?}");

    // A whiteout is the caller's, too.
    let (from, to) = (on.path("d"), on.path("moved"));
    let renamed = thread::spawn(move || {
        let user = rustix::process::Uid::from_raw(65_534);
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::WHITEOUT)
    });
    renamed.join().unwrap().unwrap();
    assert_eq!(fs::symlink_metadata(on.path("d")).unwrap().uid(), 65_534);

    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let arm = |bits| {
        fs::write(&program, b"#!/bin/true\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(bits)).unwrap();
        rustix::fs::setxattr(&program, "security.capability", &capability, XattrFlags::empty()).unwrap();
    };
    let has_capability = || rustix::fs::getxattr(&program, "security.capability", &mut [0; 32]).is_ok();
    let text = program.to_str().unwrap();
    let changes = [
        &["dd", "if=/dev/zero", "count=1", "conv=notrunc", "of="][..],
        &["truncate", "-s", "5"],
        &["fallocate", "-p", "-o", "0", "-l", "4096"],
        &["sh", "-c"],
    ];
    for change in changes {
        arm(0o6777);
        assert!(has_capability() && mode(&program) == 0o6777);
        let last = match change[0] {
            "dd" => format!("of={text}"),
            "sh" => format!(": > {text}"),
            _ => text.to_owned(),
        };
        let mut words: Vec<&str> = change.iter().copied().filter(|word| *word != "of=").collect();
        words.push(&last);
        assert!(as_user(&words, "0"));
        assert_eq!((mode(&program), has_capability()), (0o777, false), "{words:?}");
    }
    arm(0o6777);
    let mut file = File::options().append(true).open(&program).unwrap();
    file.write_all(b"by root").unwrap();
    assert_eq!((mode(&program), has_capability()), (0o6777, false), "root keeps the bits alone");
    arm(0o6777);
    rustix::fs::chownat(CWD, &program, Some(rustix::fs::Uid::from_raw(7)), None, AtFlags::empty()).unwrap();
    assert_eq!((mode(&program), has_capability()), (0o777, false));
}

/// An access list that a user outside of a file's group sets takes the set-id bit of the group; a
/// further group of the user counts. Users do not see attributes that are root's.
#[test]
fn access_lists_of_users_lend_no_group() {
    if !works() || !has("setfacl") || !has("getfattr") {
        return;
    }
    let on = Mounted::new();
    fs::set_permissions(&on.at, fs::Permissions::from_mode(0o755)).unwrap();
    let program = on.path("program");
    fs::write(&program, b"#!/bin/true\n").unwrap();
    let (user, group) = (rustix::fs::Uid::from_raw(65_534), rustix::fs::Gid::from_raw(4321));
    rustix::fs::chownat(CWD, &program, Some(user), Some(group), AtFlags::empty()).unwrap();
    for (groups, kept) in [("4321", 0o2775), ("4322", 0o775)] {
        fs::set_permissions(&program, fs::Permissions::from_mode(0o2755)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--groups", groups, "setfacl", "-m", "u:1:rwx"]);
        assert!(command.arg(&program).status().unwrap().success());
        assert_eq!(mode(&program), kept, "with the group {groups}");
    }
    rustix::fs::setxattr(&program, "trusted.note", b"root's", XattrFlags::empty()).unwrap();
    rustix::fs::setxattr(&program, "user.note", b"text", XattrFlags::empty()).unwrap();
    let listed = |user: u32| {
        let mut command = Command::new("getfattr");
        let output = command.args(["--absolute-names", "-m", "-"]).arg(&program).uid(user).output().unwrap();
        let listed = String::from_utf8(output.stdout).unwrap();
        assert!(listed.contains("user.note"), "{listed}");
        listed.contains("trusted.note")
    };
    assert!(listed(0) && !listed(65_534));
}

/// The set-id bit of a group that may not run the file goes where a user outside of the group
/// changes the file, and stays where a member does.
#[test]
fn strangers_to_a_group_take_its_bit() {
    if !works() || !has("setpriv") {
        return;
    }
    let on = Mounted::new();
    fs::set_permissions(&on.at, fs::Permissions::from_mode(0o755)).unwrap();
    let file = on.path("file");
    let changes = [
        "printf x >> \"$0\"",
        "printf x | dd of=\"$0\" conv=notrunc status=none",
        "truncate -s 5 \"$0\"",
        "fallocate -l 8192 \"$0\"",
        "chgrp 65534 \"$0\"",
    ];
    for change in changes {
        for (groups, kept) in [("4321", 0o2666), ("4322", 0o666)] {
            fs::write(&file, b"text").unwrap();
            let (user, group) = (rustix::fs::Uid::from_raw(65_534), rustix::fs::Gid::from_raw(4321));
            rustix::fs::chownat(CWD, &file, Some(user), Some(group), AtFlags::empty()).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o2666)).unwrap();
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--groups", groups, "sh", "-c", change]);
            assert!(command.arg(&file).status().unwrap().success(), "{change}");
            assert_eq!(mode(&file), kept, "{change}: with the group {groups}");
        }
    }
}

/// A volume that is full, and a program with an access list, which would need a page to be written
/// again: a user that changes bytes of the program takes its set-id bits all the same.
#[test]
fn a_full_volume_keeps_no_set_id_bits() {
    if !works() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let on = Mounted::of_span(BackendChoice::File, folder, "", 8 << 20);
    let program = on.path("program");
    fs::write(&program, [1; 4096]).unwrap();
    // The version, and entries of a tag, rights and a number: the user 65534 may write.
    let entries = [(1, 7, u32::MAX), (2, 6, 65_534), (4, 5, u32::MAX), (16, 7, u32::MAX), (32, 5, u32::MAX)];
    let entry = |(tag, rights, id): (u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let list = [2_u32.to_le_bytes().to_vec(), entries.into_iter().flat_map(entry).collect()].concat();
    rustix::fs::setxattr(&program, "system.posix_acl_access", &list, XattrFlags::empty()).unwrap();
    let fillers = [on.path("one"), on.path("two")].map(|path| File::create(path).unwrap());
    for mut filler in fillers {
        while filler.write(&[7; 4096]).is_ok() {}
    }
    for (bits, kept) in [(0o4775, 0o775), (0o6775, 0o775)] {
        fs::set_permissions(&program, fs::Permissions::from_mode(bits)).unwrap();
        assert_eq!(mode(&program), bits);
        fs::write(on.path("no page"), [7; 4096]).unwrap_err();
        let of = format!("of={}", program.display());
        assert!(as_user(&["dd", "if=/dev/zero", "bs=100", "count=1", "conv=notrunc", &of], "0"));
        assert_eq!(mode(&program), kept);
        assert_eq!(fs::read(&program).unwrap()[..100], [0; 100]);
    }
}

/// Pages that the kernel writes back were changed earlier: a program keeps the capabilities that
/// it got since.
#[test]
fn pages_that_are_written_back_take_no_capabilities() {
    if !works() {
        return;
    }
    let on = Mounted::on(BackendChoice::File, tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), "writeback");
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let program = on.path("program");
    let file = File::create(&program).unwrap();
    file.write_all_at(&[1; 5000], 0).unwrap();
    rustix::fs::setxattr(&program, "security.capability", &capability, XattrFlags::empty()).unwrap();
    file.sync_all().unwrap();
    let capability = || rustix::fs::getxattr(&program, "security.capability", &mut [0; 32]);
    assert_eq!(capability().unwrap(), 20);
    file.write_all_at(&[2; 100], 0).unwrap();
    assert!(capability().is_err(), "a later write takes them");
}

/// A file opened for durable writes, and one that asks for no change of times.
#[test]
fn flags_of_opening_reach_the_volume() {
    if !works() {
        return;
    }
    let mut on = Mounted::new();
    let flags = libc::O_DSYNC;
    let file = File::options().write(true).create_new(true).custom_flags(flags).open(on.path("durable")).unwrap();
    file.write_all_at(&[3; 5000], 0).unwrap();
    on.kill();
    drop(file);
    on.mount();
    assert_eq!(fs::read(on.path("durable")).unwrap(), [3; 5000], "durable without a call of fsync");
    let before = fs::metadata(on.path("durable")).unwrap();
    let quiet = File::options().read(true).custom_flags(libc::O_NOATIME).open(on.path("durable")).unwrap();
    quiet.read_exact_at(&mut [0; 10], 0).unwrap();
    let after = fs::metadata(on.path("durable")).unwrap();
    assert_eq!((before.atime(), before.atime_nsec()), (after.atime(), after.atime_nsec()));
}

/// A program that runs is refused to writers, and keeps its bytes also when one asks to empty it.
#[test]
fn a_running_program_keeps_its_bytes() {
    if !works() {
        return;
    }
    let on = Mounted::new();
    let program = on.path("program");
    fs::copy("/bin/sleep", &program).unwrap();
    let len = fs::metadata(&program).unwrap().len();
    // A program that another test starts at this moment has our copy open until it runs.
    let started = (0..100_000).find_map(|_| match Command::new(&program).arg("60").spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => None,
        started => Some(started.unwrap()),
    });
    let mut runs = started.expect("the file is not open for writing");
    for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_RDONLY | libc::O_TRUNC] {
        let flags = rustix::fs::OFlags::from_bits_retain(flags as u32);
        let refused = rustix::fs::open(&program, flags, Mode::empty()).unwrap_err();
        assert_eq!(refused, rustix::io::Errno::TXTBSY);
        assert_eq!(fs::metadata(&program).unwrap().len(), len);
    }
    runs.kill().unwrap();
    runs.wait().unwrap();
    assert!(fs::read(&program).unwrap() == fs::read("/bin/sleep").unwrap());
}

/// A handle of a file, in hexadecimal digits; or its bytes, by the handle: else the errno.
const HANDLES: &str = "import ctypes, os, struct, sys\n\
    c, at = ctypes.CDLL(None, use_errno=True), os.fsencode(sys.argv[2])\n\
    if sys.argv[1] == 'take':\n\
    \x20   handle, mount = ctypes.create_string_buffer(struct.pack('I', 128), 136), ctypes.c_int()\n\
    \x20   done = c.name_to_handle_at(-100, at, handle, ctypes.byref(mount), 0)\n\
    \x20   print(handle.raw.hex() if done == 0 else os.strerror(ctypes.get_errno()))\n\
    else:\n\
    \x20   folder = os.open(at, os.O_RDONLY)\n\
    \x20   file = c.open_by_handle_at(folder, bytes.fromhex(sys.argv[3]), os.O_RDONLY)\n\
    \x20   print(os.read(file, 100).decode() if file >= 0 else ctypes.get_errno())\n";

/// A handle of the kernel leads to its file over mounts, and to no other file that got the number.
#[test]
fn handles_lead_to_their_files_over_mounts() {
    if !works() || !has("python3") {
        return;
    }
    let python = |words: &[&str], path: &Path| {
        let mut command = Command::new("python3");
        command.args(["-c", HANDLES, words[0]]).arg(path).args(&words[1..]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let mut on = Mounted::new();
    fs::create_dir(on.path("d")).unwrap();
    fs::write(on.path("d/a"), b"text").unwrap();
    let number = fs::metadata(on.path("d/a")).unwrap().ino();
    let handle = python(&["take"], &on.path("d/a"));
    on.unmount();
    on.mount();
    assert_eq!(python(&["open", &handle], &on.at), "text");
    fs::remove_file(on.path("d/a")).unwrap();
    let mut others = (0..1000).map(|other| on.path(&format!("other-{other}")));
    let reused = others.find(|other| {
        fs::write(other, b"other").unwrap();
        fs::metadata(other).unwrap().ino() == number
    });
    assert!(reused.is_some(), "the number is used again");
    on.unmount();
    on.mount();
    assert_eq!(python(&["open", &handle], &on.at), libc::ESTALE.to_string());
    on.unmount();
    on.check();
}
