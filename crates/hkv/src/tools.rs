//! [`HkvTools`]: HEAPO's key-value stores for tools that know no engine.

use crate::{Kv, Result};
use everbyte_heap::check_heap;
use everbyte_store::{Deep, Engine, EngineError, EngineTools, Fact, Finding, Object, PlainTools, Store, Walk};

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
            Err(error) => {
                let mut findings = vec![Finding::unopened("hkv", store, name, &error)];
                findings.extend(check_heap(store, name));
                findings
            }
        }
    }

    fn deep(&self, store: &Store, name: &str, _: &dyn Fn(u64, Option<u64>)) -> Deep {
        Deep {
            findings: self.check(store, name),
            walk: Walk::No("it is a table, whose own check reads all of it".into()),
        }
    }

    fn can_copy(&self, _: &Object) -> Result<bool, EngineError> {
        Ok(false)
    }

    fn copy(
        &self,
        source: &Store,
        name: &str,
        target: &Store,
        target_name: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), EngineError> {
        PlainTools.copy(source, name, target, target_name, progress)
    }
}
