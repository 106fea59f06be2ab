//! Uses of a store's tables in this process: many servers and exports, or one import.
//!
//! Another process cannot have the object of the tables open (SHARE-3 of the store), so an import
//! that holds this has the server's tables alone. Other threads of the process can still write the
//! object by the functions of `kv`; an import notices that (IMPORT-3).

use crate::error::{Error, Result};
use everbyte_kv::Kv;
use everbyte_kv::raw::tree_address;
use parking_lot::Mutex;
use std::collections::HashMap;

/// By the address of the tree, which stays while a use holds it.
static USES: Mutex<Option<HashMap<usize, Uses>>> = Mutex::new(None);

#[derive(Clone, Copy)]
enum Uses {
    Import,
    Others(usize),
}

/// One use, until it is dropped.
pub(super) struct TablesUse {
    kv: Kv,
}

impl TablesUse {
    /// Of a server or an export; of an import if it is `alone`.
    pub(super) fn begin(kv: &Kv, alone: bool) -> Result<TablesUse> {
        let mut uses = USES.lock();
        let uses = uses.get_or_insert_default();
        let next = match (uses.get(&tree_address(kv)), alone) {
            (None, true) => Uses::Import,
            (None, false) => Uses::Others(1),
            (Some(Uses::Others(count)), false) => Uses::Others(count + 1),
            (Some(Uses::Others(_)), true) => return Err(Error::Served),
            (Some(Uses::Import), _) => return Err(Error::Importing),
        };
        uses.insert(tree_address(kv), next);
        Ok(TablesUse { kv: kv.clone() })
    }
}

impl Drop for TablesUse {
    fn drop(&mut self) {
        let (mut uses, address) = (USES.lock(), tree_address(&self.kv));
        let Some(uses) = &mut *uses else { return };
        match uses.get(&address).copied() {
            Some(Uses::Others(count)) if count > 1 => drop(uses.insert(address, Uses::Others(count - 1))),
            _ => drop(uses.remove(&address)),
        }
    }
}
