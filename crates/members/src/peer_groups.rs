//! The supplementary groups of the process at the other end of a socket.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The supplementary groups of the process at the other end of a local socket, as the kernel
/// recorded them when it connected (SO_PEERGROUPS).
///
/// # Errors
/// The kernel is older than 4.13, or the descriptor is no such socket.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 32];
    loop {
        let mut len = size_of_val(&groups[..]) as libc::socklen_t;
        let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERGROUPS);
        // SAFETY:
        // - in bounds: `len` is the size of `groups` in bytes, and the kernel writes no more;
        // - alive: the buffer, the length and the borrowed descriptor live through the call;
        // - no writer: both are local to this thread;
        // - valid: any bits are a `u32`, and the kernel sets `len` to the bytes that it wrote or
        //   needs.
        let failed =
            unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, groups.as_mut_ptr().cast(), &raw mut len) };
        let count = len as usize / size_of::<u32>();
        match io::Error::last_os_error() {
            _ if failed == 0 => {
                groups.truncate(count);
                return Ok(groups);
            }
            error if error.raw_os_error() == Some(libc::ERANGE) && count > groups.len() => groups.resize(count, 0),
            error => return Err(error),
        }
    }
}
