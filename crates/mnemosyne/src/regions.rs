//! [`Regions`]: memory that a program maps, each region an object of its own whose address is
//! stored to one word of the program.
//!
//! Mapping, a fence between the lines:
//!   1. a line of the table is `making`, with the word that is to receive the address and the
//!      word's value
//!   2. the object: it reads as zeros, and is settled
//!   3. the word
//!   4. the line is `live`, and a barrier
//!
//! After a crash before 4, recovery undoes the steps: it restores the word, removes the object and
//! frees the line.
//!
//! Unmapping a part of a piece, or all of it:
//!   1. a line is `cutting`: the rest behind that part, which may be empty, and the piece that it
//!      was part of
//!   2. one word, the length of that piece, publishes the change
//!   3. clusters that no piece covers are released, or the object is removed if no piece is left
//!   4. the piece's line is free if it has become empty; the new one is `live`, or free
//!
//! After a crash before 2 the piece is unchanged; after a crash behind 2, recovery does steps 3 and
//! 4.
//!
//! Invariants
//!   REGION-1  A `cutting` line is valid if the piece that it was part of does not reach it any
//!             more.
//!   REGION-2  A region's object has a line until it is removed.
//!
//! Threads: any; each call holds the lock of the table.

use crate::layout::{CUTTING, FREE, LIVE, MAKING, Piece};
use crate::table::RegionTable;
use crate::{Error, Program, Result};
use everbyte_media::{Damage, Length, Offset};
use everbyte_store::{CLUSTER, Engine, Object, ObjectOptions, PRIME_LEN, Store};
use parking_lot::Mutex;
use std::ops::Range;
use zerocopy::FromZeros;

/// The object's fingerprint: `b"EVRBREGN"`.
const FINGERPRINT: u64 = u64::from_le_bytes(*b"EVRBREGN");
/// The unit of a region, in bytes.
const PAGE: u64 = 4096;

/// A piece of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Address of its first byte.
    pub at: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The access of the program: bits of `mprotect`.
    pub access: u64,
}

impl Region {
    /// One past its last byte.
    pub fn end(&self) -> u64 {
        self.at.saturating_add(self.len)
    }
}

/// The regions of a program.
pub struct Regions {
    store: Store,
    /// The prefix of the names of their objects.
    prefix: String,
    base: u64,
    table: Mutex<RegionTable>,
}

impl Regions {
    /// The regions of `program`, recovered: each is whole or gone.
    ///
    /// # Errors
    /// [`Error::Damaged`]; [`Error::Store`].
    pub fn open(program: &Program) -> Result<Regions> {
        let object = program.heap().object();
        let regions = Regions {
            store: object.store().clone(),
            prefix: Regions::prefix(object.name()),
            base: program.media().binding().unwrap_or(0),
            table: Mutex::new(RegionTable::read(program)?),
        };
        regions.recover(program)?;
        Ok(regions)
    }

    /// The prefix of the names of the objects of a program's regions.
    pub fn prefix(program: &str) -> String {
        format!("{program}/region-")
    }

    /// All pieces, in no order.
    pub fn list(&self) -> Vec<Region> {
        self.table.lock().pieces.iter().filter(|piece| piece.state == LIVE).map(Piece::region).collect()
    }

    /// Whether `at` lies in one of them.
    pub fn hold(&self, at: u64) -> bool {
        self.table.lock().pieces.iter().any(|piece| piece.state == LIVE && piece.at <= at && at < piece.region().end())
    }

