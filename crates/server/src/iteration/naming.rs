//! The event loop's part of SNAPSHOT: the newest version gets a name, or a name is removed.
//!
//! It is done when the iteration has committed, because a name is given between batches. The loop
//! waits for it: one sync, or two while one is under way. The version has all that was answered
//! before the command, and the writes of its own iteration.

use super::Iterations;
use crate::command::snapshot_reply;
use crate::outbox::{Answer, Parcel};
use everbyte_media::seeded;

impl Iterations {
    /// Does what SNAPSHOT asked for in this iteration; there is no batch.
    pub(super) fn name_versions(&mut self) {
        for naming in std::mem::take(&mut self.shared.naming) {
            // A client that was told of a failure, or has left, waits no more.
            let Some(waiter) = self.shared.waiters.remove(naming.client) else { continue };
            let kv = &self.shared.kv;
            let done = match naming.drops {
                true => kv.remove_version(&naming.name),
                false if seeded("server-snapshot-unnamed") => Ok(()),
                false => kv.name_version(&naming.name).map(|_| ()),
            };
            let answer = Answer::new(waiter.reader, |out| snapshot_reply(done, naming.drops, out));
            self.outgoing.push(Parcel::Answer(answer));
        }
    }
}
