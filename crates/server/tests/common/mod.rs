//! Shared by the server's tests: our server in a thread, a real Redis beside it, and a client that
//! sees every byte.
#![allow(dead_code)] // each test file uses its part

use everbyte_kv::Kv;
use everbyte_media::museum;
use everbyte_server::{Handle, Options, Server};
use everbyte_store::{CreateOptions, Store};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ends a test that would never end. However busy the machine is, nothing takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Our server, on a store of its own, in a thread of its own.
pub(crate) struct Ours {
    pub address: SocketAddr,
    pub handle: Handle,
    /// The address on which figures are told to Prometheus.
    pub metrics: Option<SocketAddr>,
    thread: Option<JoinHandle<everbyte_server::Result<()>>>,
    kv: Kv,
    _dir: tempfile::TempDir,
}

/// A store in `dir`, as `everbyte create` makes one, with its table.
pub(crate) fn table(dir: &Path) -> Kv {
    std::fs::create_dir_all(dir).unwrap();
    let store = Store::create(&dir.join("everbyte.store"), &CreateOptions::default()).unwrap();
    Kv::open_or_create(&store, "kv").unwrap()
}

impl Ours {
    pub(crate) fn start() -> Ours {
        Ours::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Ours {
        let dir = tempfile::tempdir().unwrap();
        Ours::on(table(dir.path()), dir, options)
    }

    /// On a table that a test has filled, in its directory. `EVERBYTE_LOOPS` is the number of event
    /// loops of every server, whose connections are then lent at once.
    pub(crate) fn on(kv: Kv, dir: tempfile::TempDir, options: Options) -> Ours {
        let loops = std::env::var("EVERBYTE_LOOPS").ok().and_then(|count| count.parse().ok());
        let (loops, lend_after) = loops.map_or((options.loops, options.lend_after), |count| (count, 0));
        let options = Options { address: "127.0.0.1:0".into(), loops, lend_after, ..options };
        let server = Server::bind(kv.clone(), options).unwrap();
        let (address, handle, metrics) = (server.address(), server.handle(), server.metrics_address());
        let thread = Some(std::thread::spawn(museum::carried(move || server.run())));
        Ours { address, handle, metrics, thread, kv, _dir: dir }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Waits for the server to end by itself.
    pub(crate) fn join(&mut self) -> everbyte_server::Result<()> {
        self.thread.take().expect("joined once").join().expect("the server does not panic")
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            if !std::thread::panicking() {
                result.expect("the server does not panic").expect("the server ends well");
                // The tables agree, whatever a test has done.
                let mut findings = Vec::new();
                everbyte_server::check(&self.kv, &mut |finding| findings.push(finding.to_string()));
                assert!(findings.is_empty(), "{findings:?}");
            }
        }
    }
}

/// A real Redis.
pub(crate) struct Redis {
    pub address: SocketAddr,
    child: Child,
    /// Its working directory.
    pub dir: tempfile::TempDir,
}

impl Redis {
    /// On a port that was free a moment before: should another program have taken it since, on
    /// another one.
    pub(crate) fn start() -> Redis {
        Redis::start_with(&[], None)
    }

    /// With further arguments, and a snapshot to load, or the directory of an AOF.
    pub(crate) fn start_with(args: &[&str], snapshot: Option<&Path>) -> Redis {
        let started = std::iter::repeat_with(|| Redis::try_start(args, snapshot)).take(10).flatten().next();
        started.expect("redis-server ends by itself, and hardly for want of a free port")
    }