    /// Makes a region of `len` bytes, rounded up to pages, that reads as zeros, and stores its
    /// address to the word at `target`: both or neither. Settled on return.
    ///
    /// # Errors
    /// [`Error::BadTarget`] unless that is a word of the program's heap or of a region;
    /// [`Error::Store`]: no space.
    pub fn map(&self, program: &Program, len: u64, access: u64, target: u64) -> Result<Region> {
        let mut table = self.table.lock();
        require_target(program, &table, target)?;
        let len = len.clamp(1, 1 << 46).next_multiple_of(PAGE);
        let index = table.vacant()?;
        let number =
            (0..).find(|number| table.pieces.iter().all(|piece| piece.state == FREE || piece.number != *number));
        let number = number.expect("fewer pieces than numbers");
        let media = table.media().clone();
        // recovery must not repeat an earlier transaction's store to the word
        program.redo().truncate();
        let old = media.load(target);
        // 1
        table.write(
            index,
            Piece {
                state: MAKING,
                number,
                len: Length::new(len),
                access,
                target: Offset::new(target),
                old,
                ..Piece::new_zeroed()
            },
        );
        let object = match self.make(number, len) {
            Ok(object) => object,
            Err(error) => {
                // Its object may be there, if a barrier failed behind it (REGION-2). The line stays
                // `making` until it is removed, at the latest by recovery.
                let _ = self.take_back(program, &mut table, index);
                return Err(error);
            }
        };
        table.set_at(index, (object.prime() + PRIME_LEN).get());
        set_word(&table, target, self.base + object.prime().get() + PRIME_LEN); // 3
        media.fence_unless("mnemosyne-region-live-early");
        table.set_state(index, LIVE); // 4
        media.barrier()?;
        Ok(table.pieces[index].region())
    }

    /// Unmaps the parts of regions in `at..at+len`, whole pages. Each piece changes in a step of
    /// its own. `gone` is called with each whole region before it is removed. `false`: the range
    /// held no piece.
    ///
    /// # Errors
    /// [`Error::Heap`]: no space in the table; [`Error::Store`].
    pub fn unmap(&self, at: u64, len: u64, gone: &mut dyn FnMut(Range<u64>)) -> Result<bool> {
        let mut table = self.table.lock();
        let hit = at..at.saturating_add(len);
        let mut met = false;
        for index in 0..table.pieces.len() {
            let piece = table.pieces[index];
            if piece.state == LIVE && piece.at < hit.end && hit.start < piece.region().end() {
                self.cut(&mut table, index, &hit, gone)?;
                met = true;
            }
        }
        table.media().barrier()?;
        Ok(met)
    }

    fn cut(
        &self,
        table: &mut RegionTable,
        index: usize,
        hit: &Range<u64>,
        gone: &mut dyn FnMut(Range<u64>),
    ) -> Result<()> {
        let rest = table.vacant()?;
        let (piece, end) = (table.pieces[index], table.pieces[index].region().end());
        let start = hit.start.max(piece.at.get());
        let (at, len) = if hit.end < end { (hit.end, end - hit.end) } else { (start, 0) };
        // 1
        table.write(
            rest,
            Piece {
                state: CUTTING,
                at: Offset::new(at),
                len: Length::new(len),
                parent: index as u64,
                target: Offset::new(0),
                old: 0,
                ..piece
            },
        );
        table.set_len(index, start - piece.at.get()); // 2
        self.finish(table, rest, gone)
    }

    /// Steps 3 and 4, for a valid line.
    fn finish(&self, table: &mut RegionTable, rest: usize, gone: &mut dyn FnMut(Range<u64>)) -> Result<()> {
        let Piece { number, parent, len, .. } = table.pieces[rest];
        let other = |piece: &&Piece| piece.state == LIVE && piece.number == number;
        let mut covered: Vec<Region> = table.pieces.iter().filter(other).map(Piece::region).collect();
        covered.push(table.pieces[rest].region());
        covered.retain(|piece| piece.len > 0);
        match self.object(number) {
            Ok(object) if covered.is_empty() => {
                gone(object.prime().get()..object.backed().get());
                drop(object);
                self.store.remove_object(&self.name(number))?;
            }
            Ok(object) => release(&object, &covered)?,
            // removed before the crash
            Err(Error::Store(everbyte_store::Error::NotFound { .. })) if covered.is_empty() => {}
            Err(error) => return Err(error),
        }
        let parent = parent as usize;
        if table.pieces.get(parent).is_some_and(|piece| other(&piece) && piece.len == 0) {
            table.set_state(parent, FREE);
        }
        table.set_state(rest, if len > 0 { LIVE } else { FREE });
        Ok(())
    }

