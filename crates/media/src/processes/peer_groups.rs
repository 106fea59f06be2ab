//! Who is at the other end of a socket: the groups that the kernel noted when it connected.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The supplementary groups of the process at the other end of a local socket, as they were when it
/// connected (SO_PEERGROUPS).
///
/// # Errors
/// The kernel is older than 4.13, or this is no such socket.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 32];
    loop {
        let mut len = size_of_val(&groups[..]) as libc::socklen_t;
        let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERGROUPS);
        // SAFETY: a descriptor that is open during the call; room for `len` bytes, in which any are
        // group ids; and a length that the kernel reads, and sets to what it wrote or wants to
        // write.
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
