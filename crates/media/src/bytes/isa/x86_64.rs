//! x86-64: clwb, clflushopt or clflush; sfence; movnti.

use super::FlushKind;
use std::arch::asm;
use std::arch::x86_64::{
    __cpuid, __cpuid_count, _mm_clflush, _mm_loadu_si128, _mm_sfence, _mm_stream_si64, _mm_stream_si128, _rdtsc,
};

/// Whether `store_nt` leaves its word in the cache, so that its line must be flushed.
pub(crate) const STORE_NT_NEEDS_FLUSH: bool = false;

/// The best instruction this CPU has.
pub(crate) fn detect() -> FlushKind {
    [FlushKind::Clwb, FlushKind::Clflushopt].into_iter().find(|&kind| supported(kind)).unwrap_or(FlushKind::Clflush)
}

/// Whether this CPU can execute `kind`.
pub(crate) fn supported(kind: FlushKind) -> bool {
    let features = || if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    match kind {
        FlushKind::Clwb => features() & (1 << 24) != 0,
        FlushKind::Clflushopt => features() & (1 << 23) != 0,
        FlushKind::Clflush | FlushKind::None => true,
        FlushKind::DcCvap | FlushKind::DcCvac => false,
    }
}

/// Starts the write-back of the line that holds `line`.
///
/// # Safety
/// `line` lies in a live mapping, and `kind` is supported by this CPU.
#[inline(always)]
pub(crate) unsafe fn flush_line(kind: FlushKind, line: *const u8) {
    match kind {
        // SAFETY: the caller promises a mapped address and a supported instruction; a write-back
        // changes no value.
        FlushKind::Clwb => unsafe { asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)) },
        // SAFETY: as above.
        FlushKind::Clflushopt => unsafe { asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)) },
        // SAFETY: as above; SSE2 is part of x86-64.
        FlushKind::Clflush => unsafe { _mm_clflush(line) },
        FlushKind::DcCvap | FlushKind::DcCvac | FlushKind::None => {}
    }
}

/// Later stores, flushes and non-temporal stores wait for the earlier ones.
#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: sfence touches no memory; SSE is part of x86-64.
    unsafe { _mm_sfence() }
}

/// One aligned word, past the cache.
///
/// # Safety
/// `target` is 8-byte aligned and writable.
#[inline(always)]
pub(crate) unsafe fn store_nt(target: *mut u64, value: u64) {
    // SAFETY: the caller promises an aligned, writable word.
    unsafe { _mm_stream_si64(target.cast(), value as i64) }
}

/// One line, past the cache, in untorn words.
///
/// # Safety
/// `target` is 64-byte aligned and writable.
#[inline(always)]
pub(crate) unsafe fn store_line_nt(target: *mut u8, line: &[u8; 64]) {
    for at in (0..64).step_by(16) {
        // SAFETY: 16 bytes of the line; `loadu` needs no alignment.
        let part = unsafe { _mm_loadu_si128(line.as_ptr().wrapping_add(at).cast()) };
        // SAFETY: the caller promises an aligned, writable line. SSE2 is part of x86-64.
        unsafe { _mm_stream_si128(target.wrapping_add(at).cast(), part) }
    }
}

/// Copies one line out of memory that others may store to meanwhile. No word is torn: a load of 16
/// aligned bytes takes each of its words at once.
///
/// # Safety
/// `source` is 16-byte aligned and readable for 64 bytes.
#[inline(always)]
pub(crate) unsafe fn load_line(source: *const u8, into: &mut [u8; 64]) {
    // SAFETY:
    // - in bounds: the caller promises 64 readable bytes, and `into` has as many;
    // - alive: both outlive the instructions;
    // - other writers: the loads are instructions of their own, which the compiler neither splits
    //   nor repeats, so a race is one of words; SSE2 is part of x86-64;
    // - valid: any bytes are bytes.
    unsafe {
        asm!(
            "movdqa {a}, [{source}]",
            "movdqa {b}, [{source} + 16]",
            "movdqa {c}, [{source} + 32]",
            "movdqa {d}, [{source} + 48]",
            "movdqu [{into}], {a}",
            "movdqu [{into} + 16], {b}",
            "movdqu [{into} + 32], {c}",
            "movdqu [{into} + 48], {d}",
            source = in(reg) source,
            into = in(reg) into.as_mut_ptr(),
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// The time-stamp counter, for delays that system calls are too coarse for.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: rdtsc reads a counter and touches no memory.
    unsafe { _rdtsc() }
}

/// Brings a line into the cache; a hint that never faults.
#[inline(always)]
pub(crate) fn prefetch(line: *const u8) {
    // SAFETY: a prefetch of any address, mapped or not, has no effect but on caches.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast()) }
}
