//! The end of an iteration: replies leave, connections end, and those with more to do are queued.

use super::{FAREWELL, Iterations, Served};
use crate::clients::Closing;
use crate::connection::Connection;
use std::time::{Duration, Instant};

impl Iterations {
    /// Sends the replies of the iteration, ends connections, queues those with more to do.
    pub(super) fn reply(&mut self) {
        let mut served = std::mem::take(&mut self.served);
        self.deliver(&mut served);
        for served in served.drain(..) {
            let Some(mut connection) = self.clients.take(served.slot) else { continue };
            connection.listed = false;
            let covered = std::mem::take(&mut connection.covered);
            if !covered && connection.client.closing != Closing::Now && self.waits_for_disk(&connection) {
                let slot = served.slot;
                self.park_for_disk(&mut connection, served);
                self.clients.restore(slot, connection);
                continue;
            }
            connection.client.strict &= connection.client.waiting; // its reply is still to come
            connection.owed = 0;
            if self.send(&mut connection) {
                if covered && !connection.held.is_empty() {
                    let (position, held) = (connection.out.position(), std::mem::take(&mut connection.held));
                    connection.out.raw(&held);
                    connection.owed = std::mem::take(&mut connection.held_owed);
                    self.park_for_disk(&mut connection, Served::none(served.slot, position));
                    self.clients.restore(served.slot, connection);
                    continue;
                }
                if let Some(index) = self.other_loop(&connection) {
                    self.lend(index, connection);
                    continue;
                }
                if !connection.queued && self.wants_iteration(&connection) {
                    connection.queued = true;
                    self.queue.push_back(served.slot);
                }
                self.clients.restore(served.slot, connection);
            } else {
                self.pool.reclaim(&mut connection.out);
                self.count_input(&mut connection, 0);
                self.forget_busy(&mut connection);
                self.shared.postponed -= usize::from(connection.client.postponed);
                if connection.queued {
                    self.queue.retain(|slot| *slot != served.slot); // the slot's next client is served once
                }
                self.shared.watches.forget(connection.client.id);
                self.shared.channels.forget(connection.client.id);
                self.shared.monitors.retain(|monitor| monitor.client != connection.client.id);
                self.shared.waiters.remove(connection.client.id);
                self.shared.tracking.forget(connection.client.id);
                self.shared.replication.forget(connection.client.id);
                self.clients.remove(served.slot);
            }
        }
        self.served = served;
        self.shared.clients = self.clients.count();
        self.ask_for_disk();
    }

    /// Sends what the socket takes; `false` when the connection is over.
    fn send(&mut self, connection: &mut Connection) -> bool {
        if connection.client.closing == Closing::Now {
            return false;
        }
        // Bytes that were encrypted before go first.
        let Ok(flushed) = connection.stream.flush_all() else { return false };
        let before = connection.out.pending();
        if before > 0 && flushed {
            let max = self.shared.options.output_size_max.saturating_mul(2);
            if before > max && !connection.client.replica {
                self.shared.metrics.connections_over_limit += 1;
                return false;
            }
            if connection.out.send(&mut connection.stream).is_err() {
                return false;
            }
            let sent = before - connection.out.pending();
            self.shared.metrics.output_bytes += sent as u64;
            if sent > 0 {
                connection.progress = self.shared.now;
            }
        } else if flushed {
            connection.progress = self.shared.now;
        }
        if self.is_over_limit(connection) {
            self.shared.metrics.connections_over_limit += 1;
            return false;
        }
        if connection.out.is_empty() && matches!(connection.stream.flush_all(), Ok(true)) {
            self.pool.reclaim(&mut connection.out);
            let finished = connection.ended && !connection.unread;
            return connection.client.closing == Closing::No && !finished;
        }
        true
    }

    fn wants_iteration(&self, connection: &Connection) -> bool {
        connection.client.closing == Closing::No
            && connection.out.pending() <= self.shared.options.output_size_soft
            && (connection.unread && !connection.client.waiting && !connection.client.postponed
                || connection.readable && !connection.ended)
    }

    /// A stopping server delivers what is settled, for a moment.
    pub(crate) fn farewell(&mut self) {
        let end = Instant::now() + FAREWELL;
        let mut slots = self.clients.slots();
        while !slots.is_empty() && Instant::now() < end {
            slots.retain(|slot| match self.clients.get_mut(*slot) {
                Some(connection) if connection.parked => false, // DISK-1
                Some(connection) => match connection.out.send(&mut connection.stream) {
                    // Encrypted bytes may wait behind it.
                    Ok(true) => matches!(connection.stream.flush_all(), Ok(false)),
                    Ok(false) => true,
                    Err(_) => false,
                },
                None => false,
            });
            if !slots.is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
