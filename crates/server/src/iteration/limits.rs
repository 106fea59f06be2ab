//! Limits of what waits for a client to be read: `client-output-buffer-limit`.
//!
//! Beside them nothing is executed for a client above the soft limit of replies (CONN-1), so
//! what a client that does not read can make wait is bounded by that and one reply.

use super::Iterations;
use crate::connection::Connection;

impl Iterations {
    /// Whether a client has to go, because too much waits for it, or much for too long.
    pub(super) fn is_over_limit(&self, connection: &mut Connection) -> bool {
        let options = &self.shared.options;
        let (hard, soft) = match connection.client.subscribes() {
            true => (options.push_size_max, options.push_soft),
            false => (options.reply_size_max, options.reply_soft),
        };
        let waiting = connection.out.pending() + connection.held.len();
        if hard > 0 && waiting >= hard {
            return true;
        }
        if soft.size == 0 || waiting < soft.size {
            connection.client.over_soft_limit = None;
            return false;
        }
        let since = *connection.client.over_soft_limit.get_or_insert(self.shared.now);
        self.shared.now.saturating_duration_since(since) > soft.time
    }
}
