//! The service manager: it is told when the server serves, and when the server begins to end, by
//! datagrams in the form of systemd (`sd_notify(3)`), which other managers take, too.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Clients are served from now on.
pub(crate) const READY: &str = "READY=1";
/// No request is taken any more.
pub(crate) const STOPPING: &str = "STOPPING=1";

/// Sends `state` to the manager's socket: a path, or an abstract name behind `@`. A manager that
/// hears nothing waits and gives up, so a failure is printed and changes nothing else.
pub(crate) fn tell(socket: Option<&OsStr>, state: &str) {
    let Some(socket) = socket else { return };
    if let Err(error) = send(socket, state) {
        let name = socket.display();
        eprintln!("everbyte: the service manager at {name} (NOTIFY_SOCKET) cannot be told {state}: {error}");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let ours = UnixDatagram::unbound()?;
    ours.set_nonblocking(true)?; // a manager that does not read holds up no client
    ours.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abstract_names_and_failures() {
        let name = format!("@everbyte-{}-supervisor", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name[1..]).unwrap()).unwrap();
        send(OsStr::new(&name), READY).unwrap();
        let mut bytes = [0; 64];
        let count = manager.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], READY.as_bytes());
        drop(manager);
        assert!(send(OsStr::new(&name), READY).is_err());
        assert!(send(OsStr::new("/"), READY).is_err());
    }
}
