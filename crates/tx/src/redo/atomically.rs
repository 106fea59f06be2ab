//! [`Redo::atomically`]: a body that is run again until it meets no conflict.

use super::{Redo, Worker};
use crate::{Error, TxError};
use std::cell::RefCell;

thread_local! {
    /// This thread's workers, by engine; one that runs a transaction is taken out.
    static WORKERS: RefCell<Vec<(u64, Box<Worker>)>> = const { RefCell::new(Vec::new()) };
}

/// Workers that a thread keeps.
const KEPT: usize = 4;

impl Redo {
    /// Runs `body` as one transaction, isolated from all others of this engine: all its changes or
    /// none, whatever crashes; settled on return. The body is run again where another transaction
    /// is in its way, so it should change nothing else; it passes errors of the worker on,
    /// [`Error::Conflict`] above all. An error or a panic leaves nothing.
    ///
    /// Inside a body one passes the worker on: a transaction begun inside another is independent of
    /// it, and waits forever for what that has locked.
    ///
    /// # Errors
    /// [`TxError::Aborted`] with the body's error. [`TxError::Engine`] as [`Worker::commit`].
    pub fn atomically<T, E>(&self, mut body: impl FnMut(&mut Worker) -> Result<T, E>) -> Result<T, TxError<E>> {
        let number = self.inner.number;
        let kept = WORKERS.try_with(|workers| {
            let mut workers = workers.borrow_mut();
            let index = workers.iter().position(|(engine, _)| *engine == number)?;
            Some(workers.swap_remove(index).1)
        });
        // A thread that is ending keeps none.
        let mut worker = kept.ok().flatten().unwrap_or_else(|| Box::new(self.worker()));
        let outcome = worker.run(&mut body);
        let _ = WORKERS.try_with(|workers| {
            let mut workers = workers.borrow_mut();
            workers.push((number, worker));
            if workers.len() > KEPT {
                drop(workers.remove(0)); // an engine long closed, most likely
            }
        });
        outcome
    }
}

impl Worker {
    fn run<T, E>(&mut self, body: &mut impl FnMut(&mut Worker) -> Result<T, E>) -> Result<T, TxError<E>> {
        loop {
            self.begin().map_err(TxError::Engine)?;
            match body(self) {
                // Its result comes from loads of different times, or of an abort in its midst.
                _ if self.met_conflict => self.abort_to_retry(),
                Ok(value) => match self.commit() {
                    Ok(()) => return Ok(value),
                    Err(Error::Conflict) => self.abort_to_retry(),
                    Err(error) => {
                        self.give_up();
                        return Err(TxError::Engine(error));
                    }
                },
                Err(error) => {
                    self.give_up();
                    return Err(TxError::Aborted(error));
                }
            }
        }
    }
}
