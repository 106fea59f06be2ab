//! `pmalloc`, `pmalloc_set`, `pfree`: a block and the word that holds its address change together
//! or not at all.
//!
//! The heap is that of the object in which the word lies.

use super::sections::{Home, home};
use crate::fault::{Fault, Result, answer, done};
use crate::process::Process;
use everbyte_heap::Heap;
use everbyte_store::Exclusive;
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, with_exposed_provenance_mut};

/// A word of persistent memory that holds, or is to hold, the address of a block.
struct Word {
    home: Home,
    heap: Heap,
    address: usize,
    /// Held meanwhile: other processes that share the object wait.
    _exclusive: Option<Exclusive>,
}

impl Word {
    fn new(address: usize) -> Result<Word> {
        if !address.is_multiple_of(8) {
            return Err(Fault::invalid(format!("{address:#x} is no place of a pointer: it is not a multiple of 8")));
        }
        let home = home(address, 8)?;
        let (heap, exclusive) = match &home.owner {
            Some(owner) => (owner.program.heap().clone(), None),
            None => Process::get()?.heap_at(home.at)?,
        };
        Ok(Word { home, heap, address, _exclusive: exclusive })
    }

    /// Runs `change` on the word in the store, then copies the result to the program's section.
    fn change<T>(&self, change: impl FnOnce(&Heap, u64) -> everbyte_heap::Result<T>) -> Result<T> {
        if let Some(owner) = &self.home.owner {
            // recovery must not replay an earlier transaction's store to the word
            owner.program.redo().truncate();
        }
        self.home.push(self.address, 8);
        let changed = change(&self.heap, self.home.at)?;
        self.home.pull(self.address);
        Ok(changed)
    }
}

fn allocate(size: usize, destination: usize, fill: Option<u8>) -> Result<*mut c_void> {
    let word = Word::new(destination)?;
    let size = size.max(1) as u64;
    word.change(|heap, at| match fill {
        None => heap.alloc_into(size, at),
        Some(fill) => heap.alloc_set(size, at, fill),
    })?;
    Ok(with_exposed_provenance_mut(word.home.media.load(word.home.at) as usize))
}

/// # Safety
/// None for the caller: `destination` is compared with where persistent memory lies before it is
/// used.
#[unsafe(no_mangle)]
pub(super) extern "C" fn pmalloc(size: usize, destination: *mut c_void) -> *mut c_void {
    answer(allocate(size, destination.addr(), None), null_mut(), |block| block)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn pmalloc_set(size: usize, destination: *mut c_void, value: c_int) -> *mut c_void {
    answer(allocate(size, destination.addr(), Some(value as u8)), null_mut(), |block| block)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn pfree(pointer: *mut c_void) -> c_int {
    let freed = Word::new(pointer.addr()).and_then(|word| {
        word.change(|heap, at| match heap.media().load(at) {
            0 => Ok(()), // as `free` of a null pointer
            _ => heap.free_from(at),
        })
    });
    done(freed)
}
