//! [`Program`]: the object of one executable: its variables and its heap.
//!
//! Creation: heap, header and variables with their initial values are written before the store
//! publishes the object's name, so a crash leaves a program with all its initial values or none.
//! Later openings never initialise them again.
//!
//! Invariants
//!   PROG-1  A program reads and changes variables only if each has the offset and the length with
//!           which it was stored: builds with the same identity, or with the same layout.
//!
//! Threads: any; the program is open once.

use crate::layout::{BUILD_MAX, FORMAT, HEADER_FIXED, MAGIC, PATH_AT, ProgramHeader, REGIONS_AT, VARIABLES_AT};
use crate::{Error, Result};
use everbyte_heap::{Block, Heap};
use everbyte_media::museum::{misplaced, unless};
use everbyte_media::{Checked, Damage, Format, Length, Media, Offset};
use everbyte_store::{Claim, Engine, Object, ObjectOptions, Store};
use everbyte_tx::Redo;
use std::ops::Range;
use zerocopy::{FromZeros, IntoBytes};

/// The heap places blocks of at least this size at whole pages.
const PAGED: u64 = 8193;

/// The persistent variables of an executable, as it was linked.
pub struct Variables<'v> {
    /// Their initial values; whole pages.
    pub initial: &'v [u8],
    /// The linker's identity of the build; empty: it gives none.
    pub build: &'v [u8],
    /// A hash of the variables' names, offsets and sizes, if it is known; or the reason why they
    /// cannot be stored. Called only when it is needed.
    pub layout: &'v dyn Fn() -> Result<Option<u64>, String>,
}

impl Variables<'_> {
    fn layout(&self, object: &Object) -> Result<Option<u64>> {
        (self.layout)().map_err(|detail| Error::Unfit { object: object.name().into(), detail })
    }
}

/// The stored state of an executable.
pub struct Program {
    redo: Redo,
    heap: Heap,
    /// Offset of the header.
    header: u64,
    variables: Range<u64>,
    _claim: Claim,
}

