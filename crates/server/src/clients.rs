//! Connected clients: facts about one client, and the list of all connections.

use crate::access::{UserId, Users};
use crate::connection::Connection;
use crate::options::ClientDurability;
use crate::stream::Address;
use crate::tracking::TrackingMode;
use crate::transaction::Transaction;
use std::time::Instant;

/// The plain reads that have a connection lent grow at most so often.
const LEND_FACTOR_MAX: u32 = 256;

/// Whether and when a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Closing {
    /// Not now.
    #[default]
    No,
    /// Once its replies have left; nothing more is read.
    AfterReplies,
    /// At the end of this iteration, whatever waits.
    Now,
}

/// Whether a client wants replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum ReplyMode {
    /// To every command.
    #[default]
    On,
    /// To none.
    Off,
    /// To none, for one command that is still to come.
    SkipNext,
    /// To none, for the command under way.
    Skip,
}

/// The part of a connection that commands see.
pub(crate) struct Client {
    /// Never reused within one run of the server.
    pub id: u64,
    /// Its place among the connections.
    pub slot: usize,
    /// Whether it has given a user's password, or needed none when it connected.
    pub authenticated: bool,
    /// Its user.
    pub user: UserId,
    /// Wrong passwords that it has given.
    pub failed_logins: u32,
    /// The command under way was given in a pause of clients, and waits for its end.
    pub postponed: bool,
    /// Its request of CLIENT TRACKING.
    pub tracking: Option<Box<TrackingMode>>,
    /// Since when more waits for it than its soft limit.
    pub over_soft_limit: Option<Instant>,
    /// Whether it may not be disconnected for want of memory. None is.
    pub no_evict: bool,
    /// Its own durability mode, if it has asked for one.
    pub durability: Option<ClientDurability>,
    /// Whether it was in the mode `always` before or behind a command whose reply has not left: a
    /// later change of the mode takes nothing away from that reply (DISK-1).
    pub strict: bool,
    /// Times that a full store has refused the command under way, which is executed again.
    pub tries: u32,
    /// Whether nothing more is executed for it in this iteration: its replies have to leave first.
    pub turn_over: bool,
    /// The other side.
    pub peer: Address,
    /// This side.
    pub local: Address,
    /// The socket's file descriptor.
    pub descriptor: i32,
    /// As given by the client; may be empty.
    pub name: Vec<u8>,
    /// As given by the client's library.
    pub library_name: Vec<u8>,
    /// As given by the client's library.
    pub library_version: Vec<u8>,
    /// When it connected.
    pub connected: Instant,
    /// When it last sent something.
    pub active: Instant,
    /// The last command.
    pub command: &'static str,
    /// Protocol, 2 or 3, as of the last command.
    pub resp: u8,
    /// Bytes received and not yet executed, as of the last iteration.
    pub input_size: usize,
    /// The database of its commands.
    pub database: u8,
    /// Commands queued since MULTI.
    pub transaction: Option<Box<Transaction>>,
    /// Whether it watches keys.
    pub watches: bool,
    /// Bytes of memory that the keys hold which it has watched since it watched none, about.
    pub watches_memory: usize,
    /// Whether it sees all commands.
    pub monitors: bool,
    /// Whether it is a replica, which is sent the stream.
    pub replica: bool,
    /// Whether its EXEC is under way.
    pub executing: bool,
    /// Whether a command for operators in its last EXEC has run.
    pub acted: bool,
    /// Whether its script is under way.
    pub scripting: bool,
    /// Whether the command under way has written pushes alone, which no mode takes away.
    pub told: bool,
    /// Whether it waits for an element, or for the reply that tells of it: its next command comes
    /// after that.
    pub waiting: bool,
    /// Bytes of memory that its waiting command holds, about.
    pub waiting_memory: usize,
    /// Its subscriptions to channels, to patterns, and to channels of shards.
    pub subscriptions: [u32; 3],
    /// Bytes of memory that they hold, about.
    pub subscriptions_memory: usize,
    /// Whether it has changed in the iteration under way what it gets, and how: subscriptions,
    /// MONITOR, CLIENT TRACKING, the protocol; or its database, its user or its durability mode. It
    /// ends if that is taken back.
    pub switching: bool,
    /// Whether it wants replies.
    pub reply_mode: ReplyMode,
    /// Plain reads in a row (`iteration/lend.rs`).
    pub reads: u32,
    /// It is lent to another loop behind so many times the plain reads of the options.
    pub lend_factor: u32,
    /// Plain reads that the other loop has answered since it was lent.
    pub lent_reads: u32,
    /// Whether it counts among the busy connections of the first loop.
    pub busy: bool,
    /// Whether it is about to end.
    pub closing: Closing,
}

