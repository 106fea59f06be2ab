//! CLIENT PAUSE and FAILOVER: commands wait, and are executed once neither holds them back. Each
//! ends by itself alone: UNPAUSE does not let clients write while a replica is about to take over,
//! and a FAILOVER leaves the operator's pause as it is.

use super::Iterations;
use crate::clients::Client;
use crate::command::{CommandTable, may_change};
use crate::server_state::{Pause, ServerState};

impl ServerState {
    /// Whether clients are paused, all or those that write.
    pub(super) fn is_paused(&self) -> bool {
        self.pause.is_some() || self.replication.failover.is_some()
    }

    /// Whether a request of a client has to wait.
    pub(super) fn postpones(&self, client: &Client, row: usize) -> bool {
        let writes = || may_change(client, CommandTable::get().rows[row]);
        !client.replica && self.is_paused() && (self.pause.is_some_and(|pause| pause.all) || writes())
    }
}

impl Iterations {
    /// Lets the clients go on whose commands have waited, if a pause is over by `now`. They wait
    /// again where another one goes on that holds them back.
    pub(super) fn end_pause(&mut self, now: u64) {
        if self.shared.pause.is_some_and(|Pause { until, .. }| now >= until) {
            (self.shared.pause, self.shared.pause_ended) = (None, true);
        }
        if std::mem::take(&mut self.shared.pause_ended) && std::mem::take(&mut self.shared.postponed) > 0 {
            for slot in self.clients.slots() {
                let Some(connection) = self.clients.get_mut(slot) else { continue };
                if std::mem::take(&mut connection.client.postponed) {
                    self.ready(slot, false);
                }
            }
        }
    }
}
