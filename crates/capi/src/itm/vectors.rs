//! Loads, stores and logging of values in vector registers or on the x87 stack: a stub moves each
//! value to memory, or from it.

use super::access;
use super::place;
use super::tx::step;
use std::arch::naked_asm;

/// Bytes of the longest value.
const MOST: usize = 32;

extern "C" fn load(from: usize, into: usize, size: usize) {
    let mut bytes = [0; MOST];
    step(|tx| tx.load_bytes(from, &mut bytes[..size]));
    place::copy_to(into, &bytes[..size]);
}

extern "C" fn store(to: usize, from: usize, size: usize) {
    let mut bytes = [0; MOST];
    place::copy_from(from, &mut bytes[..size]);
    step(|tx| tx.store_bytes(to, &bytes[..size]));
}

/// Loads a value of `$size` bytes to this frame, and from there to its return register.
macro_rules! loads {
    ($size:literal, $take:literal: $($name:ident)*) => {
        $(#[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc", "endbr64",
                "sub rsp, 40", ".cfi_adjust_cfa_offset 40",
                "mov rsi, rsp", "mov edx, {size}", "call {load}", $take,
                "add rsp, 40", ".cfi_adjust_cfa_offset -40", "ret", ".cfi_endproc",
                size = const $size, load = sym load,
            )
        })*
    };
}

/// Moves a value of `$size` bytes from its argument register to this frame, and stores it from
/// there.
macro_rules! stores {
    ($size:literal, $put:literal: $($name:ident)*) => {
        $(#[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc", "endbr64",
                "sub rsp, 40", ".cfi_adjust_cfa_offset 40",
                $put, "mov rsi, rsp", "mov edx, {size}", "call {store}",
                "add rsp, 40", ".cfi_adjust_cfa_offset -40", "ret", ".cfi_endproc",
                size = const $size, store = sym store,
            )
        })*
    };
}

/// Stores a value of `$size` bytes that is passed in memory, behind the return address.
macro_rules! stores_from_stack {
    ($size:literal: $($name:ident)*) => {
        $(#[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            naked_asm!("endbr64", "lea rsi, [rsp + 8]", "mov edx, {size}", "jmp {store}", size = const $size, store = sym store)
        })*
    };
}

macro_rules! logs {
    ($($name:ident $size:literal)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(at: usize) {
            access::log(at, $size);
        })*
    };
}

loads!(8, "movq xmm0, [rsp]": _ITM_RM64 _ITM_RaRM64 _ITM_RaWM64 _ITM_RfWM64 _ITM_RCF _ITM_RaRCF _ITM_RaWCF _ITM_RfWCF);
loads!(16, "movups xmm0, [rsp]": _ITM_RM128 _ITM_RaRM128 _ITM_RaWM128 _ITM_RfWM128);
loads!(32, "vmovdqu ymm0, [rsp]": _ITM_RM256 _ITM_RaRM256 _ITM_RaWM256 _ITM_RfWM256);
loads!(16, "movsd xmm0, [rsp]; movsd xmm1, [rsp + 8]": _ITM_RCD _ITM_RaRCD _ITM_RaWCD _ITM_RfWCD);
loads!(16, "fld tbyte ptr [rsp]": _ITM_RE _ITM_RaRE _ITM_RaWE _ITM_RfWE);
loads!(32, "fld tbyte ptr [rsp + 16]; fld tbyte ptr [rsp]": _ITM_RCE _ITM_RaRCE _ITM_RaWCE _ITM_RfWCE);
stores!(8, "movq [rsp], xmm0": _ITM_WM64 _ITM_WaRM64 _ITM_WaWM64 _ITM_WCF _ITM_WaRCF _ITM_WaWCF);
stores!(16, "movups [rsp], xmm0": _ITM_WM128 _ITM_WaRM128 _ITM_WaWM128);
stores!(32, "vmovdqu [rsp], ymm0; vzeroupper": _ITM_WM256 _ITM_WaRM256 _ITM_WaWM256);
stores!(16, "movsd [rsp], xmm0; movsd [rsp + 8], xmm1": _ITM_WCD _ITM_WaRCD _ITM_WaWCD);
stores_from_stack!(10: _ITM_WE _ITM_WaRE _ITM_WaWE);
stores_from_stack!(32: _ITM_WCE _ITM_WaRCE _ITM_WaWCE);
logs!(_ITM_LM64 8 _ITM_LM128 16 _ITM_LM256 32 _ITM_LE 16 _ITM_LCF 8 _ITM_LCD 16 _ITM_LCE 32);
