//! Limits of what waits for a client to be read (`client-output-buffer-limit`), of stalls and of
//! idle time.
//!
//! Beside them nothing is executed for a client above the soft limit of replies (CONN-1), so
//! what a client that does not read can make wait is bounded by that and one reply.

use super::Iterations;
use crate::clients::Closing;
use crate::connection::Connection;

impl Iterations {
    /// Ends clients that take nothing of what waits for them.
    pub(super) fn drop_stalled(&mut self) {
        let (now, stall) = (self.shared.now, self.shared.options.output_stall);
        for slot in self.clients.slots() {
            let Some(connection) = self.clients.get_mut(slot) else { continue };
            let idle = self.shared.options.idle_max;
            let client = &connection.client;
            let waits =
                client.waiting || client.postponed || client.subscribes() || client.monitors || connection.parked;
            // A replica gives signs of life by itself, but for a long copy.
            let waits = waits || client.replica;
            if !idle.is_zero() && !waits && now.saturating_duration_since(connection.client.active) > idle {
                connection.client.closing = Closing::Now;
                self.ready(slot, false);
                continue;
            }
            if connection.client.over_soft_limit.is_some() && !connection.parked {
                self.ready(slot, false);
            }
            let Some(connection) = self.clients.get_mut(slot) else { continue };
            let full = connection.out.pending() > self.shared.options.output_size_soft && !connection.parked;
            if full && now.saturating_duration_since(connection.progress) > stall {
                self.shared.metrics.connections_over_limit += 1;
                connection.client.closing = Closing::Now;
                self.ready(slot, false);
            }
        }
    }

    /// Whether a client has to go, because too much waits for it, or much for too long.
    /// A replica never has: the soft limit, and one frame, bound what is written for it.
    pub(super) fn is_over_limit(&self, connection: &mut Connection) -> bool {
        if connection.client.replica {
            return false;
        }
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
