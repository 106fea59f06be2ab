//! The store that an import writes to: batches, and the end of all of it.

use super::commands::Commands;
use super::{ImportError, ImportFault, ImportOptions, ImportPhase, ImportProgress, Imported, Kept};
use crate::Options;
use crate::keyspace::{Begun, Keyspace, Remembered, Tables, take_back};
use crate::lua::Functions;
use everbyte_kv::Version;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Expired keys removed in one batch.
const SWEPT: usize = 10_000;
/// Bytes that a key or an element costs beside its own.
const EACH: usize = 64;

/// The caller's function, which gets the progress and can stop the import.
pub(super) struct Watch<'p> {
    progress: RefCell<&'p mut dyn FnMut(&ImportProgress) -> bool>,
    /// The last progress that it got.
    last: RefCell<ImportProgress>,
    stopped: Cell<bool>,
}

impl Watch<'_> {
    /// Reports the progress; whether the import goes on.
    fn tell(&self, state: ImportProgress) -> bool {
        let goes_on = (self.progress.borrow_mut())(&state);
        *self.last.borrow_mut() = state;
        if !goes_on {
            self.stopped.set(true);
        }
        goes_on
    }

    /// Asks the caller during a wait whether the import goes on.
    pub(super) fn goes_on(&self) -> bool {
        let state = self.last.borrow().clone();
        !self.stopped.get() && self.tell(state)
    }

    /// Whether the caller has stopped the import.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }
}

/// See the head of this file.
pub(super) struct Target<'k, 'p> {
    pub keys: Keyspace<'k>,
    tables: &'k Tables,
    pub options: ImportOptions,
    /// Whether the mark of an import is there.
    marked: bool,
    /// Bytes written since the last commit.
    written: usize,
    /// Commits so far.
    pub commits: u64,
    /// The version of the last one.
    last: Option<Version>,
    /// The libraries, compiled, while some are read.
    functions: Option<Functions>,
    pub watch: Rc<Watch<'p>>,
    /// Bytes of the source that were read.
    pub read: Rc<Cell<u64>>,
    pub phase: ImportPhase,
    pub total: Option<u64>,
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
            commits: 0,
            last: None,
            functions: None,
            watch: Rc::new(Watch {
                progress: RefCell::new(progress),
                last: RefCell::default(),
                stopped: Cell::new(false),
            }),
            read: Rc::default(),
            phase: ImportPhase::Keys,
            total: None,
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
        let libraries = if clear { self.keys.libraries()? } else { Vec::new() };
        if alone && !empty && !clear {
            return Err(ImportFault::NotEmpty);
        }
        if !clear && self.keys.is_mixture()? {
            return Err(ImportFault::Mixture);
        }
        self.keys.keep_expired(alone);
        // An error leaves the mark or not: it is taken back.
        self.marked = true;
        if self.keys.begin_import()? == Begun::Disturbed {
            return Err(ImportFault::Disturbed);
        }
        self.last = self.keys.committed().map(|commit| commit.version());
        if clear && !(empty && libraries.is_empty()) {
            self.keys.clear_all()?;
            for (name, _) in &libraries {
                self.keys.remove_library(name)?;
            }
            self.settle()?;
        }
        Ok(())
    }

    /// Keeps a library of functions, which is compiled first. `alone`: it takes the place of one
    /// of its name. `name` and `offset` are its place.
    pub(super) fn put_library(&mut self, code: &[u8], alone: bool, name: &str, offset: u64) -> Result<(), ImportFault> {
        let refused = |text: String| ImportFault::Refused {
            name: name.into(),
            offset,
            command: b"FUNCTION LOAD".to_vec(),
            reply: text.into_bytes(),
        };
        let memory_max = Options::default().script_memory_max;
        let functions = match &mut self.functions {
            Some(functions) => functions,
            none => {
                let mut functions = Functions::default();
                for (_, code) in self.keys.libraries()? {
                    functions.add(&code, false, memory_max).map_err(refused)?;
                }
                none.insert(functions)
            }
        };
        let library = functions.add(code, alone || self.options.replace, memory_max).map_err(refused)?;
        self.keys.put_library(&library, code)?;
        self.done.functions += 1;
        self.note(code.len(), false)
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
        self.commit()?;
        self.keys.settle_batch()?;
        self.tell()
    }

    /// Commits what was written; an error behind it takes nothing of that back.
    pub(super) fn commit(&mut self) -> Result<(), ImportFault> {
        self.written = 0;
        // IMPORT-3
        if let (Some(follows), Some(last)) = (self.keys.follows(), self.last)
            && follows != last
        {
            return Err(ImportFault::Disturbed);
        }
        let newest = |keys: &Keyspace<'_>| keys.committed().map(|commit| commit.version());
        let before = newest(&self.keys);
        self.keys.commit()?;
        self.commits += 1;
        // Without writes there is no commit, and the one before may not be the newest: the end of
        // the snapshot's import removes a name behind it.
        self.last = newest(&self.keys).filter(|version| Some(*version) != before).or(self.last);
        Ok(())
    }

    /// Gives up what was written since the last commit.
    pub(super) fn abandon(&mut self) {
        self.written = 0;
        self.keys.abandon();
    }

    /// Reports the progress.
    pub(super) fn tell(&mut self) -> Result<(), ImportFault> {
        let state = ImportProgress {
            phase: self.phase,
            bytes: self.earlier + self.read.get(),
            total: self.total,
            keys: self.done.keys,
            commands: self.done.commands,
        };
        // A stream that is followed ends where no transaction is open.
        match self.watch.tell(state) || self.phase == ImportPhase::Following {
            true => Ok(()),
            false => Err(ImportFault::Stopped),
        }
    }

    /// Everything so far stays.
    pub(super) fn keep(&mut self) -> Result<(), ImportFault> {
        self.settle()?;
        if self.marked {
            self.keys.end_import()?;
            (self.marked, self.last, self.functions) = (false, None, None);
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
            self.settle()?;
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
        let kept = match (self.undo(), self.done.offset) {
            (Err(error), _) => Kept::Marked(error),
            (Ok(()), Some(offset)) => {
                let _ = self.keys.settle_batch(); // the fault, or the end of the store, says more
                Kept::Followed(offset)
            }
            (Ok(()), None) => Kept::Nothing,
        };
        ImportError { fault, kept }
    }

    /// Takes everything back that the mark covers. Without a mark: what is not committed.
    pub(super) fn undo(&mut self) -> everbyte_kv::Result<()> {
        self.abandon();
        if self.marked {
            self.keys.settle_batch()?;
            take_back(self.tables, self.options.batch_size)?;
            (self.marked, self.last, self.functions) = (false, None, None);
            self.keys.reload()?;
        }
        Ok(())
    }
}
