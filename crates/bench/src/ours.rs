//! Our key-value store as the rivals look: the same calls, the same copies.

use everbyte_bench_rivals::{Failure, KvRival, Opened, Values, open_kv};
use everbyte_kv::Kv;
use everbyte_media::Options;
use everbyte_store::{CreateOptions, Store};
use std::path::Path;

/// The name of ours among the rivals.
pub const NAME: &str = "everbyte";
/// The declared maximum of bench stores.
const MAX: u64 = 16 << 30;
/// Pairs of one batch while loading.
const BATCH: usize = 1000;

/// An open store with one ordered key-value object.
pub struct Ours {
    kv: Kv,
    /// The store it lies in.
    pub store: Store,
}

fn said(error: impl std::fmt::Display) -> Failure {
    Failure(format!("everbyte: {error}"))
}

impl Ours {
    /// Opens the store in `folder`, or creates it: on tmpfs the backend is `shm`, on a disk `file`,
    /// synced always.
    ///
    /// # Errors
    /// The store's own words.
    pub fn open(folder: &Path) -> Result<Ours, Failure> {
        let path = folder.join("everbyte");
        let options = Options::default();
        let store = if path.exists() {
            Store::open(&path, &options)
        } else {
            Store::create(&path, &CreateOptions { media: options, max: MAX, ..CreateOptions::default() })
        };
        let store = store.map_err(said)?;
        Ok(Ours { kv: Kv::open_or_create(&store, "bench").map_err(said)?, store })
    }

    /// The key-value object.
    pub fn kv(&self) -> &Kv {
        &self.kv
    }
}

impl KvRival for Ours {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.kv.put(key, value).map_err(said)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let found = self.kv.get(key).map_err(said)?;
        value.clear();
        value.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }

    fn scan(&self, key: &[u8], count: usize, mut values: Values<'_>) -> Result<(usize, usize), Failure> {
        let mut range = self.kv.range(key..);
        let mut sum = (0, 0);
        while sum.0 < count
            && let Some(entry) = range.next_entry().map_err(said)?
        {
            sum = (sum.0 + 1, sum.1 + entry.value_len() as usize);
            if let Some(values) = &mut values {
                values.extend_from_slice(entry.read().map_err(said)?.1);
            }
        }
        Ok(sum)
    }

    fn load(&self, pairs: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<(), Failure> {
        let mut last = None;
        loop {
            let mut batch = self.kv.batch();
            let mut count = 0;
            for (key, value) in (&mut *pairs).take(BATCH) {
                batch.put(key, value).map_err(said)?;
                count += 1;
            }
            if count == 0 {
                break;
            }
            last = Some(batch.commit().map_err(said)?);
        }
        last.map_or(Ok(()), |commit| self.kv.settle(commit).map_err(said))
    }
}

/// Opens ours or a rival by name.
///
/// # Errors
/// Its own words.
pub fn open(name: &str, folder: &Path) -> Opened {
    if name == NAME { Ok(Box::new(Ours::open(folder)?)) } else { open_kv(name, folder) }
}
