//! The server as a process that can be killed, and a client that knows what was acknowledged.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running server.
pub struct Process {
    child: Child,
    /// Where it listens.
    pub address: String,
}

impl Process {
    /// Starts `program STORE 127.0.0.1:0` and waits until it says where it listens.
    pub fn start(program: &str, store: &Path) -> Process {
        let mut child = Command::new(program)
            .arg(store)
            .arg("127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let output = child.stdout.take().expect("piped above");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("a line from the server");
        let address = line.trim().strip_prefix("listening on ");
        let address = address.unwrap_or_else(|| panic!("the server did not start: {line:?}")).to_string();
        Process { child, address }
    }

    /// Starts it and kills it so soon that it is mostly still opening the store: a crash inside recovery.
    pub fn stillborn(program: &str, store: &Path, life: Duration) {
        let command = &mut Command::new(program);
        let child = command.arg(store).arg("127.0.0.1:0").stdout(Stdio::null()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{program}: {error}"));
        std::thread::sleep(life);
        child.kill().expect("it is a child");
        child.wait().expect("it is a child");
    }

    /// SIGKILL: nothing is flushed, nothing is closed.
    pub fn kill(mut self) {
        self.child.kill().expect("the server was running");
        self.child.wait().expect("it is a child");
    }

    /// Waits for it to end by itself; whether it ended well.
    pub fn wait(mut self) -> bool {
        self.child.wait().expect("it is a child").success()
    }

    /// A connection to it.
    pub fn client(&self) -> io::Result<Client> {
        Client::connect(&self.address)
    }
}

/// A connection.
pub struct Client {
    input: BufReader<TcpStream>,
    output: TcpStream,
}

/// A command as an array of byte strings.
pub fn command(args: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

impl Client {
    /// Connects; answers are waited for half a minute.
    pub fn connect(address: &str) -> io::Result<Client> {
        let output = TcpStream::connect(address)?;
        output.set_nodelay(true)?;
        output.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Client { input: BufReader::with_capacity(1 << 16, output.try_clone()?), output })
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.write_all(bytes)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 || !line.ends_with("\r\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.len() - 2);
        Ok(line)
    }

    /// Reads a reply that must be a status or a number.
    ///
    /// # Panics
    /// On an error reply: nothing that this suite sends may be refused.
    pub fn done(&mut self) -> io::Result<()> {
        let line = self.line()?;
        assert!(line.starts_with('+') || line.starts_with(':'), "refused: {line}");
        Ok(())
    }

    /// Reads a flat list of byte strings.
    pub fn list(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let line = self.line()?;
        let count: usize = line.strip_prefix('*').and_then(|count| count.parse().ok()).expect("a list");
        (0..count).map(|_| self.bytes()).collect()
    }

    fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let line = self.line()?;
        let size: usize = line.strip_prefix('$').and_then(|size| size.parse().ok()).expect("a byte string");
        let mut bytes = vec![0; size + 2];
        self.input.read_exact(&mut bytes)?;
        bytes.truncate(size);
        Ok(bytes)
    }
}
