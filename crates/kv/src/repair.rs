//! Repair: a new store made of everything that is readable in a damaged one.
//!
//! The damaged store keeps its bytes, but for the recovery that opening does. Leaves that are
//! reached by nodes without a fault are copied first. If the count of keys then says that some are
//! missing, or a node has a fault, leaves without a parent follow, the newest first; leaves that
//! have ended come last, and only while keys are missing. A key that is there already stays.
//!
//! Design: docs/semantics/kv.md, Repair

use crate::catalogue;
use crate::range::Bounds;
use crate::tree::{Border, LeafPlace, TABLE_LEN, TableNumber, Tree, TreeBatch, TreeLoss, Wreck};
use crate::{Kv, Result};
use everbyte_media::seeded;
use everbyte_store::raw::AsStore;
use everbyte_store::{Engine, Object};
use std::collections::{BTreeMap, BTreeSet};

/// A range of keys in which entries may be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Offset of the damage in the store.
    pub at: u64,
    /// The table; `None`: the main one.
    pub table: Option<String>,
    /// The first key of the range; `None`: the first one of the table.
    pub low: Option<Vec<u8>>,
    /// The first key behind the range; `None`: all up to the end of the store.
    pub high: Option<Vec<u8>>,
    /// The damage.
    pub detail: String,
}

/// The result of a repair: see [`Kv::salvage`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Entries of all tables that were saved.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Those of them that come from leaves without a parent: deleted ones may be among them.
    pub doubtful: u64,
    /// How many keys are missing, by the count that the store keeps; `None`: the count is lost too.
    pub missing: Option<u64>,
    /// Tables whose names are lost, by the names that they have now.
    pub renamed: Vec<String>,
    /// Every damage, and the keys that it concerns.
    pub losses: Vec<Loss>,
}

impl Salvaged {
    /// Whether the store had no damage.
    pub fn is_whole(&self) -> bool {
        self.losses.is_empty() && self.missing == Some(0) && self.doubtful == 0 && self.renamed.is_empty()
    }
}

/// Bytes of entries in a batch.
const BATCH: u64 = 4 << 20;

/// The copy in the making.
struct Copy<'c> {
    tree: &'c Tree,
    batch: Option<TreeBatch<'c>>,
    pending: u64,
    salvaged: Salvaged,
    /// Keys of the source's own tables that are not copied.
    passed: u64,
    tables: BTreeSet<TableNumber>,
    progress: &'c mut dyn FnMut(u64),
}

