//! The order in which clusters become cold, and the free slots of a tier.
//!
//! A segmented queue: clusters enter as *warm*. The oldest of these, a quarter of all, are put
//! *aside*: they are hidden, though they are still in memory. A touch makes a cluster warm again,
//! at the price of a fault without any reading. A cluster that stays aside until it is the oldest
//! becomes cold. So no sampling takes place while memory suffices.

use std::collections::{BTreeSet, VecDeque};

#[derive(Default)]
pub(crate) struct Queue {
    warm: VecDeque<u32>,
    aside: VecDeque<u32>,
}

impl Queue {
    /// The number of clusters in memory.
    pub(crate) fn len(&self) -> usize {
        self.warm.len() + self.aside.len()
    }

    /// A cluster enters, or is touched again.
    pub(crate) fn warm(&mut self, cluster: u32) {
        self.remove(cluster);
        self.warm.push_back(cluster);
    }

    /// Adds a cluster that is in memory and hidden.
    pub(crate) fn put_aside(&mut self, cluster: u32) {
        self.aside.push_back(cluster);
    }

    pub(crate) fn remove(&mut self, cluster: u32) {
        self.warm.retain(|&other| other != cluster);
        self.aside.retain(|&other| other != cluster);
    }

    /// Puts the oldest warm cluster aside, if fewer than `least` are. The caller hides it.
    pub(crate) fn next_aside(&mut self, least: usize) -> Option<u32> {
        if self.aside.len() >= least {
            return None;
        }
        let cluster = self.warm.pop_front()?;
        self.aside.push_back(cluster);
        Some(cluster)
    }

    /// Puts up to `count` of the oldest warm clusters aside, those that `hide` can hide. Returns
    /// their number.
    ///
    /// # Errors
    /// Of `hide`: the cluster and the newer ones stay warm.
    pub(crate) fn put_some_aside<E>(
        &mut self,
        count: usize,
        mut hide: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<usize, E> {
        let (mut kept, mut done) = (Vec::new(), Ok(0));
        while let Ok(number) = done
            && number < count
            && let Some(cluster) = self.warm.pop_front()
        {
            match hide(cluster) {
                Ok(true) => {
                    self.aside.push_back(cluster);
                    done = Ok(number + 1);
                }
                Ok(false) => kept.push(cluster),
                Err(error) => {
                    kept.push(cluster);
                    done = Err(error);
                }
            }
        }
        kept.into_iter().rev().for_each(|cluster| self.warm.push_front(cluster));
        done
    }

    /// The number of warm clusters.
    pub(crate) fn warm_len(&self) -> usize {
        self.warm.len()
    }

    /// Takes the cluster that has been aside for longest.
    pub(crate) fn oldest(&mut self) -> Option<u32> {
        self.aside.pop_front()
    }
}

/// Free slots of a tier: all from `end` on, and some before it.
#[derive(Default)]
pub(crate) struct FreeSlots {
    free: BTreeSet<u32>,
    end: u32,
}

impl FreeSlots {
    /// All slots that are not `used`; `Err` with a slot that is used twice.
    pub(crate) fn without(mut used: Vec<u32>) -> Result<FreeSlots, u32> {
        used.sort_unstable();
        if let Some(pair) = used.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(pair[0]);
        }
        let end = used.last().map_or(0, |last| last + 1);
        let used: BTreeSet<u32> = used.into_iter().collect();
        Ok(FreeSlots { free: (0..end).filter(|slot| !used.contains(slot)).collect(), end })
    }

    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        })
    }

    pub(crate) fn give(&mut self, slot: u32) {
        self.free.insert(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_is_touched_while_aside_stays() {
        let mut queue = Queue::default();
        (0..8).for_each(|cluster| queue.warm(cluster));
        while queue.next_aside(2).is_some() {}
        queue.warm(0); // touched
        assert_eq!(queue.oldest(), Some(1));
        while queue.next_aside(2).is_some() {}
        assert_eq!([queue.oldest(), queue.oldest(), queue.oldest()], [Some(2), Some(3), None]);
        assert_eq!(queue.len(), 5);
    }

    #[test]
    fn only_clusters_that_can_be_hidden_are_put_aside() {
        let mut queue = Queue::default();
        (0..8).for_each(|cluster| queue.warm(cluster));
        assert_eq!(queue.put_some_aside(3, |cluster| Ok::<_, ()>(cluster % 2 == 1)), Ok(3));
        assert_eq!(
            (Vec::from(queue.warm.clone()), Vec::from(queue.aside.clone())),
            (vec![0, 2, 4, 6, 7], vec![1, 3, 5])
        );
        assert_eq!(queue.put_some_aside(9, |cluster| if cluster == 4 { Err(()) } else { Ok(true) }), Err(()));
        assert_eq!((Vec::from(queue.warm.clone()), queue.len()), (vec![4, 6, 7], 8));
    }

    #[test]
    fn the_lowest_free_slot_is_taken() {
        assert_eq!(FreeSlots::without(vec![3, 1, 3]).err(), Some(3));
        let mut slots = FreeSlots::without(vec![3, 1]).unwrap();
        assert_eq!([slots.take(), slots.take(), slots.take()], [0, 2, 4]);
        slots.give(1);
        assert_eq!([slots.take(), slots.take()], [1, 5]);
    }
}
