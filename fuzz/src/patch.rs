//! Inputs that patch an image: a flag byte, then patches of 13 bytes, each of which changes one
//! interesting word.
//!
//! Interesting are the words that are not zero in the good image, and their neighbours: all
//! structure is there.

use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};

/// Bit 0 of the first byte of an input: put the checksums right after patching.
pub const RESEAL: u8 = 1;
/// Bytes of one patch: what to do, where, with which value.
pub const PATCH: usize = 13;

/// A good image and what is interesting in it.
pub struct Image {
    bytes: Vec<u8>,
    /// Offsets of interesting words.
    words: Vec<usize>,
    /// Ranges whose bytes 8..12 are the CRC-32C of the range with them zero.
    sealed: Vec<(usize, usize)>,
}

impl Image {
    /// `sealed`: start and length of what carries a checksum.
    pub fn new(bytes: Vec<u8>, sealed: Vec<(usize, usize)>) -> Image {
        let interesting = |at: usize| {
            let near = at.saturating_sub(8)..(at + 16).min(bytes.len());
            bytes[near].iter().any(|byte| *byte != 0)
        };
        let words = (0..bytes.len() / 8).map(|word| word * 8).filter(|&at| interesting(at)).collect();
        Image { bytes, words, sealed }
    }

    /// The image as the input changes it.
    pub fn patched(&self, input: &[u8]) -> Vec<u8> {
        let mut image = self.bytes.clone();
        let (flags, patches) = input.split_first().unwrap_or((&0, &[]));
        for patch in patches.chunks_exact(PATCH) {
            self.apply(&mut image, patch);
        }
        if flags & RESEAL != 0 {
            for &(at, len) in &self.sealed {
                reseal(&mut image[at..at + len]);
            }
        }
        image
    }

    /// Memory that holds the image as the input changes it.
    pub fn media(&self, input: &[u8]) -> Media {
        let media = memory(self.bytes.len() as u64);
        {
            let _section = media.section();
            media.write(0, &self.patched(input));
        }
        media
    }

    fn apply(&self, image: &mut [u8], patch: &[u8]) {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        let place = |number: u64| self.words[number as usize % self.words.len()];
        let at = place(number(&patch[1..5]));
        let value = number(&patch[5..13]);
        let old = number(&image[at..at + 8]);
        let new = match patch[0] % 8 {
            0 => value,
            1 => old ^ value,
            2 => old.wrapping_add(value % 256),
            3 => old.wrapping_sub(value % 256),
            4 => old ^ 1 << (value % 64),
            5 => 0,
            6 => u64::MAX >> (value % 64),
            _ => {
                let from = place(value);
                number(&image[from..from + 8])
            }
        };
        image[at..at + 8].copy_from_slice(&new.to_le_bytes());
    }
}

/// Memory of zeros.
pub fn memory(len: u64) -> Media {
    Media::anonymous(len, &Options::default()).expect("memory")
}

/// An empty store in memory, the same at each call.
pub fn store(len: u64) -> Store {
    Store::format(memory(len), &FormatOptions { log_len: 0, identity: Some([7; 16]) }).expect("format")
}

fn reseal(bytes: &mut [u8]) {
    bytes[8..12].fill(0);
    let sum = crc32c::crc32c(bytes);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
}

/// The good image, and a few single patches.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![0], vec![RESEAL]];
    for op in 0..8 {
        for place in 0..16u32 {
            let mut seed = vec![RESEAL, op];
            seed.extend((place * 7).to_le_bytes());
            seed.extend((u64::from(place) * 0x0101_0101).to_le_bytes());
            seeds.push(seed);
        }
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_input_is_the_good_image_and_checksums_come_right() {
        let mut bytes = vec![0; 4096];
        bytes[0..8].copy_from_slice(b"MAGIC!!!");
        bytes[20] = 1;
        reseal(&mut bytes[0..512]);
        let image = Image::new(bytes.clone(), vec![(0, 512)]);
        assert_eq!(image.patched(&[]), bytes);
        assert_eq!(image.patched(&[RESEAL]), bytes);
        let patched = image.patched(&[RESEAL, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]);
        let mut again = patched.clone();
        reseal(&mut again[0..512]);
        assert_eq!(again, patched);
        assert_ne!(patched, bytes);
    }
}
