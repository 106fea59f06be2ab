//! The systems of the case `mount`, each a directory that programs use: a volume that another
//! process mounts, ext4 in an image on memory, tmpfs, and other FUSE file systems.
//!
//! A process that a case started ends when its mount does, or when its standard input ends, so
//! that a case that is killed leaves neither.

use super::{Result, mount_null};
use crate::host;
use everbyte_fs::{Volume, VolumeOptions};
use everbyte_fuse::{Mount, MountOptions, unmount};
use everbyte_media::Options;
use everbyte_store::{CreateOptions, Store};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The hidden word that makes this program the daemon of a new volume: `STORE FOLDER`.
pub(super) const DAEMON: &str = "__mount";
/// Bytes of an image.
const IMAGE: u64 = 8 << 30;
/// Inodes of an image.
const IMAGE_INODES: &str = "500000";
/// The source of libfuse's example, as its package installs it.
const PASSTHROUGH: &str = "/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c";

/// Names among the results.
pub(super) const EXT4: &str = "ext4";
pub(super) const TMPFS: &str = "tmpfs";
pub(super) const NULL: &str = "null FUSE server";
pub(super) const PASSED: &str = "passthrough_ll";
pub(super) const FUSE2FS: &str = "fuse2fs";

/// The daemon's life.
///
/// # Errors
/// Errors of the store, of mounting, and of the end.
pub(super) fn daemon(words: &[String]) -> Result {
    let [store, folder] = words else { return Err("a daemon is STORE FOLDER".into()) };
    let (path, folder) = (Path::new(store), Path::new(folder));
    let create = CreateOptions { media: Options::default(), max: 64 << 30, ..CreateOptions::default() };
    let opened = Store::create(path, &create)?;
    let options = VolumeOptions { span: Some(16 << 30), ..VolumeOptions::default() };
    let volume = Volume::create(&opened, "files", &options)?;
    let mount = Mount::new(volume, folder, &format!("{store}:files"), &MountOptions::default())?;
    ready(folder);
    mount.run()?;
    Ok(opened.close()?)
}

/// Tells the starter that the mount is there; it ends with the starter.
pub(super) fn ready(folder: &Path) {
    let folder = folder.to_owned();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = unmount(&folder, true); // unmounted already is as good
    });
    println!("ready");
}

/// A directory of a file system, mounted for as long as this lives.
pub(super) struct System {
    pub name: String,
    pub at: PathBuf,
    is_mounted: bool,
    child: Option<Child>,
}

impl System {
    /// A directory that is there.
    pub(super) fn of(name: &str, at: &Path) -> Result<System> {
        std::fs::create_dir_all(at)?;
        Ok(System { name: name.into(), at: at.into(), is_mounted: false, child: None })
    }

    /// A new volume, in a store whose backend follows from the folder.
    pub(super) fn ours(folder: &Path) -> Result<System> {
        let at = folder.join("mounted");
        let store = folder.join("store").to_string_lossy().into_owned();
        System::spawned(crate::ours::NAME, &at, &[DAEMON, &store])
    }

    pub(super) fn null(folder: &Path) -> Result<System> {
        System::spawned(NULL, &folder.join("null"), &[mount_null::SERVER])
    }

