//! Named versions: snapshots that survive a restart, what changed between two versions, and the way
//! back to one.

use crate::batch::Batch;
use crate::catalogue;
use crate::range::Bounds;
use crate::tree::{
    Commit, Published, TableNumber, Tree, TreeBatch, TreeChanges, TreeSnapshot, Version, VersionRecord, each_named,
};
use crate::{Error, Kv, KvTable, Result, Snapshot, TableSnapshot};
use everbyte_media::museum::unless;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longest name of a version, in bytes.
pub const VERSION_NAME_MAX: usize = 255;

/// Names of versions that begin so are a server's: callers neither give nor remove them.
pub const RESERVED_VERSIONS: &str = "server/";

/// Refuses a name that is reserved.
fn require_free(name: &str) -> Result<()> {
    match name.starts_with(RESERVED_VERSIONS) {
        true => Err(Error::VersionReserved { name: name.into() }),
        false => Ok(()),
    }
}

/// Whether callers can give a version this name.
pub(crate) fn is_version_name(name: &str) -> bool {
    (1..=VERSION_NAME_MAX).contains(&name.len()) && !name.starts_with(RESERVED_VERSIONS)
}

/// Gives the version that `batch` follows a name, which no version has. [`commit_name`] follows.
pub(crate) fn name_followed(batch: &mut TreeBatch<'_>, name: &str, named_at: u64) -> Result<Published> {
    let seen = batch.follows();
    let record = VersionRecord::new(seen, named_at);
    batch.put(TableNumber::VERSIONS, name.as_bytes(), zerocopy::IntoBytes::as_bytes(&record))?;
    // NAME-1: before the commit.
    unless("kv-named-version-unpinned", || batch.hold_version(seen.version));
    Ok(seen)
}

/// Commits a batch in which [`name_followed`] has named `seen`; `committed` is called once the
/// version is real. One that does not become real takes its pin back.
pub(crate) fn commit_name(
    tree: &Tree,
    batch: TreeBatch<'_>,
    seen: Published,
    committed: impl FnOnce(),
) -> Result<Commit> {
    let mut is_real = false;
    let commit = batch.commit_with(|_, _, _| {
        is_real = true;
        committed();
    });
    if !is_real {
        unless("kv-named-version-unpinned", || tree.release_version(seen.version));
    }
    commit
}

/// A version that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedVersion {
    /// Its name.
    pub name: String,
    /// Its number.
    pub version: Version,
    /// Keys of its main table.
    pub keys: u64,
    /// When it got the name, by the clock of that machine.
    pub named_at: SystemTime,
}

/// A key that differs between two versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Vec<u8>,
    /// Its value in the first version; `None`: it is not there.
    pub before: Option<Vec<u8>>,
    /// Its value in the second version; `None`: it is not there.
    pub after: Option<Vec<u8>>,
}

/// The keys that differ between two versions, in their order. See [`Snapshot::changes`].
pub struct Changes(Option<TreeChanges>);

impl Iterator for Changes {
    type Item = Result<Change>;

    fn next(&mut self) -> Option<Result<Change>> {
        match self.0.as_mut()?.next() {
            Ok(Some(change)) => Some(Ok(Change { key: change.key, before: change.before, after: change.after })),
            Ok(None) => None,
            Err(error) => {
                self.0 = None;
                Some(Err(error))
            }
        }
    }
}

fn changes(before: &TreeSnapshot, after: &TreeSnapshot, table: TableNumber) -> Result<Changes> {
    let all = Bounds::prefix(table, b"");
    TreeChanges::new(before, after, &all.low, &all.high()).map(|changes| Changes(Some(changes)))
}

