//! [`KvReader`]: a key-value store that another process writes.

#[cfg(doc)]
use crate::Error;
use crate::range::Range;
use crate::reads::reads;
use crate::tree::{TableNumber, Tree};
use crate::{Kv, Result, Snapshot};
use everbyte_store::Engine;
use everbyte_store::raw::AsStore;
use std::ops::RangeBounds;
use std::sync::Arc;

/// A key-value store of a shared [`Store`](everbyte_store::Store), read beside the process that
/// writes it: on `shm` and `pmem`, where processes see each other's stores. Cheap to clone, usable
/// from any thread.
///
/// Both processes open the store by [`everbyte_store::OpenOptions::shared`]; then one of them opens
/// the table as a [`Kv`], and up to 22 others as readers, each of which sees what the first one has
/// settled. A snapshot keeps its version as one of the writer's own does, until it is further
/// behind than the writer's limit ([`Kv::set_reader_limit`]; 65,536 commits where none is set):
/// from then on its reads are [`Error::Expired`]. So are those of snapshots from before the last
/// opening of the table by a writer.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir_in("/dev/shm")?;
/// # let path = dir.path().join("s");
/// # use everbyte_media::Options;
/// # use everbyte_store::{CreateOptions, Store};
/// # drop(Store::create(&path, &CreateOptions::default())?);
/// use everbyte_kv::{Kv, KvReader};
///
/// let store = Store::options(&path).shared().open(&Options::default())?; // in one process
/// let kv = Kv::open_or_create(&store, "prices")?;
/// # // as another process would: the call is the same
/// let reader = KvReader::open(&store, "prices")?; // in another one
/// kv.put(b"pear", b"3")?;
/// assert_eq!(reader.get(b"pear")?.as_deref(), Some(&b"3"[..]));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct KvReader {
    tree: Tree,
    name: Arc<str>,
}

impl KvReader {
    /// Opens the table `name` for reading beside its writer. In a store that this process has
    /// alone, or reads alone, this is [`Kv::open`].
    ///
    /// # Errors
    /// No such object, one of another engine, damage. [`Error::Unpublished`] if no process has had
    /// the table open as a [`Kv`] since the first one opened the store, or its last writer died in
    /// the middle of a publication, or the table has as many readers as can be. An object with a
    /// limit of clusters in memory has no readers.
    pub fn open(store: &impl AsStore, name: &str) -> Result<KvReader> {
        let store = store.as_store();
        if !store.is_shared() {
            return Ok(KvReader { tree: Kv::open(store, name)?.tree, name: name.into() });
        }
        let object = store.object_beside(name)?;
        object.require_engine(Engine::Cdds)?;
        object.require_fingerprint(crate::kv::TREE_FINGERPRINT)?;
        let tree = Tree::open_beside(object)?;
        tree.newest_snapshot()?;
        Ok(KvReader { tree, name: name.into() })
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    reads!(". Sees settled data only; waits for its writer while that publishes, and never for a batch.");

    #[inline]
    fn tree(&self) -> &Tree {
        &self.tree
    }

    #[inline]
    fn reading(&self) -> Result<TableNumber> {
        Ok(TableNumber::MAIN)
    }

    /// Pins the newest settled version for reading: of the main table, and of tables with names
    /// ([`Snapshot::open_table`]).
    ///
    /// # Errors
    /// [`Error::Unpublished`]; damage.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot { tree: self.tree.newest_snapshot()? })
    }

    /// The entries of a range of the newest settled version, in key order; `rev()` walks from the
    /// end.
    ///
    /// # Errors
    /// As [`KvReader::snapshot`].
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> Result<Range<'static>> {
        Ok(self.snapshot()?.range(range))
    }

    /// The entries whose keys begin with `prefix`, in key order.
    ///
    /// # Errors
    /// As [`KvReader::snapshot`].
    pub fn prefix(&self, prefix: &[u8]) -> Result<Range<'static>> {
        Ok(self.snapshot()?.prefix(prefix))
    }

    /// The names of the tables, in the order of their bytes.
    ///
    /// # Errors
    /// As [`KvReader::snapshot`].
    pub fn tables(&self) -> Result<Vec<String>> {
        self.snapshot()?.tables()
    }
}
