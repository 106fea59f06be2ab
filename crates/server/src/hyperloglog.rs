//! Estimated counts of different elements, as byte strings that are equal to those of Redis.
//!
//! An element's hash chooses one of 16384 registers, which keeps the longest run of zeros that its
//! elements have had; from the registers follows the estimate.
//!
//! | bytes | content |
//! |---|---|
//! | 0..4 | `HYLL` |
//! | 4 | the form: 0 dense, 1 sparse |
//! | 5..8 | anything |
//! | 8..16 | the estimate, little-endian, if the highest bit is 0; else it is to be computed |
//! | 16.. | the registers |
//!
//! Dense: 6 bits a register, the lowest bits first. Sparse: runs of registers, `00` and 6 bits: as
//! many zeros and one more; `01` and 14 bits, big-endian: the same; `1`, 5 bits and 2 bits: a value
//! less one, and its registers less one. A sparse form of more than [`SPARSE_MAX`] bytes, or with a
//! value above 32, becomes a dense one.
//!
//! Clients may set any string, so nothing here trusts the bytes.

/// Registers of an estimate.
pub(crate) const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of a hash that choose a register.
const INDEX_BITS: u32 = 14;
/// The other bits, whose zeros are counted.
const ZEROS_MAX: u32 = 64 - INDEX_BITS;
/// Bytes before the registers.
const HEADER: usize = 16;
/// Bytes of a dense form.
const DENSE: usize = HEADER + REGISTERS * 6 / 8;
/// Bytes of a sparse form at most: Redis's `hll-sparse-max-bytes`, and its default.
const SPARSE_MAX: usize = 3000;
/// The largest value of a sparse register.
const SPARSE_VALUE_MAX: u8 = 32;
/// The longest run of a value.
const VALUES_MAX: usize = 4;
/// The longest run of zeros in one byte.
const ZEROS_SHORT_MAX: usize = 64;

/// The reason why a string is no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Odd {
    /// It does not look like one.
    Foreign,
    /// It does, and its registers make no sense.
    Corrupt,
}

/// An estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Estimate {
    bytes: Vec<u8>,
}

/// A run of a sparse form: bytes, registers, and their value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    bytes: usize,
    count: usize,
    value: u8,
}

impl Run {
    fn read(bytes: &[u8]) -> Option<Run> {
        let first = *bytes.first()?;
        Some(match first >> 6 {
            0 => Run { bytes: 1, count: usize::from(first & 0x3f) + 1, value: 0 },
            1 => {
                let low = *bytes.get(1)?;
                Run { bytes: 2, count: (usize::from(first & 0x3f) << 8 | usize::from(low)) + 1, value: 0 }
            }
            _ => Run { bytes: 1, count: usize::from(first & 3) + 1, value: (first >> 2 & 0x1f) + 1 },
        })
    }

    fn zeros(out: &mut Vec<u8>, count: usize) {
        match count {
            0 => {}
            1..=ZEROS_SHORT_MAX => out.push((count - 1) as u8),
            _ => out.extend_from_slice(&[0x40 | ((count - 1) >> 8) as u8, (count - 1) as u8]),
        }
    }

    fn values(out: &mut Vec<u8>, value: u8, count: usize) {
        if count > 0 {
            out.push(0x80 | (value - 1) << 2 | (count - 1) as u8);
        }
    }
}

impl Default for Estimate {
    /// Of nothing.
    fn default() -> Estimate {
        let mut bytes = b"HYLL\x01".to_vec();
        bytes.resize(HEADER, 0);
        Run::zeros(&mut bytes, REGISTERS);
        Estimate { bytes }
    }
}

impl Estimate {
    /// The estimate that a string holds. The registers of a sparse form are not looked at.
    pub(crate) fn of(bytes: Vec<u8>) -> Result<Estimate, Odd> {
        let fits = match bytes.get(..HEADER) {
            Some([b'H', b'Y', b'L', b'L', 0, ..]) => bytes.len() == DENSE,
            Some([b'H', b'Y', b'L', b'L', 1, ..]) => true,
            _ => false,
        };
        if fits { Ok(Estimate { bytes }) } else { Err(Odd::Foreign) }
    }

    /// Its string.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether its form is the dense one.
    pub(crate) fn is_dense(&self) -> bool {
        self.bytes[4] == 0
    }

    /// The estimate that is kept; `None` if it is to be computed.
    pub(crate) fn kept(&self) -> Option<u64> {
        let word = self.bytes.get(8..HEADER)?.try_into().ok().map(u64::from_le_bytes)?;
        (word >> 63 == 0).then_some(word)
    }

    /// Keeps what was computed.
    pub(crate) fn keep(&mut self, count: u64) {
        self.bytes[8..HEADER].copy_from_slice(&count.to_le_bytes());
    }