impl Snapshot {
    /// The keys of the main table that differ between this version and `later`, which may also be
    /// the older one.
    ///
    /// A key that was written and has its value of before is in the list. Passes over leaves that
    /// have not changed by a look at their stamps, and reads nothing but what differs.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = everbyte_store::Store::create(&dir.path().join("s"), &Default::default())?;
    /// # let kv = everbyte_kv::Kv::open_or_create(&store, "kv")?;
    /// let before = kv.snapshot();
    /// kv.put(b"new", b"1")?;
    /// for change in before.changes(&kv.snapshot())? {
    ///     let change = change?;
    ///     assert_eq!((change.key, change.before, change.after), (b"new".to_vec(), None, Some(b"1".to_vec())));
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The versions are of different stores; damage.
    pub fn changes(&self, later: &Snapshot) -> Result<Changes> {
        if !self.tree.is_beside(&later.tree) {
            return Err(Error::OtherTree);
        }
        changes(&self.tree, &later.tree, TableNumber::MAIN)
    }
}

impl TableSnapshot {
    /// As [`Snapshot::changes`], of one table.
    ///
    /// # Errors
    /// The versions are of different tables; damage.
    pub fn changes(&self, later: &TableSnapshot) -> Result<Changes> {
        if !self.tree.is_beside(&later.tree) || !self.open.is_same(&later.open) {
            return Err(Error::OtherTree);
        }
        changes(&self.tree, &later.tree, self.open.number)
    }
}

impl Kv {
    /// Gives the newest committed version a name: it stays readable until the name is removed,
    /// across restarts too. Nothing is copied; what is replaced from now on keeps its space until
    /// then. Settled on return.
    ///
    /// # Errors
    /// A version has this name; the name is empty or longer than [`VERSION_NAME_MAX`], or begins
    /// with [`RESERVED_VERSIONS`]; otherwise as [`Kv::put`].
    pub fn name_version(&self, name: &str) -> Result<Version> {
        require_free(name)?;
        Ok(self.name_any_version(name)?.0)
    }

    pub(crate) fn name_any_version(&self, name: &str) -> Result<(Version, Version)> {
        let mut batch = self.tree.begin()?;
        let seen = self.put_version(&mut batch, name)?;
        let commit = commit_name(&self.tree, batch, seen, || {})?;
        self.settle(commit)?;
        Ok((seen.version, commit.version()))
    }

