//! Opening: unnamed files, links, open paths, descriptors that share an offset, handles.

use crate::{MAKE, files, make, root};
use everbyte_fs::{FileKind, LINKS_MAX, VolumeOptions, layout};
use everbyte_posix::{Errno, FileHandle, OpenFlags, RenameFlags, Rights, User};

/// A file without a name lives while it is open, and may get a name unless it is exclusive.
#[test]
fn an_unnamed_file_gets_a_name_or_goes() {
    let files = files();
    let process = root(&files);
    process.make_directory("d", 0o755).unwrap();
    let before = files.volume().usage();
    let unnamed = OpenFlags::TMPFILE | OpenFlags::RDWR;
    let file = process.open("d", unnamed, 0o600).unwrap();
    file.write(b"draft").unwrap();
    assert_eq!(file.status().unwrap().links, 0);
    assert!(process.open("d", OpenFlags::empty(), 0).unwrap().entries(9).unwrap().len() == 2, "only the dots");
    process.link_open(&file, "d/final").unwrap();
    assert_eq!(process.status("d/final").unwrap().size, 5);
    let exclusive = process.open("d", unnamed | OpenFlags::EXCL, 0o600).unwrap();
    assert_eq!(process.link_open(&exclusive, "d/other").unwrap_err(), Errno::ENOENT);
    // A file that lost its last name gets no new one.
    process.remove("d/final").unwrap();
    let named = make(&process, "d/named", b"1");
    process.remove("d/named").unwrap();
    assert_eq!(process.link_open(&named, "d/again").unwrap_err(), Errno::ENOENT);
    assert_eq!(process.open("d", OpenFlags::TMPFILE, 0o600).unwrap_err(), Errno::EINVAL, "it needs writing");
    assert_eq!(process.open("d/x", unnamed, 0o600).unwrap_err(), Errno::ENOENT);
    drop((file, exclusive, named));
    let after = files.volume().usage();
    assert_eq!(after.free_inodes, before.free_inodes);
    assert_eq!(files.volume().check(), []);
}

/// An open file keeps its bytes after its name is gone or leads to another file.
#[test]
fn an_open_file_outlives_its_name() {
    let files = files();
    let process = root(&files);
    let file = make(&process, "a", b"old");
    make(&process, "b", b"new");
    process.rename("b", "a", RenameFlags::empty()).unwrap();
    let mut bytes = [0; 8];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 3);
    assert_eq!(&bytes[..3], b"old");
    assert_eq!(file.status().unwrap().links, 0);
    assert_eq!(process.status("a").unwrap().size, 3);
    file.write_at(b"!", 3).unwrap();
    assert_eq!(file.status().unwrap().size, 4);
}

/// Clones share the offset and the flags; files that are opened apart do not.
#[test]
fn clones_share_an_offset() {
    let files = files();
    let process = root(&files);
    let file = make(&process, "a", b"0123456789");
    let clone = file.duplicate();
    let child = process.fork();
    let inherited = file.inherited(&child);
    let apart = process.open("a", OpenFlags::empty(), 0).unwrap();
    let mut bytes = [0; 4];
    for (index, file) in [&file, &clone, &inherited].into_iter().enumerate() {
        assert_eq!(file.read(&mut bytes[..2]).unwrap(), 2);
        assert_eq!(bytes[0], b'0' + 2 * index as u8);
    }
    apart.read(&mut bytes).unwrap();
    assert_eq!(&bytes, b"0123");
    clone.set_flags(OpenFlags::APPEND).unwrap();
    assert!(file.flags().contains(OpenFlags::APPEND | OpenFlags::RDWR));
    file.write_at(b"end", 0).unwrap();
    assert_eq!(file.status().unwrap().size, 13, "behind the end, as the flag says");
}

/// An open path names a file without rights to it, and starts further paths.
#[test]
fn an_open_path_reads_nothing() {
    let files = files();
    let owner = root(&files);
    owner.make_directory("d", 0o755).unwrap();
    make(&owner, "d/secret", b"1").set_mode(&owner, 0o600).unwrap();
    let process = files.process(User::new(7, 7)).unwrap();
    assert_eq!(process.open("d/secret", OpenFlags::empty(), 0).unwrap_err(), Errno::EACCES);
    let path = process.open("d/secret", OpenFlags::PATH, 0).unwrap();
    assert_eq!(path.status().unwrap().permissions, 0o600);
    assert_eq!(path.read(&mut [0; 4]).unwrap_err(), Errno::EBADF);
    assert_eq!(path.write(b"2").unwrap_err(), Errno::EBADF);
    assert_eq!(path.sync().unwrap_err(), Errno::EBADF);
    assert_eq!(path.set_mode(&process, 0o777).unwrap_err(), Errno::EBADF);
    let directory = process.open("d", OpenFlags::PATH | OpenFlags::DIRECTORY, 0).unwrap();
    assert_eq!(process.status((&directory, "secret")).unwrap().size, 1);
    assert_eq!(directory.entries(1).unwrap_err(), Errno::EBADF);
    owner.make_link("secret", "d/link").unwrap();
    let link = process.open((&directory, "link"), OpenFlags::PATH | OpenFlags::NOFOLLOW, 0).unwrap();
    assert_eq!(link.kind(), FileKind::Link);
    assert_eq!(process.open("d/link", OpenFlags::NOFOLLOW, 0).unwrap_err(), Errno::ELOOP);
    // Paths that begin with a slash leave the directory aside.
    assert_eq!(process.status((&directory, "/d")).unwrap().kind, FileKind::Directory);
}

