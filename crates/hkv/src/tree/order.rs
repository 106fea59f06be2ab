//! [`Order`]: which slots of a node are in use, and in which order their keys stand: one word, so one store changes both.

use crate::layout::FAN_OUT;

/// Fourteen nibbles, the slots in use first, and above them how many these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order(pub u64);

const COUNT_AT: u32 = FAN_OUT as u32 * 4;
const SLOTS: u64 = mask(FAN_OUT);

/// The lowest `count` nibbles.
const fn mask(count: usize) -> u64 {
    (1 << (count * 4)) - 1
}

impl Order {
    /// The first `count` slots, as they stand.
    pub(super) fn of(count: usize) -> Order {
        Order(0x00dc_ba98_7654_3210 | (count as u64) << COUNT_AT)
    }

    /// Slots in use.
    pub(super) fn count(self) -> usize {
        (self.0 >> COUNT_AT) as usize
    }

    /// The slot that stands at `index`; at and beyond [`Order::count`], one that is free.
    pub(super) fn slot(self, index: usize) -> usize {
        (self.0 >> (index * 4) & 15) as usize
    }

    /// Whether each slot stands in it once. Others are damaged.
    pub(super) fn is_whole(self) -> bool {
        let met = (0..FAN_OUT).fold(0_u16, |met, index| met | 1 << self.slot(index));
        met == (1 << FAN_OUT) - 1 && self.count() <= FAN_OUT
    }

    /// The slots in use, a bit for each, but for those that stand before `first`.
    pub(super) fn used_from(self, first: usize) -> u16 {
        (first..self.count()).fold(0, |used, index| used | 1 << self.slot(index))
    }

    /// Whether all slots are in use.
    pub(super) fn is_full(self) -> bool {
        self.count() == FAN_OUT
    }

    /// With the first free slot, which is `slot(count())`, in use and at `index`.
    pub(super) fn with(self, index: usize) -> Order {
        let (count, below) = (self.count(), mask(index));
        let beyond = SLOTS & !mask(count + 1);
        let moved = (self.0 & mask(count) & !below) << 4;
        let slots = self.0 & (below | beyond) | moved | (self.slot(count) as u64) << (index * 4);
        Order(slots | (count as u64 + 1) << COUNT_AT)
    }

    /// With the slots from `count` on, which are in use, free.
    pub(super) fn first(self, count: usize) -> Order {
        Order(self.0 & SLOTS | (count as u64) << COUNT_AT)
    }

    /// With the slot at `index` free.
    pub(super) fn without(self, index: usize) -> Order {
        let (count, below) = (self.count(), mask(index));
        let beyond = SLOTS & !mask(count);
        let moved = (self.0 & mask(count) & !mask(index + 1)) >> 4;
        let slots = self.0 & (below | beyond) | moved | (self.slot(index) as u64) << ((count - 1) * 4);
        Order(slots | (count as u64 - 1) << COUNT_AT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain list, for every count and index.
    #[test]
    fn an_order_is_a_list_of_slots_and_the_rest() {
        let slots = |order: Order| (0..order.count()).map(|index| order.slot(index)).collect::<Vec<_>>();
        let mut order = Order::of(0);
        for round in 0..2000_usize {
            assert!(order.is_whole(), "{order:x?}");
            let (mut twin, count) = (slots(order), order.count());
            if (round * 7 / 40) % 2 == 0 && !order.is_full() {
                let index = round * 31 % (count + 1);
                twin.insert(index, order.slot(count));
                order = order.with(index);
            } else if count > 0 {
                let index = round * 13 % count;
                twin.remove(index);
                order = order.without(index);
            }
            assert_eq!(slots(order), twin);
        }
        assert_eq!(slots(Order::of(3)), [0, 1, 2]);
        assert!(!Order(Order::of(15).0).is_whole() && !Order(Order::of(3).0 + 1).is_whole());
    }
}