    /// Puts the name of the version that `batch` follows.
    fn put_version(&self, batch: &mut TreeBatch<'_>, name: &str) -> Result<Published> {
        if !(1..=VERSION_NAME_MAX).contains(&name.len()) {
            return Err(Error::VersionName { len: name.len(), max: VERSION_NAME_MAX });
        }
        if batch.len_of(TableNumber::VERSIONS, name.as_bytes())?.is_some() {
            return Err(Error::VersionExists { object: self.name().into(), name: name.into() });
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        name_followed(batch, name, now.as_secs())
    }

    /// The number of the newest committed version, which may not be settled.
    ///
    /// # Errors
    /// A batch in this thread.
    pub fn newest_version(&self) -> Result<Version> {
        Ok(self.tree.begin()?.follows().version)
    }

    /// As [`Kv::name_version`], and in the same batch removes the names `old`, as
    /// [`Kv::remove_version`] does. Returns the named version, held for reading.
    ///
    /// # Errors
    /// As [`Kv::name_version`]; no version has a name of `old`: nothing changed.
    pub fn rename_versions(&self, old: &[&str], name: &str) -> Result<Snapshot> {
        for name in old.iter().chain([&name]) {
            require_free(name)?;
        }
        self.rename_any_versions(old, name)
    }

    pub(crate) fn rename_any_versions(&self, old: &[&str], name: &str) -> Result<Snapshot> {
        let mut batch = self.tree.begin()?;
        let mut removed = Vec::new();
        for name in old {
            removed.push(self.version_record(&batch, name)?.version);
            batch.delete(TableNumber::VERSIONS, name.as_bytes())?;
        }
        let seen = self.put_version(&mut batch, name)?;
        let tree = self.tree.snapshot_of(seen);
        let release = || removed.iter().for_each(|version| self.tree.release_version(*version));
        let commit = commit_name(&self.tree, batch, seen, release)?;
        self.settle(commit)?;
        Ok(Snapshot { tree })
    }

    /// Removes the name of a version, and with it the reason to keep its space. Settled on return.
    /// Snapshots of it that are held keep what they see.
    ///
    /// # Errors
    /// No version has this name; it begins with [`RESERVED_VERSIONS`]; otherwise as [`Kv::put`].
    pub fn remove_version(&self, name: &str) -> Result<()> {
        require_free(name)?;
        self.remove_any_version(name)
    }

    pub(crate) fn remove_any_version(&self, name: &str) -> Result<()> {
        let mut batch = self.tree.begin()?;
        let record = self.version_record(&batch, name)?;
        batch.delete(TableNumber::VERSIONS, name.as_bytes())?;
        let commit = batch.commit_with(|_, _, _| self.tree.release_version(record.version))?;
        self.settle(commit)
    }

    /// The versions that have names, in the order of the names' bytes.
    ///
    /// # Errors
    /// Damage.
    pub fn versions(&self) -> Result<Vec<NamedVersion>> {
        let mut versions = Vec::new();
        each_named(self.tree.snapshot().cursor(), |name, record| {
            let name = String::from_utf8_lossy(name).into_owned();
            let named_at = UNIX_EPOCH.checked_add(Duration::from_secs(record.named_at)).unwrap_or(UNIX_EPOCH);
            versions.push(NamedVersion { name, version: record.version, keys: record.main_keys, named_at });
            Ok(())
        })?;
        Ok(versions)
    }

    /// The version of this name, held for reading. Settled on return.
    ///
    /// # Errors
    /// No version has this name; damage; a batch in this thread. A poisoned store, if the name is
    /// not known to be durable.
    pub fn open_version(&self, name: &str) -> Result<Snapshot> {
        let batch = self.tree.begin()?;
        let record = self.version_record(&batch, name)?;
        let (tree, unsettled) = (self.tree.snapshot_of(record.seen()), self.unsettled_name(&batch, name, record)?);
        drop(batch);
        unsettled.map_or(Ok(()), |commit| self.settle(commit))?;
        Ok(Snapshot { tree })
    }

    /// The commit to be settled before the version of this name is shown, if the newest settled
    /// version does not have it (TREE-3).
    fn unsettled_name(&self, batch: &TreeBatch<'_>, name: &str, record: VersionRecord) -> Result<Option<Commit>> {
        let (newest, follows) = (self.tree.snapshot(), batch.follows().version);
        if newest.version() >= follows {
            return Ok(None);
        }
        let seen = newest.get(TableNumber::VERSIONS, name.as_bytes())?;
        let seen = seen.as_deref().map(VersionRecord::parse).transpose()?;
        Ok((seen != Some(record)).then(|| self.tree.shared.commit_of(follows)))
    }

    /// Brings all tables back to the version of this name, in one batch: tables that were made
    /// since are dropped, dropped ones are there again. Named versions stay, later ones too. Costs
    /// what has changed since. Settled on return.
    ///
    /// # Errors
    /// No version has this name; otherwise as [`Kv::put`].
    pub fn restore_version(&self, name: &str) -> Result<()> {
        let mut batch = self.begin()?;
        let last = TableNumber(TableNumber::CATALOGUE.0 + 1);
        for (low, high) in [(TableNumber::MAIN, TableNumber::VERSIONS), (TableNumber::CATALOGUE, last)] {
            self.restore(&mut batch, name, &low.bytes(), &high.bytes())?;
        }
        let commit = batch.commit()?;
        self.settle(commit)
    }

    /// Brings one table back to the version of this name. Settled on return.
    ///
    /// # Errors
    /// No version has this name, or it does not see the table; otherwise as [`Kv::put`].
    pub fn restore_table(&self, table: &KvTable, name: &str) -> Result<()> {
        self.restore_tables(&[table], name)
    }

    /// As [`Kv::restore_table`], of several in one batch.
    pub(crate) fn restore_tables(&self, tables: &[&KvTable], name: &str) -> Result<()> {
        let mut batch = self.begin()?;
        for table in tables {
            batch.table(table)?;
            let then = self.tree.snapshot_of(self.version_record(batch.tree(), name)?.seen());
            table.require_seen_by(&then)?;
            let all = Bounds::prefix(table.open.number, b"");
            self.restore(&mut batch, name, &all.low, &all.high())?;
        }
        let commit = batch.commit()?;
        self.settle(commit)
    }

    fn restore(&self, batch: &mut Batch<'_>, name: &str, low: &[u8], high: &[u8]) -> Result<()> {
        let record = self.version_record(batch.tree(), name)?;
        let (now, then) = (self.tree.snapshot_of(batch.tree().follows()), self.tree.snapshot_of(record.seen()));
        let mut changes = TreeChanges::new(&now, &then, low, high)?;
        while let Some(change) = changes.next()? {
            if change.table == TableNumber::CATALOGUE && !change.key.is_empty() {
                batch.forget_table(change.before.as_deref(), change.after.as_deref())?;
            }
            match change.after {
                // The highest number that was given stays: numbers are not given twice.
                _ if change.table == TableNumber::CATALOGUE && change.key.is_empty() => {}
                Some(value) => {
                    batch.tree_mut().put(change.table, &change.key, &value)?;
                }
                None => {
                    batch.tree_mut().delete(change.table, &change.key)?;
                }
            }
        }
        Ok(())
    }

    fn version_record(&self, tree: &TreeBatch<'_>, name: &str) -> Result<VersionRecord> {
        let found = self.find_version(tree, name)?;
        found.ok_or_else(|| Error::NoVersion { object: self.name().into(), name: name.into() })
    }

    pub(crate) fn find_version(&self, tree: &TreeBatch<'_>, name: &str) -> Result<Option<VersionRecord>> {
        tree.get(TableNumber::VERSIONS, name.as_bytes())?.as_deref().map(VersionRecord::parse).transpose()
    }
}

impl Batch<'_> {
    /// As [`Kv::open_version`], while this batch is under way.
    ///
    /// # Errors
    /// No version has this name; damage. A poisoned store, if the name is not known to be durable.
    pub fn open_version(&self, name: &str) -> Result<Snapshot> {
        let kv = self.kv();
        let record = kv.version_record(self.tree(), name)?;
        kv.unsettled_name(self.tree(), name, record)?.map_or(Ok(()), |commit| kv.settle(commit))?;
        Ok(Snapshot { tree: kv.tree.snapshot_of(record.seen()) })
    }

