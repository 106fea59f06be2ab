//! Databases of other projects whose file system dies: RocksDB and PostgreSQL, on `shm` and on
//! `file`. A few crashes in `cargo xtask posix`, which installs both; RocksDB with one crash in the
//! normal tests where it is installed.
//!
//! The daemon is killed at some transaction. After the next mount the database recovers, has all
//! that it had acknowledged, and none in part.

use crate::harness::{Mounted, long, works};
use crate::programs::{has, run};
use everbyte_media::BackendChoice;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const BACKENDS: [BackendChoice; 2] = [BackendChoice::Shm, BackendChoice::File];

/// The keys of a database of RocksDB, which `db_bench` numbers.
fn keys(at: &Path) -> Vec<u64> {
    let said = run(at, "ldb --db=db checkconsistency; ldb --db=db scan --hex --no_value");
    let number = |line: &str| u64::from_str_radix(line.strip_prefix("0x")?.get(..16)?, 16).ok();
    said.lines().filter_map(number).collect()
}

/// RocksDB's own bench writes keys in order, each synced, in small files that it compacts.
#[test]
fn rocksdb_keeps_its_synced_keys_over_crashes() {
    if !works() || !has("db_bench") || !has("ldb") {
        return;
    }
    for backend in BACKENDS {
        for round in 0..if long() { 4 } else { 1 } {
            let mut on = Mounted::large(backend);
            let mut command = Command::new("db_bench");
            command.args(["--benchmarks=fillseq", "--sync=1", "--num=100000000", "--stats_interval=20"]);
            command.args(["--value_size=500", "--write_buffer_size=65536", "--compression_type=none"]);
            command.arg(format!("--db={}", on.path("db").display()));
            let mut bench = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let until = 200 + round * 333;
            let (mut done, mut is_dead) = (0, false);
            for line in BufReader::new(bench.stderr.take().unwrap()).lines().map_while(Result::ok) {
                // `thread 0: (20,240) ops and ..`: the second number is the sum.
                let sum = line.split_once(") ops").and_then(|(head, _)| head.rsplit_once(',')?.1.parse().ok());
                done = sum.unwrap_or(done);
                if done >= until && !is_dead {
                    on.kill();
                    is_dead = true;
                }
            }
            drop(bench.wait());
            assert!(is_dead, "the bench has ended after {done} keys");
            on.mount();
            let found = keys(&on.at);
            assert!(found.len() as u64 >= done, "{} keys of {done}, {backend:?}", found.len());
            assert!(found.iter().copied().eq(0..found.len() as u64), "a key is missing, {backend:?}");
            let flags = "--use_existing_db=1 --sync=1 --num=150 --value_size=500 --compression_type=none";
            run(&on.at, &format!("db_bench --db=db --benchmarks=overwrite,compact,readrandom {flags} 2>&1"));
            assert_eq!(keys(&on.at).len(), found.len(), "{backend:?}");
            on.unmount();
            on.check();
        }
    }
}

/// PostgreSQL on a mount, run by the user that its package makes.
struct Postgres {
    programs: PathBuf,
    data: PathBuf,
    /// Outside of the mount: the socket, and logs.
    folder: tempfile::TempDir,
    ids: (u32, u32),
    server: Option<Child>,
}

