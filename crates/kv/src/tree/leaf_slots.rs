//! Appended slots of a leaf. The line behind the header tells which were never filled and where the
//! records of the others lie, so an insert touches that line, its slot and its record.

use crate::tree::batch::{NewRecord, TreeBatch};
use crate::tree::claims::{Claim, Claims};
use crate::tree::layout::*;
use crate::tree::node::Node;
use everbyte_media::LINE;
use everbyte_media::museum::unless;

/// Dead entries are emptied when no more slots than this are left that were never filled.
const FEW: usize = 4;
/// Lines of a new record that are asked for before the old entry is searched.
const APPEND_LINES: u64 = 3;
/// Most bytes left out in front of a record so that it begins on a line of its own and touches one
/// line less.
const GAP: u64 = 16;

impl TreeBatch<'_> {
    /// Fills a slot of a leaf. `None`: there is no room.
    pub(crate) fn append_to_leaf(&mut self, node: &Node<'_>, key: &[u8], record: &NewRecord) -> Option<usize> {
        let claims = node.claims();
        if !claims.are_sound() {
            return None; // the leaf is written anew, which takes no look at claims
        }
        let need = LENGTH + record.bytes.len() as u64;
        let fresh = Some(Claim { at: at_line(claims.end(node.base_end.into()), need), room: need })
            .filter(|claim| claim.end() <= node.size.into());
        // A slot with a start and no claim is torn: it is left to the rebuild (BATCH-3).
        let is_unused = |append: &usize| claims.get(*append).at == 0 && node.start(node.base() + *append) == 0;
        let mut unused = (0..APPENDS).filter(is_unused);
        let vacant = unused.next();
        let few = unused.nth(FEW - 1).is_none();
        let chosen = match (vacant, fresh) {
            (Some(append), Some(claim)) => Some((append, claim)),
            _ => self.emptied_slot(node, &claims, need, fresh),
        };
        if few {
            self.empty_dead(node, &claims);
        }
        let (append, claim) = chosen?;
        self.fill_leaf(node, append, claim, key, record);
        Some(node.base() + append)
    }

    /// Asks for the lines that the next append to a leaf writes.
    #[inline]
    pub(crate) fn prefetch_append(&self, leaf: &Node<'_>) {
        let end = leaf.claims().end(leaf.base_end.into()).min(leaf.size.into());
        (0..APPEND_LINES).for_each(|line| self.shared.media.prefetch(leaf.at + end + line * LINE));
    }

    /// A slot that was emptied: its old place, or else `fresh`.
    fn emptied_slot(
        &self,
        node: &Node<'_>,
        claims: &Claims,
        need: u64,
        fresh: Option<Claim>,
    ) -> Option<(usize, Claim)> {
        let mut other = None;
        for append in 0..APPENDS {
            let (index, claim) = (node.base() + append, claims.get(append));
            if claim.at == 0 || node.start(index) != 0 || !self.is_reusable(node.slot_at(index)) {
                continue;
            }
            if claim.room >= need && claim.at >= node.base_end.into() && claim.end() <= node.size.into() {
                return Some((append, claim));
            }
            other = other.or(fresh.map(|claim| (append, claim)));
        }
        other
    }

    /// Empties dead entries that own nothing, which need no ledger: the next version may reuse
    /// them.
    fn empty_dead(&mut self, node: &Node<'_>, claims: &Claims) {
        for append in (0..APPENDS).filter(|&append| claims.get(append).at != 0) {
            let index = node.base() + append;
            let (at, start, end) = (node.slot_at(index), node.start(index), node.end(index));
            let is_void = start != 0 && !self.view.born(start);
            let is_dead = start != 0 && self.view.ended(end) && end != self.view.version;
            if is_void || (is_dead && self.past(end) && !node.owns(index)) {
                self.store(at + START_AT, 0);
                self.emptied.insert(at);
            }
        }
    }

    /// Writes an appended slot, its start last (CLAIM-2).
    fn fill_leaf(&mut self, node: &Node<'_>, append: usize, claim: Claim, key: &[u8], record: &NewRecord) {
        let index = node.base() + append;
        let (at, place) = (node.slot_at(index), claim.at + LENGTH);
        self.touch(node, at);
        self.store(node.at + claim.at, record.value);
        self.write(node.at + place, &record.bytes);
        let (word, claimed) = node.claims().with(append, claim);
        let claim_at = node.at + (CLAIMS_AT + word * 8) as u64;
        self.shared.media.store(claim_at, claimed);
        unless("tree-claim-unflushed", || self.dirty.note(claim_at, 8));
        let byte = node.at + node.fingerprint_offset(index) as u64;
        let shift = byte % 8 * 8;
        let prints = self.shared.media.load(byte & !7) & !(0xff << shift) | u64::from(record.key_sum) << shift;
        self.store(byte & !7, prints);
        self.store(at + END_AT, 0);
        self.store(at + PLACE_AT, Slot::place(place as usize, record.key_len, record.flags, record.table));
        self.store(node.head_at(index), node.query_head(key));
        self.store(at + START_AT, self.view.version.get());
    }
}

/// `at`, or the next line if so `need` bytes touch a line less.
fn at_line(at: u64, need: u64) -> u64 {
    let (next, lines) = (at.next_multiple_of(LINE), |from: u64| (from % LINE + need).div_ceil(LINE));
    if next - at <= GAP && lines(next) < lines(at) { next } else { at }
}
