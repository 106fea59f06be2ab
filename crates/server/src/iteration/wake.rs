//! Waiting clients get what came for them, or give up (`waiting.rs`).

use super::Iterations;
use crate::clients::{Client, Closing};
use crate::command::{Call, CommandTable, Fail, Flags, READ_ONLY, permitted, tell_changes};
use crate::connection::Connection;
use crate::keyspace::{Keyspace, Touch, Verdict};
use crate::outbox::{Answer, Parcel};
use crate::resp::reply::Replies;
use crate::waiting::{Place, Waiter};
use everbyte_media::seeded;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

/// The result of an attempt.
enum Tried {
    /// The client has left.
    Gone,
    /// The key has nothing for the client, which waits on.
    Nothing,
    /// The client has its reply.
    Answered,
    /// The iteration is lost.
    Lost(Fail),
}

/// Whether the other side has closed the connection, also behind bytes that are not read yet.
fn is_gone(connection: &Connection) -> bool {
    if seeded("server-pop-for-the-dead") {
        return false;
    }
    let mut fds = [PollFd::new(&connection.stream, PollFlags::RDHUP)];
    // An error of the call says nothing about the client.
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
}

impl Iterations {
    /// A command has ended. Dooms the transactions of clients that watch what it has changed
    /// (WATCHED-1), and has copies of it forgotten; returns the changed keys for which clients
    /// wait.
    pub(super) fn touched(&mut self, keys: &mut Keyspace<'_>, author: Option<&Client>) -> Vec<Place> {
        let (mut places, mut seen) = (Vec::new(), HashSet::new());
        self.shared.note_changes(keys.new_changes(), author);
        let touches = keys.take_touched();
        for touch in touches {
            self.shared.watches.touch(&touch, self.shared.metrics.iterations);
            let touched = match touch {
                Touch::Changed(database, key)
                | Touch::Swept(database, key)
                | Touch::Evicted(database, key)
                | Touch::Told(database, key) => vec![(database, key)],
                Touch::Stream(..) => Vec::new(),
                Touch::Cleared(database) => self.shared.waiters.tried_absent(database),
            };
            for place in touched {
                if self.shared.waiters.of(&place).is_some() && seen.insert(place.clone()) {
                    places.push(place);
                }
            }
        }
        places
    }

    /// Lets the clients try that wait for these keys (WAIT-1). An error: the iteration is lost.
    /// None tries while the keys are a mixture of two versions of a primary.
    pub(super) fn wake(&mut self, places: Vec<Place>, keys: &mut Keyspace<'_>) -> Option<Fail> {
        if self.shared.replication.origin.is_between() {
            return None;
        }
        let here = keys.database();
        let mut places = VecDeque::from(places);
        while let Some(place) = places.pop_front() {
            let (mut index, mut absent) = (0, false);
            while let Some(clients) = self.shared.waiters.of(&place) {
                let last = seeded("server-wake-last") && index == 0;
                let Some(&client) = (if last { clients.back() } else { clients.get(index) }) else { break };
                if absent && !self.shared.waiters.get(client).is_some_and(|waiter| waiter.tries_absent) {
                    index += 1;
                    continue;
                }
                match self.attempt(client, &place, keys) {
                    Tried::Gone => {}
                    Tried::Answered => places.extend(self.touched(keys, None)),
                    Tried::Lost(fail) => return Some(fail),
                    Tried::Nothing => {
                        keys.select(place.0);
                        absent = !keys.contains(&place.1).unwrap_or(false);
                        if absent && !self.shared.waiters.any_tries_absent() {
                            break;
                        }
                        index += 1; // there is something that others wait for
                    }
                }
            }
        }
        keys.select(here);
        None
    }

    fn attempt(&mut self, client: u64, place: &Place, keys: &mut Keyspace<'_>) -> Tried {
        let waiter = self.shared.waiters.get(client).expect("a place names waiting clients");
        let Some(mut connection) = self.clients.take(waiter.reader.slot) else {
            self.shared.waiters.remove(client);
            return Tried::Gone;
        };
        if connection.client.closing != Closing::No || connection.ended || is_gone(&connection) {
            self.shared.waiters.remove(client);
            connection.client.closing = Closing::Now; // WAIT-3
            self.clients.restore(waiter.reader.slot, connection);
            self.gone.push(waiter.reader.slot);
            return Tried::Gone;
        }
        let tried = match self.refusal(&connection, &waiter) {
            Some(fail) => {
                self.answer(&waiter, |out| out.error(&fail.reply()));
                Tried::Answered
            }
            None => self.try_for(&mut connection, &waiter, place, keys),
        };
        self.clients.restore(waiter.reader.slot, connection);
        if !matches!(tried, Tried::Nothing) {
            self.shared.waiters.remove(client);
        }
        tried
    }

