//! The tables in which a server keeps what is more than a plain string of database 0.
//!
//! The main table holds the plain strings of database 0, key and value as they are, so that a
//! program which embeds the store shares them with the server's clients. Beside it are
//!
//! | table | key | value |
//! |---|---|---|
//! | `server/keys` | space, key | a record (`record.rs`) |
//! | `server/elements` | space, id of a collection, element | of the type's own |
//! | `server/deadlines` | space, deadline, key | nothing |
//! | `server/state` | a name | `layout`, `next id`, `spaces`, `import` (`imports.rs`), `function ` and the name of a library |
//! | `server/replication` | a name | `history`, `origin`, `primary`; made when it is needed |
//!
//! A space is a byte: that of a database (`databases.rs`). Ids and deadlines are 8 bytes,
//! big-endian.
//!
//! Invariants
//!   KEYS-1  A key is in the main table or in the table of keys, never in both.
//!   KEYS-2  A record with a deadline, and no other, has its entry in the table of deadlines.
//!   KEYS-3  A collection's count is the number of its elements, of which a sorted set has two a
//!           member, and a stream counts its state and entries alone; it is not 0.
//!
//! Format: `docs/formats/server.md`.

use super::databases::Spaces;
use super::functions::FunctionChanges;
use super::used::Used;
use super::uses::TablesUse;
use super::{stored_key, unstored_key};
use crate::error::{Error, Result};
use everbyte_kv::{Error as KvError, Kv, KvTable};
use everbyte_media::{Damage, Format, seeded};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// The layout that this program reads and writes.
pub(super) const LAYOUT: u64 = 1;
/// Names of the tables: keys, elements, deadlines, state.
pub(super) const NAMES: [&str; 4] = ["server/keys", "server/elements", "server/deadlines", "server/state"];
/// The name of the table of facts about replication, which are not sent to replicas.
pub(crate) const LOCAL: &str = "server/replication";
/// Databases of a server.
pub(crate) const DATABASES: usize = 16;

/// The name of the spaces of the databases in the table of state.
pub(super) const SPACES: &[u8] = b"spaces";

/// The table served, and the tables beside it.
pub(crate) struct Tables {
    pub kv: Kv,
    pub keys: KvTable,
    pub elements: KvTable,
    pub deadlines: KvTable,
    pub state: KvTable,
    /// Facts about replication, once there are any.
    local: OnceLock<KvTable>,
    _in_use: TablesUse,
    /// The spaces of the databases as of the opening.
    pub(super) spaces: Spaces,
}

impl Tables {
    /// Opens the tables; makes them, whole or not at all, where there are none.
    pub(crate) fn open(kv: Kv) -> Result<Tables> {
        Tables::open_for(kv, None)
    }

    /// Opens the tables for an import, which has them alone. `clears`: keys that an unfinished
    /// import has left are deleted if those of before it cannot come back.
    pub(crate) fn open_to_import(kv: Kv, clears: bool) -> Result<Tables> {
        Tables::open_for(kv, Some(clears))
    }

    fn open_for(kv: Kv, import: Option<bool>) -> Result<Tables> {
        let in_use = TablesUse::begin(&kv, import.is_some())?;
        let store = |source| Error::Open { source };
        let [keys, elements, deadlines, state] = Tables::named(&kv).map_err(store)?;
        let found = state.get(b"layout").and_then(word).map_err(store)?;
        if found != LAYOUT {
            return Err(Error::Layout { format: Format::new(found, LAYOUT) });
        }
        super::imports::recover(&kv, [&keys, &elements, &deadlines, &state], import == Some(true)).map_err(store)?;
        let spaces = state.get(SPACES).and_then(Spaces::parse).map_err(store)?;
        let local = OnceLock::new();
        match kv.open_table(LOCAL) {
            Ok(table) => drop(local.set(table)),
            Err(KvError::NoTable { .. }) => {}
            Err(source) => return Err(store(source)),
        }
        Ok(Tables { kv, keys, elements, deadlines, state, local, _in_use: in_use, spaces })
    }

    /// The table of facts about replication, if there are any.
    pub(crate) fn local(&self) -> Option<&KvTable> {
        self.local.get()
    }

    /// The same; it is made if there is none. The caller has no batch.
    pub(crate) fn make_local(&self) -> everbyte_kv::Result<&KvTable> {
        if self.local.get().is_none() {
            let _ = self.local.set(self.kv.open_or_create_table(LOCAL)?);
        }
        Ok(self.local.get().expect("just set"))
    }

