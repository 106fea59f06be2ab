//! Ends of a mount while the kernel keeps bytes of programs, while a worker is stuck, and while
//! another file system lies on the mount.

use crate::harness::{Mounted, make, media, works};
use crate::programs::has;
use everbyte_fs::Volume;
use everbyte_fuse::{Mount, MountOptions};
use everbyte_media::BackendChoice;
use everbyte_store::Store;
use rustix::mount::UnmountFlags;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// A program that has stored bytes in a shared mapping of a file, without `msync`, and keeps it.
struct Mapper(Child);

impl Mapper {
    fn of(path: &Path) -> Mapper {
        let script = "import mmap, sys\n\
            file = open(sys.argv[1], 'r+b')\n\
            mapping = mmap.mmap(file.fileno(), 0)\n\
            mapping[:] = b'm' * len(mapping)\n\
            print('stored', flush=True)\n\
            sys.stdin.read()\n";
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "stored\n");
        Mapper(child)
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// SIGTERM takes no byte that the kernel keeps: those that a program has stored in a mapping, and
/// with `writeback` those of a file that is open.
#[test]
fn a_signal_takes_no_bytes_that_the_kernel_keeps() {
    if !works() || !has("python3") {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut on = Mounted::on(BackendChoice::File, folder, "writeback,commit=0");
    fs::write(on.path("mapped"), [0; 400_000]).unwrap();
    let mapper = Mapper::of(&on.path("mapped"));
    let open = File::create(on.path("written")).unwrap();
    open.write_all_at(&[2; 3_000_000], 0).unwrap();
    assert_eq!(on.terminate(), 0);
    drop((open, mapper));
    on.mount();
    assert!(fs::read(on.path("mapped")).unwrap() == [b'm'; 400_000], "stores to a mapping are lost");
    assert!(fs::read(on.path("written")).unwrap() == [2; 3_000_000], "writes to an open file are lost");
    on.unmount();
    on.check();
}

/// Whether the kernel keeps a page marked as under way until its write is answered: from 6.16 on.
fn waits_for_its_writes() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let numbers: Vec<u32> = release.split(['.', '-']).map_while(|number| number.parse().ok()).take(2).collect();
    numbers >= vec![6, 16]
}

/// Work beside a mount sees all bytes that the kernel kept, once it has handed them over.
#[test]
fn bytes_that_the_kernel_kept_are_handed_over() {
    if !works() || !has("python3") {
        return;
    }
    const LEN: usize = 4_000_000;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let (path, at) = (folder.path().join("store"), folder.path().join("at"));
    fs::create_dir(&at).unwrap();
    make(&path, BackendChoice::Shm, 64 << 20);
    let store = Store::open(&path, &media(BackendChoice::Shm)).unwrap();
    let volume = Volume::open(store.object("home").unwrap()).unwrap();
    let serving = Mount::new(volume, &at, "kept:home", &MountOptions::default()).unwrap().start().unwrap();
    fs::write(at.join("mapped"), vec![0; LEN]).unwrap();
    let mapper = Mapper::of(&at.join("mapped"));
    assert_eq!(fs::read_dir(&at).unwrap().count(), 1, "the kernel opens the root without a request from now on");
    let beside = serving.volume();
    let (done, is_done) = channel();
    let ahead = beside.clone();
    let early = beside.paused(|_| {
        thread::spawn(move || done.send(ahead.hand_over()));
        // The kernel has sent its bytes by then, and no request is answered.
        let early = is_done.recv_timeout(Duration::from_millis(300));
        assert!(early.is_err() || !waits_for_its_writes(), "it returned before its requests were answered");
        early
    });
    if early.is_some_and(|early| early.is_err()) {
        is_done.recv().unwrap().unwrap();
    }
    let mut bytes = vec![0; LEN];
    let read = beside.with(|volume| {
        let ino = volume.lookup(everbyte_fs::Ino::ROOT, b"mapped").unwrap().unwrap();
        volume.read(ino, 0, &mut bytes).unwrap()
    });
    assert!(read == Some(LEN) && bytes.iter().all(|&byte| byte == b'm'));
    drop(mapper);
    assert!(serving.stop().unwrap());
    store.close().unwrap();
}

/// A worker that is stuck holds the end back for a while, and not for ever.
#[test]
fn a_stuck_worker_holds_no_end_back() {
    if !works() || !has("python3") {
        return;
    }
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let (path, at) = (folder.path().join("store"), folder.path().join("at"));
    fs::create_dir(&at).unwrap();
    make(&path, BackendChoice::Shm, 64 << 20);
    let store = Store::open(&path, &media(BackendChoice::Shm)).unwrap();
    let volume = Volume::open(store.object("home").unwrap()).unwrap();
    let serving = Mount::new(volume, &at, "stuck:home", &MountOptions::default()).unwrap().start().unwrap();
    fs::write(at.join("mapped"), [0; 40_000]).unwrap();
    let mapper = Mapper::of(&at.join("mapped"));
    let beside = serving.volume();
    let ended = beside.paused(|_| serving.stop());
    assert_eq!(ended.map(|ended| ended.unwrap()), Some(false), "the program has its file open");
    drop(mapper); // the answering thread goes on, and closes the volume
    while beside.is_mounted() {
        thread::yield_now();
    }
    store.close().unwrap();
}

/// A file system that was mounted on top stays when the daemon ends.
#[test]
fn a_signal_leaves_a_mount_on_top() {
    if !works() {
        return;
    }
    let mut on = Mounted::new();
    fs::write(on.path("below"), b"below").unwrap();
    let mut command = Command::new("mount");
    assert!(command.args(["-t", "tmpfs", "everbyte-test"]).arg(&on.at).status().unwrap().success());
    fs::write(on.path("above"), b"above").unwrap();
    let code = on.terminate();
    let above = fs::read(on.path("above"));
    rustix::mount::unmount(&on.at, UnmountFlags::DETACH).unwrap();
    assert_eq!((code, above.unwrap()), (0, b"above".to_vec()));
    on.mount(); // over the dead one
    assert_eq!(fs::read(on.path("below")).unwrap(), b"below");
    on.unmount();
    on.check();
}
