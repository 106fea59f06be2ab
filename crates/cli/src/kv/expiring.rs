//! Tables whose entries may have deadlines: `kv put --ttl` makes them, other commands find out.

use super::{TablePath, close};
use crate::failure::Failure;
use crate::output::Output;
use everbyte_kv::{Error, ExpiringTable, Kv, SystemClock};
use serde_json::json;

/// Entries that one sweep removes at most.
const SWEEP: usize = 1000;
/// Behind the name of a table with deadlines: the table that lists them.
const INDEX: &str = ".expiry";

impl TablePath {
    /// The table with a name, if its entries may have deadlines.
    pub(super) fn expiring(&self, kv: &Kv) -> Result<Option<ExpiringTable>, Failure> {
        let Some(name) = &self.within else { return Ok(None) };
        match ExpiringTable::open(kv, name, SystemClock) {
            Err(Error::NoTable { .. }) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// As [`TablePath::expiring`], for writing: the list of deadlines is not written to by itself.
    pub(super) fn expiring_to_write(&self, kv: &Kv) -> Result<Option<ExpiringTable>, Failure> {
        let owner = self.within.as_deref().and_then(|name| name.strip_suffix(INDEX));
        if let Some(owner) = owner.filter(|owner| ExpiringTable::open(kv, owner, SystemClock).is_ok()) {
            return Err(Failure::Words(format!("this table lists the deadlines of `{owner}`: write to that one")));
        }
        self.expiring(kv)
    }

    /// Refuses a table with deadlines: the command writes values that have none.
    pub(super) fn require_plain(&self, kv: &Kv) -> Result<(), Failure> {
        match self.expiring_to_write(kv)? {
            None => Ok(()),
            Some(table) => {
                let name = table.name();
                Err(Failure::Words(format!(
                    "entries of `{name}` have deadlines: use `kv put`, with `--ttl` or without"
                )))
            }
        }
    }
}

pub(super) fn expire(place: &TablePath, output: &Output) -> Result<(), Failure> {
    let (store, kv) = place.read()?;
    let table = place.expiring(&kv)?;
    let table = table.ok_or_else(|| Failure::Words("name a table with deadlines by `--in`".into()))?;
    let mut removed = 0;
    loop {
        let swept = table.expire(SWEEP)?;
        removed += swept.keys;
        if !swept.more {
            break;
        }
    }
    drop(table);
    while kv.reclaim()? {}
    close(store, kv)?;
    output.say(format!("removed {removed} entries"), json!({ "removed": removed }))
}
