//! How keys are hashed: SipHash-1-3 under a key of 128 bits that lies with the table, so that a
//! client cannot choose colliding keys. Format: docs/formats/object.md.
//!
//! The function is fixed. Its input depends on `Hash`, and for the types of the standard library
//! and for derives that may differ from compiler to compiler. So a table remembers in which
//! [`dialect`] its keys were fed.

use crate::transaction::open_pool::OpenPool;
use crate::transaction::running::Running;
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

/// SipHash with `C` rounds a word and `D` at the end.
#[derive(Clone, Copy)]
pub(super) struct Sip<const C: usize, const D: usize> {
    state: [u64; 4],
    /// Bytes that do not fill a word yet, the first one lowest.
    tail: u64,
    /// Bytes fed so far.
    len: u64,
}

/// The hash of keys.
pub(super) type KeyHasher = Sip<1, 3>;

impl<const C: usize, const D: usize> Sip<C, D> {
    #[inline]
    pub(super) fn new([low, high]: [u64; 2]) -> Self {
        let state = [
            low ^ 0x736f_6d65_7073_6575,
            high ^ 0x646f_7261_6e64_6f6d,
            low ^ 0x6c79_6765_6e65_7261,
            high ^ 0x7465_6462_7974_6573,
        ];
        Sip { state, tail: 0, len: 0 }
    }

    #[inline(always)]
    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.state;
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32).wrapping_add(d);
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        d = d.rotate_left(21) ^ a;
        c = c.rotate_left(32);
        self.state = [a, b, c, d];
    }

    #[inline(always)]
    fn absorb(&mut self, word: u64) {
        self.state[3] ^= word;
        (0..C).for_each(|_| self.round());
        self.state[0] ^= word;
    }

    /// Feeds the lower `count` bytes of `bytes`, 1 to 8; those above are zeros.
    #[inline(always)]
    fn feed(&mut self, bytes: u64, count: u64) {
        let held = self.len % 8;
        self.len += count;
        self.tail |= bytes << (8 * held);
        if held + count >= 8 {
            self.absorb(self.tail);
            self.tail = if held == 0 { 0 } else { bytes >> (8 * (8 - held)) };
        }
    }
}

impl<const C: usize, const D: usize> Hasher for Sip<C, D> {
    #[inline]
    fn finish(&self) -> u64 {
        let mut end = *self;
        end.absorb(self.len << 56 | self.tail);
        end.state[2] ^= 0xff;
        (0..D).for_each(|_| end.round());
        end.state.iter().fold(0, |sum, word| sum ^ word)
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.feed(u64::from_le_bytes(word), chunk.len() as u64);
        }
    }

    // Numbers are fed little-endian on every processor; signed ones as their unsigned twins.

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.feed(number.into(), 1);
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.feed(number.into(), 2);
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.feed(number.into(), 4);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.feed(number, 8);
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        self.feed(number as u64, 8);
        self.feed((number >> 64) as u64, 8);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.feed(number as u64, 8);
    }
}

