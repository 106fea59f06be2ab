//! The sections of this process that hold persistent variables, and where each lies in the store.
//!
//! Invariants
//!   SECT-1  What is flushed in a copied section is stored to the object first: its lines there are
//!           those flushed last.
//!   SECT-2  A section stays open until the process ends.
//!   SECT-3  A section is in the chain of places before its variables can be used.
//!
//! Threads: any; the chain of places is read without a lock. Elsewhere: how a section is opened
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
    /// Memory of the process, of which the object has what was flushed (SECT-1).
    copied: bool,
}

static SECTIONS: RwLock<Vec<Section>> = RwLock::new(Vec::new());

/// Sections, each with the next one: for code that may take no lock. They stay (SECT-2).
struct Place {
    addresses: Range<usize>,
    next: OnceLock<Box<Place>>,
}

static PLACES: OnceLock<Box<Place>> = OnceLock::new();

/// Whether a persistent variable, of whichever file, lies at this address.
pub fn is_variable(address: usize) -> bool {
    let mut place = PLACES.get();
    while let Some(Place { addresses, next }) = place.map(|place| &**place) {
        if addresses.contains(&address) {
            return true;
        }
        place = next.get();
    }
    false
}

/// The program that they belong to.
pub struct Owner {
    pub program: Program,
    pub regions: Regions,
}

/// The variables that transactions of this process change, and their engine.
pub struct Transactional {
    pub redo: Redo,
    pub addresses: Range<usize>,
    /// Their place in the store.
    pub at: u64,
    /// A store to the store's mapping is also done at the address.
    pub copied: bool,
}

/// The pstatic ones of the executable, which is loaded last, or of the last library that has some;
/// or else others.
pub fn transactional() -> Option<Transactional> {
    let sections = SECTIONS.read();
    let is_pstatic = |section: &&Section| section.owner.program.heap().object().name().starts_with("pstatic/");
    let Section { addresses, owner, copied } = sections.iter().rev().find(is_pstatic).or(sections.last())?;
    let (redo, at) = (owner.program.redo().clone(), owner.program.variables().start);
    Some(Transactional { redo, addresses: addresses.clone(), at, copied: *copied })
}

/// The place of this process's persistent memory in the store.
pub struct Home {
    pub media: Media,
    /// The offset of the address asked for.
    pub at: u64,
    /// A store at the address reaches the store's mapping only by [`Home::push`].
    pub copied: bool,
    /// Its owner: the program whose variable, block or region it is part of.
    pub owner: Option<Arc<Owner>>,
}

/// The place of `address..address+len`, which may be anything, in the store: in a section, or in
/// the store's mapping.
pub fn home(address: usize, len: usize) -> Result<Home> {
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

/// Everybody whose variables are open.
pub fn owners() -> Vec<Arc<Owner>> {
    SECTIONS.read().iter().map(|section| Arc::clone(&section.owner)).collect()
}

impl Home {
    /// Brings whole lines around `address..address+len` of a copied section to the store's mapping;
    /// they are to be flushed then. Nothing elsewhere.
    pub fn push(&self, address: usize, len: usize) {
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

    /// Shows the program what the store's mapping has at the word `address` of a copied section.
    /// Nothing elsewhere.
    pub fn pull(&self, address: usize) {
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
        // threads of the program may be storing there, and whatever a word holds then is a value
        // stored.
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
pub fn is_open(addresses: &Range<usize>) -> bool {
    SECTIONS.read().iter().any(|section| section.addresses == *addresses)
}

/// Takes a section into account; `copied` as in [`Home`].
pub fn add(addresses: Range<usize>, owner: Owner, copied: bool) {
    let mut sections = SECTIONS.write();
    let mut place = Box::new(Place { addresses: addresses.clone(), next: OnceLock::new() });
    let mut end = &PLACES;
    while let Err(refused) = end.set(place) {
        place = refused;
        end = &end.get().expect("set by another").next;
    }
    process::at_close(write_back);
    sections.push(Section { addresses, owner: Arc::new(owner), copied });
}