impl Program {
    /// Opens the program of that name, or creates it with the initial values; settled on return.
    /// `span` bounds the bytes of its heap for ever.
    ///
    /// # Errors
    /// [`Error::Changed`] if the variables differ from the stored ones (PROG-1); [`Error::Store`],
    /// [`Error::Heap`] (no space, wrong engine, open already), [`Error::Damaged`],
    /// [`Error::NewerFormat`].
    ///
    /// # Panics
    /// If the variables are not whole pages.
    pub fn open(store: &Store, name: &str, span: u64, variables: &Variables<'_>) -> Result<Program> {
        let len = variables.initial.len();
        assert!(len.is_multiple_of(4096), "PROG-1: {len} bytes of variables are not whole pages");
        match store.object(name) {
            Ok(object) => Program::attach(object, variables),
            Err(everbyte_store::Error::NotFound { .. }) => {
                let options = ObjectOptions { engine: Engine::Redo, fingerprint: fingerprint(), span: Some(span) };
                store.create_object(name, options, |object| make(object, variables))?;
                Program::attach(store.object(name)?, variables)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn attach(object: Object, variables: &Variables<'_>) -> Result<Program> {
        object.require_engine(Engine::Redo)?;
        object.require_fingerprint(fingerprint())?;
        let claim = object.claim()?;
        let redo = Redo::open(object)?;
        let heap = redo.heap().clone();
        let (media, object) = (heap.media(), heap.object());
        let (at, header) = header_of(object)?;
        let (start, len) = (header.variables, header.variables_len);
        if !start.is_multiple_of(4096) || !heap.may_hold_blocks(start.get(), len.get()) {
            return Err(Error::from(
                Damage::at(at + VARIABLES_AT, "the variables lie outside the heap").of_object(object.name()),
            ));
        }
        header.require(object, variables)?;
        let base = media.binding().unwrap_or(0);
        Ok(Program {
            heap: heap.based_at(base),
            redo,
            header: at,
            variables: start.get()..(start + len).get(),
            _claim: claim,
        })
    }

    /// The range of its variables.
    pub fn variables(&self) -> Range<u64> {
        self.variables.clone()
    }

    /// Its heap. Words that receive the heap's blocks hold addresses.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// The word that leads to the table of its regions.
    pub(crate) fn regions_at(&self) -> u64 {
        self.header + REGIONS_AT
    }

    /// Stores the path of its executable. After a crash meanwhile the path may be unknown.
    ///
    /// # Errors
    /// [`Error::Heap`]: no space.
    pub fn set_path(&self, path: &[u8]) -> Result<()> {
        if path_of(self.heap.object())?.is_some_and(|known| known == path) {
            return Ok(());
        }
        let (heap, word) = (self.heap.based_at(0), self.header + PATH_AT);
        if self.media().load(word) != 0 {
            heap.free_from(word)?;
        }
        heap.alloc_with(8 + path.len() as u64, word, |media, block| {
            media.store(block.at, path.len() as u64);
            media.write(block.at + 8, path);
        })?;
        Ok(())
    }

    /// Its transactions.
    pub fn redo(&self) -> &Redo {
        &self.redo
    }

    /// The media of the store.
    pub fn media(&self) -> &Media {
        self.heap.media()
    }
}

/// Tells programs from other objects with a heap.
fn fingerprint() -> u64 {
    u64::from_le_bytes(MAGIC)
}

/// The path of the executable of a program's object at its last run, if it is known.
///
/// # Errors
/// [`Error::Damaged`], [`Error::NewerFormat`]; [`Error::Store`] for an object of another kind.
pub fn path_of(object: &Object) -> Result<Option<Vec<u8>>> {
    object.require_fingerprint(fingerprint())?;
    let (header_at, header) = header_of(object)?;
    let (media, at) = (object.media(), header.path);
    if at == 0 {
        return Ok(None);
    }
    let damaged = |detail| Error::from(Damage::at(header_at + PATH_AT, detail).of_object(object.name()));
    if !at.is_multiple_of(8) || !is_inside(object, at.get(), 8) {
        return Err(damaged("the path lies outside the object"));
    }
    let len = media.load(at);
    if len > PATH_MAX || !is_inside(object, (at + 8).get(), len) {
        return Err(damaged("the path is longer than paths are"));
    }
    Ok(Some(media.read_vec(at + 8, len as usize)))
}

/// Bytes of the longest path.
const PATH_MAX: u64 = 4096;

fn is_inside(object: &Object, at: u64, len: u64) -> bool {
    let end = at.checked_add(len);
    object.prime() <= at && end.is_some_and(|end| end <= object.backed().get() && object.media().holds(at, len))
}

/// The header of a program's object, and its offset.
fn header_of(object: &Object) -> Result<(u64, ProgramHeader)> {
    let at = object.root();
    let damaged = |at, detail| Error::from(Damage::at(at, detail).of_object(object.name()));
    if !is_inside(object, at, size_of::<ProgramHeader>() as u64) {
        return Err(damaged(object.root_at(), "the root does not lead to a header"));
    }
    let header: ProgramHeader = object.media().get(at);
    if header.magic != MAGIC || !header.checksum_agrees() {
        return Err(damaged(Offset::new(at), "the program's header is not whole"));
    }
    match header.format > FORMAT {
        true => Err(Error::NewerFormat { object: object.name().into(), format: Format::new(header.format, FORMAT) }),
        false => Ok((at, header)),
    }
}

fn make(object: &Object, variables: &Variables<'_>) -> Result<()> {
    Redo::format(object)?;
    let heap = Heap::open(object.clone())?;
    let build = &variables.build[..variables.build.len().min(BUILD_MAX)];
    let len = variables.initial.len() as u64;
    let mut header = ProgramHeader {
        magic: MAGIC,
        format: FORMAT,
        variables_len: Length::new(len),
        layout: variables.layout(object)?.unwrap_or(0),
        build_len: Length::new(build.len() as u64),
        ..ProgramHeader::new_zeroed()
    };
    header.build[..build.len()].copy_from_slice(build);
    header = header.sealed();
    let at = heap.alloc_with(size_of::<ProgramHeader>() as u64, object.root_at().get(), |media, block| {
        media.write(block.at, header.as_bytes());
    })?;
    let write = |media: &Media, block: Block| media.write(block.at, variables.initial);
    let block = heap.alloc_with(len.max(PAGED), (at.at + VARIABLES_AT).get(), |media, block| {
        unless("mnemosyne-variables-unflushed", || write(media, block));
    })?;
    misplaced("mnemosyne-variables-unflushed", || write(heap.media(), block));
    Ok(())
}

impl ProgramHeader {
    /// Checks PROG-1.
    fn require(&self, object: &Object, variables: &Variables<'_>) -> Result<()> {
        let changed = |detail: String| Err(Error::Changed { object: object.name().into(), detail });
        let len = variables.initial.len() as u64;
        if self.variables_len != len {
            return changed(format!("they took {} bytes and take {len}", self.variables_len));
        }
        let kept = self.build.get(..self.build_len.get() as usize).unwrap_or_default();
        let build = &variables.build[..variables.build.len().min(BUILD_MAX)];
        if !build.is_empty() && kept == build {
            return Ok(());
        }
        match variables.layout(object)? {
            Some(layout) if layout == self.layout => Ok(()),
            Some(_) if self.layout != 0 => {
                changed("the program was built anew, and their names, places or sizes have changed".into())
            }
            _ => changed(
                "the program was built anew, and without its symbols nothing tells where each of them lies".into(),
            ),
        }
    }
}

const _: () = assert!(HEADER_FIXED == VARIABLES_AT as usize);