/// A handle leads to its file after renames and a reopening, and never to another one.
#[test]
fn a_handle_outlives_names() {
    let files = files();
    let process = root(&files);
    make(&process, "a", b"one");
    let handle = process.handle("a").unwrap();
    assert_eq!(FileHandle::parse(&handle.bytes()).unwrap(), handle);
    assert_eq!(FileHandle::parse(&handle.bytes()[1..]).unwrap_err(), Errno::EINVAL);
    process.rename("a", "b", RenameFlags::empty()).unwrap();
    let mut bytes = [0; 3];
    process.open_handle(&handle, OpenFlags::empty()).unwrap().read(&mut bytes).unwrap();
    assert_eq!(&bytes, b"one");
    // What a path is refused for, a handle is, too.
    process.make_directory("d", 0o755).unwrap();
    process.make_link("b", "link").unwrap();
    process.make_node("pipe", FileKind::Pipe, 0o644, 0).unwrap();
    for (path, flags, errno) in [
        ("d", OpenFlags::RDWR, Errno::EISDIR),
        ("d", OpenFlags::TRUNC, Errno::EISDIR),
        ("b", OpenFlags::DIRECTORY, Errno::ENOTDIR),
        ("link", OpenFlags::empty(), Errno::ELOOP),
        ("pipe", OpenFlags::RDWR, Errno::ENXIO),
    ] {
        let handle = process.handle(path).unwrap();
        assert_eq!(process.open_handle(&handle, flags).unwrap_err(), errno, "{path} {flags:?}");
        process.open_handle(&handle, OpenFlags::PATH).unwrap();
    }
    let user = files.process(User::new(7, 7)).unwrap();
    assert_eq!(user.open_handle(&handle, OpenFlags::empty()).unwrap_err(), Errno::EPERM);
    assert_eq!(process.open_handle(&handle, MAKE).unwrap_err(), Errno::EINVAL);
    process.remove("b").unwrap();
    for round in 0..300 {
        // The number is used again, by another generation.
        make(&process, &format!("n{round}"), b"other");
    }
    assert_eq!(process.open_handle(&handle, OpenFlags::empty()).unwrap_err(), Errno::ESTALE);
    let foreign = FileHandle { volume: [9; 16], ..process.handle("n1").unwrap() };
    assert_eq!(process.open_handle(&foreign, OpenFlags::empty()).unwrap_err(), Errno::ESTALE);
}

/// Pipes, sockets and devices have names and attributes, and no bytes.
#[test]
fn special_files_have_no_bytes() {
    let process = root(&files());
    for (name, kind) in [("p", FileKind::Pipe), ("s", FileKind::Socket), ("b", FileKind::BlockDevice)] {
        process.make_node(name, kind, 0o644, 0x801).unwrap();
        let status = process.status(name).unwrap();
        assert_eq!((status.kind, status.device), (kind, if kind == FileKind::BlockDevice { 0x801 } else { 0 }));
        assert_eq!(process.open(name, OpenFlags::RDWR, 0).unwrap_err(), Errno::ENXIO);
        assert_eq!(process.truncate(name, 0).unwrap_err(), Errno::EINVAL);
        process.access(name, Rights::READ).unwrap();
        process.open(name, OpenFlags::PATH, 0).unwrap();
    }
    assert_eq!(process.make_node("l", FileKind::Link, 0o644, 0).unwrap_err(), Errno::EINVAL);
    // Devices are for root, but for the one that marks a removed name.
    process.set_mode("/", 0o777).unwrap();
    let user = process.files().process(User::new(7, 7)).unwrap();
    let (char, block) = (FileKind::CharDevice, FileKind::BlockDevice);
    for (kind, device) in [(char, 1), (block, 0), (block, 0x801)] {
        assert_eq!(user.make_node("device", kind, 0o600, device).unwrap_err(), Errno::EPERM);
    }
    for (name, kind) in [("whiteout", char), ("pipe", FileKind::Pipe), ("socket", FileKind::Socket)] {
        user.make_node(name, kind, 0o600, 0).unwrap();
    }
    assert_eq!(process.make_node("d", FileKind::Directory, 0o644, 0).unwrap_err(), Errno::EPERM);
}