    /// The registers have changed.
    pub(crate) fn forget(&mut self) {
        self.bytes[HEADER - 1] |= 0x80;
    }

    /// The value of every register.
    pub(crate) fn registers(&self) -> Result<Vec<u8>, Odd> {
        if self.is_dense() {
            return Ok((0..REGISTERS).map(|index| self.dense(index)).collect());
        }
        let (mut registers, mut rest) = (Vec::with_capacity(REGISTERS), &self.bytes[HEADER..]);
        while !rest.is_empty() {
            let run = Run::read(rest).filter(|run| registers.len() + run.count <= REGISTERS).ok_or(Odd::Corrupt)?;
            registers.resize(registers.len() + run.count, run.value);
            rest = &rest[run.bytes..];
        }
        if registers.len() == REGISTERS { Ok(registers) } else { Err(Odd::Corrupt) }
    }

    fn dense(&self, index: usize) -> u8 {
        let (place, shift) = (HEADER + index * 6 / 8, index * 6 % 8);
        let high = self.bytes.get(place + 1).copied().unwrap_or(0);
        (u16::from_le_bytes([self.bytes[place], high]) >> shift & 0x3f) as u8
    }

    fn set_dense(&mut self, index: usize, value: u8) {
        let (place, shift) = (HEADER + index * 6 / 8, index * 6 % 8);
        let keep = |byte: u8, mask: u16, new: u16| (u16::from(byte) & !mask | new) as u8;
        let (mask, new) = (0x3f << shift, u16::from(value) << shift);
        self.bytes[place] = keep(self.bytes[place], mask & 0xff, new & 0xff);
        if let Some(high) = self.bytes.get_mut(place + 1) {
            *high = keep(*high, mask >> 8, new >> 8);
        }
    }

    /// Becomes dense.
    pub(crate) fn make_dense(&mut self) -> Result<(), Odd> {
        if self.is_dense() {
            return Ok(());
        }
        let registers = self.registers()?;
        self.bytes.truncate(HEADER);
        self.bytes[4] = 0;
        self.bytes.resize(DENSE, 0);
        for (index, value) in registers.into_iter().enumerate().filter(|(_, value)| *value > 0) {
            self.set_dense(index, value);
        }
        Ok(())
    }

    /// Adds an element; whether a register has changed.
    pub(crate) fn add(&mut self, element: &[u8]) -> Result<bool, Odd> {
        let hash = hash(element);
        let index = (hash % REGISTERS as u64) as usize;
        let zeros = (hash >> INDEX_BITS | 1 << ZEROS_MAX).trailing_zeros();
        self.raise(index, zeros as u8 + 1)
    }

    /// Gives a register a value unless it has a higher one; whether it has changed.
    pub(crate) fn raise(&mut self, index: usize, value: u8) -> Result<bool, Odd> {
        if self.is_dense() {
            let higher = value > self.dense(index);
            if higher {
                self.set_dense(index, value);
            }
            return Ok(higher);
        }
        if value > SPARSE_VALUE_MAX {
            self.make_dense()?;
            return self.raise(index, value);
        }
        let (mut at, mut first, mut before) = (HEADER, 0, HEADER);
        let run = loop {
            let run = Run::read(self.bytes.get(at..).unwrap_or_default()).ok_or(Odd::Corrupt)?;
            if index < first + run.count {
                break run;
            }
            (before, at, first) = (at, at + run.bytes, first + run.count);
        };
        if run.value >= value {
            return Ok(false);
        }
        // The run is replaced by one before the register, the register, and one behind it.
        let mut new = Vec::with_capacity(5);
        let (low, high) = (index - first, first + run.count - 1 - index);
        let others = |new: &mut Vec<u8>, count| match run.value {
            0 => Run::zeros(new, count),
            value => Run::values(new, value, count),
        };
        others(&mut new, low);
        Run::values(&mut new, value, 1);
        others(&mut new, high);
        let size = self.bytes.len() - run.bytes + new.len();
        if new.len() > run.bytes && size > SPARSE_MAX {
            self.make_dense()?;
            return self.raise(index, value);
        }
        self.bytes.splice(at..at + run.bytes, new);
        self.join(before);
        self.forget();
        Ok(true)
    }

    /// Joins neighbouring runs of one value, within five runs from one on.
    fn join(&mut self, mut at: usize) {
        for _ in 0..5 {
            let Some(run) = self.bytes.get(at..).and_then(Run::read) else { return };
            let next = self.bytes.get(at + run.bytes..).and_then(Run::read);
            match next {
                Some(next) if run.value > 0 && next.value == run.value && run.count + next.count <= VALUES_MAX => {
                    let mut joined = Vec::with_capacity(1);
                    Run::values(&mut joined, run.value, run.count + next.count);
                    self.bytes.splice(at..at + 2, joined);
                }
                _ => at += run.bytes,
            }
        }
    }