    fn named(kv: &Kv) -> everbyte_kv::Result<[KvTable; 4]> {
        if seeded("server-tables-apart") {
            kv.open_or_create_table(NAMES[0])?;
        }
        let mut batch = kv.batch();
        if !matches!(batch.open_table(NAMES[3]), Err(KvError::NoTable { .. })) {
            let [keys, elements, deadlines, state] = NAMES.map(|name| batch.open_table(name));
            return Ok([keys?, elements?, deadlines?, state?]);
        }
        let [keys, elements, deadlines, state] = NAMES.map(|name| batch.create_table(name));
        let tables = [keys?, elements?, deadlines?, state?];
        batch.table(&tables[3])?.put(b"layout", &LAYOUT.to_le_bytes())?;
        let commit = batch.commit()?;
        kv.settle(commit)?;
        Ok(tables)
    }
}

/// Facts about the tables, kept from one iteration to the next so that they need not be read. They
/// are read anew after a batch was lost.
pub(crate) struct Remembered {
    /// Records of each space; `None`: not counted yet.
    pub counts: [Option<u64>; DATABASES],
    /// The next id.
    pub next_id: u64,
    /// Ids below this are reserved in the store.
    pub id_end: u64,
    /// The spaces of the databases.
    pub spaces: Spaces,
    /// Changes of functions.
    pub functions: FunctionChanges,
    /// The bytes that the data takes, if they are counted.
    pub used: Used,
    /// The state of the random numbers.
    random: u64,
}

impl Default for Remembered {
    fn default() -> Remembered {
        let random = RandomState::new().build_hasher().finish();
        let counts = [None; DATABASES];
        let (spaces, functions) = (Spaces::default(), FunctionChanges::default());
        let used = Used::default();
        Remembered { counts, next_id: 0, id_end: 0, spaces, functions, used, random }
    }
}

impl Remembered {
    /// The facts as a server opens its tables.
    pub(crate) fn opened(tables: &Tables) -> Remembered {
        Remembered { spaces: tables.spaces, ..Remembered::default() }
    }

    /// The next random number.
    pub(crate) fn random(&mut self) -> u64 {
        random(&mut self.random)
    }

    /// The keys are others now: those of a primary, or its own again.
    pub(crate) fn forget_all(&mut self) {
        (self.counts, self.next_id, self.id_end) = ([None; DATABASES], 0, 0);
        self.used.recount();
    }

    /// A batch was lost.
    pub(crate) fn forget(&mut self) {
        if !seeded("server-counts-kept") {
            self.counts = [None; DATABASES];
        }
        self.spaces.forget();
        self.functions.forget();
        if seeded("server-ids-after-loss") {
            return;
        }
        self.id_end = self.next_id; // ids are never given twice, though their reservation is gone
    }
}

/// The next random number of a sequence: SplitMix64.
pub(super) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A number of the table of state.
fn word(value: Option<Vec<u8>>) -> everbyte_kv::Result<u64> {
    let bytes = value.and_then(|value| <[u8; 8]>::try_from(value).ok());
    bytes.map(u64::from_le_bytes).ok_or_else(|| damage("a number of the server's table of state is malformed"))
}

fn damage(detail: &str) -> KvError {
    KvError::from(Damage { detail: detail.into(), ..Damage::default() })
}

/// The key of a record.
pub(crate) fn record_key(space: u8, key: &[u8]) -> Vec<u8> {
    [&[space], stored_key(key)].concat()
}

/// The key of an element; with nothing behind it, the prefix of all of a collection's.
pub(crate) fn element_key(space: u8, id: u64, element: &[u8]) -> Vec<u8> {
    [&[space][..], &id.to_be_bytes(), element].concat()
}

/// The key in the table of deadlines.
pub(crate) fn deadline_key(space: u8, deadline: u64, key: &[u8]) -> Vec<u8> {
    [&[space][..], &deadline.to_be_bytes(), stored_key(key)].concat()
}

/// Space, deadline and key of a key in the table of deadlines.
pub(super) fn parse_deadline_key(stored: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (space, rest) = stored.split_first()?;
    let (deadline, key) = rest.split_first_chunk::<8>()?;
    Some((*space, u64::from_be_bytes(*deadline), unstored_key(key)))
}
