//! `pmalloc` and its kin inside a transaction, under the names that compiled code calls there, and
//! the other declarations of `patomic.h`.

use super::ground::Ground;
use super::tx::{Tx, step};
use super::{bulk, die};
use crate::fault::{Fault, answer, done};
use everbyte_tx::Error;
use everbyte_tx::redo::{Stop, Truncation};
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, with_exposed_provenance_mut};

impl Tx {
    /// Refuses an address that is no persistent word: a block whose only pointer lies in other
    /// memory would leak.
    fn require_pointer(&self, address: usize) -> Result<(), Fault> {
        if !address.is_multiple_of(8) {
            return Err(Fault::invalid(format!("{address:#x} is no place of a pointer: it is not a multiple of 8")));
        }
        let key = self.ground.key_of(address, 8);
        let key = key.ok_or_else(|| Fault::invalid(format!("{address:#x} is not persistent memory of this program")));
        key.map(drop)
    }

    /// Allocates a block and stores its address to the word at `destination`.
    fn allocate(&mut self, size: usize, destination: usize) -> Result<Result<usize, Fault>, Stop> {
        if let Err(fault) = self.require_pointer(destination) {
            return Ok(Err(fault));
        }
        let block = match self.worker.allocate(size.max(1) as u64) {
            Ok(block) => block,
            Err(error @ Error::Heap(_)) => return Ok(Err(error.into())),
            Err(error) => die(error),
        };
        let address = self.ground.address(block.at.get());
        self.store_bytes(destination, &address.to_le_bytes())?;
        Ok(Ok(address))
    }

    /// Frees the block whose address the word at `pointer` holds.
    fn free(&mut self, pointer: usize) -> Result<Result<(), Fault>, Stop> {
        if let Err(fault) = self.require_pointer(pointer) {
            return Ok(Err(fault));
        }
        let mut address = [0; 8];
        self.load_bytes(pointer, &mut address)?;
        let address = usize::from_le_bytes(address);
        if address == 0 {
            return Ok(Ok(()));
        }
        // first, so that two threads that free one block conflict
        self.store_bytes(pointer, &[0; 8])?;
        let freed = self.worker.free(self.ground.offset(address));
        if let Err(Error::Conflict) = freed {
            return Err(Stop::Conflict);
        }
        if freed.is_err() {
            self.store_bytes(pointer, &address.to_le_bytes())?;
        }
        Ok(freed.map_err(Fault::from))
    }
}

#[unsafe(export_name = "_ZGTt7pmalloc")]
extern "C" fn pmalloc(size: usize, destination: *mut c_void) -> *mut c_void {
    let allocated = step(|tx| tx.allocate(size, destination.expose_provenance()));
    answer(allocated, null_mut(), with_exposed_provenance_mut)
}

#[unsafe(export_name = "_ZGTt11pmalloc_set")]
extern "C" fn pmalloc_set(size: usize, destination: *mut c_void, value: c_int) -> *mut c_void {
    let block = pmalloc(size, destination);
    if !block.is_null() {
        bulk::set(block.expose_provenance(), value as u8, size);
    }
    block
}

#[unsafe(export_name = "_ZGTt5pfree")]
extern "C" fn pfree(pointer: *mut c_void) -> c_int {
    done(step(|tx| tx.free(pointer.expose_provenance())))
}

/// The symbol that `patomic.h` refers to, which fails the link with another library's transactions.
#[unsafe(no_mangle)]
static everbyte_patomic: c_int = 1;

#[unsafe(no_mangle)]
extern "C" fn everbyte_patomic_asynchronous(asynchronous: c_int) {
    let truncation = if asynchronous == 0 { Truncation::Synchronous } else { Truncation::Asynchronous };
    Ground::get().redo.set_truncation(truncation);
}

#[unsafe(no_mangle)]
extern "C" fn everbyte_patomic_truncate() {
    Ground::truncate();
}
