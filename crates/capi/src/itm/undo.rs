//! The old bytes of memory that a transaction changed in place.

use super::place;
use std::ops::Range;

/// Words and the masks of their changed bytes, in order.
#[derive(Default)]
pub(super) struct Undo(Vec<(usize, u8, u64)>);

impl Undo {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Logs the masked old bytes of the word at `address`, a multiple of 8.
    #[inline]
    pub(super) fn note(&mut self, address: usize, mask: u8) {
        self.0.push((address, mask, place::load(address)));
    }

    /// Logs `len` old bytes.
    #[inline]
    pub(super) fn note_bytes(&mut self, address: usize, len: usize) {
        each_word(address, len, |word, mask| self.note(word, mask));
    }

    /// Restores the entries from `from` on, the newest first, except on the stack between here and
    /// `frame`, which holds the frames of the restoring functions by now. `frame`, a stack pointer
    /// at a call, is a multiple of 16.
    pub(super) fn put_back(&mut self, from: usize, frame: usize) {
        self.put_back_but(from, place::stack_pointer()..frame);
    }

    /// The same, except for these addresses, whose memory no longer exists.
    pub(super) fn put_back_but(&mut self, from: usize, dead: Range<usize>) {
        for (address, mask, value) in self.0.drain(from..).rev() {
            if !dead.contains(&address) {
                place::store(address, mask, value);
            }
        }
    }
}

/// The words that `address..address + len` overlaps, each with the mask of the bytes.
#[inline]
pub(super) fn each_word(address: usize, len: usize, mut visit: impl FnMut(usize, u8)) {
    let (mut at, end) = (address, address + len);
    while at < end {
        let (skip, count) = (at % 8, (8 - at % 8).min(end - at));
        visit(at - skip, (((1u32 << count) - 1) << skip) as u8);
        at += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn words_and_their_bytes() {
        let words = |address, len| {
            let mut words = Vec::new();
            each_word(address, len, |word, mask| words.push((word, mask)));
            words
        };
        assert_eq!(words(16, 8), [(16, 0xff)]);
        assert_eq!(words(21, 2), [(16, 0b0110_0000)]);
        assert_eq!(words(6, 12), [(0, 0b1100_0000), (8, 0xff), (16, 0b11)]);
        assert_eq!(words(5, 0), []);
    }

    #[test]
    fn only_the_bytes_noted_are_put_back() {
        let memory = [1, 2, 3].map(AtomicU64::new);
        let address = memory.as_ptr().expose_provenance();
        let mut undo = Undo::default();
        undo.note_bytes(address + 4, 8);
        (0..3).for_each(|word| place::store(address + word * 8, 0xff, u64::MAX));
        undo.put_back(0, 0);
        assert_eq!(
            [0, 8, 16].map(|word| place::load(address + word)),
            [0x0000_0000_ffff_ffff, 0xffff_ffff_0000_0002, u64::MAX]
        );
    }
}
