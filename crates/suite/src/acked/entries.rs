//! A stream of batches that a seed determines, and the state after any number of them.
//!
//! Each batch also stores its number under [`COUNT`]. So a recovered store says itself how many
//! batches it holds, and must then equal the model after exactly so many: a lost, torn or reordered
//! batch shows, acknowledged or not.

use everbyte_workload::Random;
use std::collections::BTreeMap;

/// The key that holds the number of batches, little-endian. It sorts before all others.
pub const COUNT: &[u8] = b"\0count";

/// Distinct keys; few enough that most writes overwrite.
const KEYS: u64 = 700;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Store this value.
    Put(Vec<u8>, Vec<u8>),
    /// Delete this key, which may be absent.
    Delete(Vec<u8>),
}

/// The changes of batch `number` (from 1), without the count.
pub fn batch(seed: u64, number: u64) -> Vec<Change> {
    let mut random = Random::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let changes = 1 + random.below(6);
    (0..changes).map(|_| change(&mut random)).collect()
}

fn change(random: &mut Random) -> Change {
    let number = random.below(KEYS);
    // Keys of very different lengths, some of them prefixes of others.
    let mut key = format!("key/{:03}", number % 100).into_bytes();
    key.resize(key.len() + (number / 100 * 23) as usize, b'a' + (number % 26) as u8);
    match random.below(10) {
        0..2 => Change::Delete(key),
        2 => Change::Put(key, bytes(random, 3000, 9000)),
        3 => Change::Put(key, Vec::new()),
        _ => Change::Put(key, bytes(random, 8, 300)),
    }
}

/// Everything the store holds after `count` batches, the count included.
pub fn model(seed: u64, count: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut model = BTreeMap::new();
    for number in 1..=count {
        for change in batch(seed, number) {
            match change {
                Change::Put(key, value) => drop(model.insert(key, value)),
                Change::Delete(key) => drop(model.remove(&key)),
            }
        }
    }
    if count > 0 {
        model.insert(COUNT.to_vec(), count.to_le_bytes().to_vec());
    }
    model
}

fn bytes(random: &mut Random, least: u64, most: u64) -> Vec<u8> {
    let len = least + random.below(most - least);
    (0..len.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(len as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_everything() {
        assert_eq!(batch(7, 3), batch(7, 3));
        assert_ne!(batch(7, 3), batch(8, 3));
        assert_eq!(model(7, 40), model(7, 40));
        assert!(model(7, 0).is_empty());
    }

    #[test]
    fn batches_overwrite_and_delete() {
        let puts = (1..300).flat_map(|n| batch(1, n)).filter(|change| matches!(change, Change::Put(..))).count();
        let deletes = (1..300).flat_map(|n| batch(1, n)).filter(|change| matches!(change, Change::Delete(_))).count();
        assert!(deletes > 50 && puts > 400, "{puts} {deletes}");
        assert!(model(1, 299).len() < puts);
    }
}
