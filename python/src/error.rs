//! Exceptions: one for each reaction that makes sense, below `EverbyteError`.

use everbyte_media::{ErrorInfo, ErrorKind};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(everbyte, EverbyteError, PyException, "An error of a store: see its text.");
create_exception!(everbyte, NotFoundError, EverbyteError, "No store, table or version of this name.");
create_exception!(everbyte, ExistsError, EverbyteError, "The name is taken.");
create_exception!(everbyte, BusyError, EverbyteError, "In use, or a transaction is in the way.");
create_exception!(everbyte, SpaceError, EverbyteError, "The disk, the store or a quota is full.");
create_exception!(everbyte, DamagedError, EverbyteError, "Bytes on media contradict themselves.");

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("EverbyteError", py.get_type::<EverbyteError>())?;
    module.add("NotFoundError", py.get_type::<NotFoundError>())?;
    module.add("ExistsError", py.get_type::<ExistsError>())?;
    module.add("BusyError", py.get_type::<BusyError>())?;
    module.add("SpaceError", py.get_type::<SpaceError>())?;
    module.add("DamagedError", py.get_type::<DamagedError>())
}

/// The exception of an error.
pub(crate) fn of(error: impl ErrorInfo) -> PyErr {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::NotFound => NotFoundError::new_err(text),
        ErrorKind::Exists => ExistsError::new_err(text),
        ErrorKind::Busy | ErrorKind::Conflict => BusyError::new_err(text),
        ErrorKind::NoSpace | ErrorKind::Quota => SpaceError::new_err(text),
        ErrorKind::Damaged => DamagedError::new_err(text),
        _ => EverbyteError::new_err(text),
    }
}

/// A handle was closed.
pub(crate) fn closed(what: &str) -> PyErr {
    EverbyteError::new_err(format!("the {what} is closed"))
}
