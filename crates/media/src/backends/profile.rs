//! Device profiles: `shm` slowed down to a slower memory, as the papers of the field did.
//!
//! Model (Mnemosyne, section 6.1 of its evaluation): a latency of write-backs, paid once at the
//! next fence, for lines of one fence overlap; a latency per fence; a bandwidth that all threads
//! share and writes cannot exceed. Delays spin on the time-stamp counter and are never shorter than
//! requested. Loads are not slowed.

use crate::bytes::isa;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// One emulated device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// The name used in options and benches.
    pub name: &'static str,
    /// Extra nanoseconds of a write-back that a fence waits for; lines of one fence overlap.
    pub write_ns: u32,
    /// Extra nanoseconds of each fence.
    pub fence_ns: u32,
    /// Bytes per microsecond (MB/s) that writes cannot exceed; 0 is unlimited.
    pub bandwidth_mb: u32,
}

impl Profile {
    /// The machine's own memory.
    pub const DRAM: Profile = Profile { name: "dram", write_ns: 0, fence_ns: 0, bandwidth_mb: 0 };
    /// Phase-change memory as Mnemosyne assumed it: 150 ns, 4 GB/s.
    pub const PCM: Profile = Profile { name: "pcm", write_ns: 150, fence_ns: 0, bandwidth_mb: 4000 };
    /// Mnemosyne's sensitivity study.
    pub const PCM_1000: Profile = Profile { name: "pcm-1000", write_ns: 1000, fence_ns: 0, bandwidth_mb: 4000 };
    /// Mnemosyne's sensitivity study.
    pub const PCM_2000: Profile = Profile { name: "pcm-2000", write_ns: 2000, fence_ns: 0, bandwidth_mb: 4000 };
    /// Intel's PMEP as PMFS used it: barrier 100..1000 ns (500 here), 9.5 GB/s.
    pub const PMEP: Profile = Profile { name: "pmep", write_ns: 0, fence_ns: 500, bandwidth_mb: 9500 };
    /// First-generation Optane DIMM, one of them: 94 ns write, 2.3 GB/s.
    pub const OPTANE: Profile = Profile { name: "optane", write_ns: 94, fence_ns: 0, bandwidth_mb: 2300 };
    /// Memory behind a CXL 2.0 link: one link traversal more than local memory, 16 GB/s.
    pub const CXL: Profile = Profile { name: "cxl", write_ns: 170, fence_ns: 0, bandwidth_mb: 16000 };
    /// All profiles.
    pub const ALL: [Profile; 7] =
        [Self::DRAM, Self::PCM, Self::PCM_1000, Self::PCM_2000, Self::PMEP, Self::OPTANE, Self::CXL];

    /// The profile of that name.
    pub fn named(name: &str) -> Option<Profile> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }

    pub(crate) fn is_free(self) -> bool {
        self.write_ns == 0 && self.fence_ns == 0 && self.bandwidth_mb == 0
    }

    /// The earliest end of a fence that began at `start`, after `lines` lines of which the first
    /// was sent at `since`; all in ticks. The device takes lines while the program sends them, and
    /// those of all threads one after the other.
    pub(crate) fn fence_end(self, lines: u64, since: u64, start: u64, busy_until: &AtomicU64) -> u64 {
        let ticks = |ns: f64| (ns * ticks_per_ns()).ceil() as u64;
        let mut end = if lines > 0 { start + ticks(self.write_ns.into()) } else { start };
        if self.bandwidth_mb > 0 && lines > 0 {
            let transfer = ticks((lines * isa::LINE) as f64 * 1000.0 / f64::from(self.bandwidth_mb));
            let taken = |busy: u64| busy.max(since) + transfer;
            let busy = busy_until.fetch_update(Relaxed, Relaxed, |busy| Some(taken(busy)));
            end = end.max(busy.map_or(end, taken));
        }
        end + ticks(self.fence_ns.into())
    }
}

/// Spins until the CPU's counter has reached `end`.
pub(crate) fn spin_until(end: u64) {
    while isa::ticks() < end {
        std::hint::spin_loop();
    }
}

/// Counter ticks of a nanosecond, calibrated once against the clock over 20 ms.
pub(crate) fn ticks_per_ns() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        // The counter is read before the clock starts and after it ends: an interruption makes the
        // rate, and so the delays, larger and never smaller. The minimum of several measurements
        // had the shortest interruptions.
        let measure = |_| {
            let (ticks, clock) = (isa::ticks(), Instant::now());
            while clock.elapsed() < Duration::from_millis(5) {
                std::hint::spin_loop();
            }
            let took = clock.elapsed();
            (isa::ticks() - ticks) as f64 / took.as_nanos() as f64
        };
        (0..4).map(measure).fold(f64::INFINITY, f64::min)
    })
}
