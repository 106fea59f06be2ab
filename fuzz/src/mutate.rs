//! Changing inputs at random, as a seed determines.

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.number() % n as u64) as usize
    }
}

/// Inputs stay below this.
const LEN_MAX: usize = 16 << 10;

/// One to eight changes to an input, some of them taking from another.
pub fn mutate(random: &mut Random, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 + random.below(8) {
        change(random, &mut bytes, other);
    }
    bytes.truncate(LEN_MAX);
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = random.below(bytes.len() + 1);
    let inside = at < bytes.len();
    match random.below(9) {
        0 if inside => bytes[at] ^= 1 << random.below(8),
        1 if inside => bytes[at] = random.number() as u8,
        2 if inside => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
        3 if inside => bytes[at] = bytes[at].wrapping_add(1 + random.below(16) as u8),
        4 => {
            let len = 1 + random.below(16);
            let new: Vec<u8> = (0..len).map(|_| random.number() as u8).collect();
            bytes.splice(at..at, new);
        }
        5 if inside => {
            let end = (at + 1 + random.below(32)).min(bytes.len());
            bytes.drain(at..end);
        }
        6 if !other.is_empty() => {
            let start = random.below(other.len());
            let end = (start + 1 + random.below(64)).min(other.len());
            bytes.splice(at..at, other[start..end].iter().copied());
        }
        7 if inside => {
            let end = (at + 1 + random.below(64)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            bytes.extend(copy);
        }
        _ => bytes.truncate(at.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_changes() {
        let made = |seed| {
            let mut random = Random(seed);
            (0..100).map(|_| mutate(&mut random, b"some input", b"other")).collect::<Vec<_>>()
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }
}
