//! Stores, and the tables in them: the main table of a key-value store, or one with a name.

use crate::error::{BusyError, closed, of};
use crate::transaction::Transaction;
use crate::view::{Entries, Seen, View};
use everbyte_kv::{Error, Kv, KvTable};
use everbyte_media::Options;
use everbyte_store as store;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::{self, ThreadId};

/// Locks; a panic of another call leaves nothing half-done here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The thread that has a transaction of a key-value store, and the number of the transaction.
pub(crate) type Holder = Arc<Mutex<Option<(ThreadId, u64)>>>;

/// Refuses a write of the thread that has a transaction: it would wait for itself.
pub(crate) fn require_free(holder: &Holder) -> PyResult<()> {
    match *lock(holder) {
        Some((thread, _)) if thread == thread::current().id() => {
            Err(BusyError::new_err("this thread has a transaction: write through it, or end it first"))
        }
        _ => Ok(()),
    }
}

/// An open table; `None`: it was closed.
type Slot = Arc<Mutex<Option<(Kv, Option<KvTable>)>>>;

/// The tables that a store closes with itself.
type Slots = Arc<Mutex<Vec<Weak<Mutex<Option<(Kv, Option<KvTable>)>>>>>>;

fn slot(slots: &Slots, kv: Kv, table: Option<KvTable>) -> Slot {
    let slot = Arc::new(Mutex::new(Some((kv, table))));
    let mut slots = lock(slots);
    slots.retain(|known| known.strong_count() > 0);
    slots.push(Arc::downgrade(&slot));
    slot
}

/// An open store.
#[pyclass(frozen)]
pub(crate) struct Store {
    store: Mutex<Option<store::Store>>,
    slots: Slots,
}

#[pyfunction]
#[pyo3(signature = (path, *, create = false, max_size = 1 << 40))]
pub(crate) fn open(py: Python<'_>, path: PathBuf, create: bool, max_size: u64) -> PyResult<Store> {
    let opened = py.detach(|| match create && !path.exists() {
        true => store::Store::create(&path, &store::CreateOptions { max: max_size, ..Default::default() }),
        false => store::Store::open(&path, &Options::default()),
    });
    Ok(Store { store: Mutex::new(Some(opened.map_err(of)?)), slots: Slots::default() })
}

#[pymethods]
impl Store {
    #[pyo3(signature = (name = "kv", *, create = true))]
    fn kv(&self, py: Python<'_>, name: &str, create: bool) -> PyResult<Table> {
        let store = lock(&self.store).clone().ok_or_else(|| closed("store"))?;
        let kv = py.detach(|| if create { Kv::open_or_create(&store, name) } else { Kv::open(&store, name) });
        let kv = slot(&self.slots, kv.map_err(of)?, None);
        Ok(Table { kv, slots: Arc::clone(&self.slots), holder: Holder::default() })
    }

    /// Closes the store and its tables. Views and transactions that are open keep it open.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(store) = lock(&self.store).take() else { return Ok(()) };
        for slot in lock(&self.slots).drain(..).filter_map(|slot| slot.upgrade()) {
            drop(lock(&slot).take());
        }
        py.detach(|| store.close()).map_err(of)
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(&self, py: Python<'_>, _kind: Py<PyAny>, _error: Py<PyAny>, _trace: Py<PyAny>) -> PyResult<bool> {
        self.close(py).map(|()| false)
    }
}

/// A key-value store with its main table, or a table with a name inside it.
#[pyclass(frozen, mapping)]
pub(crate) struct Table {
    kv: Slot,
    slots: Slots,
    holder: Holder,
}

impl Table {
    pub(crate) fn get_open(&self) -> PyResult<(Kv, Option<KvTable>)> {
        lock(&self.kv).clone().ok_or_else(|| closed("table"))
    }

    fn main(&self) -> PyResult<Kv> {
        match self.get_open()? {
            (kv, None) => Ok(kv),
            _ => Err(PyValueError::new_err("a table has no tables, transactions and versions: ask its store")),
        }
    }

    fn seen(&self, py: Python<'_>) -> PyResult<Seen> {
        let (kv, table) = self.get_open()?;
        match table {
            None => Ok(Seen::Main(kv.snapshot())),
            Some(table) => py.detach(|| table.snapshot()).map(Seen::Table).map_err(of),
        }
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        main: impl FnOnce(&Kv) -> Result<T, Error> + Send,
        table: impl FnOnce(&KvTable) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let open = self.get_open()?;
        py.detach(|| match &open {
            (kv, None) => main(kv),
            (_, Some(open)) => table(open),
        })
        .map_err(of)
    }
}

#[pymethods]
impl Table {
    #[getter]
    fn name(&self) -> PyResult<String> {
        let (kv, table) = self.get_open()?;
        Ok(table.map_or_else(|| kv.name().to_string(), |table| table.name().to_string()))
    }

