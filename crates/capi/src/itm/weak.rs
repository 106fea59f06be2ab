//! Functions of the C++ runtime, which a C program lacks: resolved when they are called.

use super::die;
use std::arch::naked_asm;

/// Defines for each symbol a function that returns its address, or 0.
macro_rules! weak {
    ($($name:ident $symbol:literal)*) => {
        $(#[unsafe(naked)]
        pub(crate) extern "C" fn $name() -> usize {
            naked_asm!(
                concat!(".weak ", $symbol),
                concat!("mov rax, [rip + ", $symbol, "@GOTPCREL]"),
                "ret"
            )
        })*
    };
}
weak! {
    operator_new "_Znwm"
    operator_new_array "_Znam"
    operator_delete "_ZdlPv"
    operator_delete_array "_ZdaPv"
    allocate_exception "__cxa_allocate_exception"
    free_exception "__cxa_free_exception"
    begin_catch "__cxa_begin_catch"
    tm_cleanup "__cxa_tm_cleanup"
    get_globals "__cxa_get_globals"
}

/// The address of a runtime function; a program without the runtime cannot get here.
pub(super) fn needed(address: usize) -> *const () {
    if address == 0 {
        die("this program throws, or calls new, and is not linked with the C++ runtime");
    }
    std::ptr::with_exposed_provenance(address)
}
