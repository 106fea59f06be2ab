//! Functions of the C++ runtime, which a program of C does not have: found when they are called.

use super::die;
use std::arch::naked_asm;

/// Names by which this library asks for them, each a function that returns the address, or 0.
macro_rules! weak {
    ($($name:ident $symbol:literal)*) => {
        $(#[unsafe(naked)]
        pub extern "C" fn $name() -> usize {
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

/// The address that one of them returned; without it the program would have had no way to get here.
pub fn needed(address: usize) -> *const () {
    if address == 0 {
        die("this program throws, or calls new, and is not linked with the C++ runtime");
    }
    std::ptr::with_exposed_provenance(address)
}
