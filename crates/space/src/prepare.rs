//! Preparing: clusters that never had an owner in this session are zeroed in advance for the next
//! reservation, of an object that grows or of a new object.
//!
//! Such clusters are `Wanted` until [`Space::zero_next`] finds no kept cluster that is ready; then
//! it zeroes them like kept ones, and [`Space::reserve`] takes them as `Prepared`. Memory alone
//! holds this: after a crash the file may be longer than the store accounts for, or hold file space
//! that no bit speaks for, as after a growth that a crash cut off.
//!
//! Invariants
//!   SPACE-6  A cluster is `Wanted` only while it has no owner: a reservation takes it out.

use crate::Space;
use crate::states::{ClusterState, StateKind};
use std::ops::Range;

/// Bytes that are prepared at once, up to a multiple of them: a large page, where the system has
/// such. A reservation of a part of them waits for all.
pub const PREPARE_STEP: u64 = 2 << 20;
/// Bytes that are wanted and prepared at most.
pub const PREPARED_MAX: u64 = 8 << 20;

impl Space {
    /// Adds the unlisted, unbacked clusters of `range` to those that [`Space::zero_next`] prepares.
    /// If they and the earlier ones exceed [`PREPARED_MAX`], the earlier wanted clusters leave the
    /// map and the prepared ones become kept. The caller lets no thread reserve any of `range`
    /// before this returns. `false`: there is nothing to prepare.
    pub fn want(&self, range: &Range<u64>) -> bool {
        let free = self.bitmap().clear_runs(self.media(), range.clone());
        let mark = self.media().mark();
        let states = &mut self.volatile.lock().states;
        let parts: Vec<_> = free.iter().flat_map(|part| states.unlisted(part)).collect();
        let more: u64 = parts.iter().map(|part| part.end - part.start).sum();
        if more == 0 || more > PREPARED_MAX {
            return false;
        }
        if more + states.bytes(StateKind::Wanted) + states.bytes(StateKind::Prepared) > PREPARED_MAX {
            states.take(StateKind::Wanted, |_| true);
            for part in states.take(StateKind::Prepared, |_| true) {
                states.set(part, ClusterState::Kept(mark));
            }
        }
        parts.into_iter().for_each(|part| states.set(part, ClusterState::Wanted));
        true
    }
}
