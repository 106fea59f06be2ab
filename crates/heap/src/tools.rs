//! [`HeapTools`]: heaps for tools that know no engine.

use crate::{Heap, Result};
use everbyte_store::{Deep, Engine, EngineError, EngineTools, Fact, Finding, Object, PlainTools, Store, Walk};

/// The tools of [`Engine::Heap`].
pub struct HeapTools;

fn open(store: &Store, name: &str) -> Result<Heap> {
    Heap::open(store.object(name)?)
}

/// The findings of the heap of an object, of whatever engine.
pub fn check_heap(store: &Store, name: &str) -> Vec<Finding> {
    match open(store, name) {
        Ok(heap) => heap.check(None),
        Err(error) => vec![Finding::unopened("heap", store, name, &error)],
    }
}

impl EngineTools for HeapTools {
    fn engine(&self) -> Engine {
        Engine::Heap
    }

    fn describe(&self, store: &Store, name: &str) -> Result<Vec<Fact>, EngineError> {
        let heap = open(store, name).map_err(EngineError::new)?;
        Ok(vec![Fact { name: "least_span", value: heap.least_span() }])
    }

    fn recover(&self, store: &Store, name: &str) -> Result<Vec<String>, EngineError> {
        open(store, name).map(|_| Vec::new()).map_err(EngineError::new)
    }

    fn check(&self, store: &Store, name: &str) -> Vec<Finding> {
        check_heap(store, name)
    }

    fn deep(&self, store: &Store, name: &str, _: &dyn Fn(u64, Option<u64>)) -> Deep {
        Deep { findings: self.check(store, name), walk: Walk::No("what it holds only its program knows".into()) }
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
