//! The replies of a connection in an iteration, and how they are taken back.

use crate::clients::Closing;
use crate::connection::Connection;
use crate::resp::reply::Position;
use crate::waiting::Waiters;

/// A connection that was served in this iteration.
pub(super) struct Served {
    pub slot: usize,
    /// Start of its replies of this iteration.
    pub position: Position,
    /// Commands executed for it in this iteration.
    pub commands: usize,
    /// How many of them have a reply that leaves.
    pub replies: usize,
    /// Whether one more waits for its reply, which is an error if they are taken back (0 or 1).
    pub awaited: usize,
    /// Replies that stay, wholly or by an error of their own, if the others are taken back with
    /// their batch.
    pub stands: Vec<Standing>,
    /// Whether its replies may tell of what is not settled.
    pub waits: bool,
}

impl Served {
    /// Of no command so far.
    pub(super) fn none(slot: usize, position: Position) -> Served {
        Served { slot, position, commands: 0, replies: 0, awaited: 0, stands: Vec::new(), waits: false }
    }

    /// All replies up to here were sent or taken back.
    pub(super) fn begin_again(&mut self, position: Position) {
        *self = Served { waits: self.waits, ..Served::none(self.slot, position) };
    }
}

/// The reply to a command that acts at once (`command/transaction.rs`), among those of a client.
pub(super) struct Standing {
    /// The number of replies before it.
    pub index: usize,
    /// Its start and end; `None`: only some commands of an EXEC have acted.
    pub reply: Option<(Position, Position)>,
}

/// The error for a client only some of whose EXEC stands.
const PARTLY: &[u8] = b"ERR store: the batch was taken back, and no key was changed; commands of this EXEC for \
    operators have run";

/// The reason why replies are taken back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TakenBack {
    /// The batch has not happened: replies to commands that act at once stay.
    Batch,
    /// The store fails: the outcome of everything is unknown.
    Whole,
}

/// Writes an error in place of each reply of a connection.
pub(super) fn take_back(
    connection: &mut Connection,
    served: &Served,
    waiters: &mut Waiters,
    text: &[u8],
    taken_back: TakenBack,
) {
    let stands = if taken_back == TakenBack::Batch { &served.stands[..] } else { &[] };
    let stands = stands.iter().map(|one| (one.index, one.reply.map(|(from, to)| connection.out.between(from, to))));
    let mut stands = Vec::from_iter(stands).into_iter().peekable();
    // A client that waits since then has its error now, and waits no more.
    if served.commands > 0 && std::mem::take(&mut connection.client.waiting) {
        waiters.remove(connection.client.id);
    }
    connection.out.cut(served.position);
    // Its subscriptions are not what its replies will say.
    if connection.client.switching {
        connection.client.closing = Closing::AfterReplies;
    }
    // A command that was queued is answered with an error.
    if let Some(transaction) = connection.client.transaction.as_mut().filter(|_| served.commands > 0) {
        transaction.spoiled = true;
    }
    for index in 0..served.replies + served.awaited {
        match stands.next_if(|(place, _)| *place == index) {
            Some((_, Some(reply))) => connection.out.raw(&reply),
            Some((_, None)) => connection.out.error(PARTLY),
            None => connection.out.error(text),
        }
    }
}
