//! [`Zipf`]: ranks of which the first are drawn most often.

use crate::Random;

/// Draws ranks below a count that may grow: rank *r* as often as 1/(*r* + 1)^0.99, the skew of
/// YCSB. One draw costs two powers, whatever the count (Gray and others: Quickly generating
/// billion-record synthetic databases, SIGMOD 1994).
#[derive(Clone, Debug)]
pub struct Zipf {
    count: u64,
    /// The sum of the weights of all ranks.
    sum: f64,
    scale: f64,
}

const SKEW: f64 = 0.99;

fn weight(rank: u64) -> f64 {
    ((rank + 1) as f64).powf(-SKEW)
}

impl Zipf {
    /// Ranks below `count`, which is at least 1. The cost is that of as many powers.
    pub fn new(count: u64) -> Zipf {
        let mut zipf = Zipf { count: 0, sum: 0.0, scale: 0.0 };
        zipf.grow(count.max(1));
        zipf
    }

    /// Ranks below `count` from now on, if that is more.
    pub fn grow(&mut self, count: u64) {
        if count <= self.count {
            return;
        }
        self.sum += (self.count..count).map(weight).sum::<f64>();
        self.count = count;
        let first_two = weight(0) + weight(1);
        self.scale = (1.0 - (2.0 / count as f64).powf(1.0 - SKEW)) / (1.0 - first_two / self.sum);
    }

    /// A rank.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let share = random.below(1 << 53) as f64 / (1u64 << 53) as f64;
        let scaled = share * self.sum;
        if scaled < weight(0) {
            return 0;
        }
        if scaled < weight(0) + weight(1) {
            return 1.min(self.count - 1);
        }
        let rank = self.count as f64 * (self.scale * (share - 1.0) + 1.0).powf(1.0 / (1.0 - SKEW));
        (rank as u64).min(self.count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_their_weights() {
        let mut zipf = Zipf::new(10);
        zipf.grow(1000);
        zipf.grow(50);
        let mut counts = [0_u64; 1000];
        let mut random = Random::new(5);
        let draws = 200_000;
        (0..draws).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
        let all: f64 = (0..1000).map(weight).sum();
        for (first, end, tolerance) in [(0, 1, 0.03), (1, 2, 0.05), (2, 10, 0.15), (10, 100, 0.15), (100, 1000, 0.15)] {
            let expected: f64 = (first..end).map(weight).sum::<f64>() / all;
            let found = counts[first as usize..end as usize].iter().sum::<u64>() as f64 / draws as f64;
            assert!((found / expected - 1.0).abs() < tolerance, "{first}..{end}: {found}, expected {expected}");
        }
        assert!((0..1000).all(|_| Zipf::new(1).draw(&mut random) == 0));
    }
}