    #[pyo3(signature = (key, default = None))]
    fn get<'p>(
        &self,
        py: Python<'p>,
        key: &[u8],
        default: Option<Bound<'p, PyAny>>,
    ) -> PyResult<Option<Bound<'p, PyAny>>> {
        let value = self.with(py, |kv| kv.get(key), |table| table.get(key))?;
        Ok(value.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }

    fn __getitem__<'p>(&self, py: Python<'p>, key: &[u8]) -> PyResult<Bound<'p, PyBytes>> {
        let value = self.with(py, |kv| kv.get(key), |table| table.get(key))?;
        value.map(|value| PyBytes::new(py, &value)).ok_or_else(|| PyKeyError::new_err(key.to_vec()))
    }

    fn __setitem__(&self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<()> {
        require_free(&self.holder)?;
        self.with(py, |kv| kv.put(key, value), |table| table.put(key, value))
    }

    fn __delitem__(&self, py: Python<'_>, key: &[u8]) -> PyResult<()> {
        require_free(&self.holder)?;
        match self.with(py, |kv| kv.delete(key), |table| table.delete(key))? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(key.to_vec())),
        }
    }

    fn __contains__(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        self.with(py, |kv| kv.contains(key), |table| table.contains(key))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |kv| Ok(kv.len()), KvTable::len).map(|len| len as usize)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Entries> {
        Ok(self.seen(py)?.entries(None, None, false, true))
    }

    #[pyo3(signature = (low = None, high = None, *, reverse = false))]
    fn range(&self, py: Python<'_>, low: Option<Vec<u8>>, high: Option<Vec<u8>>, reverse: bool) -> PyResult<Entries> {
        Ok(self.seen(py)?.entries(low, high, reverse, false))
    }

    #[pyo3(signature = (prefix, *, reverse = false))]
    fn prefix(&self, py: Python<'_>, prefix: &[u8], reverse: bool) -> PyResult<Entries> {
        Ok(self.seen(py)?.prefixed(prefix, reverse))
    }

    fn items(&self, py: Python<'_>) -> PyResult<Entries> {
        self.range(py, None, None, false)
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<View> {
        Ok(View::new(self.seen(py)?))
    }

    #[pyo3(signature = (name, *, create = true))]
    fn table(&self, py: Python<'_>, name: &str, create: bool) -> PyResult<Table> {
        require_free(&self.holder)?;
        let kv = self.main()?;
        let table = py.detach(|| if create { kv.open_or_create_table(name) } else { kv.open_table(name) });
        let kv = slot(&self.slots, kv, Some(table.map_err(of)?));
        Ok(Table { kv, slots: Arc::clone(&self.slots), holder: Arc::clone(&self.holder) })
    }

    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let kv = self.main()?;
        py.detach(|| kv.tables()).map_err(of)
    }

    fn drop_table(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        require_free(&self.holder)?;
        let kv = self.main()?;
        py.detach(|| kv.drop_table(name)).map_err(of)
    }

    fn transaction(&self, py: Python<'_>) -> PyResult<Transaction> {
        let kv = self.main()?;
        require_free(&self.holder)?;
        Transaction::begin(py, kv, Arc::clone(&self.holder))
    }

    fn name_version(&self, py: Python<'_>, name: &str) -> PyResult<u64> {
        require_free(&self.holder)?;
        let kv = self.main()?;
        py.detach(|| kv.name_version(name)).map(|version| version.get()).map_err(of)
    }

    fn versions(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let kv = self.main()?;
        let versions = py.detach(|| kv.versions()).map_err(of)?;
        Ok(versions.into_iter().map(|version| version.name).collect())
    }

    fn open_version(&self, py: Python<'_>, name: &str) -> PyResult<View> {
        require_free(&self.holder)?;
        let kv = self.main()?;
        Ok(View::new(Seen::Main(py.detach(|| kv.open_version(name)).map_err(of)?)))
    }

    fn restore_version(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        require_free(&self.holder)?;
        let kv = self.main()?;
        py.detach(|| kv.restore_version(name)).map_err(of)
    }

    fn remove_version(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        require_free(&self.holder)?;
        let kv = self.main()?;
        py.detach(|| kv.remove_version(name)).map_err(of)
    }

    fn compact(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, u64>> {
        require_free(&self.holder)?;
        let kv = self.main()?;
        let done = py.detach(|| kv.compact(&mut |_| {})).map_err(of)?;
        Ok(BTreeMap::from([
            ("entries", done.entries),
            ("replaced", done.replaced),
            ("written", done.written),
            ("before", done.before),
            ("after", done.after),
            ("trimmed", done.trimmed),
        ]))
    }

    fn close(&self) {
        drop(lock(&self.kv).take());
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(&self, _kind: Py<PyAny>, _error: Py<PyAny>, _trace: Py<PyAny>) -> bool {
        self.close();
        false
    }
}
