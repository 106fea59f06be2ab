//! [`Program`]: the object of one executable: its variables and its heap.
//!
//! Making one: heap, header and variables with their initial values are written before the store publishes the object's
//! name, so a crash leaves a program with all its initial values or none. They are never initialised again.
//!
//! Invariants
//!   PROG-1  Variables are read and changed only by programs in which each lies where it lay and is as long: builds with the
//!           same identity, or with the same layout.
//!
//! Threads: any; open it once.

use crate::layout::{BUILD_MAX, FORMAT, HEADER_FIXED, Header, MAGIC, VARIABLES_AT};
use crate::{Error, Result};
use everbyte_heap::Heap;
use everbyte_media::{Media, seeded};
use everbyte_store::{Claim, Engine, Object, ObjectOptions, Store};
use std::ops::Range;
use zerocopy::{FromZeros, IntoBytes};

/// The heap puts blocks of more than this at whole pages.
const PAGED: u64 = 8193;

/// The persistent variables of an executable, as it was linked.
pub struct Variables<'v> {
    /// What they hold at first; whole pages.
    pub initial: &'v [u8],
    /// What the linker calls the build; empty: it does not say.
    pub build: &'v [u8],
    /// What names, places and sizes of the variables hash to, if that can be told; or why they cannot be kept. Asked for
    /// when it is needed.
    pub layout: &'v dyn Fn() -> Result<Option<u64>, String>,
}

impl Variables<'_> {
    fn layout(&self, object: &Object) -> Result<Option<u64>> {
        (self.layout)().map_err(|detail| Error::Unfit { object: object.name().into(), detail })
    }
}

/// What an executable keeps.
pub struct Program {
    heap: Heap,
    variables: Range<u64>,
    _claim: Claim,
}

impl Program {
    /// Opens the program of that name, or makes it with the initial values; settled on return. `span` is what its heap can
    /// ever hold.
    ///
    /// # Errors
    /// [`Error::Changed`] if the variables are not those that were kept (PROG-1); [`Error::Store`], [`Error::Heap`] (no
    /// room, wrong engine, open already), [`Error::Damaged`], [`Error::NewerFormat`].
    ///
    /// # Panics
    /// If the variables are not whole pages.
    pub fn open(store: &Store, name: &str, span: u64, variables: &Variables<'_>) -> Result<Program> {
        let len = variables.initial.len();
        assert!(len.is_multiple_of(4096), "PROG-1: {len} bytes of variables are not whole pages");
        match store.object(name) {
            Ok(object) => Program::attach(object, variables),
            Err(everbyte_store::Error::NotFound { .. }) => {
                let options = ObjectOptions { engine: Engine::Heap, fingerprint: fingerprint(), span: Some(span) };
                store.create_object(name, options, |object| make(object, variables))?;
                Program::attach(store.object(name)?, variables)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn attach(object: Object, variables: &Variables<'_>) -> Result<Program> {
        object.require_engine(Engine::Heap)?;
        object.require_fingerprint(fingerprint())?;
        let claim = object.claim()?;
        let heap = Heap::open(object)?;
        let (media, object) = (heap.media(), heap.object());
        let at = object.root();
        let damaged = |at, detail| Error::Damaged { object: object.name().into(), at, detail };
        if !heap.may_hold_blocks(at, size_of::<Header>() as u64) {
            return Err(damaged(object.root_at(), "the root does not lead to a header"));
        }
        let header: Header = media.get(at);
        if header.magic != MAGIC || header.checksum != header.sum() {
            return Err(damaged(at, "the program's header is not whole"));
        }
        if header.format > FORMAT {
            let object = object.name().into();
            return Err(Error::NewerFormat { object, found: header.format, known: FORMAT });
        }
        let (start, len) = (header.variables, header.variables_len);
        if !start.is_multiple_of(4096) || !heap.may_hold_blocks(start, len) {
            return Err(damaged(at + VARIABLES_AT, "the variables lie outside the heap"));
        }
        header.require(object, variables)?;
        let base = media.binding().unwrap_or(0);
        Ok(Program { heap: heap.based_at(base), variables: start..start + len, _claim: claim })
    }

    /// Where its variables lie.
    pub fn variables(&self) -> Range<u64> {
        self.variables.clone()
    }

    /// Its heap. Words that it stores blocks to hold addresses.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// The media it lies on.
    pub fn media(&self) -> &Media {
        self.heap.media()
    }
}

/// Tells programs from other objects with a heap.
fn fingerprint() -> u64 {
    u64::from_le_bytes(MAGIC)
}

fn make(object: &Object, variables: &Variables<'_>) -> Result<()> {
    Heap::format(object)?;
    let heap = Heap::open(object.clone())?;
    let build = &variables.build[..variables.build.len().min(BUILD_MAX)];
    let len = variables.initial.len() as u64;
    let mut header = Header {
        magic: MAGIC,
        format: FORMAT,
        variables_len: len,
        layout: variables.layout(object)?.unwrap_or(0),
        build_len: build.len() as u64,
        ..Header::new_zeroed()
    };
    header.build[..build.len()].copy_from_slice(build);
    header.checksum = header.sum();
    let at = heap.alloc_with(size_of::<Header>() as u64, object.root_at(), |media, block| {
        media.write(block.at, header.as_bytes());
    })?;
    if seeded("mnemosyne-variables-unflushed") {
        let block = heap.alloc_into(len.max(PAGED), at.at + VARIABLES_AT)?;
        heap.media().write(block.at, variables.initial);
        return Ok(());
    }
    heap.alloc_with(len.max(PAGED), at.at + VARIABLES_AT, |media, block| media.write(block.at, variables.initial))?;
    Ok(())
}

impl Header {
    /// PROG-1.
    fn require(&self, object: &Object, variables: &Variables<'_>) -> Result<()> {
        let changed = |detail: String| Err(Error::Changed { object: object.name().into(), detail });
        let len = variables.initial.len() as u64;
        if self.variables_len != len {
            return changed(format!("they took {} bytes and take {len}", self.variables_len));
        }
        let kept = self.build.get(..self.build_len as usize).unwrap_or_default();
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
