//! Swarm tests: many random programs, each of which draws its options too (sizes, mix of
//! operations, what fills up). What one mix hides another shows: a program that never deletes lets
//! things grow, one with three keys reuses every slot.
//!
//! A failure prints its seed: `EVERBYTE_SEED=0x...` runs that program alone. `EVERBYTE_SOAK=n` runs
//! n programs instead of a few, the k-th n of them with `EVERBYTE_ROUND=k`.

use crate::Random;
use everbyte_media::{Media, Options};

/// Runs `program` with the seeds that the environment asks for, `usual` of them by itself.
/// `program` is told whether the run is a long one, in which it may draw what takes minutes.
pub fn programs(usual: u64, mut program: impl FnMut(&mut Random, bool)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let (soak, round) = (number("EVERBYTE_SOAK"), number("EVERBYTE_ROUND").unwrap_or(0));
    let mut run = |seed: u64| {
        println!("EVERBYTE_SEED={seed:#x}{}", if soak.is_some() { " EVERBYTE_SOAK=1" } else { "" });
        program(&mut Random::new(seed), soak.is_some());
    };
    if let Ok(seed) = std::env::var("EVERBYTE_SEED") {
        return run(u64::from_str_radix(seed.trim_start_matches("0x"), 16).expect("a seed is a hexadecimal number"));
    }
    let count = soak.unwrap_or(usual);
    (round * count + 1..=(round + 1) * count).for_each(|program| run(program.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1));
}

/// What the memory holds at this instant up to `len`, in memory of its own: as after the death of
/// the process.
pub fn copy(media: &Media, len: u64, max: u64) -> Media {
    let copy = Media::anonymous(max, &Options::default()).expect("memory");
    let len = len.min(media.len());
    if copy.len() < len {
        copy.extend(0, len).expect("memory");
    }
    let (zeros, mut part) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for at in (0..len).step_by(1 << 20) {
        let step = (len - at).min(1 << 20) as usize;
        media.read(at, &mut part[..step]);
        if part[..step] != zeros[..step] {
            copy.write(at, &part[..step]);
        }
    }
    copy
}

/// Runs `body` on a thread whose stack has 256 KiB: a walk whose recursion the data decides
/// overflows it.
///
/// # Panics
/// As `body` does.
pub fn on_a_small_stack<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, body).expect("a thread");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Length of a chain: `usual`, or `soak` in a long run.
pub fn links(usual: u64, soak: u64) -> u64 {
    if std::env::var_os("EVERBYTE_SOAK").is_some() { soak } else { usual }
}

/// Shapes of keys: a number's key is always the same.
#[derive(Clone, Debug)]
pub struct Keys {
    prefixes: Vec<usize>,
    fills: Vec<u8>,
    tails: Vec<u8>,
    /// How many different ones there are.
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
