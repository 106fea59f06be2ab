//! Listening sockets: TCP, TLS, and a Unix socket.

use crate::error::{Error, Result};
use mio::net::{TcpListener, UnixListener};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Tries the addresses in order.
pub(crate) fn listen_on(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let mut last = io::Error::from(io::ErrorKind::InvalidInput);
    for address in addresses {
        match TcpListener::bind(*address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Has the system probe an idle connection after so many seconds, three times. A socket that
/// refuses still works.
pub(crate) fn keep_alive(socket: &impl AsFd, seconds: u32) {
    if seconds > 0 && set_socket_keepalive(socket, true).is_ok() {
        let _ = set_tcp_keepidle(socket, Duration::from_secs(seconds.into()));
        let _ = set_tcp_keepintvl(socket, Duration::from_secs((seconds / 3).max(1).into()));
        let _ = set_tcp_keepcnt(socket, 3);
    }
}

/// A Unix socket of ours; its file goes with it.
pub(crate) struct UnixSocket {
    /// Accepts connections.
    pub listener: UnixListener,
    /// Its path, as clients are shown it.
    pub name: Arc<str>,
    path: PathBuf,
    /// Device and inode of its file.
    identity: (u64, u64),
}

/// Whether a server listens on a socket's file.
fn is_alive(path: &Path) -> bool {
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => true,
        // Its process is gone.
        Err(error) => error.kind() != io::ErrorKind::ConnectionRefused,
    }
}

fn make(path: &Path, mode: u32) -> io::Result<UnixSocket> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(io::ErrorKind::AlreadyExists.into()),
        Ok(_) if is_alive(path) => return Err(io::ErrorKind::AddrInUse.into()),
        _ => {}
    }
    // No client can reach the socket before its permissions are set: it is made in a directory of
    // its own, and then takes the place of what a dead server left behind.
    let mut folder = path.as_os_str().to_owned();
    folder.push(format!(".{}", std::process::id()));
    let folder = PathBuf::from(folder);
    let _ = fs::remove_dir_all(&folder);
    DirBuilder::new().mode(0o700).create(&folder)?;
    let made = (|| {
        let fresh = folder.join("s");
        let listener = UnixListener::bind(&fresh)?;
        fs::set_permissions(&fresh, Permissions::from_mode(mode))?;
        let found = fs::symlink_metadata(&fresh)?;
        fs::rename(&fresh, path)?;
        let name = path.display().to_string().into();
        Ok(UnixSocket { listener, name, path: path.to_path_buf(), identity: (found.dev(), found.ino()) })
    })();
    let _ = fs::remove_dir_all(&folder);
    made
}

impl UnixSocket {
    /// Listens at a path, at which nothing may be but the socket of a server that is gone.
    pub(crate) fn listen(path: &Path, mode: u32) -> Result<UnixSocket> {
        make(path, mode).map_err(|source| Error::Listen { address: path.display().to_string(), source })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // Not that of another server that has come since.
        let ours = |found: fs::Metadata| (found.dev(), found.ino()) == self.identity;
        if fs::symlink_metadata(&self.path).is_ok_and(ours) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