    /// How many different elements were added, about.
    pub(crate) fn count(&self) -> Result<u64, Odd> {
        Ok(count(&self.registers()?))
    }
}

/// How many different elements these registers stand for, about: the estimator of Otmar Ertl ("New
/// cardinality estimation algorithms for HyperLogLog sketches").
pub(crate) fn count(registers: &[u8]) -> u64 {
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let mut by_value = [0_u32; 64];
    registers.iter().for_each(|value| by_value[usize::from(value & 0x3f)] += 1);
    let all = REGISTERS as f64;
    let last = ZEROS_MAX as usize;
    let mut sum = all * tau((all - f64::from(by_value[last + 1])) / all);
    for value in (1..=last).rev() {
        sum = (sum + f64::from(by_value[value])) * 0.5;
    }
    sum += all * sigma(f64::from(by_value[0]) / all);
    (ALPHA * all * all / sum).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut factor, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * factor;
        factor += factor;
        if sum == before {
            return sum;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut factor, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - x).powi(2) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}

/// MurmurHash64A with Redis's seed.
fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = 0xadc8_3b19 ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word = (word ^ word >> 47).wrapping_mul(FACTOR);
        hash = (hash ^ word).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = (hash ^ last).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(FACTOR);
    hash ^ hash >> 47
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_workload::Random;

    /// Both forms have the registers of a plain array, whatever the order of elements.
    #[test]
    fn forms_keep_what_an_array_keeps() {
        let mut random = Random::new(7);
        for elements in [0, 1, 50, 900, 5000, 40_000] {
            let (mut sparse, mut dense) = (Estimate::default(), Estimate::default());
            dense.make_dense().unwrap();
            let mut array = vec![0; REGISTERS];
            for _ in 0..elements {
                let (index, value) = (random.index(REGISTERS), 1 + random.index(6).min(random.index(40)) as u8);
                let higher = array[index] < value;
                array[index] = array[index].max(value);
                assert_eq!(sparse.raise(index, value), Ok(higher));
                assert_eq!(dense.raise(index, value), Ok(higher));
            }
            assert_eq!(sparse.registers().unwrap(), array);
            assert_eq!(dense.registers().unwrap(), array);
            assert!(sparse.is_dense() || sparse.bytes().len() <= SPARSE_MAX);
            assert_eq!(sparse.is_dense(), elements >= 5000, "{elements}");
            sparse.make_dense().unwrap();
            assert_eq!(sparse.registers().unwrap(), array);
        }
    }

    /// Registers of one value take one byte for each four of them, in whatever order they get it.
    #[test]
    fn neighbours_of_one_value_share_runs() {
        for order in [[0, 1, 2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2, 1, 0], [0, 2, 1, 3, 4, 6, 5, 7]] {
            let mut estimate = Estimate::default();
            order.into_iter().for_each(|index| assert_eq!(estimate.raise(index, 3), Ok(true)));
            let mut runs = Vec::new();
            Run::values(&mut runs, 3, VALUES_MAX);
            Run::values(&mut runs, 3, VALUES_MAX);
            Run::zeros(&mut runs, REGISTERS - 8);
            assert_eq!(estimate.bytes()[HEADER..], runs, "{order:?}");
        }
    }

    #[test]
    fn counts_are_near() {
        let mut estimate = Estimate::default();
        for number in 0..100_000_u32 {
            estimate.add(&number.to_le_bytes()).unwrap();
            if [9, 999, 99_999].contains(&number) {
                let (count, real) = (estimate.count().unwrap() as f64, f64::from(number + 1));
                assert!((count - real).abs() / real < 0.02, "{count} of {real}");
            }
        }
    }

    /// Any bytes are answered with an error or taken, in bounded time.
    #[test]
    fn odd_strings_are_refused() {
        let mut random = Random::new(3);
        for _ in 0..3000 {
            let mut bytes = match random.index(3) {
                0 => Estimate::default().bytes,
                1 => vec![0; DENSE],
                _ => vec![0xff; random.index(60)],
            };
            let marked = bytes.len().min(4);
            bytes[..marked].copy_from_slice(&b"HYLL"[..marked]);
            for _ in 0..random.index(8) {
                bytes.push(random.index(256) as u8);
            }
            if let Some(form) = bytes.get_mut(4) {
                *form = random.index(3) as u8;
            }
            let Ok(mut estimate) = Estimate::of(bytes) else { continue };
            let _ = (estimate.count(), estimate.kept());
            let _ = estimate.raise(random.index(REGISTERS), 1 + random.index(51) as u8);
            let _ = estimate.make_dense();
        }
        assert_eq!(Estimate::of(b"HYLL".to_vec()), Err(Odd::Foreign));
    }
}