    fn try_for(
        &mut self,
        connection: &mut Connection,
        waiter: &Waiter,
        place: &Place,
        keys: &mut Keyspace<'_>,
    ) -> Tried {
        let (_, args) = waiter.command.commands().next().expect("one command");
        let mut out = Replies::default();
        out.protocol = waiter.reader.protocol;
        keys.track(true);
        keys.begin_command(true);
        keys.select(place.0);
        if seeded("server-wake-apart") {
            keys.commit_apart();
        }
        // A failure takes back the attempt alone.
        let begun = keys.begin_transaction();
        let (client, others, shared) = (&mut connection.client, &self.clients, &mut self.shared);
        let mut call = Call { args, out: &mut out, client, others, keys, shared };
        let outcome = begun.map_err(Fail::from).and_then(|()| (waiter.attempt)(&mut call, &place.1));
        self.shared.note_changes(keys.new_changes(), None);
        let outcome = match (keys.end_command(outcome.is_err()), outcome) {
            (Verdict::Kept, Ok(false)) => return Tried::Nothing,
            (Verdict::Kept, Ok(true)) => {
                tell_changes(&mut self.shared, keys, &args, 0);
                Ok(true)
            }
            (Verdict::Kept, outcome) => outcome,
            (Verdict::Refused(error), _) => Err(Fail::Store(error)),
            (Verdict::Lost, outcome) => {
                let fail = outcome.err().unwrap_or(Fail::text("ERR store: nothing was done; try again"));
                self.answer(waiter, |out| out.error(&fail.reply()));
                return Tried::Lost(fail);
            }
        };
        match outcome {
            Ok(_) => self.answer(waiter, |to| to.append(out)),
            Err(fail) => self.answer(waiter, |out| out.error(&fail.reply())),
        }
        Tried::Answered
    }

    /// The refusal if the client's user no longer permits its command (ACL-1), or if it writes and
    /// this server is a replica.
    fn refusal(&mut self, connection: &Connection, waiter: &Waiter) -> Option<Fail> {
        let (_, args) = waiter.command.commands().next()?;
        let row = CommandTable::get().look_up(&args).ok()?;
        permitted(&connection.client, &mut self.shared, row, &args).err().or_else(|| {
            let command = CommandTable::get().rows[row];
            let is_refused = command.flags.contains(Flags::WRITE) && self.shared.replication.is_replica();
            is_refused.then_some(READ_ONLY)
        })
    }

    fn answer(&mut self, waiter: &Waiter, write: impl FnOnce(&mut Replies)) {
        self.shared.outbox.add(Parcel::Answer(Answer::new(waiter.reader, write)));
    }

    /// Clients whose time has come get their null. It tells that there was nothing, which may not
    /// be settled.
    pub(super) fn give_up(&mut self, now: u64) {
        for client in self.shared.waiters.due(now) {
            let Some(waiter) = self.shared.waiters.remove(client) else { continue };
            let answer = self.shared.wait_answer(&waiter);
            self.shared.outbox.add(Parcel::Answer(answer));
        }
        self.shared.outbox.end_command(!self.pending.is_empty());
    }

    /// How long the poll may wait, `most` at most.
    pub(crate) fn sleep_max(&self, most: Duration) -> Duration {
        let now = self.shared.clock();
        let next = self.shared.waiters.next_deadline().map(|next| Duration::from_millis(next.saturating_sub(now)));
        let sweep = Duration::from_millis(self.shared.sweep_next.saturating_sub(now));
        let until = if self.shared.pause_ended { Some(0) } else { self.shared.pause.map(|pause| pause.until) };
        let until = until.filter(|_| self.shared.postponed > 0);
        let pause = until.map(|until| Duration::from_millis(until.saturating_sub(now)));
        next.into_iter().chain(pause).fold(most.min(sweep).min(self.replication_sleep()), Duration::min)
    }
}
