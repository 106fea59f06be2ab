//! [`KvTools`]: tables for tools that know no engine.

use crate::hashed::HASH_FINGERPRINT;
use crate::{HashTable, Kv};
use everbyte_heap::unopened;
use everbyte_store::{
    Engine, EngineError, EngineTools, Fact, Finding, FindingKind, Object, Repair, RepairStep, Store, Token,
    require_whole,
};

/// The tools of [`Engine::Cdds`]: of its trees, and of its hash tables.
pub struct KvTools;

/// Whether the object `name` holds a hash table.
fn is_hashed(store: &Store, name: &str) -> bool {
    store.object(name).is_ok_and(|object| object.fingerprint() == HASH_FINGERPRINT)
}

fn open_hashed(store: &Store, name: &str) -> Result<HashTable, EngineError> {
    HashTable::open(store, name).map_err(EngineError::new)
}

impl EngineTools for KvTools {
    fn engine(&self) -> Engine {
        Engine::Cdds
    }

    fn describe(&self, store: &Store, name: &str) -> Result<Vec<Fact>, EngineError> {
        if is_hashed(store, name) {
            let stats = open_hashed(store, name)?.stats();
            let facts = [("keys", stats.keys), ("version", stats.version.get()), ("buckets", stats.buckets)];
            return Ok(facts.map(|(name, value)| Fact { name, value }).into());
        }
        let kv = Kv::open(store, name).map_err(EngineError::new)?;
        let stats = kv.stats();
        Ok(vec![Fact { name: "keys", value: stats.keys }, Fact { name: "version", value: stats.version.get() }])
    }

    fn recover(&self, store: &Store, name: &str) -> Result<Vec<String>, EngineError> {
        if is_hashed(store, name) {
            return open_hashed(store, name).map(|_| Vec::new());
        }
        Kv::open(store, name).map(|_| Vec::new()).map_err(EngineError::new)
    }

    fn check(&self, store: &Store, name: &str) -> Vec<Finding> {
        if is_hashed(store, name) {
            return match HashTable::open(store, name) {
                Ok(table) => table.check(),
                Err(error) => unopened("kv", store, name, &error),
            };
        }
        match Kv::open(store, name) {
            Ok(kv) => kv.check(),
            Err(error) => unopened("kv", store, name, &error),
        }
    }

    fn not_walked(&self) -> String {
        "it is a table, whose own check reads all of it".into()
    }

    fn plan_repair(
        &self,
        store: &Store,
        name: &str,
        _: &dyn Fn(u64, Option<u64>),
    ) -> Result<Option<Box<dyn Repair>>, EngineError> {
        let mut leaks = require_whole(self.check(store, name))?;
        if is_hashed(store, name) {
            return Ok(None); // no crash makes a leak there
        }
        leaks.retain(|finding| finding.kind == FindingKind::Leak);
        if leaks.is_empty() {
            return Ok(None);
        }
        let identity = u128::from_le_bytes(store.identity());
        let words = [identity as u64, (identity >> 64) as u64, (store.object(name)?.id()).get()];
        let token = words.into_iter().chain(leaks.iter().map(|leak| leak.at)).collect();
        Ok(Some(Box::new(FreeLeaks { store: store.clone(), name: name.into(), leaks, token })))
    }

    fn can_copy(&self, object: &Object) -> Result<bool, EngineError> {
        Ok(object.fingerprint() != HASH_FINGERPRINT)
    }

    fn copy(
        &self,
        source: &Store,
        name: &str,
        target: &Store,
        target_name: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), EngineError> {
        let kv = Kv::open(source, name).map_err(EngineError::new)?;
        kv.copy_to(target, target_name, progress).map_err(EngineError::new)
    }
}

/// Frees blocks of a table's heap that its tree does not own.
struct FreeLeaks {
    store: Store,
    name: String,
    leaks: Vec<Finding>,
    token: Token,
}

fn steps(leaks: &[Finding]) -> Vec<RepairStep> {
    let step = |leak: &Finding| RepairStep::Free {
        at: leak.at,
        bytes: None,
        looks_like: Vec::new(),
        detail: leak.detail.clone(),
    };
    leaks.iter().map(step).collect()
}

impl Repair for FreeLeaks {
    fn token(&self) -> Token {
        self.token
    }

    fn steps(&self) -> Vec<RepairStep> {
        steps(&self.leaks)
    }

    fn run(self: Box<Self>, _: &dyn Fn(u64, Option<u64>)) -> Result<Vec<RepairStep>, EngineError> {
        let kv = Kv::open(&self.store, &self.name).map_err(EngineError::new)?;
        kv.free_leaks().map(|leaks| steps(&leaks)).map_err(EngineError::new)
    }
}
