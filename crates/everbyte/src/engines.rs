//! [`Engines`]: the one table of engines, and the checks of a whole store that go through it.

use everbyte_fs::FsTools;
use everbyte_heap::HeapTools;
use everbyte_hkv::HkvTools;
use everbyte_kv::KvTools;
use everbyte_object::UndoTools;
use everbyte_store::raw::AsStore;
use everbyte_store::{Deep, Engine, EngineTools, Finding, NoTools, ObjectInfo, PlainTools, Store};
use everbyte_tx::redo::RedoTools;
use std::sync::Arc;

/// The engines that a tool supports.
///
/// [`Engines::standard`] are those of this workspace; a program with an engine of its own adds it
/// ([`Engines::with`]), and everything here treats its objects like the others.
///
/// ```
/// use everbyte::{Engines, Store};
///
/// # let directory = tempfile::tempdir()?;
/// let store = Store::create(&directory.path().join("a.everbyte"), &Default::default())?;
/// everbyte::Kv::create(&store, "table")?;
/// assert!(Engines::standard().check(&store, |_| ()).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Engines {
    custom: Vec<Arc<dyn EngineTools + Send>>,
}

impl Engines {
    /// The engines of this workspace.
    pub fn standard() -> Engines {
        Engines { custom: Vec::new() }
    }

    /// Adds an engine, which replaces an earlier one with its number.
    ///
    /// # Panics
    /// If its [`Engine`] is not [`Engine::Custom`].
    #[must_use]
    pub fn with(mut self, tools: impl EngineTools + Send + 'static) -> Engines {
        assert!(matches!(tools.engine(), Engine::Custom(_)), "the engine {} is Everbyte's own", tools.engine());
        self.custom.insert(0, Arc::new(tools));
        self
    }

    /// Calls `run` with the tools of `engine`; an unknown engine has [`NoTools`].
    pub fn with_tools<R>(&self, engine: Engine, run: impl FnOnce(&dyn EngineTools) -> R) -> R {
        match engine {
            Engine::None => run(&PlainTools),
            Engine::Undo => run(&UndoTools),
            Engine::Redo => run(&RedoTools),
            Engine::Cdds => run(&KvTools),
            Engine::Hkv => run(&HkvTools),
            Engine::Heap => run(&HeapTools),
            Engine::Fs => run(&FsTools),
            Engine::Names => run(&NoTools(engine)),
            Engine::Custom(_) => match self.custom.iter().find(|tools| tools.engine() == engine) {
                Some(tools) => run(&**tools),
                None => run(&NoTools(engine)),
            },
        }
    }

    /// Verifies the store and every object in it. Changes nothing; no thread may change objects
    /// meanwhile. `progress` is called with the number of objects done.
    pub fn check(&self, store: &impl AsStore, progress: impl Fn(usize)) -> Vec<Finding> {
        let store = store.as_store();
        let mut findings = store.check();
        // A damaged record, which the store's check has reported, makes the list empty.
        for (index, object) in store.objects().unwrap_or_default().iter().enumerate() {
            findings.extend(self.check_object(store, object));
            progress(index + 1);
        }
        findings
    }

    /// Verifies one object.
    pub fn check_object(&self, store: &Store, object: &ObjectInfo) -> Vec<Finding> {
        if store.object(&object.name).is_err() {
            return Vec::new(); // a damaged header, which the store's check has reported
        }
        self.with_tools(object.engine, |tools| tools.check(store, &object.name))
    }

    /// Verifies one object and follows its pointers, if its engine can.
    pub fn deep(&self, store: &Store, object: &ObjectInfo, progress: &dyn Fn(u64, Option<u64>)) -> Deep {
        self.with_tools(object.engine, |tools| tools.deep(store, &object.name, progress))
    }
}

impl Default for Engines {
    fn default() -> Engines {
        Engines::standard()
    }
}

impl std::fmt::Debug for Engines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.custom.iter().map(|tools| tools.engine())).finish()
    }
}
