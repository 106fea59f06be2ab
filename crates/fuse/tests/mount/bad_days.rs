//! Programs that are hard on a mount, and a daemon that dies below programs.

use crate::harness::{Mounted, works};
use everbyte_media::BackendChoice;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn in_memory() -> Mounted {
    Mounted::on(BackendChoice::Shm, tempfile::tempdir_in("/dev/shm").unwrap(), "")
}

#[test]
fn a_thousand_descriptors_are_written_in_turn() {
    if !works() {
        return;
    }
    let mut on = in_memory();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let count = limit.current.map_or(1000, |most| (most as usize / 2).min(1000));
    let path = |number: usize| on.path(&format!("file-{number:04}"));
    let files: Vec<File> = (0..count).map(|number| File::create(path(number)).unwrap()).collect();
    for part in 0..8u64 {
        for (number, file) in files.iter().enumerate() {
            file.write_all_at(&[number as u8 ^ part as u8; 4096], part * 4096).unwrap();
        }
    }
    let paths: Vec<_> = (0..count).map(path).collect();
    drop(files);
    on.kill();
    on.mount();
    for (number, path) in paths.iter().enumerate() {
        let bytes = fs::read(path).unwrap();
        assert_eq!(bytes.len(), 8 * 4096, "{number}");
        for (part, page) in bytes.chunks(4096).enumerate() {
            assert!(page.iter().all(|&byte| byte == number as u8 ^ part as u8), "{number}, part {part}");
        }
    }
    on.unmount();
    on.check();
}

/// Threads move directories with all that is below them to and fro, while others make and remove
/// files below, by paths that come and go.
#[test]
fn deep_renames_under_load_lose_nothing() {
    if !works() {
        return;
    }
    let mut on = in_memory();
    let deep = |root: &str| (0..12).fold(on.path(root), |path, level| path.join(format!("level-{level}")));
    fs::create_dir_all(deep("left/tree")).unwrap();
    fs::create_dir_all(deep("right")).unwrap();
    fs::write(deep("left/tree").join("kept"), b"kept").unwrap();
    // The tree moves between two places, one of them twelve directories deep.
    let places = [on.path("left/tree"), deep("right").join("tree")];
    let files = [deep("left/tree"), (0..12).fold(places[1].clone(), |path, level| path.join(format!("level-{level}")))];
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let (files, ended) = (&files, &ended);
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                scope.spawn(move || {
                    let mut made = 0;
                    while !ended.load(Ordering::Relaxed) || made == 0 {
                        // The tree is at one of both, and may leave at any moment.
                        for place in files {
                            let path = place.join(format!("file-{writer}"));
                            if fs::write(&path, b"bytes").is_ok() {
                                made += 1;
                            }
                            let _ = fs::remove_file(path);
                        }
                    }
                })
            })
            .collect();
        for turn in 0..600 {
            fs::rename(&places[turn % 2], &places[(turn + 1) % 2]).unwrap();
        }
        ended.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    assert_eq!(fs::read(files[0].join("kept")).unwrap(), b"kept");
    assert!(!places[1].exists());
    on.kill();
    on.mount();
    assert_eq!(fs::read(files[0].join("kept")).unwrap(), b"kept");
    on.unmount();
    on.check();
}

/// A program that has files of a dead mount open, mapped and locked gets errors within a second,
/// and finds all that its calls had returned for on the next mount.
#[test]
fn a_dead_daemon_leaves_open_mapped_and_locked_files_with_errors() {
    if !works() {
        return;
    }
    let mut on = in_memory();
    let path = on.path("file");
    fs::write(&path, [7; 8192]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    // A program maps the file, changes it, syncs it, and waits to be told to end.
    let script = "import mmap, sys\n\
        file = open(sys.argv[1], 'r+b')\n\
        m = mmap.mmap(file.fileno(), 8192)\n\
        m[0:5] = b'store'\n\
        m.flush()\n\
        print('ready', flush=True)\n\
        sys.stdin.read()\n";
    let python = Command::new("python3")
        .args(["-c", script])
        .arg(&path)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        eprintln!("skipped: python3 is not installed");
        return;
    };
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(python.stdout.take().unwrap()), &mut line).unwrap();
    assert_eq!(line, "ready\n");
    file.write_all_at(b"written", 4096).unwrap();
    on.kill();
    let start = Instant::now();
    let refused = file.write_all_at(b"late", 0).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENOTCONN));
    let refused = File::open(&path).map(drop).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENOTCONN));
    assert!(start.elapsed() < Duration::from_secs(1), "a call on a dead mount hangs");
    drop(python.stdin.take());
    python.wait().unwrap();
    drop(file);
    on.mount();
    let bytes = fs::read(&path).unwrap();
    assert_eq!((&bytes[..5], &bytes[4096..4103], bytes.len()), (&b"store"[..], &b"written"[..], 8192));
    // The lock has gone with its holder.
    flock(File::open(&path).unwrap(), FlockOperation::NonBlockingLockExclusive).unwrap();
    on.unmount();
    on.check();
}

/// A program that starts another one closes files of the mount inside of `execve(2)`, whatever the
/// daemon was about to do at that request. The kernel holds back readers of the program's `/proc`
/// until then.
#[test]
fn a_program_starts_another_one_with_files_of_the_mount_open() {
    if !works() {
        return;
    }
    let mut on = in_memory();
    // The daemon has one thread left that waits, and looks at its caller each 64 requests.
    for before in 0..64 {
        on.kill();
        on.mount();
        let _open = File::create(on.path("file")).unwrap();
        for absent in 0..before {
            assert!(!on.path(&format!("absent-{absent}")).exists());
        }
        let mut program = Command::new("true").spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while program.try_wait().unwrap().is_none() {
            if Instant::now() > end {
                // Neither process can be killed before the kernel gives up the request.
                let _ = rustix::mount::unmount(&on.at, rustix::mount::UnmountFlags::FORCE);
                panic!("the daemon and the program wait for each other");
            }
            thread::yield_now();
        }
    }
    on.unmount();
    on.check();
}
