//! The sections of this process that hold persistent variables, and the place of each in the store.
//!
//! Invariants
//!   SECT-1  A flush in a copied section first stores the lines to the object: the object holds the
//!           lines flushed last.
//!   SECT-2  A section stays open until the process ends.
//!   SECT-3  A section is in the chain of sections before its variables can be used.
//!
//! Threads: any; the chain of sections is read without a lock. Elsewhere: opening a section
//! (`linked`).

use crate::fault::Result;
use crate::process::{self, Process};
use everbyte_media::{LINE, Media};
use everbyte_mnemosyne::{Program, Regions};
use everbyte_tx::Redo;
use parking_lot::RwLock;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

struct Section {
    addresses: Range<usize>,
    owner: Arc<Owner>,
    /// Private memory of the process; the object holds its flushed lines (SECT-1).
    copied: bool,
}

static SECTIONS: RwLock<Vec<Section>> = RwLock::new(Vec::new());

/// The chain of sections, for code that must not take a lock. Links are never removed (SECT-2).
struct SectionLink {
    addresses: Range<usize>,
    next: OnceLock<Box<SectionLink>>,
}

static SECTION_CHAIN: OnceLock<Box<SectionLink>> = OnceLock::new();

/// Whether a persistent variable, of any file, lies at this address.
pub(crate) fn is_variable(address: usize) -> bool {
    let mut place = SECTION_CHAIN.get();
    while let Some(SectionLink { addresses, next }) = place.map(|place| &**place) {
        if addresses.contains(&address) {
            return true;
        }
        place = next.get();
    }
    false
}

/// The owner of the variables.
pub(super) struct Owner {
    pub program: Program,
    pub regions: Regions,
}

/// The variables that transactions of this process change, and their engine.
pub(crate) struct Transactional {
    pub redo: Redo,
    pub addresses: Range<usize>,
    /// Their place in the store.
    pub at: u64,
    /// The section is copied: a store in the store is repeated at the address.
    pub copied: bool,
}

/// The pstatic variables of the executable, which is loaded last, or of the last library that has
/// some; otherwise PDATA.
pub(crate) fn transactional() -> Option<Transactional> {
    let sections = SECTIONS.read();
    let is_pstatic = |section: &&Section| section.owner.program.heap().object().name().starts_with("pstatic/");
    let Section { addresses, owner, copied } = sections.iter().rev().find(is_pstatic).or(sections.last())?;
    let (redo, at) = (owner.program.redo().clone(), owner.program.variables().start);
    Some(Transactional { redo, addresses: addresses.clone(), at, copied: *copied })
}

/// The place of persistent memory of this process in the store.
pub(super) struct Home {
    pub media: Media,
    /// The offset of the queried address.
    pub at: u64,
    /// The address lies in a copied section: a program's stores reach the store's mapping only by
    /// [`Home::push`].
    pub copied: bool,
    /// The program whose variable, block or region contains the address.
    pub owner: Option<Arc<Owner>>,
}

/// The place of `address..address+len` in the store, if it lies in a section or in the store's
/// mapping. Any address may be passed.
pub(super) fn home(address: usize, len: usize) -> Result<Home> {
    let end = address.checked_add(len);
    let sections = SECTIONS.read();
    let inside = |section: &&Section| {
        section.addresses.contains(&address) && end.is_some_and(|end| end <= section.addresses.end)
    };
    if let Some(Section { addresses, owner, copied }) = sections.iter().find(inside) {
        let at = owner.program.variables().start + (address - addresses.start) as u64;
        let media = owner.program.media().clone();
        media.require_here()?;
        return Ok(Home { media, at, copied: *copied, owner: Some(Arc::clone(owner)) });
    }
    let process = Process::get()?;
    let at = process.offset(address, len)?;
    let mut owners = sections.iter().map(|section| &section.owner);
    let owns = |owner: &&Arc<Owner>| owner.program.heap().object().span().contains(&at) || owner.regions.hold(at);
    let owner = owners.find(owns).cloned();
    Ok(Home { media: process.media().clone(), at, copied: false, owner })
}

/// All owners with open variables.
pub(super) fn owners() -> Vec<Arc<Owner>> {
    SECTIONS.read().iter().map(|section| Arc::clone(&section.owner)).collect()
}

impl Home {
    /// Copies the whole lines around `address..address+len` of a copied section to the store's
    /// mapping; the caller then flushes them. Does nothing for other addresses.
    pub(super) fn push(&self, address: usize, len: usize) {
        if !self.copied || len == 0 {
            return;
        }
        let before = address % LINE as usize;
        let lines = (before + len).div_ceil(LINE as usize);
        let _section = self.media.section();
        for line in 0..lines {
            let words = read_line(address - before + line * LINE as usize);
            self.media.write(self.at - before as u64 + line as u64 * LINE, &words);
        }
    }

    /// Copies the word at `address` from the store's mapping to a copied section. Does nothing for
    /// other addresses.
    pub(super) fn pull(&self, address: usize) {
        if self.copied {
            let word = std::ptr::with_exposed_provenance_mut::<u64>(address);
            // SAFETY: an aligned word of a section, which is this process's for good (SECT-2);
            // the caller changes the pointer that it holds.
            unsafe { word.write_volatile(self.media.load(self.at)) };
        }
    }
}

/// A line of a section: eight words, each read whole.
fn read_line(address: usize) -> [u8; LINE as usize] {
    let mut line = [0; LINE as usize];
    for (index, bytes) in line.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let word = std::ptr::with_exposed_provenance::<u64>(address + index * 8);
        // SAFETY: a line of a section, which is whole pages of this process for good (SECT-2);
        // threads of the program may be storing there, and each word read is a value stored.
        *bytes = unsafe { word.read_volatile() }.to_le_bytes();
    }
    line
}

/// Flushes and settles what the program stored to copied sections: at its end, as a mapping that is
/// shared keeps it.
fn write_back() {
    for section in SECTIONS.read().iter().filter(|section| section.copied) {
        let (media, start) = (section.owner.program.media(), section.owner.program.variables().start);
        let mut changed = false;
        for (index, address) in section.addresses.clone().step_by(LINE as usize).enumerate() {
            let (line, at) = (read_line(address), start + index as u64 * LINE);
            if line[..] != media.read_vec(at, LINE as usize)[..] {
                let _section = media.section();
                media.write(at, &line);
                media.flush(at, LINE);
                changed = true;
            }
        }
        if changed {
            let _ = media.barrier(); // no caller is left for an error
        }
    }
}

/// Whether variables at these addresses are open.
pub(super) fn is_open(addresses: &Range<usize>) -> bool {
    SECTIONS.read().iter().any(|section| section.addresses == *addresses)
}

/// Adds a section; `copied` as in [`Home`].
pub(super) fn add(addresses: Range<usize>, owner: Owner, copied: bool) {
    let mut sections = SECTIONS.write();
    let mut place = Box::new(SectionLink { addresses: addresses.clone(), next: OnceLock::new() });
    let mut end = &SECTION_CHAIN;
    while let Err(refused) = end.set(place) {
        place = refused;
        end = &end.get().expect("set by another").next;
    }
    process::at_close(write_back);
    sections.push(Section { addresses, owner: Arc::new(owner), copied });
}
