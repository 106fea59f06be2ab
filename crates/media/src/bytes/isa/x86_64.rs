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

/// Whether the CPU has protection keys and the kernel has switched them on.
pub(crate) fn has_keys() -> bool {
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & (1 << 4) != 0
}

/// This thread's rights to each key (PKRU): two bits a key, no access and no stores.
///
/// # Safety
/// [`has_keys`] holds.
#[inline(always)]
pub(crate) unsafe fn key_rights() -> u32 {
    let rights;
    // SAFETY: the caller promises the instruction; it reads a register and touches no memory.
    unsafe {
        asm!("rdpkru", in("ecx") 0, out("eax") rights, out("edx") _, options(nomem, nostack, preserves_flags));
    }
    rights
}

/// Sets [`key_rights`].
///
/// # Safety
/// [`has_keys`] holds, and the code that runs next has the rights that it needs.
#[inline(always)]
pub(crate) unsafe fn put_key_rights(rights: u32) {
    // SAFETY: the caller promises the instruction. It may touch memory for the compiler's sake: no
    // store moves over it.
    unsafe { asm!("wrpkru", in("ecx") 0, in("edx") 0, in("eax") rights, options(nostack, preserves_flags)) };
}

/// Changes the rights that the thread will have when the running signal handler returns. `false`:
/// nothing has changed.
///
/// The kernel saves them beside the vector registers, in the form of XSAVE: 512 bytes, of which the
/// last 48 tell which states follow; a word with a bit for each state that is not initial; the
/// states, each at the offset that CPUID tells.
///
/// # Safety
/// `context` is the argument of the running signal handler.
pub(crate) unsafe fn change_saved_rights(context: *mut std::ffi::c_void, change: impl FnOnce(u32) -> u32) -> bool {
    /// `FP_XSTATE_MAGIC1`: the states are there.
    const MAGIC: u32 = 0x4650_5853;
    const MAGIC_AT: usize = 464;
    const SAVED_AT: usize = MAGIC_AT + 8;
    const PRESENT_AT: usize = 512;
    /// The number of the state that holds the rights.
    const RIGHTS: u32 = 9;
    // SAFETY: the kernel passes a valid `ucontext_t`, which lives through the handler.
    let states = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.fpregs }.cast::<u8>();
    if states.is_null() {
        return false;
    }
    // SAFETY:
    // - in bounds: the area has 512 bytes in any form;
    // - alive: it lies on the stack of the handler;
    // - no writer: it is this thread's;
    // - valid: any bits are integers.
    let magic = unsafe { states.wrapping_add(MAGIC_AT).cast::<u32>().read_unaligned() };
    // SAFETY: as above.
    let saved = unsafe { states.wrapping_add(SAVED_AT).cast::<u64>().read_unaligned() };
    if magic != MAGIC || saved & 1 << RIGHTS == 0 {
        return false;
    }
    let place = states.wrapping_add(__cpuid_count(0xd, RIGHTS).ebx as usize).cast::<u32>();
    let present_at = states.wrapping_add(PRESENT_AT).cast::<u64>();
    // SAFETY: as above; the magic number says that the states follow, and the bit that this one is
    // among them.
    let rights = unsafe { place.read_unaligned() };
    // SAFETY: as above.
    let present = unsafe { present_at.read_unaligned() };
    let rights = if present & 1 << RIGHTS == 0 { 0 } else { rights };
    let changed = change(rights);
    // SAFETY: as above.
    unsafe { place.write_unaligned(changed) };
    // SAFETY: as above.
    unsafe { present_at.write_unaligned(present | 1 << RIGHTS) };
    changed != rights
}
