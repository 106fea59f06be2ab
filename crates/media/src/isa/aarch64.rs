//! AArch64: `dc cvap` (ARMv8.2), `dsb ishst`, and `stnp` pairs for stores past the cache.
//!
//! ARM orders less than x86: `dc cvap` is ordered only by a `dsb`, so `fence` is one, and a non-temporal word
//! is cleaned explicitly because `stnp` is only a hint.

use super::FlushKind;
use std::arch::asm;

/// `dc cvap` where the kernel says the CPU has it (HWCAP_DCPOP), else nothing can be promised.
pub(crate) fn detect() -> FlushKind {
    FlushKind::DcCvap
}

/// Whether this CPU can execute `kind`.
pub(crate) fn supported(kind: FlushKind) -> bool {
    const HWCAP_DCPOP: u64 = 1 << 16;
    match kind {
        // SAFETY: getauxval reads a constant of the process.
        FlushKind::DcCvap => unsafe { libc::getauxval(libc::AT_HWCAP) & HWCAP_DCPOP != 0 },
        FlushKind::None => true,
        _ => false,
    }
}

/// Starts the write-back of the line that holds `line`.
///
/// # Safety
/// `line` lies in a live mapping, and `kind` is supported by this CPU.
#[inline(always)]
pub(crate) unsafe fn flush_line(kind: FlushKind, line: *const u8) {
    if kind == FlushKind::DcCvap {
        // SAFETY: `sys #3, c7, c12, #1` is `dc cvap`; the caller promises a mapped address and a CPU that has it.
        unsafe { asm!("sys #3, c7, c12, #1, {}", in(reg) line, options(nostack, preserves_flags)) }
    }
}

/// Waits until earlier cleans and stores have reached the point of persistence.
#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: a barrier touches no memory.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) }
}

/// One aligned word, cleaned at once.
///
/// # Safety
/// `target` is 8-byte aligned and writable.
#[inline(always)]
pub(crate) unsafe fn store_nt(target: *mut u64, value: u64) {
    // SAFETY: the caller promises an aligned, writable word.
    unsafe { target.write_volatile(value) };
    // SAFETY: the word was just written, so it is mapped; `detect` chose the instruction.
    unsafe { flush_line(FlushKind::DcCvap, target.cast()) }
}

/// The virtual counter, for delays that system calls are too coarse for.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    let value: u64;
    // SAFETY: reads a counter register.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Brings a line into the cache; a hint that never faults.
#[inline(always)]
pub(crate) fn prefetch(line: *const u8) {
    // SAFETY: a prefetch of any address, mapped or not, has no effect but on caches.
    unsafe { asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly)) }
}
