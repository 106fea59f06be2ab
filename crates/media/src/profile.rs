//! Device profiles: `shm` slowed down to a slower memory, as the papers of the field did.
//!
//! Model (Mnemosyne, section 6.1 of its evaluation): a latency per flushed line, paid at the next fence; a latency
//! per fence; a bandwidth that sequential writes cannot exceed. Delays spin on the time-stamp counter and are never
//! shorter than asked. Loads are not slowed.

use crate::isa;
use std::sync::OnceLock;
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
    /// All of them.
    pub const ALL: [Profile; 7] =
        [Self::DRAM, Self::PCM, Self::PCM_1000, Self::PCM_2000, Self::PMEP, Self::OPTANE, Self::CXL];

    /// The profile of that name.
    pub fn named(name: &str) -> Option<Profile> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }

    pub(crate) fn is_free(self) -> bool {
        self.write_ns == 0 && self.fence_ns == 0 && self.bandwidth_mb == 0
    }

    /// What a fence costs after `lines` line write-backs since the last one.
    pub(crate) fn delay(self, lines: u64) -> Duration {
        let latency = if lines > 0 { u64::from(self.write_ns) } else { 0 };
        let transfer = if self.bandwidth_mb == 0 { 0 } else { lines * isa::LINE * 1000 / u64::from(self.bandwidth_mb) };
        Duration::from_nanos(latency.max(transfer) + u64::from(self.fence_ns))
    }
}

/// Spins for at least `duration`, measured by the CPU's counter from `start` (a value of [`isa::ticks`]).
pub(crate) fn spin_since(start: u64, duration: Duration) {
    let target = (duration.as_nanos() as f64 * ticks_per_ns()).ceil() as u64;
    while isa::ticks().wrapping_sub(start) < target {
        std::hint::spin_loop();
    }
}

/// Counter ticks of a nanosecond, calibrated once against the clock over 20 ms.
pub(crate) fn ticks_per_ns() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (clock, ticks) = (Instant::now(), isa::ticks());
        while clock.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        // Read the counter before the clock's end: the rate then errs towards longer delays, never shorter ones.
        (isa::ticks() - ticks) as f64 / clock.elapsed().as_nanos() as f64
    })
}
