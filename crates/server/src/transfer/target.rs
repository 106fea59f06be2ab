//! The store that an import writes to: batches, and the end of all of it.

use super::commands::Commands;
use super::{ImportError, ImportFault, ImportOptions, ImportPhase, ImportProgress, Imported, Kept};
use crate::keyspace::{Keyspace, Remembered, Tables, take_back};
use std::cell::Cell;
use std::rc::Rc;

/// Expired keys removed in one batch.
const SWEPT: usize = 10_000;
/// Bytes that a key or an element costs beside its own.
const EACH: usize = 64;

/// See the head of this file.
pub(super) struct Target<'k, 'p> {
    pub keys: Keyspace<'k>,
    tables: &'k Tables,
    pub options: ImportOptions,
    /// Whether the mark of an import is there.
    marked: bool,
    /// Bytes written since the last commit.
    written: usize,
    progress: &'p mut dyn FnMut(&ImportProgress) -> bool,
    /// Bytes of the source that were read.
    pub read: Rc<Cell<u64>>,
    pub phase: ImportPhase,
    pub total: Option<u64>,
    /// Whether the caller has stopped a running server's stream: what was executed stays.
    pub stopped: bool,
    /// Bytes of the files before.
    pub earlier: u64,
    pub done: Imported,
}

impl<'k, 'p> Target<'k, 'p> {
    pub(super) fn new(
        tables: &'k Tables,
        remembered: Box<Remembered>,
        now: u64,
        options: ImportOptions,
        progress: &'p mut dyn FnMut(&ImportProgress) -> bool,
    ) -> Target<'k, 'p> {
        Target {
            keys: Keyspace::new(tables, remembered, now, false, false),
            tables,
            options,
            marked: false,
            written: 0,
            progress,
            read: Rc::default(),
            phase: ImportPhase::Keys,
            total: None,
            stopped: false,
            earlier: 0,
            done: Imported::default(),
        }
    }

    /// Begins to import. `alone`: the source goes into tables without keys.
    pub(super) fn begin(&mut self, alone: bool) -> Result<(), ImportFault> {
        if self.marked {
            return Ok(());
        }
        let (empty, clear) = (self.keys.len_of_all()? == 0, self.options.clear);
        if alone && !empty && !clear {
            return Err(ImportFault::NotEmpty);
        }
        if !clear && self.keys.is_mixture()? {
            return Err(ImportFault::Mixture);
        }
        self.keys.keep_expired(alone);
        self.keys.begin_import()?;
        self.marked = true;
        if clear && !empty {
            self.keys.clear_all()?;
            self.settle()?;
        }
        Ok(())
    }

    /// So many bytes were written. A full batch is committed, unless more belongs to it.
    pub(super) fn note(&mut self, size: usize, open: bool) -> Result<(), ImportFault> {
        self.written += size + EACH;
        if self.written >= self.options.batch_size && !open { self.settle() } else { Ok(()) }
    }

    /// Whether anything was written since the last commit.
    pub(super) fn has_written(&self) -> bool {
        self.written > 0
    }

    /// Commits what was written, and settles it.
    pub(super) fn settle(&mut self) -> Result<(), ImportFault> {
        self.written = 0;
        self.keys.settle_batch()?;
        self.tell()
    }

    /// Commits what was written; an error behind it takes nothing of that back.
    pub(super) fn part(&mut self) -> Result<(), ImportFault> {
        Ok(self.keys.commit()?)
    }

    /// Gives up what was written since the last commit.
    pub(super) fn abandon(&mut self) {
        self.written = 0;
        self.keys.abandon();
    }

    /// Tells the progress.
    pub(super) fn tell(&mut self) -> Result<(), ImportFault> {
        let state = ImportProgress {
            phase: self.phase,
            bytes: self.earlier + self.read.get(),
            total: self.total,
            keys: self.done.keys,
            commands: self.done.commands,
        };
        match ((self.progress)(&state), self.phase) {
            (true, _) => Ok(()),
            (false, ImportPhase::Following) => {
                self.stopped = true;
                Ok(())
            }
            (false, _) => Err(ImportFault::Stopped),
        }
    }

    /// Everything so far stays.
    pub(super) fn keep(&mut self) -> Result<(), ImportFault> {
        self.settle()?;
        if self.marked {
            self.keys.end_import()?;
            self.marked = false;
        }
        Ok(())
    }

    /// The end of an import: keys that have expired go, and the rest stays.
    pub(super) fn finish(&mut self, commands: &mut Commands) -> Result<(), ImportFault> {
        self.keys.keep_expired(false);
        self.keys.advance(commands.clock());
        let before = self.keys.len_of_all()?;
        loop {
            let more = self.keys.sweep(SWEPT)?;
            self.keys.settle_batch()?;
            if !more {
                break;
            }
        }
        self.done.expired += before.saturating_sub(self.keys.len_of_all()?);
        self.keep()
    }

    /// The result.
    pub(super) fn into_imported(self) -> Imported {
        Imported { bytes: self.earlier + self.read.get(), ..self.done }
    }

    /// After a fault: takes everything back that the mark covers.
    pub(super) fn take_back(mut self, fault: ImportFault) -> ImportError {
        self.abandon();
        let kept = match (self.marked, self.done.offset) {
            (true, _) => take_back(self.tables).map_or_else(Kept::Marked, |()| Kept::Nothing),
            (false, Some(offset)) => Kept::Followed(offset),
            (false, None) => Kept::Nothing,
        };
        ImportError { fault, kept }
    }
}
