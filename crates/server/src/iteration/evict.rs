//! Room for commands: keys are evicted in the iteration, and in the batch, of the command that
//! needs it, so a crash leaves both or neither, and one settlement covers them.
//!
//! An eviction is a command of no client: it is whole, clients that watch, track or wait hear of
//! it, and its events come before those of the command. Commands that only read evict nothing; keys
//! above a bound that was lowered go as iterations begin, some at a time.
//!
//! Replicas evict nothing, as their keys are the primary's; and no server does while clients are
//! paused.

use super::{CAREFUL_ITERATIONS, Done, Iterations, LOST};
use crate::clients::Client;
use crate::command::{Command, Fail, OUT_OF_MEMORY, needs_room, queues};
use crate::keyspace::{Keyspace, Verdict};
use everbyte_media::{ErrorInfo as _, ErrorKind, seeded};

/// Keys that one command, or the beginning of one iteration, evicts at most.
const EVICTED_MAX: usize = 256;
/// Entries that are counted as an iteration begins.
const COUNTED_MAX: usize = 4096;
/// Times that a command which a full store refuses is executed again.
const AGAIN_MAX: u32 = 64;

/// The outcome of making room.
enum Room {
    /// The data fits, or will in the next iterations.
    Fits,
    /// It does not, and no key can go.
    None,
    /// The iteration is lost.
    Lost(Fail),
}

impl Iterations {
    /// An iteration begins: counts what the data takes, and evicts keys above the bound.
    pub(super) fn keep_bound(&mut self, keys: &mut Keyspace<'_>) {
        self.shared.data_bound.begin(&self.shared.options, keys.now());
        keys.count_used(self.shared.data_bound.on);
        if !self.shared.data_bound.on {
            return;
        }
        if !keys.used().1 {
            keys.begin_command(true);
            // Damage shows when the keys are used.
            let _ = keys.count_more(COUNTED_MAX);
        }
        if let Room::Lost(_) = self.make_room(keys) {
            self.careful = CAREFUL_ITERATIONS;
            self.recall(LOST);
        }
    }

    /// Before a command: makes room if it may need some. An error refuses the command; whether the
    /// iteration is lost.
    pub(super) fn admit_room(
        &mut self,
        client: &Client,
        command: &Command,
        keys: &mut Keyspace<'_>,
    ) -> Result<(), (Fail, bool)> {
        let (needs, refuses) = needs_room(client, command);
        let full = match needs {
            true => match self.make_room(keys) {
                Room::Fits => false,
                Room::None => true,
                Room::Lost(fail) => return Err((fail, true)),
            },
            // A queued command takes memory.
            false if queues(client, command) => {
                let bounds = !self.shared.options.eviction_policy.evicts() || self.shared.data_bound.exhausted;
                bounds && self.is_over(keys)
            }
            false => false,
        };
        self.shared.data_bound.out_of_memory = full;
        if full && (refuses || queues(client, command)) {
            return Err((OUT_OF_MEMORY, false));
        }
        Ok(())
    }

    fn is_over(&self, keys: &Keyspace<'_>) -> bool {
        let rests = self.shared.replication.is_replica() || self.shared.is_paused();
        !rests && keys.used().0 > self.shared.data_bound.limit(&self.shared.options)
    }

    /// Evicts keys until the data fits.
    fn make_room(&mut self, keys: &mut Keyspace<'_>) -> Room {
        if !self.is_over(keys) {
            self.shared.data_bound.exhausted = false;
            return Room::Fits;
        }
        if !self.shared.options.eviction_policy.evicts() {
            return Room::None;
        }
        let here = keys.database();
        keys.track(self.shared.follows_changes());
        keys.begin_command(true);
        // A failure takes back the evictions alone.
        let begun = keys.begin_transaction();
        let mut exhausted = false;
        let result = begun.and_then(|()| {
            for _ in 0..EVICTED_MAX {
                if !self.is_over(keys) {
                    break;
                }
                let bound = &mut self.shared.data_bound;
                let Some((database, key)) = bound.victim(&self.shared.options, keys)? else {
                    exhausted = true;
                    break;
                };
                keys.evict(database, &key)?;
            }
            Ok(())
        });
        self.shared.data_bound.exhausted = exhausted;
        let verdict = keys.end_command(result.is_err());
        let places = self.touched(keys, None);
        let kept = result.is_ok() && matches!(verdict, Verdict::Kept);
        if seeded("server-evict-apart") && kept {
            keys.commit_apart();
        }
        if !kept {
            self.shared.outbox.drop_command();
        }
        let fail = match verdict {
            Verdict::Lost => Some(Fail::text("ERR store: nothing was done; try again")),
            _ if kept => self.wake(places, keys),
            _ => None,
        };
        keys.select(here);
        self.shared.outbox.end_command(keys.unsettled());
        match fail {
            Some(fail) => Room::Lost(fail),
            None if exhausted && self.is_over(keys) => Room::None,
            None => Room::Fits,
        }
    }

    /// A command has failed, and nothing that others wrote is lost. Whether it is executed again in
    /// the next iteration: if the store was full, and keys can be evicted. No EXEC is, as what it
    /// watched is forgotten.
    pub(super) fn tries_again(
        &mut self,
        client: &mut Client,
        command: &Command,
        fail: &Fail,
        keys: &Keyspace<'_>,
    ) -> Option<Done> {
        let Fail::Store(error) = fail else { return None };
        let evicts = self.shared.options.eviction_policy.evicts() && !self.shared.replication.is_replica();
        let (used, is_known) = keys.used();
        if !evicts || !is_known || error.kind() != ErrorKind::NoSpace {
            return None;
        }
        self.shared.data_bound.store_is_full(used);
        self.careful = CAREFUL_ITERATIONS;
        client.tries += 1;
        let again =
            used > 0 && client.tries <= AGAIN_MAX && command.name != "exec" && !self.shared.data_bound.exhausted;
        again.then_some(Done::Later)
    }
}
