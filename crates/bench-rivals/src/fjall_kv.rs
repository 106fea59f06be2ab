//! fjall with its default options: a put is an insert, then the journal synced (`fdatasync`).

use crate::{Failure, KvRival, Opened, Values};
use fjall::{Config, Keyspace, PartitionCreateOptions, PartitionHandle, PersistMode};
use std::fmt::Display;
use std::path::Path;

/// Pairs of one batch while loading.
const BATCH: usize = 10_000;

struct Fjall {
    pairs: PartitionHandle,
    keyspace: Keyspace,
}

fn said(error: impl Display) -> Failure {
    Failure(format!("fjall: {error}"))
}

pub(crate) fn open(folder: &Path) -> Opened {
    let keyspace = Config::new(folder.join("fjall")).open().map_err(said)?;
    let pairs = keyspace.open_partition("pairs", PartitionCreateOptions::default()).map_err(said)?;
    Ok(Box::new(Fjall { pairs, keyspace }))
}

impl KvRival for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.pairs.insert(key, value).map_err(said)?;
        self.keyspace.persist(PersistMode::SyncData).map_err(said)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let found = self.pairs.get(key).map_err(said)?;
        value.clear();
        value.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }

    fn scan(&self, key: &[u8], count: usize, mut values: Values<'_>) -> Result<(usize, usize), Failure> {
        let mut sum = (0, 0);
        for pair in self.pairs.range(key..).take(count) {
            let (_, value) = pair.map_err(said)?;
            sum = (sum.0 + 1, sum.1 + value.len());
            if let Some(values) = &mut values {
                values.extend_from_slice(&value);
            }
        }
        Ok(sum)
    }

    fn load(&self, pairs: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<(), Failure> {
        let mut pairs = pairs.peekable();
        while pairs.peek().is_some() {
            let mut batch = self.keyspace.batch();
            for (key, value) in pairs.by_ref().take(BATCH) {
                batch.insert(&self.pairs, key, value);
            }
            batch.commit().map_err(said)?;
        }
        self.keyspace.persist(PersistMode::SyncData).map_err(said)
    }
}
