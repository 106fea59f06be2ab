//! The server as a process that can be killed, and a client that knows what was acknowledged.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running server.
pub struct Process {
    child: Child,
    /// The address on which it listens.
    pub address: String,
}

/// The `everbyte` program.
pub fn everbyte() -> PathBuf {
    program("everbyte-cli", "everbyte")
}

/// A program of a package, beside the running test, built now if it is not. With the variable
/// `EVERBYTE_PROGRAMS_BUILT` it is there already: tests of the whole workspace build all programs,
/// and building one package again, with its features alone, would compile most crates anew.
pub fn program(package: &str, name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/TEST");
    if std::env::var_os("EVERBYTE_PROGRAMS_BUILT").is_some() {
        let program = folder.join(name);
        assert!(program.exists(), "{} was not built with the tests", program.display());
        return program;
    }
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--package", package, "--bin", name, "--manifest-path"]);
    build.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml"));
    build.arg("--target-dir").arg(folder.parent().expect("target"));
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    assert!(build.status().expect("cargo").success(), "{name} cannot be built");
    folder.join(name)
}

fn serve(program: &Path, store: &Path) -> Child {
    let mut command = Command::new(program);
    command.args(["--json", "serve", "--create", "--backend", "file", "--listen", "127.0.0.1:0"]).arg(store);
    let child = command.stdout(Stdio::piped()).spawn();
    child.unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

impl Process {
    /// Starts `everbyte serve` and waits until it says where it listens.
    pub fn start(program: &Path, store: &Path) -> Process {
        let mut child = serve(program, store);
        let output = child.stdout.take().expect("piped above");
        let (mark, mut said) = ("\"address\":", String::new());
        let mut lines = BufReader::new(output);
        let address = loop {
            let count = lines.read_line(&mut said).expect("a line from the server");
            let word = said.split(mark).nth(1).and_then(|rest| rest.split('"').nth(1));
            if let Some(word) = word {
                break word.to_string();
            }
            assert!(count > 0, "the server did not start: {said:?}");
        };
        Process { child, address }
    }

    /// Starts it and kills it so soon that it is mostly still opening the store: a crash inside
    /// recovery.
    pub fn stillborn(program: &Path, store: &Path, life: Duration) {
        let mut child = serve(program, store);
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
    /// Connects; answers are waited for longer than any takes, however busy the machine is.
    pub fn connect(address: &str) -> io::Result<Client> {
        let output = TcpStream::connect(address)?;
        output.set_nodelay(true)?;
        output.set_read_timeout(Some(Duration::from_secs(600)))?;
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
