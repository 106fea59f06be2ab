//! Parcels: an iteration's output for other clients than those that it serves. They are messages
//! for the subscribers of channels, and replies for clients that wait for an element
//! (`waiting.rs`).
//!
//! A push reveals what its publisher did and saw: a client that gets one may look for the change
//! that it tells of. So it leaves as a reply does.
//!
//! Invariants
//!   PUSH-1  A push is written to a client only when everything that its publisher's iteration did
//!           and saw before it is settled. It waits with the pending iteration (PEND-2).
//!   PUSH-2  Pushes do not overtake replies: a client whose replies a pending iteration holds back
//!           gets its pushes behind them.
//!   PUSH-3  A message of a command that was refused, or taken back (ITER-2), reaches no client.
//!
//! Threads: the event loop alone.

use crate::replication::ReplicaOrigin;
use crate::resp::reply::{Protocol, Replies};
use crate::tracking::Invalidation;
use everbyte_media::seeded;

/// A published message.
pub(crate) struct Message {
    /// Its channel.
    pub channel: Vec<u8>,
    /// Its bytes.
    pub text: Vec<u8>,
    /// Whether the channel is one of a shard.
    pub shard: bool,
    /// Its number among subscriptions and messages (`channels.rs`).
    pub number: u64,
    /// The client that has it already: its publisher.
    pub except: Option<u64>,
}

impl Message {
    /// The push for subscribers of the channel, or of a pattern.
    pub(crate) fn write(&self, pattern: Option<&[u8]>, out: &mut Replies) {
        match pattern {
            Some(pattern) => {
                out.push(4);
                out.bulk(b"pmessage");
                out.bulk(pattern);
            }
            None => {
                out.push(3);
                out.bulk(if self.shard { b"smessage" } else { b"message" });
            }
        }
        out.bulk(&self.channel);
        out.bulk(&self.text);
    }

    /// The same as bytes.
    pub(crate) fn bytes(&self, pattern: Option<&[u8]>, protocol: Protocol) -> Vec<u8> {
        let mut out = Replies::default();
        out.protocol = protocol;
        self.write(pattern, &mut out);
        out.into_bytes()
    }
}

/// A client that waits for a reply.
#[derive(Clone, Copy)]
pub(crate) struct Reader {
    /// Its number.
    pub client: u64,
    /// Its slot.
    pub slot: usize,
    /// The protocol that it speaks.
    pub protocol: Protocol,
    /// Whether it wants no reply.
    pub silent: bool,
}

/// The reply for a client that waits.
pub(crate) struct Answer {
    /// The client.
    pub reader: Reader,
    /// The reply.
    pub bytes: Vec<u8>,
}

impl Answer {
    /// The reply that `write` writes.
    pub(crate) fn new(reader: Reader, write: impl FnOnce(&mut Replies)) -> Answer {
        let mut out = Replies::default();
        out.protocol = reader.protocol;
        write(&mut out);
        Answer { reader, bytes: if reader.silent { Vec::new() } else { out.into_bytes() } }
    }
}

/// The parcels that remain when an iteration is taken back: clients that wait read the error.
pub(crate) fn refused(parcels: Vec<Parcel>, text: &[u8]) -> impl Iterator<Item = Parcel> {
    parcels.into_iter().filter_map(move |parcel| match parcel {
        Parcel::Message(_) | Parcel::Line { .. } => None,
        Parcel::Applied(_) | Parcel::Unapplied => Some(Parcel::Unapplied),
        // Its readers were forgotten already; and the reply behind which the author was told is
        // another one now.
        Parcel::Invalidation(change) => Some(Parcel::Invalidation(Invalidation { told: None, ..change })),
        Parcel::Answer(answer) => Some(Parcel::Answer(Answer::new(answer.reader, |out| out.error(text)))),
    })
}

/// The parcels wait with a pending iteration.
pub(crate) fn hold(parcels: &mut [Parcel]) {
    for parcel in parcels {
        if let Parcel::Invalidation(change) = parcel {
            change.late = true;
        }
    }
}