    fn try_start(args: &[&str], snapshot: Option<&Path>) -> Option<Redis> {
        let dir = tempfile::tempdir().unwrap();
        match snapshot {
            Some(folder) if folder.is_dir() => {
                let to = dir.path().join(folder.file_name().unwrap());
                std::fs::create_dir(&to).unwrap();
                for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                    std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
                }
            }
            Some(file) => drop(std::fs::copy(file, dir.path().join("dump.rdb")).unwrap()),
            None => {}
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(dir.path())
            .args(args)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "redis-server cannot be started ({error}): the tests compare with it; apt-get install redis-server"
                )
            });
        let mut redis = Redis { address: SocketAddr::from(([127, 0, 0, 1], port)), child, dir };
        let listens = format!("process_id:{}\r\n", redis.child.id());
        loop {
            if redis.child.try_wait().unwrap().is_some() {
                return None;
            }
            let said = TcpStream::connect(redis.address)
                .is_ok()
                .then(|| redis.client().exchange(&command(&["INFO", "everything"])));
            let is_told = |said: &[u8], text: &str| String::from_utf8_lossy(said).contains(text);
            if said.is_some_and(|(said, _)| is_told(&said, &listens) && is_told(&said, "\r\nloading:0\r\n")) {
                return Some(redis);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that shows raw bytes.
pub(crate) struct Client {
    pub stream: TcpStream,
    buffer: Vec<u8>,
    nonce: u64,
}

/// One reply, understood.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    List(Vec<Reply>),
}

impl Reply {
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Reply::Bulk(bytes) => bytes,
            other => panic!("not a byte string: {other:?}"),
        }
    }
    pub(crate) fn list(self) -> Vec<Reply> {
        match self {
            Reply::List(list) => list,
            other => panic!("not a list: {other:?}"),
        }
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        Client::try_connect(address).expect("a connection")
    }

    pub(crate) fn try_connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client { stream, buffer: Vec::new(), nonce: 0 })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut bytes = [0; 65536];
        let count = self.stream.read(&mut bytes)?;
        self.buffer.extend_from_slice(&bytes[..count]);
        if count > 0 { Ok(()) } else { Err(io::Error::other("the server closed the connection")) }
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.buffer[..end].to_vec();
                self.buffer.drain(..end + 2);
                return Ok(line);
            }
            self.fill()?;
        }
    }

    /// Reads one reply; maps, sets and texts of RESP3 become lists and byte strings.
    pub(crate) fn reply(&mut self) -> Reply {
        self.try_reply().expect("a reply")
    }

    /// The same, with an error if the connection is lost.
    pub(crate) fn try_reply(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let text = String::from_utf8_lossy(&line[1..]).into_owned();
        let list = |client: &mut Client, count: i64| {
            (0..count).map(|_| client.try_reply()).collect::<io::Result<_>>().map(Reply::List)
        };
        Ok(match line[0] {
            b'+' => Reply::Simple(text),
            b'-' => Reply::Error(text),
            b',' => Reply::Bulk(text.into()),
            b':' => Reply::Integer(text.parse().unwrap()),
            b'_' => Reply::Null,
            b'$' | b'=' if text == "-1" => Reply::Null,
            b'*' if text == "-1" => Reply::Null,
            b'$' | b'=' => {
                let size: usize = text.parse().unwrap();
                while self.buffer.len() < size + 2 {
                    self.fill()?;
                }
                let bytes = self.buffer[..size].to_vec();
                assert_eq!(&self.buffer[size..size + 2], b"\r\n");
                self.buffer.drain(..size + 2);
                Reply::Bulk(bytes)
            }
            b'*' | b'~' | b'>' => list(self, text.parse().unwrap())?,
            b'%' => list(self, 2 * text.parse::<i64>().unwrap())?,
            other => panic!("unknown reply {:?}", other as char),
        })
    }

    /// Sends a command and reads its reply.
    pub(crate) fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Reply {
        self.send(&command(args));
        self.reply()
    }

    /// The same, with an error if the connection is lost.
    pub(crate) fn try_call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Reply> {
        self.stream.write_all(&command(args))?;
        self.try_reply()
    }

    /// Sends `bytes` and returns everything that comes back until the connection is quiet: known by
    /// the answer to a last command, or by the end of the connection (then with `true`).
    pub(crate) fn exchange(&mut self, bytes: &[u8]) -> (Vec<u8>, bool) {
        self.exchange_by("ECHO", bytes)
    }

    /// The same, with a last command of the test's choice, whose answer ends with its argument.
    pub(crate) fn exchange_by(&mut self, last: &str, bytes: &[u8]) -> (Vec<u8>, bool) {
        self.nonce += 1;
        let nonce = format!("nonce-{}-{:016x}", self.nonce, self.nonce.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let end = format!("${}\r\n{nonce}\r\n", nonce.len());
        // The connection may be closed under our feet: then the answer is what came before.
        let _ = self.stream.write_all(&[bytes, &command(&[last, &nonce])].concat());
        let mut seen = std::mem::take(&mut self.buffer);
        let mut part = [0; 65536];
        loop {
            if seen.ends_with(end.as_bytes()) {
                seen.truncate(seen.len() - end.len());
                if seen.ends_with(b"*2\r\n$4\r\npong\r\n") {
                    seen.truncate(seen.len() - 14); // the rest of a subscriber's answer to PING
                }
                return (seen, false);
            }
            match self.stream.read(&mut part) {
                Ok(0) => return (seen, true),
                Ok(count) => seen.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return (seen, true),
                Err(error) => panic!("no answer: {error}; so far {} bytes", seen.len()),
            }
        }
    }
}

/// A command as an array of byte strings.
pub(crate) fn command<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// The figure `name` of INFO.
pub(crate) fn figure(client: &mut Client, name: &str) -> u64 {
    let text = String::from_utf8(client.call(&["INFO", "everything"]).bytes()).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}:")))
        .unwrap_or_else(|| panic!("no {name} in {text}"));
    line.trim().parse().unwrap()
}

/// The seed of the random test `name`.
pub(crate) fn seed(name: &str) -> u64 {
    everbyte_workload::seed(0x5eed, &format!("-p everbyte-server {name}"))
}
