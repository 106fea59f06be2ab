//! What a [`PHashMap`] is besides a map: dropped, printed, compared, traced.

use super::{Header, Iter, PHashMap, Table};
use crate::schema::{Schema, Shape, TypeName};
use crate::{Journal, MemPool, Niche, PSafe, Tracer, running};
use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::ops::Index;

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Drop for PHashMap<K, V, P> {
    fn drop(&mut self) {
        if self.header.offset == 0 {
            return;
        }
        running::with_current::<P::Tag, _>(|running| {
            let Some(running) = running else { return };
            if std::mem::needs_drop::<(K, V)>() {
                let table = self.table();
                // SAFETY: entries, whose only owner is going.
                table.places().for_each(|place| unsafe { table.slot(place).drop_in_place() });
            }
            running.free(self.header.offset);
        });
    }
}

// SAFETY: an offset in the same pool and numbers; `At` differs in the brand.
unsafe impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> PSafe<P> for PHashMap<K, V, P> {
    type At<'x> = PHashMap<K::At<'x>, V::At<'x>, P::At<'x>>;
    const CELLS: u8 = 0;
    const NICHE: Niche = Niche::None;

    fn describe(schema: &mut Schema) -> TypeName {
        let (key, value) = (K::describe(schema), V::describe(schema));
        schema.define::<Self, P>(format!("PHashMap<{key}, {value}>").into(), |_| Shape::opaque::<Self>())
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        // SAFETY: the caller's: any bits are numbers.
        let Header { offset, groups, len, left, .. } = unsafe { this.cast::<Header>().read() };
        let groups = u64::from(groups);
        if offset == 0 {
            if (groups, len, left) != (0, 0, 0) {
                tracer.invalid(this.cast(), "a hash map that has entries and no block");
            }
            return;
        }
        let Some(bytes) = Table::<K, V>::bytes(groups).filter(|_| groups.is_power_of_two()) else {
            return tracer.invalid(this.cast(), "a hash map whose groups are no power of two");
        };
        if !tracer.part(offset, bytes as u64) {
            return;
        }
        let table = Table::<K, V>::new(tracer.address(offset), groups);
        let (entries, empties, sane) = table.count();
        if !sane || entries != len || left.checked_add(groups) != Some(empties) {
            let what = format!("a hash map of {len} entries and {left} free places has {entries} and {empties}");
            tracer.invalid(this.cast(), &what);
        }
        for place in table.places() {
            let (slot, value) = (table.slot(place), table.value(place));
            // SAFETY: inside the block, which is large enough for all places; a slot begins with its key.
            unsafe { K::trace(slot.cast(), tracer) };
            // SAFETY: as above.
            unsafe { V::trace(value, tracer) };
        }
    }
}

impl<K: PSafe<P>, V: PSafe<P>, P: MemPool> Default for PHashMap<K, V, P> {
    fn default() -> Self {
        PHashMap::new()
    }
}

impl<K: PSafe<P> + Hash + Eq + Clone, V: PSafe<P> + Clone, P: MemPool> PHashMap<K, V, P> {
    /// A map with clones of the entries.
    pub fn pclone(&self, j: &Journal<P>) -> PHashMap<K, V, P> {
        PHashMap::from_iter(self.iter().map(|(key, value)| (key.clone(), value.clone())), j)
    }
}

impl<'s, K: PSafe<P>, V: PSafe<P>, P: MemPool> IntoIterator for &'s PHashMap<K, V, P> {
    type Item = (&'s K, &'s V);
    type IntoIter = Iter<'s, K, V>;

    fn into_iter(self) -> Iter<'s, K, V> {
        self.iter()
    }
}

impl<K, V, Q: Hash + Eq + ?Sized, P: MemPool> Index<&Q> for PHashMap<K, V, P>
where
    K: PSafe<P> + Hash + Eq + Borrow<Q>,
    V: PSafe<P>,
{
    type Output = V;

    /// # Panics
    /// If `key` has no value.
    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("no entry found for key")
    }
}

impl<K: PSafe<P> + fmt::Debug, V: PSafe<P> + fmt::Debug, P: MemPool> fmt::Debug for PHashMap<K, V, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<K: PSafe<P> + Hash + Eq, V: PSafe<P> + PartialEq, P: MemPool> PartialEq for PHashMap<K, V, P> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: PSafe<P> + Hash + Eq, V: PSafe<P> + Eq, P: MemPool> Eq for PHashMap<K, V, P> {}
