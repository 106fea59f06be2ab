//! `mount.everbyte`: this program under the name that mount(8) calls for the type `everbyte`.
//!
//! mount(8) runs `/sbin/mount.everbyte STORE:VOLUME DIR [-sfnv] [-t TYPE] [-o OPTIONS]`, also for a
//! line of fstab and for a mount unit of systemd. The helper runs `everbyte fs mount --background`
//! and exits with a code of mount(8). Options of `fs mount` that are no words of `-o` there are
//! `threads=N`, `backend=NAME` and `durability=NAME` here.

use crate::commands;
use everbyte_fuse::MountOptions;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::Duration;

const NAME: &str = "mount.everbyte";
const USAGE: &str = "usage: mount.everbyte STORE:VOLUME DIR [-sfnv] [-t TYPE] [-o OPTIONS]";
/// The exit code of `everbyte fs mount` on a store in use.
const IN_USE: i32 = 4;
/// How long the helper waits for the process of an earlier mount to close the store.
const CLOSING: Duration = Duration::from_secs(5);
/// Exit codes of mount(8).
const BAD_CALL: u8 = 1;
const SYSTEM_ERROR: u8 = 2;
const NOT_MOUNTED: u8 = 32;

/// A call by mount(8).
#[derive(Debug, Default, PartialEq)]
struct Call {
    /// Arguments of `everbyte`.
    words: Vec<OsString>,
    /// The store of the volume.
    store: PathBuf,
    /// Does everything but the mounting.
    fake: bool,
    verbose: bool,
}

/// Whether the program was started under the helper's name.
pub(crate) fn is_called() -> bool {
    std::env::args_os().next().is_some_and(|name| Path::new(&name).file_name() == Some(OsStr::new(NAME)))
}

pub(crate) fn main() -> ExitCode {
    let call = match Call::read(std::env::args_os().skip(1)) {
        Ok(call) => call,
        Err(text) => {
            eprintln!("{NAME}: {text}");
            return ExitCode::from(BAD_CALL);
        }
    };
    if call.fake {
        return ExitCode::SUCCESS;
    }
    let mut run = call.run();
    // umount(8) does not wait for the serving process to close the store.
    if matches!(&run, Ok(output) if output.status.code() == Some(IN_USE)) {
        if call.verbose {
            println!("{NAME}: waiting until another process has closed {}", call.store.display());
        }
        if commands::mount::wait_for(&call.store, CLOSING).is_ok() {
            run = call.run();
        }
    }
    match run {
        Ok(output) => {
            // mount(8) may have closed our outputs.
            if call.verbose {
                let _ = std::io::stdout().write_all(&output.stdout);
            }
            let _ = std::io::stderr().write_all(&output.stderr);
            if output.status.success() { ExitCode::SUCCESS } else { ExitCode::from(NOT_MOUNTED) }
        }
        Err(error) => {
            eprintln!("{NAME}: cannot start everbyte: {error}");
            ExitCode::from(SYSTEM_ERROR)
        }
    }
}

impl Call {
    /// Mounts; the serving process closes its outputs then.
    fn run(&self) -> std::io::Result<Output> {
        let program = std::env::current_exe()?;
        Command::new(program).arg0("everbyte").args(&self.words).stdin(Stdio::null()).output()
    }

    fn read(given: impl Iterator<Item = OsString>) -> Result<Call, String> {
        let (mut call, mut sloppy, mut places, mut options) = (Call::default(), false, Vec::new(), String::new());
        let mut given = given;
        while let Some(word) = given.next() {
            let text = word.to_str().unwrap_or_default();
            let Some(letters) = text.strip_prefix('-') else {
                places.push(word);
                continue;
            };
            for letter in letters.chars() {
                match letter {
                    's' => sloppy = true,
                    'f' => call.fake = true,
                    'v' => call.verbose = true,
                    'n' => (), // there is no /etc/mtab
                    'o' | 't' => {
                        let value = given.next().ok_or(USAGE)?;
                        let value = value.into_string().map_err(|_| "an option is not UTF-8")?;
                        if letter == 'o' {
                            options = [options, value].join(",");
                        }
                    }
                    other => return Err(format!("unknown flag -{other}; {USAGE}")),
                }
            }
        }
        let [source, directory] = <[OsString; 2]>::try_from(places).map_err(|_| USAGE)?;
        let (mut of_fs, mut flags, mut of_mount) = (Vec::new(), vec!["--background".to_owned()], Vec::new());
        for option in options.split(',').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("threads", value)) => flags.push(format!("--threads={value}")),
                Some((name @ ("backend" | "durability"), value)) => of_fs.push(format!("--{name}={value}")),
                _ if option == "remount" => {
                    return Err("a mount is changed without this helper: `mount -i -o remount,..`".into());
                }
                _ if sloppy && MountOptions::parse(option).is_err() => (),
                _ => {
                    MountOptions::parse(option).map_err(|error| error.to_string())?;
                    of_mount.push(option);
                }
            }
        }
        flags.push(format!("--options={}", of_mount.join(",")));
        let source_bytes = source.as_bytes();
        let colon = source_bytes.iter().rposition(|&byte| byte == b':').unwrap_or(source_bytes.len());
        call.store = OsStr::from_bytes(&source_bytes[..colon]).into();
        let words = ["fs".into()].into_iter().chain(of_fs).chain(["mount".into()]).chain(flags);
        call.words = words.map(OsString::from).chain(["--".into(), source, directory]).collect();
        Ok(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Call, String> {
        Call::read(line.split(' ').map(OsString::from))
    }

    #[test]
    fn calls_of_mount_become_commands() {
        let call = read("/a/b:home /mnt -n -v -o rw,nofail,noatime,threads=4,durability=always").unwrap();
        assert_eq!(
            call.words,
            "fs --durability=always mount --background --threads=4 --options=rw,nofail,noatime -- /a/b:home /mnt"
                .split(' ')
                .map(OsString::from)
                .collect::<Vec<_>>()
        );
        assert!(call.verbose && !call.fake);
        assert_eq!(read("/a:b/c:home /mnt").unwrap().store, Path::new("/a:b/c"));
        assert!(read("a:b /mnt -sfnv -t everbyte.x -o fast,ro").unwrap().words.contains(&"--options=ro".into()));
    }

    #[test]
    fn calls_that_cannot_be_are_refused() {
        for (line, why) in [
            ("a:b", "usage"),
            ("a:b /mnt /other", "usage"),
            ("a:b /mnt -o", "usage"),
            ("a:b /mnt -N space", "-N"),
            ("a:b /mnt -o ro,fast", "fast"),
            ("a:b /mnt -o ro,remount", "mount -i"),
        ] {
            let text = read(line).unwrap_err();
            assert!(text.contains(why), "{line}: {text}");
        }
    }
}