/// The errno of every limit of names and paths.
#[test]
fn limits_of_paths() {
    let process = root(&files());
    let name = |len: usize| "n".repeat(len);
    process.make_directory(name(255).as_str(), 0o755).unwrap();
    assert_eq!(process.make_directory(name(256).as_str(), 0o755).unwrap_err(), Errno::ENAMETOOLONG);
    let path = |len: usize| "./".repeat(len / 2) + &".".repeat(len % 2);
    assert_eq!(process.status(path(4095).as_str()).unwrap().kind, FileKind::Directory);
    assert_eq!(process.status(path(4096).as_str()).unwrap_err(), Errno::ENAMETOOLONG);
    assert_eq!(process.status("").unwrap_err(), Errno::ENOENT);
    assert_eq!(process.status("a\0b").unwrap_err(), Errno::EINVAL);
    process.make_link(name(4095), "longest").unwrap();
    assert_eq!(process.read_link("longest").unwrap().len(), 4095);
    assert_eq!(process.make_link(name(4096), "longer").unwrap_err(), Errno::ENAMETOOLONG);
    process.make_link("loop", "loop").unwrap();
    assert_eq!(process.status("loop").unwrap_err(), Errno::ELOOP);
    // 40 links are followed, 41 are not.
    process.make_link("/", "link0").unwrap();
    for number in 1..41 {
        process.make_link(format!("link{}", number - 1), format!("link{number}").as_str()).unwrap();
    }
    assert_eq!(process.status("link39").unwrap().kind, FileKind::Directory);
    assert_eq!(process.status("link40").unwrap_err(), Errno::ELOOP);
    for byte in (1..=255_u8).filter(|&byte| byte != b'/' && byte != b'.') {
        process.make_directory(&[byte], 0o700).unwrap();
        assert_eq!(process.make_directory(&[byte], 0o700).unwrap_err(), Errno::EEXIST);
    }
}

/// The errno of one link more than an inode may have, of a file and of a directory.
#[test]
fn limits_of_links() {
    let files = files();
    let process = root(&files);
    drop(make(&process, "f", b""));
    process.make_directory("d", 0o755).unwrap();
    process.make_directory("moved", 0o755).unwrap();
    let set_links = |path: &str, links: u64| {
        let (object, ino) = (files.volume().object(), process.status(path).unwrap().ino);
        let lanes = u64::from(VolumeOptions::default().lanes);
        let inodes = object.prime().get() + (layout::LANES_PAGE + lanes + 2) * layout::PAGE;
        let at = inodes + ino.0 * layout::INODE + layout::inode::LINKS;
        let _section = object.media().section(); // its pages are guarded
        assert_eq!(layout::number(object.media().load(at)), process.status(path).unwrap().links);
        object.media().store(at, everbyte_media::sealed::seal_low(links));
    };
    set_links("f", LINKS_MAX - 1);
    process.link("f", "last").unwrap();
    assert_eq!(process.link("f", "more").unwrap_err(), Errno::EMLINK);
    set_links("d", LINKS_MAX);
    assert_eq!(process.make_directory("d/more", 0o755).unwrap_err(), Errno::EMLINK);
    assert_eq!(process.rename("moved", "d/moved", RenameFlags::empty()).unwrap_err(), Errno::EMLINK);
    set_links("f", 2);
    set_links("d", 2);
    assert_eq!(files.volume().check(), []);
}

/// A clone has the bytes of its source, takes no pages, and changes apart from it.
#[test]
fn a_clone_changes_apart() {
    let files = files();
    let process = root(&files);
    let source = make(&process, "source", &[1; 40_960]);
    let clone = process.open("clone", MAKE, 0o600).unwrap();
    let before = files.status().free_blocks;
    assert_eq!(source.clone_range(0, &clone, 0, 0).unwrap(), 40_960);
    assert_eq!(files.status().free_blocks, before, "no page is copied");
    clone.write_at(&[2; 5000], 4096).unwrap();
    source.write_at(&[3; 100], 20_000).unwrap();
    let bytes = |file: &everbyte_posix::OpenFile| {
        let mut bytes = vec![0; 40_960];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    };
    let mut expected = vec![1; 40_960];
    expected[4096..9096].fill(2);
    assert!(bytes(&clone) == expected);
    expected = vec![1; 40_960];
    expected[20_000..20_100].fill(3);
    assert!(bytes(&source) == expected);
    assert_eq!(source.clone_range(1, &clone, 0, 4096).unwrap_err(), Errno::EINVAL);
    assert_eq!(source.clone_range(0, &source, 4096, 8192).unwrap_err(), Errno::EINVAL, "they overlap");
    let other = root(&crate::files()).open("other", MAKE, 0o600).unwrap();
    assert_eq!(source.clone_range(0, &other, 0, 0).unwrap_err(), Errno::EXDEV);
    let reader = process.open("clone", OpenFlags::empty(), 0).unwrap();
    assert_eq!(source.clone_range(0, &reader, 0, 0).unwrap_err(), Errno::EBADF);
    assert_eq!(files.volume().check(), []);
}
