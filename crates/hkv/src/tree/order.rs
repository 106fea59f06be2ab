//! [`Order`]: the slots of a node that are in use, in the order of their keys: one word, so one
//! store changes both.

use crate::layout::FAN_OUT;
use std::ops::Range;

/// Fourteen nibbles, the slots in use first, and above them the number of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order(pub u64);

const COUNT_AT: u32 = FAN_OUT as u32 * 4;
const SLOTS: u64 = mask(FAN_OUT);

/// The lowest `count` nibbles.
const fn mask(count: usize) -> u64 {
    (1 << (count * 4)) - 1
}

impl Order {
    /// The first `count` slots, in the order of their offsets.
    pub(super) fn of(count: usize) -> Order {
        Order(0x00dc_ba98_7654_3210 | (count as u64) << COUNT_AT)
    }

    /// Slots in use.
    pub(super) fn count(self) -> usize {
        (self.0 >> COUNT_AT) as usize
    }

    /// The slot at `index` of the order; at and beyond [`Order::count`], a free one.
    pub(super) fn slot(self, index: usize) -> usize {
        (self.0 >> (index * 4) & 15) as usize
    }

    /// Whether it names each slot once. Others are damaged.
    pub(super) fn is_whole(self) -> bool {
        let met = (0..FAN_OUT).fold(0_u16, |met, index| met | 1 << self.slot(index));
        met == (1 << FAN_OUT) - 1 && self.count() <= FAN_OUT
    }

    /// Whether it names existing slots only; it may name one twice.
    pub(super) fn is_readable(self) -> bool {
        // 14 and 15 have their upper three bits set
        let beyond = self.0 & self.0 << 1 & self.0 << 2;
        beyond & 0x0088_8888_8888_8888 == 0 && self.count() <= FAN_OUT
    }

    /// The indices from `first` on, below the count, with this prefix; all before them have a
    /// lesser one. `prefix` gives the prefix of a slot.
    #[inline(always)]
    pub(super) fn rank(self, first: usize, wanted: u64, prefix: impl Fn(usize) -> u64) -> Range<usize> {
        let (count, mut start) = (self.count(), first);
        for step in [8, 4, 2, 1] {
            // Without a branch on the bytes of slots, which no predictor can foretell.
            let next = start + step;
            let is_less = prefix(self.slot(next.min(FAN_OUT) - 1)) < wanted;
            start += step * usize::from(is_less & (next <= count));
        }
        let same = (start..count).take_while(|&index| prefix(self.slot(index)) == wanted).count();
        start..start + same
    }

    /// Whether all slots are in use.
    pub(super) fn is_full(self) -> bool {
        self.count() == FAN_OUT
    }

    /// The order with the first free slot, `slot(count())`, in use at `index`.
    pub(super) fn with(self, index: usize) -> Order {
        let (count, below) = (self.count(), mask(index));
        let beyond = SLOTS & !mask(count + 1);
        let moved = (self.0 & mask(count) & !below) << 4;
        let slots = self.0 & (below | beyond) | moved | (self.slot(count) as u64) << (index * 4);
        Order(slots | (count as u64 + 1) << COUNT_AT)
    }

    /// The order with the slots from `count` on, which are in use, free.
    pub(super) fn first(self, count: usize) -> Order {
        Order(self.0 & SLOTS | (count as u64) << COUNT_AT)
    }

    /// The order with the slot at `index` free.
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

    #[test]
    fn an_order_that_names_no_other_slots_is_readable() {
        for index in 0..FAN_OUT {
            let with = |slot: u64| Order(Order::of(5).0 & !(15 << (index * 4)) | slot << (index * 4));
            assert!((0..14).all(|slot| with(slot).is_readable()), "{index}");
            assert!(!with(14).is_readable() && !with(15).is_readable(), "{index}");
        }
        assert!(Order::of(14).is_readable() && !Order::of(15).is_readable());
    }

    /// Against a plain count, with every prefix twice at some place and none elsewhere.
    #[test]
    fn ranks_are_counted_in_whatever_order_slots_lie() {
        let order = (0..11).fold(Order::of(0), |order, index| order.with(index * 5 % (index + 1)));
        for double in 1..11 {
            let value = |index: usize| if index < double { index as u64 * 2 } else { (index as u64 - 1) * 2 };
            let index_of = |slot: usize| (0..FAN_OUT).find(|&index| order.slot(index) == slot).unwrap();
            for (first, wanted) in (0..2).flat_map(|first| (0..24).map(move |wanted| (first, wanted))) {
                let used = || (first..order.count()).map(value);
                let start = first + used().filter(|&prefix| prefix < wanted).count();
                let end = first + used().filter(|&prefix| prefix <= wanted).count();
                assert_eq!(order.rank(first, wanted, |slot| value(index_of(slot))), start..end);
            }
        }
    }
}
