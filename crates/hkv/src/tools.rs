//! [`HkvTools`]: HEAPO's key-value stores for tools that know no engine.

use crate::{Kv, Result};
use everbyte_heap::unopened;
use everbyte_store::{Engine, EngineError, EngineTools, Fact, Finding, Store};

/// The tools of [`Engine::Hkv`].
pub struct HkvTools;

fn open(store: &Store, name: &str) -> Result<Kv> {
    Kv::open(store.object(name)?)
}

impl EngineTools for HkvTools {
    fn engine(&self) -> Engine {
        Engine::Hkv
    }

    fn describe(&self, store: &Store, name: &str) -> Result<Vec<Fact>, EngineError> {
        let pairs = open(store, name).map_err(EngineError::new)?;
        Ok(vec![Fact { name: "is_tree", value: matches!(pairs, Kv::Tree(_)).into() }])
    }

    fn recover(&self, store: &Store, name: &str) -> Result<Vec<String>, EngineError> {
        open(store, name).map(|_| Vec::new()).map_err(EngineError::new)
    }

    fn check(&self, store: &Store, name: &str) -> Vec<Finding> {
        match open(store, name) {
            Ok(pairs) => pairs.check(),
            Err(error) => unopened("hkv", store, name, &error),
        }
    }

    fn not_walked(&self) -> String {
        "it is a table, whose own check reads all of it".into()
    }
}