    fn recover(&self, program: &Program) -> Result<()> {
        let mut table = self.table.lock();
        table.media().fence();
        for index in 0..table.pieces.len() {
            let piece = table.pieces[index];
            match piece.state {
                FREE | LIVE => {}
                MAKING => self.take_back(program, &mut table, index)?,
                CUTTING => {
                    let parent = table.pieces.get(piece.parent as usize);
                    let reaches = |parent: &Piece| {
                        parent.state == LIVE
                            && parent.number == piece.number
                            && parent.at.saturating_add(parent.len) > piece.at
                    };
                    match parent.is_some_and(reaches) {
                        true => table.set_state(index, FREE),
                        false => self.finish(&mut table, index, &mut |_| {})?, // REGION-1
                    }
                }
                _ => return Err(self.damaged(&table, index, "a line of the table of regions has an unknown state")),
            }
        }
        for index in 0..table.pieces.len() {
            let piece = table.pieces[index];
            if piece.state == LIVE && !is_inside(&self.object(piece.number)?, &piece) {
                return Err(self.damaged(&table, index, "a region lies outside its object"));
            }
        }
        Ok(table.media().barrier()?)
    }

    /// Undoes a mapping that a crash or an error cut off.
    fn take_back(&self, program: &Program, table: &mut RegionTable, index: usize) -> Result<()> {
        let Piece { number, target, old, .. } = table.pieces[index];
        match self.object(number) {
            Ok(object) => {
                require_target(program, table, target.get())?;
                if table.media().load(target) == self.base + object.prime().get() + PRIME_LEN {
                    set_word(table, target.get(), old);
                    table.media().fence(); // the word is ordered before the removal of its object
                }
                drop(object);
                self.store.remove_object(&self.name(number))?;
            }
            Err(Error::Store(everbyte_store::Error::NotFound { .. })) => {}
            Err(error) => return Err(error),
        }
        table.set_state(index, FREE);
        Ok(())
    }

    fn name(&self, number: u64) -> String {
        format!("{}{number}", self.prefix)
    }

    fn object(&self, number: u64) -> Result<Object> {
        let object = self.store.object(&self.name(number))?;
        object.require_fingerprint(FINGERPRINT)?;
        Ok(object)
    }

    fn make(&self, number: u64, len: u64) -> Result<Object> {
        let span = (PRIME_LEN + len).next_power_of_two().max(CLUSTER);
        let options = ObjectOptions { engine: Engine::None, fingerprint: FINGERPRINT, span: Some(span) };
        self.store.create_object(&self.name(number), options, |object| {
            object.grow((PRIME_LEN + len).saturating_sub(CLUSTER)).map(drop).map_err(Error::from)
        })
    }

    fn damaged(&self, table: &RegionTable, index: usize, detail: &'static str) -> Error {
        Error::from(Damage::at(table.at(index), detail).of_object(self.prefix.trim_end_matches("/region-")))
    }
}

impl Piece {
    fn region(&self) -> Region {
        Region { at: self.at.get(), len: self.len.get(), access: self.access }
    }
}

/// Checks that `target` is a word to which the program may store: of its heap, or of a region of
/// its own.
fn require_target(program: &Program, table: &RegionTable, target: u64) -> Result<()> {
    let mut regions = table.pieces.iter().filter(|piece| piece.state == LIVE).map(Piece::region);
    let inside =
        program.heap().may_hold_blocks(target, 8) || regions.any(|region| region.at <= target && target < region.end());
    match inside && target.is_multiple_of(8) {
        true => Ok(()),
        false => Err(Error::BadTarget { object: program.heap().object().name().into(), at: target }),
    }
}

fn is_inside(object: &Object, piece: &Piece) -> bool {
    let whole = piece.at.is_multiple_of(PAGE) && piece.len.is_multiple_of(PAGE) && piece.len > 0;
    let end = piece.at.checked_add(piece.len);
    whole && object.prime() + PRIME_LEN <= piece.at && end.is_some_and(|end| end <= object.backed())
}

/// Stores a word and flushes it; no fence.
fn set_word(table: &RegionTable, at: u64, value: u64) {
    let media = table.media();
    let _section = media.section();
    media.store(at, value);
    media.flush(at, 8);
}

/// Releases the clusters of a region's object that no piece covers, but the first.
fn release(object: &Object, covered: &[Region]) -> Result<()> {
    let mut at = object.prime() + CLUSTER;
    while at < object.backed() {
        let cluster = at..at + CLUSTER;
        at = cluster.end;
        let used = covered.iter().any(|piece| piece.at < cluster.end.get() && cluster.start < piece.end());
        if !used && object.is_backed(cluster.start) {
            object.release(cluster)?;
        }
    }
    Ok(())
}
