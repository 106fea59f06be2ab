//! Texts that functions of the server build outside of the interpreter's memory.
//!
//! They count against the same limit: the interpreter's memory and all such texts together stay
//! below it, so a script that builds many at a time, or a large one, is refused as Lua refuses it.

use super::fault::{Raised, fault};
use super::{SharedRun, ended};
use mlua::{Lua, LuaString, Result};
use std::sync::atomic::Ordering;

/// Bytes of one text.
pub(super) const TEXT_MAX: usize = 512 << 20;
/// Values written between two looks at the clock.
const STEPS: u32 = 1 << 10;

/// A text under construction.
pub(super) struct Built<'b> {
    pub lua: &'b Lua,
    run: &'b SharedRun,
    bytes: Vec<u8>,
    steps: u32,
}

impl<'b> Built<'b> {
    /// An empty text.
    pub(super) fn new(lua: &'b Lua, run: &'b SharedRun) -> Built<'b> {
        Built { lua, run, bytes: Vec::new(), steps: 0 }
    }

    /// The bytes so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends bytes.
    pub(super) fn add(&mut self, part: &[u8]) -> Result<()> {
        self.reserve(part.len())?;
        self.bytes.extend_from_slice(part);
        Ok(())
    }

    /// Appends a byte.
    pub(super) fn push(&mut self, byte: u8) -> Result<()> {
        self.add(&[byte])
    }

    /// Appends a part `count` times.
    pub(super) fn repeat(&mut self, part: &[u8], count: usize) -> Result<()> {
        self.reserve(part.len().saturating_mul(count))?;
        (0..count).for_each(|_| self.bytes.extend_from_slice(part));
        Ok(())
    }

    /// Another value is about to be written: the script may have to end.
    pub(super) fn step(&mut self) -> Result<()> {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS) && ended(self.run) { Err(Raised::Ended.into()) } else { Ok(()) }
    }

    /// Makes room for more bytes.
    fn reserve(&mut self, more: usize) -> Result<()> {
        let (held, wanted) = (self.bytes.capacity(), self.bytes.len().saturating_add(more));
        if wanted <= held {
            return Ok(());
        }
        if wanted > TEXT_MAX {
            return Err(fault(self.lua, "resulting string too large"));
        }
        let mut size = wanted.max(held.saturating_mul(2)).min(TEXT_MAX);
        if size - held > free(self.lua, self.run) {
            self.lua.gc_collect()?;
            size = wanted;
        }
        if size - held > free(self.lua, self.run) {
            return Err(no_memory());
        }
        self.bytes.reserve_exact(size - self.bytes.len());
        self.run.outside.fetch_add(self.bytes.capacity() - held, Ordering::Relaxed);
        Ok(())
    }

    /// The text as a value.
    pub(super) fn finish(self) -> Result<LuaString> {
        if self.bytes.len() > free(self.lua, self.run) {
            self.lua.gc_collect()?;
        }
        self.lua.create_string(&self.bytes)
    }
}

impl Drop for Built<'_> {
    fn drop(&mut self) {
        self.run.outside.fetch_sub(self.bytes.capacity(), Ordering::Relaxed);
    }
}

/// Bytes that may still be taken.
fn free(lua: &Lua, run: &SharedRun) -> usize {
    run.memory_max.saturating_sub(lua.used_memory() + run.outside.load(Ordering::Relaxed))
}

fn no_memory() -> mlua::Error {
    Raised::Text(b"not enough memory".to_vec()).into()
}
