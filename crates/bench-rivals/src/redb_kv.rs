//! redb with its default durability: a put is a transaction, synced.

use crate::{Failure, KvRival, Opened, Values};
use redb::{Database, ReadableDatabase, TableDefinition};
use std::fmt::Display;
use std::path::Path;

const PAIRS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");

struct Redb(Database);

fn said(error: impl Display) -> Failure {
    Failure(format!("redb: {error}"))
}

pub(crate) fn open(folder: &Path) -> Opened {
    let database = Database::create(folder.join("redb")).map_err(said)?;
    let txn = database.begin_write().map_err(said)?;
    txn.open_table(PAIRS).map_err(said)?;
    txn.commit().map_err(said)?;
    Ok(Box::new(Redb(database)))
}

impl KvRival for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let txn = self.0.begin_write().map_err(said)?;
        txn.open_table(PAIRS).map_err(said)?.insert(key, value).map_err(said)?;
        txn.commit().map_err(said)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        let txn = self.0.begin_read().map_err(said)?;
        let found = txn.open_table(PAIRS).map_err(said)?.get(key).map_err(said)?;
        value.clear();
        if let Some(found) = &found {
            value.extend_from_slice(found.value());
        }
        Ok(found.is_some())
    }

    fn scan(&self, key: &[u8], count: usize, mut values: Values<'_>) -> Result<(usize, usize), Failure> {
        let txn = self.0.begin_read().map_err(said)?;
        let table = txn.open_table(PAIRS).map_err(said)?;
        let mut sum = (0, 0);
        for pair in table.range(key..).map_err(said)?.take(count) {
            let (_, value) = pair.map_err(said)?;
            sum = (sum.0 + 1, sum.1 + value.value().len());
            if let Some(values) = &mut values {
                values.extend_from_slice(value.value());
            }
        }
        Ok(sum)
    }

    fn load(&self, pairs: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<(), Failure> {
        let txn = self.0.begin_write().map_err(said)?;
        {
            let mut table = txn.open_table(PAIRS).map_err(said)?;
            for (key, value) in pairs {
                table.insert(key, value).map_err(said)?;
            }
        }
        txn.commit().map_err(said)
    }
}
