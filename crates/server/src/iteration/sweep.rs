//! The removal of expired keys: a part of each iteration, as a command of no client.

use super::{CAREFUL_ITERATIONS, Iterations, LOST, SWEPT_MAX};
use crate::keyspace::{Keyspace, Verdict};

impl Iterations {
    /// Removes some of the keys that have expired, ten times a second at most unless there are
    /// many. A store that refuses is asked again later: an expired key is absent all the same.
    pub(super) fn sweep(&mut self, keys: &mut Keyspace<'_>) {
        const EVERY: u64 = 100;
        let now = keys.now();
        if now < self.shared.sweep_next && self.shared.sweep_next <= now + EVERY {
            return;
        }
        if self.shared.is_paused() || self.shared.replication.is_replica() {
            self.shared.sweep_next = now + EVERY; // the loop sleeps until then
            return;
        }
        keys.track(self.shared.follows_changes());
        keys.begin_command(false);
        let swept = keys.sweep(SWEPT_MAX);
        // A failure takes back what the sweep has removed before it.
        let verdict = keys.end_command(swept.is_err());
        let places = self.touched(keys, None);
        if matches!(verdict, Verdict::Lost) {
            // Patches and evictions before it in this iteration have gone with it.
            self.careful = CAREFUL_ITERATIONS;
            self.recall(LOST);
        }
        let kept = matches!(verdict, Verdict::Kept) && swept.is_ok();
        if !kept {
            self.shared.outbox.drop_command();
        } else if self.wake(places, keys).is_some() {
            self.careful = CAREFUL_ITERATIONS;
            self.recall(LOST);
        }
        self.shared.outbox.end_command(keys.unsettled());
        let more = kept && matches!(swept, Ok(true));
        self.shared.sweep_next = if more { now } else { now + EVERY };
    }
}
