//! Programs of C that may read and not write: mapped so by themselves, or by what a broker grants their user.

mod programs;

use everbyte_broker::{Broker, Client, Options};
use programs::{compile, run, succeed, text};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SOURCE: &str = "crates/capi/tests/c/rights.c";

/// The program died of a store, and not before.
fn faulted(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.signal() == Some(libc::SIGSEGV) && said == "storing\n", "{}", text(output));
}

#[test]
fn a_store_to_an_object_that_is_mapped_to_be_read_is_a_fault() {
    let dir = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    let program = compile(SOURCE, dir.path());
    assert_eq!(succeed(&program, &dir.path().join("beside"), "shm", &["beside"]), "storing\n");
    faulted(&run(&program, &dir.path().join("death"), "shm", &["death"]));
}

/// A broker, and a domain `shop` whose maker was told to make one.
struct Place {
    dir: tempfile::TempDir,
    program: PathBuf,
    broker: Broker,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let program = compile(SOURCE, dir.path());
        let (domains, socket) = (dir.path().join("domains"), dir.path().join("domains.socket"));
        Place { program, broker: Broker::start(&domains, &socket, Options::default()).unwrap(), dir }
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.args(words).env("EVERBYTE_BROKER", self.broker.socket()).env("EVERBYTE_STORE", "shop");
        command.env_remove("EVERBYTE_BACKEND").output().unwrap()
    }

    fn succeed(&self, words: &[&str]) {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output));
    }

    fn client(&self) -> Client {
        Client::new(self.broker.socket())
    }
}

#[test]
fn a_program_opens_the_domain_that_its_broker_passes() {
    let place = Place::new();
    place.succeed(&["make"]);
    let about = place.client().about("shop").unwrap();
    assert_eq!(about.access.mode, 0o660);
    assert!(!place.dir.path().join("shop").exists() && !Path::new("shop").exists(), "no file of that name");
}

#[test]
fn each_user_has_exactly_the_rights_that_the_broker_grants() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root starts programs of several users");
        return;
    }
    let place = Place::new();
    place.succeed(&["make", "4001", "5000"]);
    place.client().chmod("shop", 0o640).unwrap();
    faulted(&place.run(&["read", "4002", "5000"]));
    faulted(&place.run(&["read", "4002", "5001", "5000"])); // by a supplementary group
    place.succeed(&["refused", "4003", "5001"]);
    place.succeed(&["refused", "4003", "5001", "5002"]);
    place.client().chmod("shop", 0o444).unwrap();
    faulted(&place.run(&["read", "4001", "5000"])); // its owner
    faulted(&place.run(&["read", "4003", "5001"]));
}
