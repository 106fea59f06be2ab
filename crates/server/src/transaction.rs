//! The commands that a client has queued between MULTI and EXEC, copied out of its input.

use crate::resp::parse::{Args, ArgumentSpan};
use std::ops::Range;

/// One queued command.
struct Queued {
    /// Its row in the table of commands.
    row: usize,
    bytes: Range<usize>,
    spans: Range<usize>,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Transaction {
    commands: Vec<Queued>,
    bytes: Vec<u8>,
    spans: Vec<ArgumentSpan>,
    /// Whether a command could not be queued: EXEC is refused.
    pub spoiled: bool,
    /// Whether a queued command may write.
    pub writes: bool,
    /// Whether a queued command is one that writes.
    pub changes_keys: bool,
    /// Whether a queued command may tell of keys.
    pub shows_keys: bool,
    /// Whether a queued command reaches other clients.
    pub spreads: bool,
    /// Whether a queued command may need space.
    pub needs_space: bool,
    /// Whether a queued command is a script.
    pub runs_scripts: bool,
    /// Whether a queued command looks at other connections, or changes rules for them.
    pub looks_around: bool,
    /// Whether a queued command acts whatever becomes of the batch of its iteration.
    pub acts: bool,
    /// Whether a queued command is taken back with the batch of its iteration.
    pub may_be_taken_back: bool,
}

impl Transaction {
    /// Queues a command, whose row is given.
    pub(crate) fn queue(&mut self, row: usize, args: &Args<'_>, writes: bool) {
        self.queue_words(row, args.from(0), writes);
    }

    /// The same with a command of these words.
    pub(crate) fn queue_words<'w>(&mut self, row: usize, words: impl Iterator<Item = &'w [u8]>, writes: bool) {
        let (start, first) = (self.bytes.len(), self.spans.len());
        for arg in words {
            // A request is shorter than 4 GiB: its spans in the parser are of 32 bits too.
            self.spans.push(ArgumentSpan { start: (self.bytes.len() - start) as u32, size: arg.len() as u32 });
            self.bytes.extend_from_slice(arg);
        }
        let (bytes, spans) = (start..self.bytes.len(), first..self.spans.len());
        self.commands.push(Queued { row, bytes, spans });
        self.writes |= writes;
    }

    /// How many are queued.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// Rows and arguments, in the order queued.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (usize, Args<'_>)> {
        self.commands
            .iter()
            .map(|queued| (queued.row, Args::new(&self.bytes[queued.bytes.clone()], &self.spans[queued.spans.clone()])))
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.spans.capacity() * size_of::<ArgumentSpan>()
            + self.commands.capacity() * size_of::<Queued>()
    }
}
