//! [`PHashMap`] as a persistent type: dropped, described, traced.

use super::table::EntryTable;
use super::{HashMapHeader, PHashMap, tags};
use crate::description::schema::{Schema, TypeName};
use crate::migrate::{Moving, PartId, Planner, Refusal};
use crate::types::entry::MapEntry;
use crate::{MemPool, Niche, PSafe, Tracer, transaction::pool, transaction::running};

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Drop for PHashMap<K, V, P> {
    fn drop(&mut self) {
        if self.header.offset == 0 {
            return;
        }
        running::with_current::<P::Tag, _>(|running| {
            let Some(running) = running else { return };
            if !std::mem::needs_drop::<(K, V)>() {
                return running.free(self.header.offset);
            }
            // SAFETY: a table of so many groups, whose only owner is going.
            unsafe { running.drop_block(self.header.offset, self.header.groups.into(), contents::<K, V>) };
        });
    }
}

/// Drops the entries of a table: a map in a map in a map does not overflow the stack.
unsafe fn contents<K, V>(at: *mut u8, groups: u64) {
    let table = EntryTable::<K, V>::new(at, groups);
    // SAFETY: the caller's: entries, whose only owner is going.
    table.places().for_each(|place| unsafe { table.entry(place).drop_in_place() });
}

// SAFETY: an offset in the same pool and numbers; `At` differs in the brand.
unsafe impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> PSafe<P> for PHashMap<K, V, P> {
    type At<'x> = PHashMap<K::At<'x>, V::At<'x>, P::At<'x>>;
    type Outside = PHashMap<K::Outside, V::Outside, P::Outside>;
    const CELLS: u8 = 0;
    const NICHE: Niche = Niche::None;

    fn describe(schema: &mut Schema) -> TypeName {
        schema.map::<Self, K, V, P>("PHashMap", |_, _| ())
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        tracer.table::<K, V, P>(this.cast());
    }

    fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
        planner.map::<Self, K, V>(stored, "PHashMap", None)
    }

    /// Entries keep their places; keys of another type are found by passing over all of them, until
    /// the table is built anew.
    unsafe fn moved(from: *const u8, part: PartId, moving: &Moving<'_, P>) -> Self {
        // SAFETY: the caller's: the six words of a map.
        let header = unsafe { from.cast::<HashMapHeader>().read() };
        let stored = moving.stored_entries(from, part);
        let mut map = PHashMap::new();
        map.header = header;
        if header.offset == 0 {
            return map;
        }
        let (running, groups) = (moving.journal().running(), u64::from(header.groups));
        let bytes = tags::bytes(groups, MapEntry::<K, V>::SIZE as u64).expect("more bytes than there are addresses");
        let (offset, _) = running.allocate_sized(bytes as usize);
        moving.count_made(offset);
        let at = |offset: u64| pool::base::<P>().wrapping_add(offset as usize);
        // SAFETY: the tags of both blocks, of which this transaction has made the second.
        unsafe { at(offset).copy_from_nonoverlapping(at(header.offset), tags::before(groups) as usize) };
        map.header.offset = offset;
        map.header.dialect = if stored.same_keys { header.dialect } else { 0 };
        for (place, from) in stored.entries {
            // SAFETY: an entry that the plan describes (MOVE-5), whose key is read once.
            let key = unsafe { moving.field(from, stored.part, 0) };
            // SAFETY: as above, for its value.
            let value = unsafe { moving.field(from, stored.part, 1) };
            // SAFETY: its place in the new block.
            unsafe { map.table().entry(place).write(MapEntry { key, value }) };
        }
        stored.blocks.into_iter().for_each(|block| running.free(block));
        map
    }
}
