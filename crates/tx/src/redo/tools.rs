//! [`RedoTools`]: redo transactions for tools that know no engine.

use crate::{Redo, Result};
use everbyte_heap::check_heap;
use everbyte_store::{Deep, Engine, EngineError, EngineTools, Fact, Finding, Object, PlainTools, Store, Walk};

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
            Err(error) => {
                let mut findings = vec![Finding::unopened("tx", store, name, &error)];
                findings.extend(check_heap(store, name));
                findings
            }
        }
    }

    fn deep(&self, store: &Store, name: &str, _: &dyn Fn(u64, Option<u64>)) -> Deep {
        Deep { findings: self.check(store, name), walk: Walk::No("what its blocks hold only its program knows".into()) }
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
