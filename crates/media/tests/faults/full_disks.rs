//! Full disks, file systems without `fallocate`, and limits on the size of files.

use everbyte_media::{BackendChoice, Error, Geometry, Media, OpenOptions, Options, museum};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const DATA: u64 = 32 << 10;
const GEOMETRY: Geometry = Geometry { max: 64 << 20, len: 64 << 10, log_at: 16 << 10, log_len: 16 << 10 };

fn options(backend: BackendChoice) -> Options {
    Options { backend, background: false, ..Options::default() }
}

fn settle(media: &Media, at: u64, value: u64) {
    let _section = media.section();
    media.store(at, value);
    media.flush(at, 8);
    media.barrier().unwrap();
}

/// A file system of a given type in a file, if the process may mount one.
struct Mount {
    dir: tempfile::TempDir,
}

impl Mount {
    fn ext2(size: &str) -> Option<Mount> {
        let dir = tempfile::tempdir().unwrap();
        let (image, place) = (dir.path().join("image"), dir.path().join("place"));
        std::fs::create_dir(&place).unwrap();
        let run = |program: &str, args: &[&str], paths: &[&Path]| {
            let done = Command::new(program).args(args).args(paths).output();
            let done = done.is_ok_and(|output| output.status.success());
            if !done {
                eprintln!("skipped: this process may not {program} an ext2; the tests of `allocate` cover its parts");
            }
            done.then_some(())
        };
        run("truncate", &["-s", size], &[&image])?;
        run("mkfs.ext2", &["-q", "-b", "4096"], &[&image])?;
        run("mount", &["-o", "loop"], &[&image, &place])?;
        Some(Mount { dir })
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("place/store")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.dir.path().join("place")).status();
    }
}

/// Number of pieces of growth inside the file until the disk refuses. The error is that of a full
/// disk, or growth did not end.
fn fill(media: &Media) -> Result<Vec<u64>, String> {
    media.extend(32 << 20, 4096).unwrap(); // all further growth lies inside the file
    let mut granted = Vec::new();
    while granted.len() < 100 {
        let at = (1 << 20) + granted.len() as u64 * (256 << 10);
        match media.extend(at, 256 << 10) {
            Ok(()) => granted.push(at),
            Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::ENOSPC) => return Ok(granted),
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("growth is granted for ever on a disk of 8 MiB".into())
}

/// `ext2` has no `fallocate`. Space inside the file is allocated as space past its end: growth is
/// refused if the disk is full, and an allocated range takes every store.
#[test]
fn a_full_disk_without_fallocate_refuses_space_inside_the_file() {
    let Some(mount) = Mount::ext2("8M") else { return };
    let create = || OpenOptions::new(mount.path()).create(GEOMETRY, &options(BackendChoice::File)).unwrap();
    let media = create();
    museum::with("media-zeros-behind-the-end", || fill(&media)).expect_err("the seeded bug was not found");
    drop(media);
    std::fs::remove_file(mount.path()).unwrap();
    let media = create();
    let granted = fill(&media).unwrap();
    assert!(granted.len() > 16, "{} pieces", granted.len());
    for at in &granted {
        for page in (*at..at + (256 << 10)).step_by(4096) {
            media.store(page, page);
            media.flush(page, 8);
        }
        media.checkpoint().unwrap();
    }
    drop(media);
    let media = OpenOptions::new(mount.path()).open(&options(BackendChoice::File)).unwrap();
    assert!(granted.iter().all(|&at| media.load(at) == at && media.load(at + (252 << 10)) == at + (252 << 10)));
}

/// The file grows, and the write of the head fails. The next growth to the same length must write
/// the head.
#[test]
fn a_growth_whose_head_was_not_written_is_refused_until_it_is() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use std::os::fd::AsRawFd;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    drop(OpenOptions::new(&path).create(GEOMETRY, &options(BackendChoice::Shm)).unwrap());
    let file = std::fs::File::from(memfd_create("store", MemfdFlags::ALLOW_SEALING).unwrap());
    std::os::unix::fs::FileExt::write_all_at(&file, &std::fs::read(&path).unwrap(), 0).unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let media = OpenOptions::new(&path).open(&options(BackendChoice::Shm)).unwrap();
    media.extend(1 << 20, 4096).unwrap(); // its chunk, and more
    fcntl_add_seals(&file, SealFlags::FUTURE_WRITE).unwrap(); // allows growth and no write
    for _ in 0..2 {
        let refused = media.extend((1 << 20) + 4096, 4096).unwrap_err();
        assert!(matches!(&refused, Error::Io { action: "write the media head of", .. }), "{refused}");
    }
}

/// Run by the test below in a process of its own, under `ulimit -f`.
#[test]
fn child_under_a_limit() {
    let Ok(folder) = std::env::var("EVERBYTE_LIMITED") else { return };
    let too_large =
        |error: &Error| matches!(error, Error::Io { source, .. } if source.raw_os_error() == Some(libc::EFBIG));
    for (name, backend) in [("file", BackendChoice::File), ("shm", BackendChoice::Shm)] {
        let path = Path::new(&folder).join(name);
        let large = Geometry { len: 4 << 20, ..GEOMETRY };
        let refused = OpenOptions::new(&path).create(large, &options(backend)).unwrap_err();
        assert!(too_large(&refused) && !path.exists(), "{refused}");
        let media = OpenOptions::new(&path).create(GEOMETRY, &options(backend)).unwrap();
        settle(&media, DATA, 7);
        let before = path.metadata().unwrap().len();
        let refused = media.extend(4 << 20, 4 << 20).unwrap_err();
        assert!(too_large(&refused), "{refused}");
        assert_eq!(path.metadata().unwrap().len(), before, "a refused growth does not lengthen the file");
        media.extend(128 << 10, 4096).unwrap();
        settle(&media, 128 << 10, 8);
        media.close().unwrap();
    }
    let refused = OpenOptions::new(Path::new(&folder).join("large")).open(&options(BackendChoice::File)).unwrap_err();
    assert!(too_large(&refused), "{refused}");
}

/// For growth that the system would punish with SIGXFSZ, the store answers with an error: a
/// creation leaves no file, growth changes nothing, and a store that is already larger is not
/// opened for writing.
#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_no_signal() {
    let dir = tempfile::tempdir().unwrap();
    let large = Geometry { len: 4 << 20, ..GEOMETRY };
    drop(OpenOptions::new(dir.path().join("large")).create(large, &options(BackendChoice::File)).unwrap());
    let output =
        Command::new("sh") // its unit is 512 bytes
            .args(["-c", "ulimit -f 2048; exec \"$0\" --exact full_disks::child_under_a_limit --nocapture"])
            .arg(std::env::current_exe().unwrap())
            .env("EVERBYTE_LIMITED", dir.path())
            .output()
            .unwrap();
    assert!(output.status.success(), "{:?}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

/// A process that can open a file can lock it, and a lock of another user would keep the owner out.
#[test]
fn a_new_store_is_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    for (name, backend) in [("file", BackendChoice::File), ("shm", BackendChoice::Shm)] {
        let path = dir.path().join(name);
        let media = OpenOptions::new(&path).create(GEOMETRY, &options(backend)).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(path.metadata().unwrap().uid(), rustix::process::geteuid().as_raw());
        drop(media);
    }
}