impl Kv {
    /// Makes the object `new_name` in `to`, the same store or another one, of all entries of the
    /// object `name` of `from` that are readable, in its newest version. For a store that is
    /// damaged: entries that fail their sums are left out, and all others are saved, whatever
    /// happened to the nodes that lead to them. Named versions are not saved. Settled on return; a
    /// crash leaves the new object whole or absent. `progress` receives the bytes of keys and
    /// values.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
    /// # let kv = everbyte_kv::Kv::open_or_create(&store, "cities")?;
    /// # kv.put(b"Oslo", b"Norway")?;
    /// # drop(kv);
    /// let saved = everbyte_kv::Kv::salvage(&store, "cities", &store, "saved", &mut |_| {})?;
    /// assert!(saved.is_whole() && saved.entries == 1); // nothing was damaged
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `name` is open, or is no key-value store; otherwise as [`Kv::create`].
    pub fn salvage(
        from: &impl AsStore,
        name: &str,
        to: &impl AsStore,
        new_name: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Salvaged> {
        let object = from.as_store().object(name)?;
        object.require_engine(Engine::Cdds)?;
        drop(object.claim()?);
        let mut salvaged = Salvaged::default();
        Kv::create_filled(to.as_store(), new_name, &mut |copy| {
            Tree::format(copy)?;
            salvaged = fill(&object, &Tree::open(copy.clone())?, progress)?;
            Ok(())
        })?;
        Ok(salvaged)
    }
}

fn fill(object: &Object, tree: &Tree, progress: &mut dyn FnMut(u64)) -> Result<Salvaged> {
    let mut wreck = Wreck::open(object);
    let salvaged = Salvaged::default();
    let tables = BTreeSet::new();
    let mut copy = Copy { tree, batch: None, pending: 0, salvaged, passed: 0, tables, progress };
    let keys = wreck.newest.map(|newest| newest.keys.all);
    for leaf in std::mem::take(&mut wreck.found) {
        copy.leaf(&mut wreck, &leaf, LeafKind::Found)?;
    }
    let is_whole = wreck.losses.is_empty() && keys == Some(copy.keys());
    if !is_whole && !seeded("kv-repair-orphans-forgotten") {
        wreck.scan();
        copy.leaves(&mut wreck, LeafKind::Loose)?;
        if keys.is_none_or(|keys| copy.keys() < keys) {
            copy.leaves(&mut wreck, LeafKind::Dead)?;
        }
    }
    if let Some(keys) = keys.filter(|keys| *keys < copy.keys()) {
        let detail =
            format!("the store counts {keys} keys, and {} were found: deleted ones are among them", copy.keys());
        wreck.losses.push(TreeLoss { at: object.prime().get(), low: None, high: None, detail });
    }
    copy.salvaged.missing = keys.map(|keys| keys.saturating_sub(copy.keys()));
    copy.finish(std::mem::take(&mut wreck.losses))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LeafKind {
    Found,
    Loose,
    Dead,
}

impl Copy<'_> {
    /// Keys that the source counts and that are accounted for.
    fn keys(&self) -> u64 {
        self.salvaged.entries + self.passed
    }

    fn leaves(&mut self, wreck: &mut Wreck, kind: LeafKind) -> Result<()> {
        let list = if kind == LeafKind::Loose { &mut wreck.loose } else { &mut wreck.dead };
        let mut leaves = std::mem::take(list);
        leaves.sort_by_key(|leaf| std::cmp::Reverse(leaf.birth));
        leaves.iter().try_for_each(|leaf| self.leaf(wreck, leaf, kind))
    }

    fn leaf(&mut self, wreck: &mut Wreck, leaf: &LeafPlace, kind: LeafKind) -> Result<()> {
        for entry in wreck.entries(leaf, kind == LeafKind::Dead) {
            // The copy has one version, and none with a name.
            if entry.table == TableNumber::VERSIONS {
                self.passed += u64::from(kind == LeafKind::Found);
                continue;
            }
            let tree = self.tree;
            let batch = self.batch.get_or_insert_with(|| tree.batch());
            if kind != LeafKind::Found && batch.len_of(entry.table, &entry.key)?.is_some() {
                continue;
            }
            let Some(value) = wreck.value(leaf, &entry, kind == LeafKind::Dead) else { continue };
            batch.put(entry.table, &entry.key, &value)?;
            self.tables.insert(entry.table);
            let bytes = (entry.key.len() + value.len()) as u64;
            self.pending += bytes.max(64);
            self.salvaged.bytes += bytes;
            self.salvaged.entries += 1;
            self.salvaged.doubtful += u64::from(kind != LeafKind::Found);
            (self.progress)(bytes);
            if self.pending >= BATCH {
                self.commit()?;
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.pending = 0;
        match self.batch.take() {
            Some(batch) => self.tree.settle(batch.commit()?),
            None => Ok(()),
        }
    }

    /// Mends the catalogue: a name for each table that has keys, and the highest number.
    fn finish(mut self, losses: Vec<TreeLoss>) -> Result<Salvaged> {
        self.commit()?;
        let mut batch = self.tree.batch();
        let mut names = BTreeMap::new();
        let mut wrong = Vec::new();
        let snapshot = self.tree.snapshot();
        let mut records = crate::Range::new(snapshot.cursor(), Bounds::prefix(TableNumber::CATALOGUE, b""));
        while let Some((name, value)) = records.next_ref()? {
            match (catalogue::parse(value), std::str::from_utf8(name)) {
                _ if name.is_empty() => {}
                // Two names of one table: one of them had been dropped.
                (Ok(record), Ok(name)) if !names.contains_key(&record.number) => {
                    names.insert(record.number, name.to_string());
                }
                _ => wrong.push(name.to_vec()),
            }
        }
        for name in wrong {
            batch.delete(TableNumber::CATALOGUE, &name)?;
        }
        let taken: BTreeSet<String> = names.values().cloned().collect();
        for table in self.tables.iter().filter(|table| catalogue::is_number(table.0)) {
            if names.contains_key(&table.0) {
                continue;
            }
            let base = format!("recovered-{}", table.0);
            let more = (1..).map(|more| format!("{base}-{more}"));
            let mut free = std::iter::once(base.clone()).chain(more).filter(|name| !taken.contains(name));
            let name = free.next().expect("fewer tables than numbers");
            catalogue::put_record(&mut batch, &name, *table)?;
            self.salvaged.renamed.push(name.clone());
            names.insert(table.0, name);
        }
        if let Some(highest) = names.keys().next_back() {
            let stored = batch.get(TableNumber::CATALOGUE, b"")?;
            let stored = stored.and_then(|value| Some(u32::from_le_bytes(*value.first_chunk()?)));
            let highest = stored.unwrap_or_default().max(*highest);
            batch.put(TableNumber::CATALOGUE, b"", &highest.to_le_bytes())?;
        }
        self.tree.settle(batch.commit()?)?;
        // The catalogue's own entries are not the user's.
        let of_catalogue = self.tables.contains(&TableNumber::CATALOGUE);
        if of_catalogue {
            let mut all = crate::Range::new(snapshot.cursor(), Bounds::prefix(TableNumber::CATALOGUE, b""));
            while let Some((key, value)) = all.next_ref()? {
                self.salvaged.entries -= 1;
                self.salvaged.bytes -= (key.len() + value.len()) as u64;
            }
        }
        let loss = |loss: TreeLoss| Loss {
            at: loss.at,
            table: loss.low.as_ref().and_then(|low| named(low, &names)),
            low: key_of(&loss.low),
            high: if same_table(&loss.low, &loss.high) { key_of(&loss.high) } else { None },
            detail: loss.detail,
        };
        self.salvaged.losses = losses.into_iter().map(loss).collect();
        Ok(self.salvaged)
    }
}

/// The number at the front of a full key.
fn number_of(full: &[u8]) -> u32 {
    full.iter().chain(&[0; TABLE_LEN]).take(TABLE_LEN).fold(0, |number, &byte| number << 8 | u32::from(byte))
}

fn named(full: &[u8], names: &BTreeMap<u32, String>) -> Option<String> {
    match TableNumber(number_of(full)) {
        TableNumber::MAIN => None,
        TableNumber::CATALOGUE => Some("(names of tables)".into()),
        TableNumber::VERSIONS => Some("(named versions)".into()),
        TableNumber(number) => Some(names.get(&number).cloned().unwrap_or_else(|| format!("number {number}"))),
    }
}

fn key_of(border: &Border) -> Option<Vec<u8>> {
    border.as_ref().and_then(|full| full.get(TABLE_LEN..)).map(<[u8]>::to_vec)
}

fn same_table(low: &Border, high: &Border) -> bool {
    let number = |border: &Border| border.as_ref().map_or(0, |full| number_of(full));
    high.is_some() && number(low) == number(high)
}