/// Output for another client.
pub(crate) enum Parcel {
    /// For one that waits.
    Answer(Answer),
    /// For all subscribers.
    Message(Message),
    /// For clients that keep copies of keys.
    Invalidation(Invalidation),
    /// For the primary: a patch of it is settled here, and this is where the keys come from then.
    Applied(ReplicaOrigin),
    /// A patch was taken back.
    Unapplied,
    /// A command, for those that see all of them; with its number among messages.
    Line {
        /// The number.
        number: u64,
        /// The reply.
        line: Vec<u8>,
    },
}

impl Parcel {
    /// Bytes of memory that a message, or a line of MONITOR, holds. The others are bounded by what
    /// their commands have changed.
    fn size(&self) -> usize {
        match self {
            Parcel::Message(message) => PARCEL_SIZE + message.channel.len() + message.text.len(),
            Parcel::Line { line, .. } => PARCEL_SIZE + line.len(),
            Parcel::Answer(_) | Parcel::Invalidation(_) | Parcel::Applied(_) | Parcel::Unapplied => 0,
        }
    }
}

/// Bytes of memory of a parcel beside its contents, about.
const PARCEL_SIZE: usize = 128;

/// The parcels of the iteration under way.
#[derive(Default)]
pub(crate) struct Outbox {
    parcels: Vec<(Parcel, bool)>,
    /// How many belong to commands that have ended.
    ended: usize,
    /// Bytes of messages and lines.
    size: usize,
    /// The same of commands that have ended.
    ended_size: usize,
    /// Bytes of lines of the command under way.
    lines_size: usize,
}

impl Outbox {
    /// Adds a parcel of the command under way.
    pub(crate) fn add(&mut self, parcel: Parcel) {
        self.size += parcel.size();
        if let Parcel::Line { line, .. } = &parcel {
            self.lines_size += line.len();
        }
        self.parcels.push((parcel, true));
    }

    /// Bytes that messages and lines of MONITOR hold.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The same of the command under way.
    pub(crate) fn command_size(&self) -> usize {
        self.size - self.ended_size
    }

    /// Bytes of the lines of the command under way, as their delivery counts them.
    pub(crate) fn lines_size(&self) -> usize {
        self.lines_size
    }

    /// The place of the next parcel.
    pub(crate) fn place(&self) -> usize {
        self.parcels.len()
    }

    /// The command under way has ended: its parcels wait if what it did or saw is not settled.
    pub(crate) fn end_command(&mut self, waits: bool) {
        self.parcels[self.ended..].iter_mut().for_each(|parcel| parcel.1 = waits);
        self.ended = self.parcels.len();
        (self.ended_size, self.lines_size) = (self.size, 0);
    }

    /// The command under way was refused (PUSH-3). Clients that see all commands see it all the
    /// same.
    pub(crate) fn drop_command(&mut self) {
        self.drop_from(self.ended);
    }

    /// The part of the command under way that began at this place was refused.
    pub(crate) fn drop_from(&mut self, place: usize) {
        if seeded("server-push-of-refused") {
            return;
        }
        // A refused change forgets the readers of keys all the same, and a client that CLIENT
        // UNBLOCK has ended waits no more.
        let own = self.parcels.split_off(place);
        for (parcel, waits) in own {
            match parcel {
                Parcel::Message(_) => self.size -= parcel.size(),
                parcel => self.parcels.push((parcel, waits)),
            }
        }
    }

    /// Everything of the iteration that waits, and everything that does not.
    pub(crate) fn take(&mut self) -> (Vec<Parcel>, Vec<Parcel>) {
        (self.ended, self.size, self.ended_size, self.lines_size) = (0, 0, 0, 0);
        let (waiting, ready): (Vec<_>, Vec<_>) = self.parcels.drain(..).partition(|(_, waits)| *waits);
        let parcels = |list: Vec<(Parcel, bool)>| list.into_iter().map(|(parcel, _)| parcel).collect();
        (parcels(waiting), parcels(ready))
    }
}
