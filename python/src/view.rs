//! Settled versions that stay as they are, and iterators over their entries.

use crate::error::{closed, of};
use crate::open::{Table, lock};
use everbyte_kv::{Range, Snapshot, TableSnapshot};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Mutex;

/// One table at one version.
#[derive(Clone)]
pub(crate) enum Seen {
    Main(Snapshot),
    Table(TableSnapshot),
}

impl Seen {
    pub(crate) fn entries(&self, low: Option<Vec<u8>>, high: Option<Vec<u8>>, reverse: bool, keys: bool) -> Entries {
        let low = low.as_deref().map_or(Unbounded, Included);
        let high = high.as_deref().map_or(Unbounded, Excluded);
        let range = match self {
            Seen::Main(main) => main.range::<[u8]>((low, high)),
            Seen::Table(table) => table.range::<[u8]>((low, high)),
        };
        Entries { range: Mutex::new(range), reverse, keys }
    }

    pub(crate) fn prefixed(&self, prefix: &[u8], reverse: bool) -> Entries {
        let range = match self {
            Seen::Main(main) => main.prefix(prefix),
            Seen::Table(table) => table.prefix(prefix),
        };
        Entries { range: Mutex::new(range), reverse, keys: false }
    }

    fn get(&self, key: &[u8]) -> everbyte_kv::Result<Option<Vec<u8>>> {
        match self {
            Seen::Main(main) => main.get(key),
            Seen::Table(table) => table.get(key),
        }
    }
}

/// A version that stays as it is.
#[pyclass(frozen, mapping)]
pub(crate) struct View(Mutex<Option<Seen>>);

impl View {
    pub(crate) fn new(seen: Seen) -> View {
        View(Mutex::new(Some(seen)))
    }

    fn seen(&self) -> PyResult<Seen> {
        lock(&self.0).clone().ok_or_else(|| closed("view"))
    }
}

#[pymethods]
impl View {
    #[pyo3(signature = (key, default = None))]
    fn get<'p>(
        &self,
        py: Python<'p>,
        key: &[u8],
        default: Option<Bound<'p, PyAny>>,
    ) -> PyResult<Option<Bound<'p, PyAny>>> {
        let seen = self.seen()?;
        let value = py.detach(|| seen.get(key)).map_err(of)?;
        Ok(value.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }

    fn __getitem__<'p>(&self, py: Python<'p>, key: &[u8]) -> PyResult<Bound<'p, PyBytes>> {
        let seen = self.seen()?;
        let value = py.detach(|| seen.get(key)).map_err(of)?;
        value.map(|value| PyBytes::new(py, &value)).ok_or_else(|| PyKeyError::new_err(key.to_vec()))
    }

    fn __contains__(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        let seen = self.seen()?;
        py.detach(|| match &seen {
            Seen::Main(main) => main.contains(key),
            Seen::Table(table) => table.contains(key),
        })
        .map_err(of)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        match self.seen()? {
            Seen::Main(main) => Ok(main.len() as usize),
            Seen::Table(table) => py.detach(|| table.len()).map(|len| len as usize).map_err(of),
        }
    }

    fn __iter__(&self) -> PyResult<Entries> {
        Ok(self.seen()?.entries(None, None, false, true))
    }

    #[pyo3(signature = (low = None, high = None, *, reverse = false))]
    fn range(&self, low: Option<Vec<u8>>, high: Option<Vec<u8>>, reverse: bool) -> PyResult<Entries> {
        Ok(self.seen()?.entries(low, high, reverse, false))
    }

    #[pyo3(signature = (prefix, *, reverse = false))]
    fn prefix(&self, prefix: &[u8], reverse: bool) -> PyResult<Entries> {
        Ok(self.seen()?.prefixed(prefix, reverse))
    }

    fn items(&self) -> PyResult<Entries> {
        self.range(None, None, false)
    }

    fn table(&self, py: Python<'_>, table: &Table) -> PyResult<View> {
        let (Seen::Main(main), (_, Some(table))) = (self.seen()?, table.get_open()?) else {
            return Err(pyo3::exceptions::PyValueError::new_err("a view of a whole store, and a table with a name"));
        };
        Ok(View::new(Seen::Table(py.detach(|| main.table(&table)).map_err(of)?)))
    }

    fn close(&self) {
        drop(lock(&self.0).take());
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(&self, _kind: Py<PyAny>, _error: Py<PyAny>, _trace: Py<PyAny>) -> bool {
        self.close();
        false
    }
}

/// An iterator over entries, or over their keys.
#[pyclass(frozen)]
pub(crate) struct Entries {
    range: Mutex<Range<'static>>,
    reverse: bool,
    keys: bool,
}

#[pymethods]
impl Entries {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'p>(&self, py: Python<'p>) -> PyResult<Option<Bound<'p, PyAny>>> {
        let next = py.detach(|| {
            let mut range = lock(&self.range);
            if self.reverse { range.next_back() } else { range.next() }
        });
        let Some((key, value)) = next.transpose().map_err(of)? else { return Ok(None) };
        let key = PyBytes::new(py, &key);
        match self.keys {
            true => Ok(Some(key.into_any())),
            false => Ok(Some((key, PyBytes::new(py, &value)).into_pyobject(py)?.into_any())),
        }
    }
}
