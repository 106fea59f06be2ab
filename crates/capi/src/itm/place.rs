//! Memory of the program, by address: the only file of this module with raw pointers to it.
//!
//! The addresses are valid because the program itself loads and stores there. Words are read whole
//! and atomically: other threads may be changing them, under locks that are checked afterwards.

use std::arch::asm;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The word at `address`, a multiple of 8.
#[inline(always)]
pub(super) fn load(address: usize) -> u64 {
    let word = with_exposed_provenance::<AtomicU64>(address);
    // SAFETY: the program loads or stores some byte of this aligned word, so its page is there; any
    // bits are a `u64`.
    unsafe { &*word }.load(Ordering::Acquire)
}

/// Stores the bytes selected by `mask` of the word at `address`, a multiple of 8, and no others:
/// other threads may be changing their neighbours.
#[inline(always)]
pub(super) fn store(address: usize, mask: u8, value: u64) {
    match mask {
        0xff => {
            let word = with_exposed_provenance::<AtomicU64>(address);
            // SAFETY: the program stores to all bytes of this aligned word.
            unsafe { &*word }.store(value, Ordering::Release);
        }
        0x0f | 0xf0 => {
            let half = with_exposed_provenance::<AtomicU32>(address + (mask.trailing_zeros() as usize));
            // SAFETY: the program stores to these four bytes, which are aligned.
            unsafe { &*half }.store((value >> (mask.trailing_zeros() * 8)) as u32, Ordering::Release);
        }
        0x03 | 0x0c | 0x30 | 0xc0 => {
            let pair = with_exposed_provenance::<AtomicU16>(address + (mask.trailing_zeros() as usize));
            // SAFETY: the program stores to these two bytes, which are aligned.
            unsafe { &*pair }.store((value >> (mask.trailing_zeros() * 8)) as u16, Ordering::Release);
        }
        _ => {
            for byte in (0..8).filter(|byte| mask & 1 << byte != 0) {
                let place = with_exposed_provenance::<AtomicU8>(address + byte);
                // SAFETY: the program stores to this byte.
                unsafe { &*place }.store((value >> (byte * 8)) as u8, Ordering::Release);
            }
        }
    }
}

/// Copies bytes out of memory that no other thread changes.
#[inline]
pub(super) fn copy_from(address: usize, into: &mut [u8]) {
    let from = with_exposed_provenance::<u8>(address);
    // SAFETY: the program promises that this many bytes may be loaded there and are its own; `into`
    // is a slice of this process.
    unsafe { from.copy_to(into.as_mut_ptr(), into.len()) };
}

/// Copies bytes into memory that no other thread reads.
#[inline]
pub(super) fn copy_to(address: usize, bytes: &[u8]) {
    let to = with_exposed_provenance_mut::<u8>(address);
    // SAFETY: the program promises that this many bytes may be stored there and are its own;
    // `bytes` is a slice of this process.
    unsafe { to.copy_from(bytes.as_ptr(), bytes.len()) };
}

/// The addresses of this thread's stack; empty if the system does not report them.
pub(super) fn stack() -> Range<usize> {
    let (mut attributes, mut start, mut len) = (MaybeUninit::<libc::pthread_attr_t>::uninit(), null_mut(), 0);
    // SAFETY: it has no conditions.
    let thread = unsafe { libc::pthread_self() };
    // SAFETY: it fills the attributes of a thread that runs: this one.
    if unsafe { libc::pthread_getattr_np(thread, attributes.as_mut_ptr()) } != 0 {
        return 0..0;
    }
    // SAFETY: the attributes have been filled; it writes two words of this frame's.
    let known = unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut start, &raw mut len) } == 0;
    // SAFETY: they have been filled, and are not used any more.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    if known { start.addr()..start.addr() + len } else { 0..0 }
}

/// The present stack pointer of this thread.
#[inline(always)]
pub(super) fn stack_pointer() -> usize {
    let pointer;
    // SAFETY: it reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}