impl Client {
    /// A client that has just connected.
    pub(crate) fn new(
        id: u64,
        peer: impl Into<Address>,
        local: impl Into<Address>,
        descriptor: i32,
        now: Instant,
    ) -> Client {
        Client {
            id,
            slot: 0,
            authenticated: false,
            user: Users::DEFAULT,
            failed_logins: 0,
            postponed: false,
            tracking: None,
            over_soft_limit: None,
            no_evict: false,
            durability: None,
            strict: false,
            tries: 0,
            turn_over: false,
            peer: peer.into(),
            local: local.into(),
            descriptor,
            name: Vec::new(),
            library_name: Vec::new(),
            library_version: Vec::new(),
            connected: now,
            active: now,
            command: "NULL",
            resp: 2,
            input_size: 0,
            database: 0,
            transaction: None,
            watches: false,
            watches_memory: 0,
            monitors: false,
            replica: false,
            executing: false,
            acted: false,
            scripting: false,
            told: false,
            waiting: false,
            waiting_memory: 0,
            subscriptions: [0; 3],
            subscriptions_memory: 0,
            switching: false,
            reply_mode: ReplyMode::On,
            reads: 0,
            lend_factor: 1,
            lent_reads: 0,
            busy: false,
            closing: Closing::No,
        }
    }

    /// Plain reads in a row behind which it is lent, where the options name the `first` number.
    pub(crate) fn lend_after(&self, first: u32) -> u32 {
        first.saturating_mul(self.lend_factor).max(1)
    }

    /// Another loop has given it back by itself. A connection that comes back early is lent later
    /// the next time: moving it costs more than a few reads.
    pub(crate) fn has_come_back(&mut self, first: u32) {
        let was_worth_it = self.lent_reads >= self.lend_after(first);
        self.lend_factor = if was_worth_it { 1 } else { (self.lend_factor * 2).min(LEND_FACTOR_MAX) };
    }

    /// Whether it subscribes to anything.
    pub(crate) fn subscribes(&self) -> bool {
        self.subscriptions != [0; 3]
    }

    /// Whether it is sent more than replies.
    pub(crate) fn listens(&self) -> bool {
        self.subscribes() || self.monitors || self.replica || self.tracking.is_some()
    }

    /// Forgets what the client said about itself, but for its library.
    pub(crate) fn reset(&mut self) {
        self.name = Vec::new();
        self.database = 0;
        self.durability = None;
        self.reply_mode = ReplyMode::On;
    }
}

/// All connections, by slot. A slot is a poll token.
#[derive(Default)]
pub(crate) struct Clients {
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    count: usize,
}

impl Clients {
    /// How many there are, one that is being served and those that are lent included.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Those that are neither being served right now nor lent to another loop.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter().flatten().map(|connection| &**connection)
    }

    /// The slot that the next connection gets.
    pub(crate) fn vacant(&self) -> usize {
        self.free.last().copied().unwrap_or(self.slots.len())
    }

    /// Puts a new connection into the vacant slot.
    pub(crate) fn insert(&mut self, mut connection: Box<Connection>) {
        connection.client.slot = self.vacant();
        match self.free.pop() {
            Some(slot) => self.slots[slot] = Some(connection),
            None => self.slots.push(Some(connection)),
        }
        self.count += 1;
    }

    /// Takes a connection out to serve it, or to lend it; it must come back by `restore` or
    /// `remove`.
    pub(crate) fn take(&mut self, slot: usize) -> Option<Box<Connection>> {
        self.slots.get_mut(slot)?.take()
    }

    /// Puts a served connection back.
    pub(crate) fn restore(&mut self, slot: usize, connection: Box<Connection>) {
        self.slots[slot] = Some(connection);
    }

    /// Frees the slot of a connection that was taken out for good.
    pub(crate) fn remove(&mut self, slot: usize) {
        self.free.push(slot);
        self.count -= 1;
    }

    /// Whether this client has left, or has shown that it speaks TLS.
    pub(crate) fn is_greeted(&self, slot: usize, id: u64) -> bool {
        self.get(slot).is_none_or(|connection| connection.client.id != id || !connection.stream.is_handshaking())
    }

    /// A connection in its slot, to look at.
    pub(crate) fn get(&self, slot: usize) -> Option<&Connection> {
        self.slots.get(slot)?.as_deref()
    }

    /// A connection in its slot.
    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut Connection> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    /// The slot of the connection whose requests hold most memory; `None` when none holds any.
    pub(crate) fn largest_input(&self) -> Option<usize> {
        let held = |slot: &usize| self.get(*slot).map_or(0, |connection| connection.counted);
        (0..self.slots.len()).max_by_key(held).filter(|slot| held(slot) > 0)
    }

    /// Every slot that is in use and not being served.
    pub(crate) fn slots(&self) -> Vec<usize> {
        (0..self.slots.len()).filter(|slot| self.slots[*slot].is_some()).collect()
    }
}
