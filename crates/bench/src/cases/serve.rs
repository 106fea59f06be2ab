//! `serve`: our server against Redis, with redis-benchmark: 50 clients, 100-byte values, one
//! request at a time (p1) and sixteen pipelined (p16), random keys out of a million. Server and
//! clients are pinned to different CPUs.
//!
//! Redis runs twice: with its append-only file synced at each write, which is what our
//! acknowledgement means, and without any file, which is what it can do at best (`_nofile`). On
//! memory and, for writes, on a disk.

use super::Result;
use crate::harness::{Bench, Unit};
use crate::host;
use crate::ours::{self, Ours};
use everbyte_server::{Options, Server};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The hidden word that makes this program our server: `FOLDER LOOPS`. It prints its port and runs
/// until it is killed.
pub(super) const SERVER: &str = "__server";

/// The server's life.
///
/// # Errors
/// Errors of the store or the server.
pub(super) fn server(words: &[String]) -> Result {
    let [folder, loops] = words else { return Err("a server is FOLDER LOOPS".into()) };
    let ours = Ours::open(Path::new(folder))?;
    let options = Options { address: "127.0.0.1:0".into(), loops: loops.parse()?, ..Options::default() };
    let server = Server::bind(ours.kv().clone(), options)?;
    println!("{}", server.address().port());
    server.run()?;
    Ok(())
}

/// A running server with a folder of its own.
struct Running {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill(); // gone already is as good
        let _ = self.child.wait();
    }
}

/// Children inherit this thread's CPU.
fn spawn_on(cpu: usize, command: &mut Command) -> Result<Child> {
    host::pin(cpu);
    let child = command.spawn();
    host::unpin();
    Ok(child?)
}

/// A server with so many event loops, on the first CPU if it is `pinned`, else on all.
fn ours(place: &Path, loops: usize, pinned: bool) -> Result<Running> {
    let folder = tempfile::tempdir_in(place)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(SERVER).arg(folder.path()).arg(loops.to_string()).stdout(Stdio::piped());
    let mut child = if pinned { spawn_on(0, &mut command)? } else { command.spawn()? };
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("a pipe")?).read_line(&mut line)?;
    let port = line.trim().parse().unwrap_or(0);
    ready(Running { child, port, _folder: folder })
}

fn redis(place: &Path, synced: bool) -> Result<Running> {
    let folder = tempfile::tempdir_in(place)?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string(), "--dir"]).arg(folder.path());
    if synced {
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    }
    let child = spawn_on(0, command.stdout(Stdio::null()))?;
    ready(Running { child, port, _folder: folder })
}

/// Waits until the server answers.
fn ready(running: Running) -> Result<Running> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", running.port)) {
            stream.write_all(b"PING\r\n")?;
            let mut reply = [0; 7];
            if stream.read_exact(&mut reply).is_ok() && &reply == b"+PONG\r\n" {
                return Ok(running);
            }
        }
        if Instant::now() > deadline {
            return Err(format!("no answer on port {}", running.port).into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Requests a second, as redis-benchmark measures them.
fn requests(running: &Running, test: &str, pipeline: u64, count: u64) -> Result<f64> {
    requests_by(running, test, pipeline, count, true)
}

/// The same by clients on the second CPU, or on all.
fn requests_by(running: &Running, test: &str, pipeline: u64, count: u64, pinned: bool) -> Result<f64> {
    let mut command = Command::new("redis-benchmark");
    let words = [
        ("-p", running.port.to_string()),
        ("-t", test.into()),
        ("-P", pipeline.to_string()),
        ("-n", count.to_string()),
        ("-c", "50".into()),
        ("-d", "100".into()),
        ("-r", "1000000".into()),
    ];
    for (word, value) in &words {
        command.args([word, &value[..]]);
    }
    command.arg("--csv").stdout(Stdio::piped()).stderr(Stdio::null());
    let child = if pinned { spawn_on(1, &mut command)? } else { command.spawn()? };
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.to_lowercase().starts_with(&format!("\"{test}\"")));
    let value = line.and_then(|line| line.split('"').nth(3)?.parse().ok());
    value.ok_or_else(|| format!("redis-benchmark said nothing of {test}: {text}").into())
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    if Command::new("redis-benchmark").arg("--version").stdout(Stdio::null()).status().is_err() {
        bench.skipped("all", "redis-benchmark is not installed; `cargo xtask rivals` does that");
        return Ok(());
    }
    let rounds = bench.plan.rounds.min(5);
    for (place, suffix, tests) in
        [(bench.plan.memory.clone(), "", &["set", "get"][..]), (bench.plan.disk.clone(), "_disk", &["set"][..])]
    {
        bench.backend = if suffix.is_empty() { "shm" } else { "file" }.into();
        let (everbyte, synced) = (ours(&place, 1, true)?, redis(&place, true)?);
        let plain = if suffix.is_empty() { Some(redis(&place, false)?) } else { None };
        for test in tests {
            for (pipeline, count) in
                [(1, bench.plan.pick(100_000, 30_000, 2_000)), (16, bench.plan.pick(800_000, 200_000, 20_000))]
            {
                let mut values = [vec![], vec![], vec![]];
                for _ in 0..rounds {
                    values[0].push(requests(&everbyte, test, pipeline, count)?);
                    values[1].push(requests(&synced, test, pipeline, count)?);
                    if let Some(plain) = &plain {
                        values[2].push(requests(plain, test, pipeline, count)?);
                    }
                }
                let [mine, theirs, plain] = values;
                let name = format!("{test}_p{pipeline}{suffix}");
                let against = |rival: &str, values| vec![(ours::NAME.into(), mine.clone()), (rival.into(), values)];
                bench.report(&name, Unit::PerSecond, against("redis, synced", theirs), None);
                if !plain.is_empty() {
                    bench.report(&format!("{name}_nofile"), Unit::PerSecond, against("redis, no file", plain), None);
                }
            }
        }
    }
    further_loops(bench, rounds)
}

/// Two event loops against one. Nothing is pinned: with two CPUs the clients share both with the
/// server, with four each loop may have one of its own.
fn further_loops(bench: &mut Bench<'_>, rounds: usize) -> Result {
    let place = bench.plan.memory.clone();
    bench.backend = "shm".into();
    let (one, two) = (ours(&place, 1, false)?, ours(&place, 2, false)?);
    for server in [&one, &two] {
        requests_by(server, "set", 16, bench.plan.pick(800_000, 200_000, 20_000), false)?;
    }
    for (pipeline, count) in
        [(1, bench.plan.pick(200_000, 60_000, 2_000)), (16, bench.plan.pick(1_600_000, 400_000, 20_000))]
    {
        let mut values = [vec![], vec![]];
        for _ in 0..rounds {
            values[0].push(requests_by(&two, "get", pipeline, count, false)?);
            values[1].push(requests_by(&one, "get", pipeline, count, false)?);
        }
        let [two, one] = values;
        let sides = vec![(ours::NAME.into(), two), ("everbyte, one loop".into(), one)];
        bench.report(&format!("get_p{pipeline}_loops"), Unit::PerSecond, sides, None);
    }
    Ok(())
}
