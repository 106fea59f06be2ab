//! Recovery of the catalogue: steps 4 to 6 of opening (`recover`).
//!
//! Invariants
//!   STORE-8  No store of recovery survives a crash without the bytes that it was decided by: a
//!            dead process may have left those bytes unflushed.

use super::part::{Catalogue, LockedCatalogue};
use super::record::{self, Entry, Slot};
use crate::layout::{Record, SUPERBLOCKS, Superblock};
use crate::object::backing::BackingFiles;
use crate::recover::Recovery;
use crate::{HEADER_LEN, PRIME_LEN, Result};
use everbyte_media::{Media, seeded};
use everbyte_names::LastClose;
use everbyte_space::{Bitmap, CLUSTER};

/// Flushes and fences the bytes that the decisions of recovery rest on.
pub(crate) fn reflush(media: &Media, superblock: &Superblock, slots: &[(u64, Slot)]) {
    for at in SUPERBLOCKS {
        media.reflush(at, size_of::<Superblock>() as u64);
    }
    record::places(superblock).for_each(|at| media.reflush(at, 8));
    for (_, slot) in slots {
        let Some(entry) = slot.entry() else { continue };
        if matches!(slot, Slot::Creating(_)) {
            reflush_first_bit(media, superblock, entry);
        }
        // An object that is being created may have no first cluster yet.
        if matches!(slot, Slot::Live(_)) || !media.is_hole(entry.span.at(), PRIME_LEN) {
            reflush_header(media, entry);
        }
    }
    media.fence();
}

/// A recovery that died may have cleared the bit of a creation whose header is torn. That is torn
/// before the first fence behind it alone, when one bit was set at most.
fn reflush_first_bit(media: &Media, superblock: &Superblock, entry: &Entry) {
    let (at, backed) = (entry.span.at(), Bitmap::new(superblock.bitmap_at, superblock.bitmap_len));
    if !seeded("store-first-bit-unflushed") {
        backed.reflush(media, &(at..at + CLUSTER));
    }
}

fn reflush_header(media: &Media, entry: &Entry) {
    if media.holds(entry.span.at(), HEADER_LEN) {
        media.reflush(entry.span.at(), HEADER_LEN);
    }
}

impl Catalogue {
    /// Steps 4 to 6 for a process that died while it held the store's lock. The caller holds the
    /// lock now; other processes go on.
    pub(crate) fn inherit(&self, backing: &BackingFiles) -> Result<()> {
        let slots = self.refresh(LastClose::Crashed)?;
        let (media, superblock) = {
            let locked = self.lock();
            (locked.media(), locked.superblock())
        };
        reflush(media, &superblock, &slots); // STORE-8
        self.lock().recover(slots, backing, &mut Recovery::default())?;
        Ok(media.barrier()?)
    }
}

impl LockedCatalogue<'_> {
    /// Steps 4 to 6. A damaged structure stays as it is: its use reports the damage.
    pub(crate) fn recover(
        &mut self,
        slots: Vec<(u64, Slot)>,
        backing: &BackingFiles,
        recovery: &mut Recovery,
    ) -> Result<()> {
        let (media, mut pending) = (self.media(), Vec::new());
        if let Some((trie, clusters)) = self.trie() {
            clusters.growth.recover(&clusters.entry, recovery);
            trie.recover_intents()?;
            pending = trie.pending_changes();
        }
        for (slot, at) in pending {
            self.table().add_pending(slot, at);
            let found = record::read(media, &self.superblock(), at);
            // A free record, too: the next object writes into it.
            media.reflush(at, size_of::<Record>() as u64);
            if let Slot::Creating(entry) = &found {
                reflush_first_bit(media, &self.superblock(), entry);
            }
            if let Some(entry) = found.entry()
                && !media.is_hole(entry.span.at(), PRIME_LEN)
            {
                reflush_header(media, entry);
            }
            media.fence(); // STORE-8
            self.recover_slot(&found, backing, recovery);
            self.table().end_change(at);
        }
        for (_, slot) in slots {
            self.recover_slot(&slot, backing, recovery);
        }
        Ok(())
    }

    fn recover_slot(&mut self, slot: &Slot, backing: &BackingFiles, recovery: &mut Recovery) {
        if self.recover_rename(slot) {
            return;
        }
        let (entry, list) = match slot {
            Slot::Creating(entry) => (entry, &mut recovery.creations),
            Slot::Removing(entry) => {
                backing.remove_of(entry); // STORE-14
                (entry, &mut recovery.removals)
            }
            Slot::Live(entry) => return self.growth().recover(entry, recovery),
            Slot::Free | Slot::Replacing(_) | Slot::Damaged(_) => return,
        };
        list.push(entry.name.clone());
        let _ = self.release_record(entry); // `check` reports a damaged name space
    }
}