impl Postgres {
    fn find(at: &Path) -> Option<Postgres> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
        let programs = versions.map(|version| version.unwrap().path().join("bin"));
        let programs = programs
            .filter(|folder| ["initdb", "postgres", "pgbench"].iter().all(|name| folder.join(name).exists()))
            .max();
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let user = users.lines().find_map(|line| line.strip_prefix("postgres:"));
        let (Some(programs), Some(user)) = (programs, user) else {
            eprintln!("skipped: PostgreSQL is not installed");
            return None;
        };
        let mut words = user.split(':').skip(1).map_while(|word| word.parse().ok());
        let ids = (words.next()?, words.next()?);
        let folder = tempfile::tempdir().unwrap();
        let data = at.join("data");
        for path in [folder.path(), &data] {
            fs::create_dir_all(path).unwrap();
            std::os::unix::fs::chown(path, Some(ids.0), Some(ids.1)).unwrap();
        }
        Some(Postgres { programs, data, folder, ids, server: None })
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.uid(self.ids.0).gid(self.ids.1).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("PGHOST", self.folder.path()).env("PGUSER", "postgres").env("PGDATABASE", "postgres");
        command
    }

    #[track_caller]
    fn run(&self, name: &str, words: &[&str]) -> String {
        let output = self.command(name).args(words).output().unwrap();
        assert!(output.status.success(), "{name} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts the server, which recovers, and waits until it answers.
    fn start(&mut self) {
        let mut command = self.command("postgres");
        let log = fs::File::options().create(true).append(true).open(self.folder.path().join("server.log")).unwrap();
        command.arg("-D").arg(&self.data).arg("-k").arg(self.folder.path()).stderr(log);
        for setting in ["listen_addresses=", "shared_buffers=8MB", "max_wal_size=32MB", "min_wal_size=32MB", "fsync=on"]
        {
            command.args(["-c", setting]);
        }
        let mut server = command.spawn().unwrap();
        let answers = || self.command("pg_isready").stdout(Stdio::null()).status().unwrap().success();
        while !answers() {
            if server.try_wait().unwrap().is_some() {
                panic!("{}", fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default());
            }
        }
        self.server = Some(server);
    }

    /// Ends the server: at once and without its own writes, or in good order.
    fn stop(&mut self, at_once: bool) {
        let Some(mut server) = self.server.take() else { return };
        let signal = if at_once { rustix::process::Signal::QUIT } else { rustix::process::Signal::INT };
        rustix::process::kill_process(rustix::process::Pid::from_child(&server), signal).unwrap();
        server.wait().unwrap();
    }

    fn query(&self, query: &str) -> String {
        self.run("psql", &["-XAtqc", query]).trim().to_owned()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop(true);
    }
}

/// pgbench's bank has the sum of all transactions that were acknowledged, in each of its tables.
#[test]
fn postgresql_keeps_each_transaction_over_crashes() {
    if !works() {
        return;
    }
    if !long() {
        eprintln!("skipped: `cargo xtask posix` runs it");
        return;
    }
    for backend in BACKENDS {
        let mut on = Mounted::large(backend);
        let Some(mut postgres) = Postgres::find(&on.at) else { return };
        let data = postgres.data.to_str().unwrap().to_owned();
        postgres.run("initdb", &["-D", &data, "-A", "trust", "--no-locale", "-E", "UTF8", "--data-checksums"]);
        postgres.start();
        postgres.run("pgbench", &["-i", "-q", "-s", "2"]);
        for round in 0..2 {
            let before: u64 = postgres.query("SELECT count(*) FROM pgbench_history").parse().unwrap();
            let prefix = format!("{round}");
            let mut command = postgres.command("pgbench");
            command.args(["-n", "-c", "4", "-j", "2", "-T", "600", "-P", "1", "-l", "--log-prefix", &prefix]);
            let mut bench = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let mut is_dead = false;
            for line in BufReader::new(bench.stderr.take().unwrap()).lines().map_while(Result::ok) {
                if line.starts_with(&format!("progress: {}", 3 + round)) && !is_dead {
                    on.kill();
                    postgres.stop(true);
                    is_dead = true;
                }
            }
            drop(bench.wait());
            assert!(is_dead, "pgbench has ended");
            let logs = fs::read_dir(postgres.folder.path()).unwrap().map(|entry| entry.unwrap().path());
            let logs =
                logs.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{round}.")));
            let acknowledged: u64 = logs.map(|path| fs::read_to_string(path).unwrap().lines().count() as u64).sum();
            assert!(acknowledged > 0);
            on.mount();
            postgres.start();
            let after: u64 = postgres.query("SELECT count(*) FROM pgbench_history").parse().unwrap();
            assert!(after >= before + acknowledged, "{after} rows after {before} and {acknowledged}, {backend:?}");
            let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = s, (SELECT sum(tbalance) FROM pgbench_tellers) = s, \
                (SELECT sum(bbalance) FROM pgbench_branches) = s FROM (SELECT sum(delta) AS s FROM pgbench_history) AS h";
            assert_eq!(postgres.query(sums), "t|t|t", "{backend:?}");
            eprintln!("{backend:?}: {acknowledged} transactions were acknowledged, {} are there", after - before);
        }
        postgres.stop(false);
        postgres.run("pg_checksums", &["--check", "-D", &data]);
        drop(postgres);
        on.unmount();
        on.check();
    }
}
