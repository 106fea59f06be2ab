//! Functions called through pointers: the instrumented clone of each function.
//!
//! Each executable and library registers its table when it is loaded.

use super::die;
use parking_lot::RwLock;
use std::collections::BTreeMap;

/// Address of a function -> address of its clone, and of the table that lists it.
static CLONES: RwLock<BTreeMap<usize, (usize, usize)>> = RwLock::new(BTreeMap::new());

/// # Safety
/// `table` has `count` pairs of function and clone.
#[unsafe(no_mangle)]
unsafe extern "C" fn _ITM_registerTMCloneTable(table: *const [usize; 2], count: usize) {
    // SAFETY: the caller's promise.
    let pairs = unsafe { std::slice::from_raw_parts(table, count) };
    CLONES.write().extend(pairs.iter().map(|&[function, clone]| (function, (clone, table.addr()))));
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_deregisterTMCloneTable(table: *const [usize; 2]) {
    CLONES.write().retain(|_, (_, of)| *of != table.addr());
}

fn clone_of(function: usize) -> usize {
    let Some((clone, _)) = CLONES.read().get(&function).copied() else {
        die(format_args!(
            "the function at {function:#x} is called through a pointer and has no instrumented clone; declare it transaction_safe, and keep section .tm_clone_table when linking with --gc-sections"
        ))
    };
    clone
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_getTMCloneSafe(function: usize) -> usize {
    clone_of(function)
}

#[unsafe(no_mangle)]
extern "C" fn _ITM_getTMCloneOrIrrevocable(function: usize) -> usize {
    clone_of(function)
}
