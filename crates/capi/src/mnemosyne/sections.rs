//! Persistent variables: the sections of this process that hold them, and where each lies in the store.
//!
//! Opening one, before `main`:
//!   1. the file it was loaded from says which build this is
//!   2. the object that keeps the variables is opened, or made with the values they were linked with
//!   3. its pages are mapped over the section; where the store's mapping is the process's own, they are copied there
//!
//! Invariants
//!   SECT-1  What is flushed in a copied section is stored to the object first: its lines there are those flushed last.
//!   SECT-2  A section stays open until the process ends.
//!
//! Threads: sections are opened before `main`, or by the thread that loads a library; all else may be called from any.

use super::elf;
use crate::fault::{Fault, Result};
use crate::process::Process;
use everbyte_heap::Heap;
use everbyte_media::{LINE, Media};
use everbyte_mnemosyne::{Program, Variables};
use parking_lot::RwLock;
use std::ffi::c_void;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

/// What the heap of a program's variables can ever hold: addresses, which cost nothing.
const SPAN: u64 = 8 << 30;

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

/// # Safety
/// `start..end` is a section of the caller's executable or library, readable and writable, to which no thread stores
/// meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everbyte_open_pstatic(start: *mut c_void, end: *mut c_void) {
    // SAFETY: the caller's promise.
    let opened = unsafe { open(start, end) };
    if let Err(fault) = opened {
        eprintln!("everbyte: persistent variables: {}", fault.message());
        std::process::exit(78); // EX_CONFIG: a program must not run without them
    }
}

/// # Safety
/// As [`everbyte_open_pstatic`].
unsafe fn open(start: *mut c_void, end: *mut c_void) -> Result<()> {
    let addresses = start.expose_provenance()..end.addr();
    let known = || SECTIONS.read().iter().any(|section| section.addresses == addresses);
    if addresses.is_empty() || known() {
        return Ok(());
    }
    if [addresses.start, addresses.end].iter().any(|address| !address.is_multiple_of(4096)) {
        return Err(Fault::invalid(format!(
            "the section at {addresses:#x?} is not whole pages, so other data shares them: some file defines variables in it without including everbyte/pstatic.h"
        )));
    }
    let path = loaded_from(addresses.start)?;
    let io = |error: std::io::Error| Fault::new(libc::EIO, format!("{}: cannot be read: {error}", path.display()));
    let mut head = Vec::new();
    File::open(&path).and_then(|file| file.take(1 << 16).read_to_end(&mut head)).map_err(io)?;
    // SAFETY: the caller's promise: readable, and unchanged while this lives, which is until the mapping below.
    let initial = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), addresses.len()) };
    let layout = || layout(&path, "persistent");
    let variables = Variables { initial, build: elf::build(&head).unwrap_or_default(), layout: &layout };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let program = Program::open(Process::get()?.store(), &format!("pstatic/{name}"), SPAN, &variables)?;
    let at = program.variables().start;
    let place = NonNull::new(start.cast()).expect("checked not to be empty");
    // SAFETY: the section is the caller's to give, and `initial` is not used any more.
    let mapped = unsafe { program.media().map_over(at, addresses.len() as u64, place) }?;
    if !mapped {
        let kept = program.media().read_vec(at, addresses.len());
        // SAFETY: `start..end` is writable, and nobody else stores there: the caller's promise.
        unsafe { place.copy_from_nonoverlapping(NonNull::from(&kept[..]).cast(), kept.len()) };
    }
    SECTIONS.write().push(Section { addresses, program: Arc::new(program), copied: !mapped });
    Ok(())
}

/// What the symbols of a file tell about a section; refuses variables that begin as addresses.
fn layout(path: &Path, section: &str) -> std::result::Result<Option<u64>, String> {
    let file = std::fs::read(path).map_err(|error| format!("{}: cannot be read: {error}", path.display()))?;
    let Some(contents) = elf::contents(&file, section) else { return Ok(None) };
    match contents.address_in {
        Some(variable) => Err(format!(
            "{variable} begins as an address of the program, which lies elsewhere in each run; set it at run time, or link with -no-pie"
        )),
        None => Ok(contents.layout),
    }
}

/// The file that what lies at `address` was loaded from, as the kernel tells.
fn loaded_from(address: usize) -> Result<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let path = table.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        (start..end).contains(&address).then(|| rest.splitn(5, ' ').nth(4).unwrap_or_default().trim())
    });
    let path = path.filter(|path| path.starts_with('/') && !path.ends_with(" (deleted)"));
    let path = path.ok_or_else(|| {
        Fault::new(libc::ENOENT, "the file of this program is gone, so nothing says which variables it has")
    })?;
    Ok(path.into())
}
