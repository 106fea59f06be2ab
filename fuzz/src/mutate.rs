//! Changing inputs at random, as a seed determines.

use everbyte_workload::Random;

/// Inputs stay below this.
const LEN_MAX: usize = 16 << 10;

/// One to eight changes to an input, some of them taking from another.
pub fn mutate(random: &mut Random, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 + random.index(8) {
        change(random, &mut bytes, other);
    }
    bytes.truncate(LEN_MAX);
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = random.index(bytes.len() + 1);
    let inside = at < bytes.len();
    match random.index(9) {
        0 if inside => bytes[at] ^= 1 << random.index(8),
        1 if inside => bytes[at] = random.next() as u8,
        2 if inside => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.index(5)],
        3 if inside => bytes[at] = bytes[at].wrapping_add(1 + random.index(16) as u8),
        4 => {
            let len = 1 + random.index(16);
            let new: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            bytes.splice(at..at, new);
        }
        5 if inside => {
            let end = (at + 1 + random.index(32)).min(bytes.len());
            bytes.drain(at..end);
        }
        6 if !other.is_empty() => {
            let start = random.index(other.len());
            let end = (start + 1 + random.index(64)).min(other.len());
            bytes.splice(at..at, other[start..end].iter().copied());
        }
        7 if inside => {
            let end = (at + 1 + random.index(64)).min(bytes.len());
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
            let mut random = Random::new(seed);
            (0..100).map(|_| mutate(&mut random, b"some input", b"other")).collect::<Vec<_>>()
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }
}
