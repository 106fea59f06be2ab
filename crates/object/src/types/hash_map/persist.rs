//! [`PHashMap`] as a persistent type: dropped, described, traced.

use super::PHashMap;
use super::table::EntryTable;
use crate::description::schema::{Schema, TypeName};
use crate::{MemPool, Niche, PSafe, Tracer, transaction::running};

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
}
