//! The server as a process of its own: this test binary once more, which the test can kill.
//!
//! The process is not the `everbyte` program, so that seeded bugs can be on in it and its disk can
//! be slow. It ends with the process that started it: its standard input closes then.

use super::super::disks::Failing;
use everbyte_kv::Kv;
use everbyte_media::{BackendChoice, OpenOptions, museum};
use everbyte_server::{Options, Server};
use everbyte_store::{CreateOptions, Store};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const STORE: &str = "EVERBYTE_HISTORY_STORE";
const MEDIUM: &str = "EVERBYTE_HISTORY_MEDIUM";
const BUG: &str = "EVERBYTE_HISTORY_BUG";

/// The medium of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Shm,
    File,
    /// A file whose synced writes take 2 ms to begin: a process that dies meanwhile has lost them.
    SlowFile,
}

const MEDIA: [(Medium, &str); 3] = [(Medium::Shm, "shm"), (Medium::File, "file"), (Medium::SlowFile, "slow-file")];

/// A running server, killed when dropped.
pub(super) struct Process {
    child: Child,
    pub address: SocketAddr,
}

fn spawn(store: &Path, medium: Medium, bug: &str) -> Child {
    let name = MEDIA.iter().find(|(other, _)| *other == medium).expect("listed").1;
    Command::new(std::env::current_exe().expect("a test has a path"))
        .args(["--exact", "histories::process::server_process", "--nocapture", "--test-threads=1"])
        .env(STORE, store)
        .env(MEDIUM, name)
        .env(BUG, bug)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test runs once more")
}

impl Process {
    /// Starts it and waits until it listens.
    pub(crate) fn start(store: &Path, medium: Medium, bug: &str) -> Process {
        let mut child = spawn(store, medium, bug);
        let lines = BufReader::new(child.stdout.as_mut().expect("piped")).lines();
        let mut said =
            lines.map(|line| line.expect("a line")).filter_map(|line| Some(line.split_once("listens on ")?.1.parse()));
        let address = said.next().expect("the server starts").expect("an address");
        drop(said);
        Process { child, address }
    }

    /// Starts it and kills it so soon that it may still be opening the store.
    pub(crate) fn stillborn(store: &Path, medium: Medium, bug: &str, life: Duration) {
        let mut child = spawn(store, medium, bug);
        std::thread::sleep(life);
        child.kill().and_then(|()| child.wait()).expect("it is a child");
    }

    /// SIGKILL; returns when the process has ended.
    pub(crate) fn kill(mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("it is a child");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// The process of the tests beside it; without their variables it does nothing.
#[test]
fn server_process() {
    let Some(store) = std::env::var_os(STORE) else { return };
    let (medium, bug) = (std::env::var(MEDIUM).expect("set"), std::env::var(BUG).expect("set"));
    let medium = MEDIA.iter().find(|(_, name)| *name == medium).expect("listed").0;
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0); // the test has ended
    });
    museum::with(Box::leak(bug.into_boxed_str()), || serve(Path::new(&store), medium));
}

fn serve(path: &Path, medium: Medium) {
    let backend = if medium == Medium::Shm { BackendChoice::Shm } else { BackendChoice::File };
    let media = everbyte_media::Options { backend, ..Default::default() };
    if !path.exists() {
        // A kill before the name is in place leaves no store.
        let draft = path.with_extension("draft");
        let _ = std::fs::remove_file(&draft);
        let options = CreateOptions { media: media.clone(), max: 1 << 30, ..CreateOptions::default() };
        Store::create(&draft, &options).expect("a new store").close().expect("it closes");
        std::fs::rename(&draft, path).expect("it gets its name");
    }
    let store = match medium {
        Medium::SlowFile => {
            let disk = Arc::new(Failing::new(path));
            disk.be_slow();
            Store::attach(OpenOptions::new(path).on_disk(disk).open(&media).expect("the store opens"))
        }
        _ => Store::open(path, &media),
    };
    let kv = Kv::open_or_create(&store.expect("the store opens"), "kv").expect("its table");
    let server = Server::bind(kv, Options { address: "127.0.0.1:0".into(), ..Options::default() }).expect("it binds");
    println!("\nlistens on {}", server.address());
    server.run().expect("it is killed before it ends");
}
