//! Options of a mount, by the names that mount(8) knows.

use crate::{Error, Result};
use everbyte_posix::{AccessTimes, FilesOptions};
use fuser::MountOption;
use std::time::Duration;

/// The options beside [`FilesOptions::WORDS`], for messages.
pub(crate) const NAMES: &str = "exec, noexec, suid, nosuid, dev, nodev, allow_other, private, nonempty, writeback, \
     commit=SECONDS, threads=N";

/// The time in which changes get durable without a call for it, as in other file systems.
const COMMIT: Duration = Duration::from_secs(5);
/// The largest number of threads.
const THREADS: usize = 64;

/// How options begin that tools beside mount(8) keep in fstab.
const OF_OTHERS: [&str; 4] = ["x-", "X-", "comment=", "user="];

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Options of using the volume: read-only, synchronous, times of reads, the effect of damage.
    pub files: FilesOptions,
    /// The kernel collects writes and hands them over later: what `fsync` has not covered is lost
    /// when the machine or the daemon dies, on every backend.
    pub writeback: bool,
    /// Other users than the one that mounts may use the mount. On for root.
    pub allow_other: bool,
    /// The mount point may hold files, which the mount hides.
    pub nonempty: bool,
    /// Programs may not be run.
    pub noexec: bool,
    /// Set-id bits have an effect. Off unless root mounts.
    pub suid: bool,
    /// Device files can be opened. Off unless root mounts.
    pub dev: bool,
    /// The time in which changes get durable without a call for it; `None`: by a call alone.
    /// Without an effect where they are durable when calls return.
    pub commit: Option<Duration>,
    /// Threads that answer requests; `None` takes one a core, and two at least.
    pub threads: Option<usize>,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        let is_root = rustix::process::geteuid().is_root();
        MountOptions {
            files: FilesOptions::default(),
            writeback: false,
            allow_other: is_root,
            nonempty: false,
            noexec: false,
            suid: is_root,
            dev: is_root,
            commit: Some(COMMIT),
            threads: None,
        }
    }
}

impl MountOptions {
    /// Options from a list such as `ro,noatime`, the last of each kind ruling.
    ///
    /// # Errors
    /// [`Error::BadOption`].
    pub fn parse(list: &str) -> Result<MountOptions> {
        let mut options = MountOptions::default();
        for word in list.split(',').filter(|word| !word.is_empty()) {
            if let Some((name @ ("commit" | "threads"), value)) = word.split_once('=') {
                let bad = || Error::BadOption { option: word.into() };
                let number: u32 = value.parse().map_err(|_| bad())?;
                match (name, number as usize) {
                    ("commit", 0) => options.commit = None,
                    ("commit", _) => options.commit = Some(Duration::from_secs(number.into())),
                    (_, threads @ 1..=THREADS) => options.threads = Some(threads),
                    _ => return Err(bad()),
                }
                continue;
            }
            match word {
                word if options.files.set(word) => (),
                "exec" => options.noexec = false,
                "noexec" => options.noexec = true,
                "suid" => options.suid = true,
                "nosuid" => options.suid = false,
                "dev" => options.dev = true,
                "nodev" => options.dev = false,
                "allow_other" => options.allow_other = true,
                "private" => options.allow_other = false,
                "nonempty" => options.nonempty = true,
                "writeback" => options.writeback = true,
                // Words of fstab for mount(8) and systemd; mount(8) adds `nosuid` and its like.
                "defaults" | "auto" | "noauto" | "nofail" | "_netdev" => (),
                "user" | "users" | "nouser" | "owner" | "group" => (),
                other if OF_OTHERS.iter().any(|start| other.starts_with(start)) => (),
                other => return Err(Error::BadOption { option: other.into() }),
            }
        }
        Ok(options)
    }

    /// The options that the kernel is told.
    pub(crate) fn of_kernel(&self, source: &str) -> Vec<MountOption> {
        let either = |condition, yes, no| if condition { yes } else { no };
        let mut told = vec![
            MountOption::FSName(source.into()),
            MountOption::Subtype("everbyte".into()),
            MountOption::DefaultPermissions,
            either(self.files.read_only, MountOption::RO, MountOption::RW),
            either(self.suid, MountOption::Suid, MountOption::NoSuid),
            either(self.dev, MountOption::Dev, MountOption::NoDev),
            either(self.noexec, MountOption::NoExec, MountOption::Exec),
        ];
        if self.files.access_times == AccessTimes::Never {
            told.push(MountOption::NoAtime);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_posix::OnDamage;

    #[test]
    fn the_last_of_a_kind_rules_and_unknown_words_are_refused() {
        let options = MountOptions::parse("ro,noatime,rw,writeback,,sync").unwrap();
        assert!(!options.files.read_only && options.writeback && options.files.sync);
        assert_eq!(options.files.access_times, AccessTimes::Never);
        assert!(matches!(MountOptions::parse("ro,fast"), Err(Error::BadOption { option }) if option == "fast"));
        for name in NAMES.split(", ").chain(FilesOptions::WORDS.split(", ")) {
            MountOptions::parse(&name.replace("SECONDS", "30").replace('N', "3")).unwrap();
        }
        let numbers = MountOptions::parse("commit=30,threads=3").unwrap();
        assert_eq!((numbers.commit, numbers.threads), (Some(Duration::from_secs(30)), Some(3)));
        assert_eq!(MountOptions::parse("commit=0").unwrap().commit, None);
        for word in ["commit=", "commit=-1", "commit=99999999999", "threads=0", "threads=65", "threads=2x"] {
            assert!(matches!(MountOptions::parse(word), Err(Error::BadOption { option }) if option == word));
        }
        let on_damage = |list: &str| MountOptions::parse(list).unwrap().files.on_damage;
        assert_eq!(on_damage("ro"), OnDamage::Continue);
        assert_eq!(on_damage("errors=continue,errors=remount-ro"), OnDamage::ReadOnly);
        assert_eq!(on_damage("errors=remount-ro,errors=stop"), OnDamage::Stop);
        assert!(MountOptions::parse("errors=panic").is_err());
        let of_fstab = "defaults,nofail,noauto,_netdev,users,user=mary,x-systemd.automount,comment=old,ro";
        assert!(MountOptions::parse(of_fstab).unwrap().files.read_only);
    }
}
