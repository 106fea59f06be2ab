//! [`HeapTools`]: heaps for tools that know no engine.

use crate::{Heap, Result};
use everbyte_store::{Engine, EngineError, EngineTools, ErrorInfo, Fact, Finding, Store};

/// The tools of [`Engine::Heap`].
pub struct HeapTools;

fn open(store: &Store, name: &str) -> Result<Heap> {
    Heap::open(store.object(name)?)
}

/// The findings of the heap of an object of any engine.
fn check_heap(store: &Store, name: &str) -> Vec<Finding> {
    match open(store, name) {
        Ok(heap) => heap.check(None),
        Err(error) => vec![Finding::unopened("heap", store, name, &error)],
    }
}

/// The findings of an object that its engine `source` cannot open: the error, and the findings of
/// its heap.
pub fn unopened(source: &'static str, store: &Store, name: &str, error: &impl ErrorInfo) -> Vec<Finding> {
    let mut findings = vec![Finding::unopened(source, store, name, error)];
    findings.extend(check_heap(store, name));
    findings
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
}
