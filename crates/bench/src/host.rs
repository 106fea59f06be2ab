//! Origin of a number: machine, kernel, cores, commit, day; and the pinning of threads.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// The origin that results record.
#[derive(Clone, Debug)]
pub struct Host {
    /// The CPU's name.
    pub cpu: String,
    /// The kernel's release.
    pub kernel: String,
    /// CPUs that this process may use.
    pub cores: usize,
    /// The commit of the sources, `+` behind it if they were changed since; `unknown` outside a
    /// repository.
    pub commit: String,
    /// The day, in UTC.
    pub date: String,
}

/// This machine.
pub fn host() -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split(':').nth(1));
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let said = |command: &mut Command| {
            let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
        };
        let git = |words: &[&str]| said(Command::new("git").args(words));
        let changed = git(&["status", "--porcelain"]).is_some_and(|text| !text.is_empty());
        let commit = git(&["rev-parse", "--short=12", "HEAD"]);
        Host {
            cpu: cpu.unwrap_or("unknown").trim().to_string(),
            kernel: kernel.trim().to_string(),
            cores: cpus().len(),
            commit: commit.map_or("unknown".into(), |commit| commit + if changed { "+" } else { "" }),
            date: said(Command::new("date").args(["-u", "+%F"])).unwrap_or_else(|| "unknown".into()),
        }
    })
}

/// CPUs that this process could use when it started.
pub fn cpus() -> &'static [usize] {
    static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
    CPUS.get_or_init(|| {
        let set = sched_getaffinity(None).unwrap_or_default();
        (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
    })
}

/// Pins this thread to the CPU of that number, counted from the last one: 0 is the last, which
/// interrupts seldom visit.
pub fn pin(number: usize) {
    let cpus = cpus();
    if let Some(&cpu) = cpus.iter().rev().cycle().nth(number) {
        let mut set = CpuSet::new();
        set.set(cpu);
        let _ = sched_setaffinity(None, &set); // an unpinned run is noisier, not wrong
    }
}

/// Lets this thread, and those it starts, run anywhere again.
pub fn unpin() {
    let mut set = CpuSet::new();
    cpus().iter().for_each(|&cpu| set.set(cpu));
    let _ = sched_setaffinity(None, &set);
}

/// CPU time of all threads of this process so far, the kernel's work for them included.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
