//! LMDB through heed, which bundles it. Default flags: a put is a transaction and a sync.

use crate::{Failure, KvRival, Opened, Values};
use heed::types::Bytes;
use heed::{Database, Env, EnvOpenOptions};
use std::ops::Bound;
use std::path::Path;

struct Lmdb {
    env: Env,
    pairs: Database<Bytes, Bytes>,
}

fn said(error: heed::Error) -> Failure {
    Failure(format!("lmdb: {error}"))
}

pub(crate) fn open(folder: &Path) -> Opened {
    let mut options = EnvOpenOptions::new();
    options.map_size(16 << 30).max_readers(64);
    // SAFETY: the folder is this bench's own: no other program changes the files behind LMDB's
    // back, and each is opened once.
    let env = unsafe { options.open(folder) }.map_err(said)?;
    let mut txn = env.write_txn().map_err(said)?;
    let pairs = env.create_database(&mut txn, None).map_err(said)?;
    txn.commit().map_err(said)?;
    Ok(Box::new(Lmdb { env, pairs }))
}

impl KvRival for Lmdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut txn = self.env.write_txn().map_err(said)?;
        self.pairs.put(&mut txn, key, value).map_err(said)?;
        txn.commit().map_err(said)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let txn = self.env.read_txn().map_err(said)?;
        let found = self.pairs.get(&txn, key).map_err(said)?;
        value.clear();
        value.extend_from_slice(found.unwrap_or_default());
        Ok(found.is_some())
    }

    fn scan(&self, key: &[u8], count: usize, mut values: Values<'_>) -> Result<(usize, usize), Failure> {
        let txn = self.env.read_txn().map_err(said)?;
        let range = (Bound::Included(key), Bound::Unbounded);
        let mut sum = (0, 0);
        for pair in self.pairs.range(&txn, &range).map_err(said)?.take(count) {
            let (_, value) = pair.map_err(said)?;
            sum = (sum.0 + 1, sum.1 + value.len());
            if let Some(values) = &mut values {
                values.extend_from_slice(value);
            }
        }
        Ok(sum)
    }

    fn load(&self, pairs: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<(), Failure> {
        let mut txn = self.env.write_txn().map_err(said)?;
        for (key, value) in pairs {
            self.pairs.put(&mut txn, key, value).map_err(said)?;
        }
        txn.commit().map_err(said)
    }
}
