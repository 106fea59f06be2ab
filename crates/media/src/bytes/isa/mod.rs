//! The instructions that move lines towards media: one small file per instruction set.
//!
//! Each architecture file offers the same items: `detect` and `supported`, `flush_line`, `fence`,
//! `store_nt` and `store_line_nt` (and whether they need a flush), `ticks` for the device profiles,
//! `prefetch`, and the rights of protection keys. Nothing above this crate issues such an
//! instruction.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// Bytes of a cache line, the unit of a flush.
pub const LINE: u64 = 64;

/// The instruction that writes a line back. Chosen at run time; [`crate::Options::flush`] forces
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlushKind {
    /// `clwb`: write back, the line stays cached.
    Clwb,
    /// `clflushopt`: write back and evict, unordered.
    Clflushopt,
    /// `clflush`: write back and evict, ordered; every x86-64 CPU has it.
    Clflush,
    /// ARM `dc cvap`: clean to the point of persistence.
    DcCvap,
    /// ARM `dc cvac`: clean to the point of coherency, for CPUs without another point.
    DcCvac,
    /// No instruction: the caches are inside the persistence domain (eADR, flush-on-fail).
    None,
}

impl FlushKind {
    /// All instructions, those of other machines included.
    pub const ALL: [FlushKind; 6] = [
        FlushKind::Clwb,
        FlushKind::Clflushopt,
        FlushKind::Clflush,
        FlushKind::DcCvap,
        FlushKind::DcCvac,
        FlushKind::None,
    ];

    /// The instruction of that name.
    pub fn of_name(name: &str) -> Option<FlushKind> {
        FlushKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether this CPU can execute it.
    pub fn is_supported(self) -> bool {
        supported(self)
    }

    /// Whether a flushed line stays in the cache.
    pub(crate) fn keeps_lines(self) -> bool {
        !matches!(self, FlushKind::Clflushopt | FlushKind::Clflush)
    }

    /// The instruction's name in manuals.
    pub fn name(self) -> &'static str {
        match self {
            FlushKind::Clwb => "clwb",
            FlushKind::Clflushopt => "clflushopt",
            FlushKind::Clflush => "clflush",
            FlushKind::DcCvap => "dc cvap",
            FlushKind::DcCvac => "dc cvac",
            FlushKind::None => "none",
        }
    }
}
