//! Calls of the kernel with errno as a result, for the user of a thread.

use std::ffi::CString;
use std::mem::MaybeUninit;

/// Results that both sides give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// Mode with the type, links, user, group, size (0 for directories), device.
    Status(u32, u64, u32, u32, u64, u64),
    Bytes(Vec<u8>),
    Names(Vec<Vec<u8>>),
    Number(u64),
}

pub(crate) type Answer = Result<Outcome, i32>;

pub(crate) fn text(path: &[u8]) -> CString {
    CString::new(path).expect("no zero byte")
}

pub(crate) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().expect("a call failed")
}

/// The answer of a call that returns -1 or a number.
pub(crate) fn number(returned: i64) -> Answer {
    if returned < 0 { Err(errno()) } else { Ok(Outcome::Number(returned as u64)) }
}

pub(crate) fn done(returned: i32) -> Answer {
    if returned < 0 { Err(errno()) } else { Ok(Outcome::Done) }
}

pub(crate) fn status(path: &[u8], flags: i32) -> Answer {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the path ends with a zero byte; the result has room for a `stat`.
    let returned = unsafe { libc::fstatat(libc::AT_FDCWD, text(path).as_ptr(), status.as_mut_ptr(), flags) };
    if returned < 0 {
        return Err(errno());
    }
    // SAFETY: the call has filled it.
    let status = unsafe { status.assume_init() };
    let is_directory = status.st_mode & libc::S_IFMT == libc::S_IFDIR;
    let size = if is_directory { 0 } else { status.st_size as u64 };
    Ok(Outcome::Status(status.st_mode, status.st_nlink, status.st_uid, status.st_gid, size, status.st_rdev))
}

/// Gives this thread, and no other, the rights of a user.
pub(crate) fn become_user(uid: u32, gid: u32, groups: &[u32]) {
    // SAFETY: the calls take numbers, and the groups as a pointer with their count. The raw calls
    // change the calling thread alone, and return the old ids.
    let set = unsafe {
        libc::syscall(libc::SYS_setfsuid, 0);
        let set = libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr());
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
        set
    };
    assert_eq!(set, 0, "setgroups");
}

/// Why calls of this machine cannot be compared: an older kernel has other rules for set-id bits
/// and lists, and root may lack rights in a container. `None`: they can.
pub(crate) fn refusal() -> Option<String> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(|number| number.trim().parse::<u32>().unwrap_or(0));
    if (numbers.next(), numbers.next()) < (Some(6), Some(6)) {
        return Some(format!("kernel {}", release.trim()));
    }
    let folder = tempfile::tempdir().ok()?;
    let [device, file] = ["device", "file"].map(|name| text(folder.path().join(name).as_os_str().as_encoded_bytes()));
    std::fs::write(folder.path().join("file"), b"").ok()?;
    // SAFETY: the paths end with a zero byte; no group is passed.
    let is_root = unsafe {
        libc::geteuid() == 0
            && libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()) == 0
            && libc::mknod(device.as_ptr(), libc::S_IFCHR | 0o600, 0x103) == 0
            && libc::chown(file.as_ptr(), 1001, 2001) == 0
    };
    if is_root { None } else { Some("without the rights of root".into()) }
}

/// A number of /proc/sys/fs, 0 where the kernel has none.
pub(crate) fn setting(name: &str) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/sys/fs/{name}")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}
