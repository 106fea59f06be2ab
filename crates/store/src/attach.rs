//! Attaching a store to media that are open: steps 1 to 3 of opening (`recover`).

use crate::catalogue::name_space;
use crate::catalogue::record;
use crate::catalogue::recovery::reflush;
use crate::catalogue::table::CatalogueTable;
use crate::recover::Recovery;
use crate::sharing::SharedStore;
use crate::store::Parts;
use crate::superblock::copies;
use crate::superblock::words::Words;
use crate::{CLUSTER, Files, Result, Store};
use everbyte_media::{Media, seeded};
use everbyte_members::JoinLock;
use everbyte_names::LastClose;
use everbyte_space::Bitmap;
use std::sync::Arc;

impl Store {
    /// The store on media that is already open, recovered.
    ///
    /// # Errors
    /// [`crate::Error::NotAStore`], [`crate::Error::Unfinished`], [`crate::Error::NewerFormat`],
    /// [`crate::Error::Damaged`], [`crate::Error::Truncated`]: nothing has been changed then.
    /// [`crate::Error::Media`].
    pub fn attach(media: Media) -> Result<Store> {
        Store::attach_by(media, None)
    }

    /// [`Store::attach`] with these files in place of the system's; see [`Store::set_files`].
    ///
    /// # Errors
    /// As [`Store::attach`].
    #[doc(hidden)]
    pub fn attach_with_files(media: Media, files: Arc<dyn Files>) -> Result<Store> {
        Store::attach_by(media, Some(files))
    }

    fn attach_by(media: Media, files: Option<Arc<dyn Files>>) -> Result<Store> {
        let (superblock, stale) = copies::choose(&media)?;
        let mut words = Words::read(&media)?;
        let slots = record::read_all(&media, &superblock, record::places(&superblock));
        let clean = words.closed == words.opened;
        let last = if clean { LastClose::Clean } else { LastClose::Crashed };
        let trie = name_space::find(&media, &superblock, &slots, last)?;

        if !clean || words.opened == 0 {
            reflush(&media, &superblock, &slots); // STORE-8
        }
        let mut recovery = Recovery { clean, words: Words::bad(&media), ..Recovery::default() };
        if !stale.is_empty() {
            copies::write(&media, superblock, &stale)?;
            recovery.superblocks = stale;
        }
        let len = media.len().max(media.found_len()).min(superblock.end()).next_multiple_of(CLUSTER);
        let used = Bitmap::new(superblock.used_at, superblock.bitmap_len);
        let used = used.end(&media, superblock.spans_at.get()..len.max(superblock.spans_at.get()));
        let known = used.max(words.accounted);
        if known < len {
            // Bytes that no count covers: an extension that did not come to count, or bytes of
            // another program.
            recovery.unknown = len - known;
            let start = if words.suspect.is_empty() { known } else { words.suspect.start.min(known) };
            words.suspect = start & !(CLUSTER - 1)..words.suspect.end.max(len);
        }
        if recovery.unknown > 0 && !seeded("store-suspect-unordered") {
            words.write_suspect(&media);
            media.fence(); // before the count that leaves no byte unknown
        }
        words.accounted = known.max(len);
        words.opened = words.opened.max(words.closed) + 1;
        if !clean && media.fences_settle() {
            words.after_death = words.opened; // for later openings too: this one sees a part (STORE-8)
        }
        let after_death = words.after_death != 0 && !seeded("store-close-hides-a-death");
        words.write(&media);
        media.fence();
        let table = CatalogueTable::new(&superblock, &slots, trie);
        let mut parts = Parts::new(media, superblock, words, table, last);
        files.into_iter().for_each(|files| parts.backing().set_files(files));
        parts.catalogue().lock().recover(slots, parts.backing(), &mut recovery)?;
        let media = parts.media();
        media.barrier()?;
        parts.growth().limit(&superblock);
        let keeps = media.capabilities().shared && !media.is_recorded() && !media.opened().read_only;
        parts.growth().background().keep(keeps);
        parts.set_recovery(recovery);
        parts.set_after_death(after_death);
        Ok(Store::of(parts))
    }

    /// The store on media that other processes have recovered and use: changes nothing. The first
    /// acquisition of the store's lock reads the names.
    fn join(media: Media) -> Result<Store> {
        let (superblock, _) = copies::choose(&media)?;
        let words = Words::read(&media)?;
        let mut parts = Parts::new(media, superblock, words, CatalogueTable::default(), LastClose::Clean);
        parts.growth().limit(&superblock);
        parts.set_recovery(Recovery { clean: true, ..Recovery::default() });
        Ok(Store::of(parts))
    }

    /// [`Store::attach`] for one of several members of media without a file: tests share a store
    /// within a process by it.
    ///
    /// # Errors
    /// As [`Store::attach`].
    pub fn attach_shared(media: Media) -> Result<Store> {
        if !media.capabilities().shared {
            return Store::attach(media);
        }
        let joining = media.lock_joining()?;
        Store::share(media, joining)
    }

    /// The store on media that this process joins.
    pub(crate) fn share(media: Media, joining: JoinLock) -> Result<Store> {
        let is_first = joining.is_alone();
        let store = if is_first { Store::attach(media)? } else { Store::join(media)? };
        let shared = SharedStore::join(store.media().clone(), joining, is_first, store.generation())?;
        store.parts().sharing().begin(shared);
        store.parts().catalogue().ids().share();
        store.parts().growth().background().keep(false);
        Ok(store)
    }
}
