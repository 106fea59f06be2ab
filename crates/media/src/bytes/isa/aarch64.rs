//! AArch64: `dc cvap` (ARMv8.2) or `dc cvac`, and `dsb sy`.
//!
//! ARM orders less than x86: cleans of a line are completed, and ordered before later stores, only
//! by a `dsb`, so `fence` is one, over the full system, for the medium lies outside the inner
//! shareable domain. No store is sure to go past the cache (`stnp` is a hint),
//! so a non-temporal copy is stores and cleans.

use super::FlushKind;
use std::arch::asm;

/// Whether `store_nt` leaves its word in the cache, so that its line must be flushed.
pub(crate) const STORE_NT_NEEDS_FLUSH: bool = true;

/// `dc cvap` if the kernel reports it, else `dc cvac`, which the kernel itself then uses for
/// persistent memory: on such a CPU the two points are one.
pub(crate) fn detect() -> FlushKind {
    if supported(FlushKind::DcCvap) { FlushKind::DcCvap } else { FlushKind::DcCvac }
}

/// Whether this CPU can execute `kind`.
pub(crate) fn supported(kind: FlushKind) -> bool {
    const HWCAP_DCPOP: u64 = 1 << 16;
    match kind {
        // SAFETY: getauxval reads a constant of the process.
        FlushKind::DcCvap => unsafe { libc::getauxval(libc::AT_HWCAP) & HWCAP_DCPOP != 0 },
        FlushKind::DcCvac | FlushKind::None => true,
        _ => false,
    }
}

/// Starts the write-back of the line that holds `line`.
///
/// # Safety
/// `line` lies in a live mapping, and `kind` is supported by this CPU.
#[inline(always)]
pub(crate) unsafe fn flush_line(kind: FlushKind, line: *const u8) {
    match kind {
        // `sys #3, c7, c12, #1` is `dc cvap`, spelled so that an assembler for ARMv8.0 takes it.
        // SAFETY: the caller promises a mapped address and a CPU that has it; a clean changes no
        // value.
        FlushKind::DcCvap => unsafe {
            asm!("sys #3, c7, c12, #1, {}", in(reg) line, options(nostack, preserves_flags))
        },
        // SAFETY: as above; every ARMv8 CPU has it, and Linux permits it to programs.
        FlushKind::DcCvac => unsafe { asm!("dc cvac, {}", in(reg) line, options(nostack, preserves_flags)) },
        _ => {}
    }
}

/// Waits until earlier cleans and stores have reached the point of persistence.
#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: a barrier touches no memory of its own.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
}

/// One aligned word. Its line stays in the cache: see [`STORE_NT_NEEDS_FLUSH`].
///
/// # Safety
/// `target` is 8-byte aligned and writable.
#[inline(always)]
pub(crate) unsafe fn store_nt(target: *mut u64, value: u64) {
    // SAFETY: the caller promises an aligned, writable word.
    unsafe { target.write_volatile(value) };
}

/// One line, word by word. It stays in the cache: see [`STORE_NT_NEEDS_FLUSH`].
///
/// # Safety
/// `target` is 64-byte aligned and writable.
#[inline(always)]
pub(crate) unsafe fn store_line_nt(target: *mut u8, line: &[u8; 64]) {
    for (index, word) in line.as_chunks().0.iter().enumerate() {
        // SAFETY: a word of the line that the caller promises.
        unsafe { store_nt(target.cast::<u64>().wrapping_add(index), u64::from_le_bytes(*word)) }
    }
}

/// Copies one line out of memory that others may store to meanwhile, word by word.
///
/// # Safety
/// `source` is 16-byte aligned and readable for 64 bytes.
#[inline(always)]
pub(crate) unsafe fn load_line(source: *const u8, into: &mut [u8; 64]) {
    for (index, word) in into.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        // SAFETY: an aligned word of the readable bytes that the caller promises; a volatile load
        // of 8 bytes is one instruction.
        let value = unsafe { source.cast::<u64>().wrapping_add(index).read_volatile() };
        *word = value.to_le_bytes();
    }
}

/// The virtual counter, for delays that system calls are too coarse for.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    let value: u64;
    // The isb keeps the counter from being read early.
    // SAFETY: reads a counter register.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Brings a line into the cache; a hint that never faults.
#[inline(always)]
pub(crate) fn prefetch(line: *const u8) {
    // SAFETY: a prefetch of any address, mapped or not, has no effect but on caches.
    unsafe { asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly)) }
}

/// Whether the CPU has protection keys and the kernel has switched them on: this crate knows those
/// of x86-64 only.
pub(crate) fn has_keys() -> bool {
    false
}

/// This thread's rights to each key.
///
/// # Safety
/// [`has_keys`] holds.
pub(crate) unsafe fn key_rights() -> u32 {
    unreachable!("there are no keys")
}

/// Sets [`key_rights`].
///
/// # Safety
/// [`has_keys`] holds.
pub(crate) unsafe fn put_key_rights(_rights: u32) {
    unreachable!("there are no keys")
}

/// Changes the rights that the thread will have when the running signal handler returns. `false`:
/// nothing has changed.
///
/// # Safety
/// None.
pub(crate) unsafe fn change_saved_rights(_context: *mut std::ffi::c_void, _change: impl FnOnce(u32) -> u32) -> bool {
    false
}
