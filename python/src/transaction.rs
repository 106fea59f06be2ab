//! A transaction: a thread holds its batch, which borrows the store and belongs to its thread, and
//! runs what it is sent, one call at a time. So a transaction may be used from any thread of
//! Python, and safe code does.

use crate::error::{BusyError, closed, of};
use crate::open::{Holder, Table, lock};
use everbyte_kv::{Batch, BulkLoad, Error, Kv, KvTable, Savepoint};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// Entries of a load that are on their way to the thread of the batch.
const ON_THE_WAY: usize = 1000;

/// Work for the thread of a batch.
type Work = Box<dyn FnOnce(&mut Batch<'_>, &mut Vec<Savepoint>) + Send>;

enum Message {
    Do(Work),
    Commit(Sender<Result<(), Error>>),
}

/// The way to the thread of a batch.
struct Worker {
    to: Sender<Message>,
    thread: JoinHandle<()>,
}

#[pyclass(frozen)]
pub(crate) struct Transaction {
    worker: Mutex<Option<Worker>>,
    holder: Holder,
    number: u64,
    /// A load has the batch: its iterator must not wait for it.
    loads: AtomicBool,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Until the sender is gone: then the batch is given up.
fn run(kv: &Kv, begun: &Sender<()>, from: &Receiver<Message>) {
    let (mut batch, mut savepoints) = (kv.batch(), Vec::new());
    let _ = begun.send(());
    while let Ok(message) = from.recv() {
        match message {
            Message::Do(work) => work(&mut batch, &mut savepoints),
            Message::Commit(answer) => {
                let settled = batch.commit().and_then(|commit| kv.settle(commit));
                let _ = answer.send(settled);
                return;
            }
        }
    }
}

impl Transaction {
    pub(crate) fn begin(py: Python<'_>, kv: Kv, holder: Holder) -> PyResult<Transaction> {
        let (to, from) = channel();
        let (begun, has_begun) = channel();
        let thread = thread::spawn(move || run(&kv, &begun, &from));
        // Another transaction may have to end first.
        py.detach(move || has_begun.recv()).map_err(|_| closed("transaction"))?;
        let number = NEXT.fetch_add(1, Relaxed);
        *lock(&holder) = Some((thread::current().id(), number));
        let worker = Mutex::new(Some(Worker { to, thread }));
        Ok(Transaction { worker, holder, number, loads: AtomicBool::new(false) })
    }

    fn require_idle(&self) -> PyResult<()> {
        if self.loads.load(Relaxed) {
            return Err(BusyError::new_err("this transaction is loading entries: its iterator cannot use it"));
        }
        Ok(())
    }

    fn call<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Batch<'_>, &mut Vec<Savepoint>) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        self.require_idle()?;
        let (answer, result) = channel();
        let work: Work = Box::new(move |batch, savepoints| drop(answer.send(work(batch, savepoints))));
        {
            let worker = lock(&self.worker);
            let worker = worker.as_ref().ok_or_else(|| closed("transaction"))?;
            worker.to.send(Message::Do(work)).map_err(|_| closed("transaction"))?;
        }
        py.detach(move || result.recv()).map_err(|_| closed("transaction"))?.map_err(of)
    }

    /// Ends the thread, which gives up a batch that it still has.
    fn end(&self, py: Python<'_>, worker: Worker) {
        let Worker { to, thread } = worker;
        drop(to);
        let _ = py.detach(|| thread.join());
        self.forget();
    }

    /// The next transaction may have begun already: its mark stays.
    fn forget(&self) {
        let mut holder = lock(&self.holder);
        if holder.is_some_and(|(_, number)| number == self.number) {
            *holder = None;
        }
    }
}

/// The table of a call; `None`: the main one.
fn named(table: Option<&Table>) -> PyResult<Option<KvTable>> {
    table.map_or(Ok(None), |table| Ok(table.get_open()?.1))
}

#[pymethods]
impl Transaction {
    #[pyo3(signature = (key, value, table = None))]
    fn put(&self, py: Python<'_>, key: Vec<u8>, value: Vec<u8>, table: Option<&Table>) -> PyResult<bool> {
        let table = named(table)?;
        self.call(py, move |batch, _| match &table {
            None => batch.put(&key, &value),
            Some(table) => batch.table(table)?.put(&key, &value),
        })
    }

    #[pyo3(signature = (key, table = None))]
    fn delete(&self, py: Python<'_>, key: Vec<u8>, table: Option<&Table>) -> PyResult<bool> {
        let table = named(table)?;
        self.call(py, move |batch, _| match &table {
            None => batch.delete(&key),
            Some(table) => batch.table(table)?.delete(&key),
        })
    }

    #[pyo3(signature = (low = None, high = None, table = None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        low: Option<Vec<u8>>,
        high: Option<Vec<u8>>,
        table: Option<&Table>,
    ) -> PyResult<u64> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let table = named(table)?;
        self.call(py, move |batch, _| {
            let bounds = (low.as_deref().map_or(Unbounded, Included), high.as_deref().map_or(Unbounded, Excluded));
            match &table {
                None => batch.delete_range::<[u8]>(bounds),
                Some(table) => batch.table(table)?.delete_range::<[u8]>(bounds),
            }
        })
    }

    #[pyo3(signature = (entries, table = None))]
    fn load(&self, py: Python<'_>, entries: Bound<'_, PyAny>, table: Option<&Table>) -> PyResult<u64> {
        self.require_idle()?;
        let table = named(table)?;
        // The thread of the batch asks for entries, and this one takes them from the iterator.
        let (to, from) = sync_channel::<(Vec<u8>, Vec<u8>)>(ON_THE_WAY);
        let (give_up, given_up) = channel::<()>();
        let (answer, result) = channel();
        let work: Work = Box::new(move |batch, _| {
            let fill = |mut load: BulkLoad<'_, '_>| {
                while let Ok((key, value)) = from.recv() {
                    load.push(&key, &value)?;
                }
                // One that is dropped has not happened.
                if given_up.try_recv().is_ok() { Ok(0) } else { load.finish() }
            };
            let loaded = match &table {
                None => batch.begin_load().and_then(fill),
                Some(table) => batch.table(table).and_then(|mut table| table.begin_load().and_then(fill)),
            };
            let _ = answer.send(loaded);
        });
        let entries = entries.try_iter()?;
        lock(&self.worker)
            .as_ref()
            .and_then(|worker| worker.to.send(Message::Do(work)).ok())
            .ok_or_else(|| closed("transaction"))?;
        self.loads.store(true, Relaxed);
        let mut raised = Ok(());
        for entry in entries {
            match entry.and_then(|entry| entry.extract()) {
                // An error of the load ends it; the answer says which.
                Ok(entry) => {
                    if to.send(entry).is_err() {
                        break;
                    }
                }
                Err(error) => {
                    let _ = give_up.send(());
                    raised = Err(error);
                    break;
                }
            }
        }
        drop(to);
        self.loads.store(false, Relaxed);
        let loaded = py.detach(move || result.recv()).map_err(|_| closed("transaction"))?;
        raised.and_then(|()| loaded.map_err(of))
    }

    #[pyo3(signature = (key, table = None))]
    fn get<'p>(&self, py: Python<'p>, key: Vec<u8>, table: Option<&Table>) -> PyResult<Option<Bound<'p, PyBytes>>> {
        let table = named(table)?;
        let value = self.call(py, move |batch, _| match &table {
            None => batch.get(&key),
            Some(table) => batch.table(table)?.get(&key),
        })?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    fn __getitem__<'p>(&self, py: Python<'p>, key: Vec<u8>) -> PyResult<Bound<'p, PyBytes>> {
        self.get(py, key.clone(), None)?.ok_or_else(|| PyKeyError::new_err(key))
    }

    fn __setitem__(&self, py: Python<'_>, key: Vec<u8>, value: Vec<u8>) -> PyResult<()> {
        self.put(py, key, value, None).map(drop)
    }

    fn __delitem__(&self, py: Python<'_>, key: Vec<u8>) -> PyResult<()> {
        if self.delete(py, key.clone(), None)? { Ok(()) } else { Err(PyKeyError::new_err(key)) }
    }

    fn savepoint(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, |batch, savepoints| {
            savepoints.push(batch.savepoint()?);
            Ok(savepoints.len())
        })
    }

    fn roll_back(&self, py: Python<'_>, savepoint: usize) -> PyResult<()> {
        let known = self.call(py, move |batch, savepoints| {
            let Some(&found) = savepoint.checked_sub(1).and_then(|index| savepoints.get(index)) else {
                return Ok(false);
            };
            batch.roll_back(found)?;
            savepoints.truncate(savepoint);
            Ok(true)
        })?;
        if known { Ok(()) } else { Err(PyValueError::new_err("no savepoint of this transaction")) }
    }

    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.require_idle()?;
        let worker = lock(&self.worker).take().ok_or_else(|| closed("transaction"))?;
        let (answer, result) = channel();
        let sent = worker.to.send(Message::Commit(answer)).is_ok();
        let settled = py.detach(move || result.recv());
        self.end(py, worker);
        match settled {
            Ok(settled) if sent => settled.map_err(of),
            _ => Err(closed("transaction")),
        }
    }

    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.require_idle()?;
        let worker = lock(&self.worker).take();
        if let Some(worker) = worker {
            self.end(py, worker);
        }
        Ok(())
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// Commits, or gives up if the block has raised.
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<Py<PyAny>>,
        _error: Py<PyAny>,
        _trace: Py<PyAny>,
    ) -> PyResult<bool> {
        let is_open = lock(&self.worker).is_some();
        match kind {
            None if is_open => self.commit(py)?,
            _ => self.abort(py)?,
        }
        Ok(false)
    }
}

impl Drop for Transaction {
    /// One that was neither committed nor aborted: its batch is given up.
    fn drop(&mut self) {
        if lock(&self.worker).take().is_some() {
            self.forget();
        }
    }
}