    /// A system of this program, started with words and the mount point.
    fn spawned(name: &str, at: &Path, words: &[&str]) -> Result<System> {
        let mut system = System::of(name, at)?;
        let mut command = Command::new(std::env::current_exe()?);
        let piped = command.args(words).arg(at).stdin(Stdio::piped()).stdout(Stdio::piped());
        host::unpin();
        let mut child = piped.spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("a pipe")?).read_line(&mut line)?;
        system.child = Some(child);
        match line.trim() {
            "ready" => system.is_mounted = true,
            _ => return Err(format!("{name} is not mounted").into()),
        }
        Ok(system)
    }

    /// ext4 in an image on memory, behind a loop device.
    pub(super) fn ext4(folder: &Path) -> Result<System> {
        let image = image(folder, "ext4.image")?;
        let mut system = System::of(EXT4, &folder.join("ext4"))?;
        done(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&system.at))?;
        system.is_mounted = true;
        std::fs::remove_file(&image)?; // the loop device keeps it
        Ok(system)
    }

    /// libfuse's example, built here, over a directory.
    pub(super) fn passthrough(folder: &Path, over: &Path) -> Result<System> {
        let program = folder.join("passthrough_ll");
        let flags = done(Command::new("pkg-config").args(["--cflags", "--libs", "fuse3"]))?;
        if !Path::new(PASSTHROUGH).exists() {
            return Err(format!("{PASSTHROUGH} is absent; it comes with libfuse3-dev").into());
        }
        let include = Path::new(PASSTHROUGH).parent().ok_or("a folder")?;
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", "-w", PASSTHROUGH, "-I"]).arg(include).args(flags.split_whitespace()).arg("-o");
        done(gcc.arg(&program))?;
        let source = over.join("passed");
        std::fs::create_dir(&source)?;
        let mut command = Command::new(program);
        command.arg("-f").arg("-o").arg(format!("source={}", source.display()));
        System::foreign(PASSED, &folder.join("passthrough"), command)
    }

    /// ext4 in an image on memory, in user space.
    pub(super) fn fuse2fs(folder: &Path) -> Result<System> {
        if Command::new("fuse2fs").arg("-V").output().is_err() {
            return Err("fuse2fs is not installed; `cargo xtask rivals` does that".into());
        }
        let image = image(folder, "fuse2fs.image")?;
        let mut command = Command::new("fuse2fs");
        command.args(["-f", "-o", "rw,fakeroot"]).arg(&image);
        System::foreign(FUSE2FS, &folder.join("fuse2fs"), command)
    }

    /// A program that mounts and stays; the mount point is its last word.
    fn foreign(name: &str, at: &Path, mut command: Command) -> Result<System> {
        let mut system = System::of(name, at)?;
        let before = rustix::fs::stat(at)?.st_dev;
        host::unpin();
        let child = command.arg(at).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        system.child = Some(child.map_err(|error| format!("{name}: {error}"))?);
        let end = Instant::now() + Duration::from_secs(10);
        while rustix::fs::stat(at)?.st_dev == before {
            let ended = system.child.as_mut().and_then(|child| child.try_wait().transpose());
            if ended.is_some() || Instant::now() > end {
                return Err(format!("{name} has not mounted").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        system.is_mounted = true;
        Ok(system)
    }

    /// Whether another process answers the calls.
    pub(super) fn is_served(&self) -> bool {
        self.child.is_some()
    }

    /// Moves all threads of the system's process to one CPU, counted from the last, and tells where
    /// they were.
    pub(super) fn gather(&self, number: usize) -> Result<Vec<(Option<Pid>, CpuSet)>> {
        let Some(child) = &self.child else { return Ok(vec![]) };
        let (mut set, mut before) = (CpuSet::new(), vec![]);
        host::cpus().iter().rev().nth(number).into_iter().for_each(|&cpu| set.set(cpu));
        for task in std::fs::read_dir(format!("/proc/{}/task", child.id()))? {
            let task = Pid::from_raw(task?.file_name().to_string_lossy().parse()?);
            before.push((task, sched_getaffinity(task)?));
            sched_setaffinity(task, &set)?;
        }
        Ok(before)
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = unmount(&self.at, true); // gone already is as good
        }
        let Some(mut child) = self.child.take() else { return };
        let end = Instant::now() + Duration::from_secs(10);
        while child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if Instant::now() > end {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A new ext4 in a file.
fn image(folder: &Path, name: &str) -> Result<PathBuf> {
    let image = folder.join(name);
    std::fs::File::create(&image)?.set_len(IMAGE)?;
    done(Command::new("mkfs.ext4").args(["-q", "-F", "-N", IMAGE_INODES]).arg(&image))?;
    Ok(image)
}

/// The output of a program that succeeds.
pub(super) fn done(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_string().into()),
    }
}
