//! The sections of this process that hold persistent variables, and where each lies in the store.
//!
//! Invariants
//!   SECT-1  What is flushed in a copied section is stored to the object first: its lines there are those flushed last.
//!   SECT-2  A section stays open until the process ends.
//!
//! Threads: any. Elsewhere: how a section is opened (`linked`).

use crate::fault::Result;
use crate::process::Process;
use everbyte_heap::Heap;
use everbyte_media::{LINE, Media};
use everbyte_mnemosyne::Program;
use parking_lot::RwLock;
use std::ops::Range;
use std::sync::Arc;

struct Section {
    addresses: Range<usize>,
    program: Arc<Program>,
    /// Memory of the process, of which the object has what was flushed (SECT-1).
    copied: bool,
}

static SECTIONS: RwLock<Vec<Section>> = RwLock::new(Vec::new());

/// Where persistent memory of this process lies in the store.
pub struct Home {
    pub media: Media,
    /// The offset of the address asked for.
    pub at: u64,
    /// What a program stores at the address reaches the store's mapping only by [`Home::push`].
    pub copied: bool,
    /// The heap of the object that it is part of, if it is a variable.
    pub heap: Option<Heap>,
}

/// Where `address..address+len`, which may be anything, lies in the store: in a section, or in the store's mapping.
pub fn home(address: usize, len: usize) -> Result<Home> {
    let end = address.checked_add(len);
    let sections = SECTIONS.read();
    let inside = |section: &&Section| {
        section.addresses.contains(&address) && end.is_some_and(|end| end <= section.addresses.end)
    };
    if let Some(Section { addresses, program, copied }) = sections.iter().find(inside) {
        let at = program.variables().start + (address - addresses.start) as u64;
        return Ok(Home { media: program.media().clone(), at, copied: *copied, heap: Some(program.heap().clone()) });
    }
    let process = Process::get()?;
    let at = process.offset(address, len)?;
    let heap = sections.iter().map(|section| section.program.heap()).find(|heap| heap.object().span().contains(&at));
    Ok(Home { media: process.media().clone(), at, copied: false, heap: heap.cloned() })
}

impl Home {
    /// Brings whole lines around `address..address+len` of a copied section to the store's mapping; they are to be flushed
    /// then. Nothing elsewhere.
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
}

/// A line of a section: eight words, each read whole.
fn read_line(address: usize) -> [u8; LINE as usize] {
    let mut line = [0; LINE as usize];
    for (index, bytes) in line.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let word = std::ptr::with_exposed_provenance::<u64>(address + index * 8);
        // SAFETY: a line of a section, which is whole pages of this process for good (SECT-2); threads of the program may be
        // storing there, and whatever a word holds then is a value stored.
        *bytes = unsafe { word.read_volatile() }.to_le_bytes();
    }
    line
}

/// Flushes and settles what the program stored to copied sections: at its end, as a mapping that is shared keeps it.
pub fn write_back() {
    for section in SECTIONS.read().iter().filter(|section| section.copied) {
        let (media, start) = (section.program.media(), section.program.variables().start);
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
            let _ = media.barrier(); // nobody is left to be told
        }
    }
}

/// Whether variables at these addresses are open.
pub fn is_open(addresses: &Range<usize>) -> bool {
    SECTIONS.read().iter().any(|section| section.addresses == *addresses)
}

/// Takes a section into account; `copied` as in [`Home`].
pub fn add(addresses: Range<usize>, program: Program, copied: bool) {
    SECTIONS.write().push(Section { addresses, program: Arc::new(program), copied });
}
