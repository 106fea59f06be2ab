//! CLIENT PAUSE: commands wait, and are executed once the pause is over.

use super::Iterations;
use crate::clients::Client;
use crate::command::{CommandTable, may_change};
use crate::server_state::{Pause, ServerState};

impl ServerState {
    /// Whether a request of a client has to wait.
    pub(super) fn postpones(&self, client: &Client, row: usize) -> bool {
        let writes = || may_change(client, CommandTable::get().rows[row]);
        !client.replica && self.pause.is_some_and(|pause| pause.all || writes())
    }
}

impl Iterations {
    /// Lets the clients go on whose commands have waited, if the pause is over by `now`.
    pub(super) fn end_pause(&mut self, now: u64) {
        if self.shared.pause.is_some_and(|Pause { until, .. }| now >= until) {
            self.shared.pause = None;
        }
        if self.shared.pause.is_none() && std::mem::take(&mut self.shared.postponed) > 0 {
            for slot in self.clients.slots() {
                let Some(connection) = self.clients.get_mut(slot) else { continue };
                if std::mem::take(&mut connection.client.postponed) {
                    self.ready(slot, false);
                }
            }
        }
    }
}
