//! Compaction of a whole key-value store, while it is written to.

use crate::{Error, Kv, Result};

/// The figures of one [`Kv::compact`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Entries that it has looked at; some of them twice, where nodes were merged meanwhile.
    pub entries: u64,
    /// Leaves that it has replaced.
    pub replaced: u64,
    /// Full leaves in their place.
    pub written: u64,
    /// Bytes of the tree's blocks before.
    pub before: u64,
    /// And after.
    pub after: u64,
    /// Bytes given back to the file system.
    pub trimmed: u64,
}

impl Kv {
    /// Gives all space back that it can: dead entries are reclaimed, thinly filled leaves of all
    /// tables are written anew as full ones, as a bulk load fills them, and what the store no
    /// longer needs goes back to the file system. `progress` receives how many entries each step
    /// has looked at.
    ///
    /// Other threads read and write meanwhile: a step holds the writer's lock for the leaves below
    /// one node, some 6000 entries at most, and is a commit of its own, settled before the next
    /// one begins. So a crash, or an error, leaves the steps done until then. A step needs room for
    /// the leaves that it writes, before it gives back the old ones.
    ///
    /// Snapshots, ranges and named versions keep what they see: while an old one is there, a
    /// compaction takes more space instead of less. The next put to a full leaf writes it anew,
    /// with room, so a store that is written to at random grows again.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
    /// # let kv = everbyte_kv::Kv::open_or_create(&store, "kv")?;
    /// let mut batch = kv.batch();
    /// for number in 0..1000_u32 {
    ///     batch.put(&number.wrapping_mul(0x9E37_79B1).to_be_bytes(), b"value")?;
    /// }
    /// kv.settle(batch.commit()?)?;
    /// let mut seen = 0;
    /// let done = kv.compact(&mut |entries| seen += entries)?;
    /// assert!(done.after < done.before && seen == 1000);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Kv::put`]: out of space, damage.
    pub fn compact(&self, progress: &mut dyn FnMut(u64)) -> Result<Compacted> {
        if self.store.is_read_only() {
            return Err(Error::ReadOnly { object: self.name().into() });
        }
        let mut done = Compacted { before: self.allocated()?, ..Compacted::default() };
        while self.reclaim()? {}
        let mut next = Some(Vec::new());
        while let Some(from) = next {
            let mut batch = self.tree.begin()?;
            let step = batch.compact_at(&from)?;
            let commit = batch.commit()?;
            self.tree.settle(commit)?;
            while step.replaced > 0 && self.reclaim()? {}
            done.entries += step.entries;
            done.replaced += step.replaced;
            done.written += step.written;
            progress(step.entries);
            next = step.next;
        }
        while self.reclaim()? {}
        done.after = self.allocated()?;
        done.trimmed = self.store.trim()?;
        Ok(done)
    }

    /// Bytes of the blocks that all tables and versions take, those included that are still to be
    /// given back. Waits for a batch of another thread; the cost is that of a look at the heap's
    /// tables, a 128th of its bytes.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
    /// # let kv = everbyte_kv::Kv::open_or_create(&store, "kv")?;
    /// let before = kv.allocated()?;
    /// kv.put(b"key", &[7; 100_000])?;
    /// assert!(kv.allocated()? >= before + 100_000);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Damage of the heap; a batch in this thread.
    pub fn allocated(&self) -> Result<u64> {
        let _batch = self.tree.begin()?;
        Ok(self.tree.heap().usage()?.allocated)
    }
}
