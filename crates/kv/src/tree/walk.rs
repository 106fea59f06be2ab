//! The entries of one node that a version sees, in key order: [`Walk`] goes step by step, for inner
//! nodes, of which a cursor looks at few entries; [`Entries`] are all of a leaf's, of which it
//! hands out most.
//!
//! The base is sorted and so is what `order` names (NODE-3): both merge the two.
//!
//! Threads: beside the one writer. The order word is read once, when the walk begins: what it named
//! and the version sees is not reused while the version is pinned (TREE-2), what it did not name
//! the version does not see.

use crate::error::Result;
use crate::tree::layout::{APPENDS, LEAF_BASE_MAX};
use crate::tree::node::{Node, order_indexes};
use crate::tree::version::View;
use std::cell::Cell;
use std::cmp::Ordering;

thread_local! {
    static LISTED: Cell<u64> = const { Cell::new(0) };
}

/// Leaves of which this thread has listed the entries to walk over them, since it began.
pub fn listed() -> u64 {
    LISTED.get()
}

/// A place between two entries of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    /// The node's order word, each slot named once.
    order: u64,
    /// Base slots before the place.
    base: u16,
    /// Slots named by `order` before the place.
    appended: u16,
}

impl Walk {
    /// Before the first entry of `node`.
    #[inline]
    pub(crate) fn at_start(node: &Node<'_>) -> Walk {
        Walk { order: sound(node.order()), base: 0, appended: 0 }
    }

    /// Behind the last entry of `node`.
    pub(crate) fn at_end(node: &Node<'_>) -> Walk {
        let order = sound(node.order());
        Walk { order, base: node.base() as u16, appended: (order & 15) as u16 }
    }

    /// Before the first entry whose key is larger than `key`.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub(crate) fn behind(node: &Node<'_>, view: &View, key: &[u8]) -> Result<Walk> {
        let head = node.query_head(key);
        let base = node.rank(key, head)? as u16;
        let mut walk = Walk { order: sound(node.order()), base, appended: 0 };
        for (rank, append) in order_indexes(walk.order).enumerate() {
            let index = node.base() + append;
            if !node.sees(view, index) {
                continue;
            }
            if node.order_against(index, key, head)? == Ordering::Greater {
                break;
            }
            walk.appended = rank as u16 + 1;
        }
        node.require_readable()?;
        Ok(walk)
    }

    #[inline]
    fn named(&self, rank: u16) -> usize {
        (self.order >> (4 + 4 * rank) & 15) as usize
    }

    /// The slot of the entry behind the place, which moves past it.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub(crate) fn next(&mut self, node: &Node<'_>, view: &View) -> Result<Option<usize>> {
        let count = (self.order & 15) as u16;
        // Slots of the base are never reused: no need to look twice.
        while usize::from(self.base) < node.base() && !node.sees_base(view, self.base.into()) {
            self.base += 1;
        }
        while self.appended < count && !node.sees(view, node.base() + self.named(self.appended)) {
            self.appended += 1;
        }
        let base = (usize::from(self.base) < node.base()).then_some(usize::from(self.base));
        let appended = (self.appended < count).then(|| node.base() + self.named(self.appended));
        node.require_readable()?;
        Ok(match (base, appended) {
            (Some(base), Some(appended)) if node.compare_slots(appended, base)? == Ordering::Less => {
                self.appended += 1;
                Some(appended)
            }
            (None, Some(appended)) => {
                self.appended += 1;
                Some(appended)
            }
            (base, _) => {
                self.base += u16::from(base.is_some());
                base
            }
        })
    }

    /// The slot of the entry before the place, which moves before it.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn prev(&mut self, node: &Node<'_>, view: &View) -> Result<Option<usize>> {
        while self.base > 0 && !node.sees_base(view, usize::from(self.base) - 1) {
            self.base -= 1;
        }
        while self.appended > 0 && !node.sees(view, node.base() + self.named(self.appended - 1)) {
            self.appended -= 1;
        }
        let base = self.base.checked_sub(1).map(usize::from);
        let appended = self.appended.checked_sub(1).map(|rank| node.base() + self.named(rank));
        node.require_readable()?;
        Ok(match (base, appended) {
            (Some(base), Some(appended)) if node.compare_slots(appended, base)? == Ordering::Less => {
                self.base -= 1;
                Some(base)
            }
            (_, Some(appended)) => {
                self.appended -= 1;
                Some(appended)
            }
            (base, None) => {
                self.base -= u16::from(base.is_some());
                base
            }
        })
    }
}

/// The slots of a leaf's entries, in key order, and a place among them.
pub(crate) struct Entries {
    list: [u8; LEAF_BASE_MAX + APPENDS],
    count: u8,
    next: u8,
}

impl Entries {
    pub(crate) const NONE: Entries = Entries { list: [0; LEAF_BASE_MAX + APPENDS], count: 0, next: 0 };

