//! Attributes, times and device numbers: ours to the kernel's, and back.

use everbyte_posix::{Attributes, Error, FileKind, NewTime};
use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECOND: i64 = 1_000_000_000;

pub(crate) fn errno(error: &Error) -> Errno {
    Errno::from_i32(error.errno().0)
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Link => FileType::Symlink,
        FileKind::Pipe => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

pub(crate) fn attributes(of: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(of.ino.0),
        size: of.size,
        blocks: of.allocated.div_ceil(512),
        atime: system_time(of.accessed),
        mtime: system_time(of.modified),
        ctime: system_time(of.changed),
        crtime: system_time(of.born),
        kind: file_type(of.kind),
        perm: of.permissions,
        nlink: u32::try_from(of.links).unwrap_or(u32::MAX),
        uid: of.uid,
        gid: of.gid,
        rdev: device_word(of.device),
        blksize: 4096,
        flags: 0,
    }
}

/// The attributes that stand for an absent name: the kernel remembers it (number 0).
pub(crate) fn absent() -> FileAttr {
    let epoch = UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        crtime: epoch,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn system_time(nanoseconds: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    if nanoseconds < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

/// A time that the kernel asks for. The crate `fuser` 0.18 takes the nanoseconds of a time before
/// 1970 from its seconds, where the kernel means them added.
fn nanoseconds(time: SystemTime) -> i64 {
    let of = |distance: Duration| (i64::try_from(distance.as_secs()).unwrap_or(i64::MAX), distance.subsec_nanos());
    let (seconds, rest) = match time.duration_since(UNIX_EPOCH) {
        Ok(distance) => of(distance),
        Err(before) => {
            let (seconds, rest) = of(before.duration());
            (-seconds, rest)
        }
    };
    seconds.saturating_mul(SECOND).saturating_add(rest.into())
}

pub(crate) fn new_time(time: Option<TimeOrNow>) -> NewTime {
    match time {
        None => NewTime::Omit,
        Some(TimeOrNow::Now) => NewTime::Now,
        Some(TimeOrNow::SpecificTime(time)) => NewTime::At(nanoseconds(time)),
    }
}

/// The 32 bits in which the kernel tells a device: 12 of the major number between the low 8 and
/// the high 12 of the minor one.
fn device_word(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12
}

pub(crate) fn device(word: u32) -> u64 {
    rustix::fs::makedev(word >> 8 & 0xfff, word & 0xff | word >> 12 & !0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_survive_the_protocol() {
        for (major, minor) in [(0, 0), (1, 3), (8, 17), (259, 300), (0xfff, 0xf_ffff)] {
            let word = rustix::fs::makedev(major, minor);
            assert_eq!(device(device_word(word)), word, "{major}:{minor}");
        }
        assert_eq!(device_word(rustix::fs::makedev(8, 1)), 0x801);
    }

    #[test]
    fn times_survive_the_protocol() {
        for time in [0, 1, -1, SECOND, -SECOND, 1_700_000_000 * SECOND + 5] {
            // The crate tells the kernel seconds and nanoseconds that are added, and reads them so
            // from requests that it hands over with the nanoseconds taken away.
            let (seconds, rest) = (time.div_euclid(SECOND), time.rem_euclid(SECOND));
            let read = match seconds {
                0.. => UNIX_EPOCH + Duration::new(seconds as u64, rest as u32),
                _ => UNIX_EPOCH - Duration::new(seconds.unsigned_abs(), rest as u32),
            };
            assert_eq!(nanoseconds(read), time);
            let told = system_time(time);
            let exact = match told.duration_since(UNIX_EPOCH) {
                Ok(distance) => distance.as_nanos() as i64,
                Err(before) => -(before.duration().as_nanos() as i64),
            };
            assert_eq!(exact, time);
        }
    }
}
