//! `memcpy`, `memmove`, `memset`, and logging of any number of bytes.
//!
//! The names state for each side whether it is transactional: `Rn` and `Wn` are private memory of
//! the thread.

use super::access;
use super::place;
use super::tx::step;
use std::ffi::c_int;

/// Bytes moved in one step.
const PIECE: usize = 256;

fn copy<const LOAD: bool, const STORE: bool>(to: usize, from: usize, len: usize) {
    // An overlapping move to higher addresses starts at the end, as memmove does.
    let backward = to > from && to - from < len;
    let mut done = 0;
    while done < len {
        let count = (len - done).min(PIECE);
        let at = if backward { len - done - count } else { done };
        let mut piece = [0; PIECE];
        let piece = &mut piece[..count];
        if LOAD {
            step(|tx| tx.load_bytes(from + at, piece));
        } else {
            place::copy_from(from + at, piece);
        }
        if STORE {
            step(|tx| tx.store_bytes(to + at, piece));
        } else {
            place::copy_to(to + at, piece);
        }
        done += count;
    }
}

macro_rules! copies {
    ($load:literal $store:literal: $($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(to: usize, from: usize, len: usize) {
            copy::<$load, $store>(to, from, len);
        })*
    };
}
copies!(false true: _ITM_memcpyRnWt _ITM_memcpyRnWtaR _ITM_memcpyRnWtaW _ITM_memmoveRnWt _ITM_memmoveRnWtaR _ITM_memmoveRnWtaW);
copies!(true false: _ITM_memcpyRtWn _ITM_memcpyRtaRWn _ITM_memcpyRtaWWn _ITM_memmoveRtWn _ITM_memmoveRtaRWn _ITM_memmoveRtaWWn);
copies!(true true:
    _ITM_memcpyRtWt _ITM_memcpyRtWtaR _ITM_memcpyRtWtaW _ITM_memcpyRtaRWt _ITM_memcpyRtaRWtaR _ITM_memcpyRtaRWtaW
    _ITM_memcpyRtaWWt _ITM_memcpyRtaWWtaR _ITM_memcpyRtaWWtaW _ITM_memmoveRtWt _ITM_memmoveRtWtaR _ITM_memmoveRtWtaW
    _ITM_memmoveRtaRWt _ITM_memmoveRtaRWtaR _ITM_memmoveRtaRWtaW _ITM_memmoveRtaWWt _ITM_memmoveRtaWWtaR
    _ITM_memmoveRtaWWtaW);

/// Stores `len` times the same byte.
pub(super) fn set(to: usize, value: u8, len: usize) {
    let piece = [value; PIECE];
    for at in (0..len).step_by(PIECE) {
        step(|tx| tx.store_bytes(to + at, &piece[..(len - at).min(PIECE)]));
    }
}

macro_rules! sets {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(to: usize, value: c_int, len: usize) {
            set(to, value as u8, len);
        })*
    };
}
sets!(_ITM_memsetW _ITM_memsetWaR _ITM_memsetWaW);

#[unsafe(no_mangle)]
extern "C" fn _ITM_LB(at: usize, len: usize) {
    access::log(at, len);
}