/// A number for what this program's compiler feeds: it differs where text, numbers, tuples, arrays,
/// slices, options or derived types are fed in another way.
pub(crate) fn dialect() -> u32 {
    static DIALECT: LazyLock<u32> = LazyLock::new(|| {
        #[derive(Hash)]
        enum Sample {
            Unit,
            Fields { number: u32, text: &'static str },
        }
        let mut hasher = KeyHasher::new([0; 2]);
        (1u8, 2u16, 3u32, 4u64, 5u128, 6usize).hash(&mut hasher);
        (-1i8, -2i16, -3i32, -4i64, -5i128, -6isize).hash(&mut hasher);
        (true, 'x', "text", (), Some(1u8), None::<u8>).hash(&mut hasher);
        ([1u8, 2], [3u32, 4], &[5u8, 6][..], &[7u64, 8][..], std::num::NonZeroU32::MIN).hash(&mut hasher);
        (Sample::Unit, Sample::Fields { number: 9, text: "" }).hash(&mut hasher);
        #[cfg(feature = "uuid")]
        {
            let [mut fed, mut bytes] = [0; 2].map(|_| KeyHasher::new([0; 2]));
            uuid::Uuid::from_u128(5).hash(&mut fed);
            bytes.write(&5u128.to_be_bytes());
            if fed.finish() != bytes.finish() {
                fed.finish().hash(&mut hasher); // the hash of another version of the crate
            }
        }
        hasher.finish() as u32
    });
    *DIALECT
}

/// A key for the hash of a map whose first block lies at `offset` from the base: made from the
/// store's identity, which is random, so that it cannot be guessed and a program that runs twice
/// does the same.
pub(super) fn seed(running: &Running, offset: u64) -> [u64; 2] {
    seed_of(running.inner(), running.store_offset(offset))
}

/// [`seed`] by the place of the first block, or another number that no other map of the pool has.
pub(crate) fn seed_of(inner: &OpenPool, place: u64) -> [u64; 2] {
    let identity = u128::from_le_bytes(inner.object.store().identity());
    [0u64, 1].map(|half| {
        let mut hasher = KeyHasher::new([identity as u64, (identity >> 64) as u64]);
        [half, place, inner.generation].iter().for_each(|&word| hasher.write_u64(word));
        hasher.finish()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sip<const C: usize, const D: usize>(key: [u64; 2], bytes: &[u8]) -> u64 {
        let mut hasher = Sip::<C, D>::new(key);
        hasher.write(bytes);
        hasher.finish()
    }

    /// The example of SipHash's paper; then with fewer rounds.
    #[test]
    fn it_is_siphash() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let bytes: Vec<u8> = (0..15).collect();
        assert_eq!(sip::<2, 4>(key, &bytes), 0xa129_ca61_49be_45e5);
        assert_eq!(sip::<1, 3>(key, &[]).to_le_bytes(), [0xdc, 0xc4, 0x0f, 0x05, 0x58, 0x01, 0xac, 0xab]);
        assert_eq!(sip::<1, 3>(key, &bytes), 0xd320_d86d_2a51_9956);
    }

    /// The format of every table that is there: should this compiler feed in another way, tables
    /// are searched entry by entry until they are built anew, and the new number belongs here and
    /// in docs/formats/object.md.
    #[test]
    fn keys_are_fed_as_they_always_were() {
        assert_eq!(dialect(), 0x58b7_34f7);
        let hash = |key: &dyn Fn(&mut KeyHasher)| {
            let mut hasher = KeyHasher::new([1, 2]);
            key(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(&|hasher| 7u64.hash(hasher)), sip::<1, 3>([1, 2], &[7, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(hash(&|hasher| "ab".hash(hasher)), sip::<1, 3>([1, 2], b"ab\xff"));
        assert_eq!(hash(&|hasher| (1u8, 2u16).hash(hasher)), sip::<1, 3>([1, 2], &[1, 2, 0]));
    }

    proptest! {
        /// However bytes are cut, the hash is that of all of them, and that of the standard
        /// library's SipHash-2-4.
        #[test]
        fn pieces_make_the_whole(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..8), key: [u64; 2]) {
            #[allow(deprecated)]
            let mut twin = std::hash::SipHasher::new_with_keys(key[0], key[1]);
            let mut hasher = Sip::<2, 4>::new(key);
            for piece in &pieces {
                match piece[..] {
                    [one] => hasher.write_u8(one),
                    [one, two] => hasher.write_u16(u16::from_le_bytes([one, two])),
                    _ => hasher.write(piece),
                }
                twin.write(piece);
            }
            prop_assert_eq!(hasher.finish(), twin.finish());
            prop_assert_eq!(hasher.finish(), sip::<2, 4>(key, &pieces.concat()));
        }
    }
}
