//! A server for one row, on an empty store.

use super::place;
use crate::shell::{self, Result, cargo, root};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Builds `everbyte`, unless the tests of this run have built it.
pub(crate) fn build() -> Result {
    if std::env::var_os("EVERBYTE_PROGRAMS_BUILT").is_some() {
        return Ok(());
    }
    shell::run(&mut cargo(&["build", "--quiet", "--locked", "--package", "everbyte-cli", "--bin", "everbyte"]))
}

/// A running server, ended when dropped.
pub(super) struct Server {
    child: Child,
    pub port: u16,
    pub socket: PathBuf,
    _folder: Folder,
}

/// A directory that is removed when dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Server {
    /// On a free port.
    pub(super) fn start() -> Result<Server> {
        let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        Server::at(listener.map_err(|error| format!("no free port: {error}"))?.port())
    }

    /// On the port that the tests of an application have in their sources.
    pub(super) fn at(port: u16) -> Result<Server> {
        Server::on(port, None)
    }

    /// The same, with the path of its Unix socket.
    pub(super) fn on(port: u16, socket: Option<&str>) -> Result<Server> {
        TcpListener::bind(("127.0.0.1", port))
            .map_err(|error| format!("port {port}, on which these tests expect the server: {error}"))?;
        // The path of a socket is at most 107 bytes long, so the directory is not in `target`.
        let folder = Folder(std::env::temp_dir().join(format!("everbyte-clients-{port}")));
        let _ = std::fs::remove_dir_all(&folder.0);
        std::fs::create_dir_all(&folder.0).map_err(|error| format!("{}: {error}", folder.0.display()))?;
        let socket = socket.map_or_else(|| folder.0.join("socket"), PathBuf::from);
        let log = place().join(format!("server-{port}.log"));
        let log = std::fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = Command::new(root().join("target/debug/everbyte"));
        command.args(["--json", "serve", "--create", "--max", "8GiB", "--listen", &format!("127.0.0.1:{port}")]);
        command.arg("--unixsocket").arg(&socket).arg(folder.0.join("store")).stderr(log).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot run `{}`: {error}", shell::shown(&command)))?;
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut server = Server { child, port, socket, _folder: folder };
        match output.lines().map_while(std::result::Result::ok).find(|line| line.contains("\"address\"")) {
            Some(_) => Ok(server),
            None => Err(format!("the server did not start: {:?}", server.child.wait())),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
