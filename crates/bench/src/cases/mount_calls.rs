//! A part of `mount`: single system calls by one thread. A call that the kernel's caches answer is
//! compared with local file systems, a call that reaches the server with the null server.
//!
//! `O_DIRECT` passes over the page cache; local file systems take no part there.

use super::Result;
use super::mount::Systems;
use super::mount_null::{FILE, LEN};
use super::mount_systems::{EXT4, NULL, System};
use crate::harness::{Bench, Runner, Unit};
use crate::report::Bar;
use everbyte_workload::Random;
use rustix::fs::OFlags;
use rustix::thread::sched_setaffinity;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

const PAGE: usize = 4096;
/// The share of the null server's speed that a request has, and those of local caches.
const OF_NULL: f64 = 1.0 / 1.25;
const OF_NATIVE_READ: f64 = 1.0 / 1.2;
const OF_NATIVE_STAT: f64 = 1.0 / 1.5;

/// The name and the flags of a metric, and its calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Read,
    Write,
    Stat,
    Create,
    Open,
}

pub(super) fn run(bench: &mut Bench<'_>, systems: &Systems) -> Result {
    let metrics = [
        ("read_4k_cached", Call::Read, false),
        ("stat_cached", Call::Stat, false),
        ("read_4k_direct", Call::Read, true),
        ("write_4k_direct", Call::Write, true),
        ("write_4k", Call::Write, false),
        ("create_close_unlink", Call::Create, false),
        ("open_close", Call::Open, false),
    ];
    let is_wanted = |name: &str| bench.wants(name) || bench.wants(&format!("{name}_one_core"));
    if !metrics.iter().any(|(name, ..)| is_wanted(name)) {
        return Ok(());
    }
    for system in &systems.all {
        fill(system)?;
    }
    let all = || systems.all.iter().chain(&systems.null);
    for (suffix, backend) in [("", "shm, servers on any core"), ("_one_core", "shm, servers on the client's core")] {
        // Elsewhere servers run where they place themselves.
        let is_gathered = !suffix.is_empty();
        let gathered = all().filter(|_| is_gathered).map(|system| system.gather(0)).collect::<Result<Vec<_>>>()?;
        let before = std::mem::replace(&mut bench.backend, backend.into());
        for (name, call, direct) in metrics {
            let is_cached = !direct && matches!(call, Call::Read | Call::Stat);
            if is_cached && is_gathered {
                continue; // no server takes part
            }
            let mut runners = Vec::new();
            for system in all() {
                let is_local = !system.is_served();
                if (direct && is_local) || (is_cached && system.name == NULL) {
                    continue;
                }
                runners.extend(runner(system, call, direct)?);
            }
            bench.bars = match call {
                Call::Read if is_cached => vec![Bar::new(EXT4, OF_NATIVE_READ)],
                Call::Stat => vec![Bar::new(EXT4, OF_NATIVE_STAT)],
                Call::Open => vec![],
                _ => vec![Bar::new(NULL, OF_NULL)],
            };
            bench.metric(&format!("{name}{suffix}"), Unit::Nanoseconds, 0, runners);
        }
        bench.backend = before;
        for (task, cpus) in gathered.concat() {
            let _ = sched_setaffinity(task, &cpus); // a thread may have ended
        }
    }
    systems.all.iter().try_for_each(|system| std::fs::remove_file(system.at.join(FILE)))?;
    Ok(())
}

/// The file that the null server has, too.
fn fill(system: &System) -> Result {
    let (file, part) = (File::create(system.at.join(FILE))?, vec![b'x'; 1 << 20]);
    (0..LEN).step_by(part.len()).try_for_each(|at| file.write_all_at(&part, at))?;
    Ok(file.sync_all()?)
}

/// The runner of a call on a system; none where the system refuses to open the file so.
fn runner(system: &System, call: Call, direct: bool) -> Result<Option<Runner<'static>>> {
    let (path, new) = (system.at.join(FILE), system.at.join("made"));
    let flags = if direct { OFlags::DIRECT.bits() as i32 } else { 0 };
    let opened = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path);
    let Ok(file) = opened else { return Ok(None) };
    let mut bytes = vec![b'y'; 2 * PAGE];
    let start = bytes.as_ptr().align_offset(PAGE); // O_DIRECT needs it
    let page = start..start + PAGE;
    let mut is_refused = || file.read_exact_at(&mut bytes[page.clone()], 0).is_err();
    if direct && (is_refused() || (call == Call::Write && file.write_all_at(&bytes[page.clone()], 0).is_err())) {
        return Ok(None); // a file below takes no buffer that is not aligned
    }
    if call == Call::Read && !direct {
        let mut part = vec![0; 1 << 20];
        (0..LEN).step_by(part.len()).try_for_each(|at| file.read_exact_at(&mut part, at))?;
    }
    let (mut numbers, count) = (Random::new(5), LEN / PAGE as u64);
    let body = move |calls| {
        for _ in 0..calls {
            let at = numbers.below(count) * PAGE as u64;
            match call {
                Call::Read => file.read_exact_at(&mut bytes[page.clone()], at).expect("a read"),
                Call::Write => file.write_all_at(&bytes[page.clone()], at).expect("a write"),
                Call::Stat => drop(black_box(rustix::fs::stat(&path).expect("a file"))),
                Call::Open => drop(File::open(&path).expect("a file")),
                Call::Create => {
                    drop(File::create_new(&new).expect("a new file"));
                    std::fs::remove_file(&new).expect("a file that was made");
                }
            }
            black_box(&bytes);
        }
    };
    Ok(Some(Runner::new(system.name.clone(), body)))
}
