//! Everbyte for Python: the ordered key-value store. `everbyte/__init__.pyi` states the promises of
//! each call.
//!
//! * `open`: stores, key-value stores and their tables.
//! * `view`: settled versions, and iterators over their entries.
//! * `transaction`: transactions, each with a thread that holds its batch.
//! * `error`: exceptions.
//!
//! Threads: any; calls that wait or read media release the GIL.

#![forbid(unsafe_code)]

mod error;
mod open;
mod transaction;
mod view;

use pyo3::prelude::*;

#[pymodule]
fn _everbyte(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::add(module)?;
    module.add_class::<open::Store>()?;
    module.add_class::<open::Table>()?;
    module.add_class::<view::View>()?;
    module.add_class::<view::Entries>()?;
    module.add_class::<transaction::Transaction>()?;
    module.add_function(wrap_pyfunction!(open::open, module)?)
}
