//! Keys of many shapes.

use crate::Random;

/// Shapes of keys: a number's key is always the same.
#[derive(Clone, Debug)]
pub struct Keys {
    prefixes: Vec<usize>,
    fills: Vec<u8>,
    tails: Vec<u8>,
    /// Number of different keys.
    pub count: u64,
}

impl Keys {
    /// Draws shapes. Shared prefixes take their lengths from `prefixes`.
    pub fn draw(random: &mut Random, prefixes: &[usize]) -> Keys {
        Keys {
            prefixes: random.some(prefixes),
            fills: random.some(&[b'a', 0, 0xff]),
            tails: random.some(&[0, 1, 2, 3, 4, 5]),
            count: random.pick(&[3, 20, 150, 1000, 4000]),
        }
    }

    /// The key of a number.
    pub fn key(&self, number: u64) -> Vec<u8> {
        let of = |list: usize| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % list;
        let mut key = vec![self.fills[of(self.fills.len())]; self.prefixes[of(self.prefixes.len())]];
        match self.tails[number as usize % self.tails.len()] {
            0 => key.extend_from_slice(&number.to_be_bytes()),
            1 => key.extend_from_slice(number.to_string().as_bytes()),
            2 => key.extend_from_slice(&number.to_le_bytes()[..1 + (number % 8) as usize]),
            3 => {
                key.resize(key.len() + number as usize % 10, 0);
                key.extend_from_slice(&(number as u16).to_be_bytes());
            }
            4 => {
                key.resize(key.len() + number as usize % 10, 0xff);
                key.push(number as u8);
            }
            _ => {
                key.extend_from_slice(&number.to_be_bytes()[4..]);
                key.resize(key.len() + (number as usize * 7) % 400, b'z');
            }
        }
        key
    }

    /// Any key.
    pub fn any(&self, random: &mut Random) -> Vec<u8> {
        self.key(random.below(self.count))
    }
}