    /// Lists what `view` sees of `leaf`; the place is before the first.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn list(&mut self, leaf: &Node<'_>, view: &View) -> Result<()> {
        LISTED.set(LISTED.get() + 1);
        let base = leaf.base().min(LEAF_BASE_MAX);
        let mut appended = [(0_u64, 0_usize); APPENDS];
        let mut rest = 0;
        for append in order_indexes(sound(leaf.order())) {
            let index = base + append;
            if leaf.sees(view, index) {
                leaf.prefetch_appended(append);
                appended[rest] = (leaf.head(index), index);
                rest += 1;
            }
        }
        let mut appended = &appended[..rest];
        let (mut count, list) = (0, &mut self.list);
        let mut push = |index: usize| {
            list[count] = index as u8;
            count += 1;
        };
        for index in (0..base).filter(|&index| leaf.sees_base(view, index)) {
            while let [(head, first), more @ ..] = appended {
                let order = match head.cmp(&leaf.head(index)) {
                    Ordering::Equal => leaf.compare_slots(*first, index)?,
                    order => order,
                };
                if order != Ordering::Less {
                    break;
                }
                push(*first);
                appended = more;
            }
            push(index);
        }
        appended.iter().for_each(|&(_, index)| push(index));
        (self.count, self.next) = (count as u8, 0);
        leaf.require_readable()
    }

    /// Moves the place before the first entry of the listed leaf that is not smaller than `key`.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn seek(&mut self, leaf: &Node<'_>, key: &[u8]) -> Result<()> {
        let head = leaf.query_head(key);
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            let before = leaf.order_against(self.list[usize::from(middle)].into(), key, head)? == Ordering::Less;
            if before { low = middle + 1 } else { high = middle }
        }
        self.next = low;
        leaf.require_readable()
    }

    /// Moves the place, as [`Entries::seek`] does, past entries that are smaller than `key`; how
    /// many there were. Most leaves lie before the key whole, which their last entry tells.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn pass(&mut self, leaf: &Node<'_>, key: &[u8]) -> Result<u64> {
        let from = self.next;
        let whole = match self.list[..usize::from(self.count)].last() {
            Some(last) => leaf.order_against((*last).into(), key, leaf.query_head(key))? == Ordering::Less,
            None => true,
        };
        if whole {
            self.seek_end()
        } else {
            self.seek(leaf, key)?
        }
        leaf.require_readable()?;
        Ok(self.next.saturating_sub(from).into())
    }

    /// The slot of one of the entries from `low` to before `high`, each as likely, and their
    /// number.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn draw(
        &mut self,
        leaf: &Node<'_>,
        low: &[u8],
        high: &[u8],
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<(usize, u64)>> {
        self.seek(leaf, low)?;
        let first = self.next;
        self.seek(leaf, high)?;
        let among = u64::from(self.next.saturating_sub(first));
        let drawn = random().checked_rem(among);
        Ok(drawn.map(|drawn| (self.list[usize::from(first) + drawn as usize].into(), among)))
    }

    /// Moves the place past up to `count` entries; how many there were.
    pub(crate) fn skip(&mut self, count: u64) -> u64 {
        let passed = count.min(u64::from(self.count - self.next));
        self.next += passed as u8;
        passed
    }

    /// As [`Entries::skip`], towards the start.
    pub(crate) fn skip_back(&mut self, count: u64) -> u64 {
        let passed = count.min(u64::from(self.next));
        self.next -= passed as u8;
        passed
    }

    /// Whether the place is behind the last entry.
    pub(crate) fn is_at_end(&self) -> bool {
        self.next >= self.count
    }

    /// Moves the place behind the last entry.
    pub(crate) fn seek_end(&mut self) {
        self.next = self.count;
    }

    /// The slot of the entry behind the place, which moves past it.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<usize> {
        let found = self.list[..usize::from(self.count)].get(usize::from(self.next))?;
        self.next += 1;
        Some((*found).into())
    }

    /// The slot of the entry behind the place and `after` more.
    #[inline(always)]
    pub(crate) fn peek(&self, after: u8) -> Option<u8> {
        self.list[..usize::from(self.count)].get(usize::from(self.next) + usize::from(after)).copied()
    }

    /// Asks for the records of the next `count` entries.
    pub(crate) fn prefetch(&self, leaf: &Node<'_>, count: u8) {
        (0..count).filter_map(|after| self.peek(after)).for_each(|index| leaf.prefetch_record_of(index.into()));
    }

    /// The slot of the entry before the place, which moves before it.
    pub(crate) fn prev(&mut self) -> Option<usize> {
        self.next = self.next.checked_sub(1)?;
        self.list.get(usize::from(self.next)).map(|&found| found.into())
    }
}

/// An order word that names each slot once and none beyond the last; a damaged one loses what it
/// cannot mean.
#[inline]
fn sound(order: u64) -> u64 {
    let mut seen = 0_u16;
    for append in order_indexes(order) {
        seen |= 1 << append;
    }
    let count = (order & 15) as u32;
    if seen.count_ones() == count && seen >> APPENDS == 0 { order } else { mended(order) }
}

#[cold]
fn mended(order: u64) -> u64 {
    let (mut next, mut count, mut seen) = (0, 0, 0_u16);
    for append in order_indexes(order).filter(|&append| append < APPENDS) {
        if seen & 1 << append == 0 {
            seen |= 1 << append;
            next |= (append as u64) << (4 + 4 * count);
            count += 1;
        }
    }
    next | count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_order_word_names_each_slot_once() {
        for order in [0, 0x2013, 0x0edc_ba98_7654_3210 << 4 | 15] {
            assert_eq!(sound(order), order, "{order:#x}");
        }
        assert_eq!(sound(0x2223), 0x21);
        assert_eq!(sound(0xf_1f_03), 0x102, "slot 15 does not exist");
        assert_eq!(sound(u64::MAX), 0);
    }
}
