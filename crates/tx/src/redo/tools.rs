//! [`RedoTools`]: redo transactions for tools that know no engine.

use crate::{Redo, Result};
use everbyte_heap::unopened;
use everbyte_store::{Engine, EngineError, EngineTools, Fact, Finding, Store};

/// The tools of [`Engine::Redo`].
pub struct RedoTools;

fn open(store: &Store, name: &str) -> Result<Redo> {
    Redo::open(store.object(name)?)
}

impl EngineTools for RedoTools {
    fn engine(&self) -> Engine {
        Engine::Redo
    }

    fn describe(&self, store: &Store, name: &str) -> Result<Vec<Fact>, EngineError> {
        let redo = open(store, name).map_err(EngineError::new)?;
        Ok(vec![Fact { name: "replayed", value: redo.replayed().transactions }])
    }

    fn recover(&self, store: &Store, name: &str) -> Result<Vec<String>, EngineError> {
        let redo = open(store, name).map_err(EngineError::new)?;
        let replayed = redo.replayed().transactions;
        let done = (replayed > 0).then(|| format!("{replayed} committed transactions brought to their places"));
        Ok(done.into_iter().collect())
    }

    fn check(&self, store: &Store, name: &str) -> Vec<Finding> {
        match open(store, name) {
            Ok(redo) => redo.check(None),
            Err(error) => unopened("tx", store, name, &error),
        }
    }

    fn not_walked(&self) -> String {
        "what its blocks hold only its program knows".into()
    }
}
