//! Loads and stores of a transaction, of any length.

use super::place;
use super::tx::{Tx, current, step};
use super::undo::each_word;
use crate::mnemosyne;
use everbyte_tx::redo::Stop;

impl Tx {
    /// The fast path: the word at `address`, a multiple of 8, if it is persistent and no
    /// transaction has changed it. `None`: nothing is done.
    #[inline(always)]
    fn quick_word(&mut self, address: usize) -> Option<u64> {
        let key = self.ground.key(address)?;
        self.inside(|tx| tx.worker.look(key, &|_| Some(place::load(address))))
    }

    /// The fast path: stores the masked bytes of a persistent word next to the word stored last.
    /// `false`: nothing is done.
    #[inline(always)]
    fn quick_store(&mut self, address: usize, mask: u8, value: u64) -> bool {
        let key = self.ground.key(address);
        key.is_some_and(|key| self.inside(|tx| tx.worker.store_again(key, mask, value)))
    }

    /// The word at `address`, a multiple of 8.
    #[inline(always)]
    pub(super) fn word(&mut self, address: usize) -> Result<u64, Stop> {
        match self.ground.key(address) {
            Some(key) => self.worker.load_by(key, |_| Some(place::load(address))),
            None if self.is_own_stack(address) => Ok(place::load(address)),
            None => self.worker.load_foreign(address as u64, |_| place::load(address)),
        }
    }

    /// Stores the bytes selected by `mask` of the word at `address`, a multiple of 8. Variables of
    /// another engine, of a library or of another kind, are refused: unlike memory they cannot
    /// change in place, since no log would keep them whole.
    #[inline(always)]
    pub(super) fn set_word(&mut self, address: usize, mask: u8, value: u64) -> Result<(), Stop> {
        if let Some(key) = self.ground.key(address) {
            return self.worker.store_masked(key, mask, value);
        }
        if !self.is_own_stack(address) {
            if mnemosyne::is_variable(address) {
                return Err(Stop::Outside);
            }
            self.worker.lock_foreign(address as u64)?;
            self.undo.note(address, mask);
        } else if self.outlives_a_point(address) {
            self.undo.note(address, mask);
        }
        place::store(address, mask, value);
        Ok(())
    }

    pub(super) fn load_bytes(&mut self, address: usize, into: &mut [u8]) -> Result<(), Stop> {
        let mut done = 0;
        let mut outcome = Ok(());
        each_word(address, into.len(), |word, mask| {
            let (first, count) = (mask.trailing_zeros() as usize, mask.count_ones() as usize);
            match outcome.and_then(|()| self.word(word)) {
                Ok(value) => into[done..done + count].copy_from_slice(&value.to_le_bytes()[first..first + count]),
                Err(stop) => outcome = Err(stop),
            }
            done += count;
        });
        outcome
    }

    pub(super) fn store_bytes(&mut self, address: usize, bytes: &[u8]) -> Result<(), Stop> {
        if let Some(key) = self.ground.key_of(address, bytes.len()) {
            return self.worker.write_by(key, bytes);
        }
        let mut done = 0;
        let mut outcome = Ok(());
        each_word(address, bytes.len(), |word, mask| {
            let (first, count) = (mask.trailing_zeros() as usize, mask.count_ones() as usize);
            let mut value = [0; 8];
            match bytes[done..].first_chunk() {
                // the common length: avoids the call of a copy function
                Some(whole) if mask == 0xff => value = *whole,
                _ => value[first..first + count].copy_from_slice(&bytes[done..done + count]),
            }
            outcome = outcome.and_then(|()| self.set_word(word, mask, u64::from_le_bytes(value)));
            done += count;
        });
        outcome
    }
}

/// Loads up to eight bytes; for the names by type.
#[inline(always)]
pub(super) fn load<const SIZE: usize>(address: usize) -> u64 {
    let skip = address % 8;
    if skip + SIZE <= 8
        && let Some(word) = current().and_then(|tx| tx.quick_word(address - skip))
    {
        return word >> (skip * 8);
    }
    load_otherwise::<SIZE>(address)
}

/// Has C's convention, which does not unwind, so that the caller can jump here.
#[inline(never)]
extern "C" fn load_otherwise<const SIZE: usize>(address: usize) -> u64 {
    step(|tx| {
        let skip = address % 8;
        if skip + SIZE <= 8 {
            return Ok(tx.word(address - skip)? >> (skip * 8));
        }
        let mut bytes = [0; 8];
        tx.load_bytes(address, &mut bytes[..SIZE])?;
        Ok(u64::from_le_bytes(bytes))
    })
}

/// Stores up to eight bytes.
#[inline(always)]
pub(super) fn store<const SIZE: usize>(address: usize, value: u64) {
    let skip = address % 8;
    let mask = (((1u32 << SIZE) - 1) << skip) as u8;
    if skip + SIZE <= 8 && current().is_some_and(|tx| tx.quick_store(address - skip, mask, value << (skip * 8))) {
        return;
    }
    store_otherwise::<SIZE>(address, value);
}

/// As [`load_otherwise`].
#[inline(never)]
extern "C" fn store_otherwise<const SIZE: usize>(address: usize, value: u64) {
    step(|tx| {
        let skip = address % 8;
        if skip + SIZE <= 8 {
            let mask = ((1u32 << SIZE) - 1) << skip;
            return tx.set_word(address - skip, mask as u8, value << (skip * 8));
        }
        tx.store_bytes(address, &value.to_le_bytes()[..SIZE])
    });
}

/// Logs the old bytes of a range to which the program is about to store directly.
#[inline]
pub(super) fn log(address: usize, len: usize) {
    step(|tx| {
        tx.undo.note_bytes(address, len);
        Ok(())
    });
}
