//! C programs that may read and not write: by their own mapping, or by the rights that a broker
//! grants their user.

use crate::programs::{compile, run, succeed, text};
use everbyte_broker::{Broker, Client, Options};
use everbyte_store::{CreateOptions, Store};
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

/// A broker, and a domain `shop`, created by its owner.
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
    place.succeed(&["force", "4002", "5000"]); // in vain: others find what was there
    faulted(&place.run(&["read", "4002", "5000"]));
    place.succeed(&["refused", "4003", "5001"]);
    place.succeed(&["refused", "4003", "5001", "5002"]);
    place.client().chmod("shop", 0o444).unwrap();
    faulted(&place.run(&["read", "4001", "5000"])); // its owner
    faulted(&place.run(&["read", "4003", "5001"]));
}

/// A store that every user may open: only the rights of its objects restrict access to them.
struct Common {
    program: PathBuf,
    store: PathBuf,
    _dir: tempfile::TempDir,
}

impl Common {
    fn new() -> Common {
        let dir = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
        let (program, store) = (compile(SOURCE, dir.path()), dir.path().join("store"));
        let options = CreateOptions { max: 1 << 30, bound: true, ..CreateOptions::default() };
        Store::create(&store, &options).unwrap().close().unwrap();
        for (path, mode) in [(dir.path(), 0o755), (&store, 0o666)] {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        }
        Common { program, store, _dir: dir }
    }

    fn run(&self, words: &[&str]) -> Output {
        run(&self.program, &self.store, "shm", words)
    }

    fn succeed(&self, words: &[&str]) {
        succeed(&self.program, &self.store, "shm", words);
    }

    fn change<T>(&self, change: impl FnOnce(&Store) -> T) -> T {
        let media = everbyte_media::Options { backend: everbyte_media::BackendChoice::Shm, ..Default::default() };
        let store = Store::open(&self.store, &media).unwrap();
        let answer = change(&store);
        store.close().unwrap();
        answer
    }
}

#[test]
fn rights_of_objects_are_asked_when_they_are_mapped() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root starts programs of several users");
        return;
    }
    let common = Common::new();
    common.succeed(&["make", "4001", "5000"]);
    common.succeed(&["own:640", "4001", "5000"]);
    faulted(&common.run(&["may-read", "4002", "5000"]));
    faulted(&common.run(&["may-read", "4002", "5001", "5000"])); // by a supplementary group
    common.succeed(&["refused", "4003", "5001"]);
    common.succeed(&["own:604", "4001", "5000"]);
    common.succeed(&["refused", "4002", "5000"]); // the first that fits decides
    faulted(&common.run(&["may-read", "4003", "5001"]));
    common.change(|store| store.chown("kept", Some(4003), Some(5001))).unwrap();
    common.succeed(&["own:600", "4003", "5001"]);
    common.succeed(&["refused", "4001", "5000"]);
    assert_eq!(common.change(Store::check), []);
}

/// One user's programs allocate as much as possible, in one object and in many; another user's go
/// on.
#[test]
fn who_leaks_stops_at_its_users_quota_and_nobody_else_does() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root starts programs of several users");
        return;
    }
    let common = Common::new();
    common.change(|store| store.set_user_quota(Some(40))).unwrap();
    common.succeed(&["leak", "4001", "5000"]);
    common.succeed(&["make", "4002", "5000"]);
    common.succeed(&["own:600", "4002", "5000"]);
    let clusters = |store: &Store| store.info().backed / everbyte_store::CLUSTER;
    assert!(common.change(clusters) <= 80);
    assert_eq!(common.change(Store::check), []);
}