    /// The catalogue's entry of a name changes from `before` to `after`: another table is dropped,
    /// also one of the same number.
    fn forget_table(&mut self, before: Option<&[u8]>, after: Option<&[u8]>) -> Result<()> {
        let table = |value: &[u8]| catalogue::parse(value).map(|record| (record.number, record.created));
        let (before, after) = (before.map(table).transpose()?, after.map(table).transpose()?);
        if let Some((number, _)) = before
            && after != before
        {
            self.note_dropped(TableNumber(number));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_media::{Media, Options};
    use everbyte_store::{FormatOptions, Store};

    /// A version whose name did not commit is held no longer.
    #[test]
    fn a_name_that_does_not_commit_holds_nothing() {
        let media = Media::anonymous(16 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let kv = Kv::create(&store, "kv").unwrap();
        kv.put(b"key", b"1").unwrap();
        let mut batch = kv.tree.begin().unwrap();
        let seen = kv.put_version(&mut batch, "name").unwrap();
        batch.doom();
        let commit = commit_name(&kv.tree, batch, seen, || panic!("it is not real"));
        assert!(matches!(commit, Err(Error::Doomed)));
        kv.put(b"key", b"2").unwrap();
        assert_eq!(kv.stats().oldest, kv.stats().version.get());
        kv.name_version("name").unwrap();
        kv.put(b"key", b"3").unwrap();
        assert_eq!(kv.open_version("name").unwrap().get(b"key").unwrap().as_deref(), Some(&b"2"[..]));
        assert!(kv.stats().oldest < kv.stats().version.get());
    }
}
