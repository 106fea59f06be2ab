//! Pending iterations: parked, sent off to the settler, answered once they are settled.
//!
//! PEND-1 and PEND-2 are told of in `iteration.rs`.

use super::{Iterations, Served, TakenBack};
use crate::command::store_text;
use crate::error::{Error, Result};
use crate::outbox;
use crate::settler::Settler;
use everbyte_media::seeded;
use std::time::{Duration, Instant};

/// How often a stopping server looks whether the last iterations are settled.
const DRAIN_STEP: Duration = Duration::from_micros(200);

impl Iterations {
    /// Whether pending iterations wait for others to gather, and for nothing else: a poll without
    /// events should settle them.
    pub(crate) fn gathers(&self) -> bool {
        self.gather.waits() && self.settler.as_ref().is_some_and(Settler::is_idle)
    }

    /// Asks the settler for what has gathered, if it is idle and it is time (`gather.rs`), or `all`
    /// others are silent.
    pub(crate) fn send_off(&mut self, all: bool) {
        let Some(settler) = self.settler.as_mut().filter(|settler| settler.is_idle()) else { return };
        if !all && seeded("server-gather-forever") {
            return;
        }
        if let Some((commit, waited)) = self.gather.take(all) {
            settler.ask(commit);
            self.shared.metrics.gather_iterations_max = self.shared.metrics.gather_iterations_max.max(waited);
        }
    }

    /// Parks the clients of this iteration that wait (PEND-1).
    pub(super) fn park(&mut self) -> Vec<Served> {
        let mut parked = self.spare.pop().unwrap_or_default();
        for served in self.served.extract_if(.., |served| served.waits && !seeded("server-reply-early")) {
            if let Some(connection) = self.clients.get_mut(served.slot) {
                assert!(!connection.parked && !connection.queued, "PEND-1");
                connection.parked = true;
            }
            parked.push(served);
        }
        parked
    }

    /// Counts a settlement.
    pub(super) fn settled(&mut self, start: Instant) {
        let elapsed = start.elapsed();
        let metrics = &mut self.shared.metrics;
        metrics.settled += 1;
        metrics.settle_time += elapsed;
        metrics.settle_time_max = metrics.settle_time_max.max(elapsed);
        self.shared.watch_latency("aof-fsync-always", elapsed);
    }

    /// Sends the replies of pending iterations that are settled (PEND-2).
    pub(super) fn land(&mut self) -> Result<()> {
        let Some(settler) = &self.settler else { return Ok(()) };
        let error = settler.error();
        let settled = settler.settled();
        if self.pending.front().is_some_and(|one| one.ticket <= settled) {
            self.send_off(false); // the medium first, then the clients that wait
        }
        while self.pending.front().is_some_and(|one| one.ticket <= settled) {
            let Some(mut one) = self.pending.pop_front() else { break };
            self.settled(one.start);
            self.outgoing.append(&mut one.parcels);
            let list = std::mem::replace(&mut self.served, one.served);
            self.reply();
            self.spare.push(std::mem::replace(&mut self.served, list));
        }
        let Some(error) = error else { return Ok(()) };
        self.fail(&error);
        self.reply();
        Err(error)
    }

    /// The store failed: every client of this iteration and of the pending ones gets the error.
    pub(super) fn fail(&mut self, error: &Error) {
        let text = match error {
            Error::Store { source } => store_text(source),
            other => format!("ERR store: {other}").into_bytes(),
        };
        let mut parcels = std::mem::take(&mut self.outgoing);
        for mut one in std::mem::take(&mut self.pending) {
            self.served.append(&mut one.served);
            parcels.append(&mut one.parcels);
        }
        self.take_back(&text, TakenBack::Whole);
        self.outgoing.extend(outbox::refused(parcels, &text));
    }

    /// Settles what a settler without a thread was asked for, and sends the replies.
    pub(crate) fn settle_by_hand(&mut self) -> Result<()> {
        self.send_off(true);
        if let Some(settler) = &mut self.settler {
            settler.settle_by_hand()?;
        }
        self.land()
    }

    /// Waits until no iteration is on its way, for a server that stops.
    pub(crate) fn drain(&mut self) -> Result<()> {
        while !self.pending.is_empty() {
            self.send_off(true);
            self.land()?;
            std::thread::sleep(DRAIN_STEP);
        }
        self.drain_disk();
        Ok(())
    }
}
