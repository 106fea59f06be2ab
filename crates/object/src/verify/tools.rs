//! [`UndoTools`]: typed pools, and other objects of undo transactions, for tools that know no
//! engine.

use crate::verify::deep::report::{Fault, FaultKind};
use crate::{Error, RepairPlan, Report, UntypedPool, copy_pool, require_pool};
use everbyte_heap::unopened;
use everbyte_media::{ErrorInfo, ErrorKind};
use everbyte_store::{
    Deep, Engine, EngineError, EngineTools, Fact, Finding, Object, Repair, RepairStep, Store, Sums, Token, Walk,
    require_whole,
};
use everbyte_tx::Undo;

/// The tools of [`Engine::Undo`].
pub struct UndoTools;

fn open(store: &Store, name: &str) -> everbyte_tx::Result<Undo> {
    Undo::open(store.object(name)?)
}

impl EngineTools for UndoTools {
    fn engine(&self) -> Engine {
        Engine::Undo
    }

    fn describe(&self, store: &Store, name: &str) -> Result<Vec<Fact>, EngineError> {
        let is_typed = require_pool(&store.object(name)?).is_ok();
        Ok(vec![Fact { name: "is_typed", value: is_typed.into() }])
    }

    fn recover(&self, store: &Store, name: &str) -> Result<Vec<String>, EngineError> {
        let undo = open(store, name).map_err(EngineError::new)?;
        let found = undo.recovered();
        if found.rolled_back + found.finished == 0 {
            return Ok(Vec::new());
        }
        Ok(vec![format!("{} transactions rolled back, {} finished", found.rolled_back, found.finished)])
    }

    fn check(&self, store: &Store, name: &str) -> Vec<Finding> {
        match open(store, name) {
            Ok(undo) => undo.check(None),
            Err(error) => unopened("tx", store, name, &error),
        }
    }

    fn deep(&self, store: &Store, name: &str, progress: &dyn Fn(u64, Option<u64>)) -> Deep {
        match UntypedPool::open(store, name) {
            Ok(pool) => {
                let total = pool.allocated().ok().map(|total| total.blocks);
                let report = pool.examine(&|met| progress(met, total));
                let Report { reached, leaked, unsure, .. } = report;
                Deep { findings: report.findings(), walk: Walk::Whole(Sums { reached, leaked, unsure }) }
            }
            Err(Error::NotTyped { .. }) => {
                let why = "what its blocks hold only its program knows";
                Deep { findings: self.check(store, name), walk: Walk::No(why.into()) }
            }
            Err(error) => {
                let mut findings = vec![Finding::unopened("object", store, name, &error)];
                findings.extend(self.check(store, name));
                Deep { findings, walk: Walk::No("it cannot be opened".into()) }
            }
        }
    }

    fn plan_repair(
        &self,
        store: &Store,
        name: &str,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Option<Box<dyn Repair>>, EngineError> {
        let pool = match UntypedPool::open(store, name) {
            Ok(pool) => pool,
            Err(Error::NotTyped { .. }) => return require_whole(self.check(store, name)).map(|_| None),
            Err(error) => return Err(EngineError::new(error)),
        };
        let total = pool.allocated().ok().map(|total| total.blocks);
        let plan = pool.plan_repair(&|met| progress(met, total)).map_err(EngineError::new)?;
        if plan.is_empty() {
            return Ok(None);
        }
        drop(pool); // so that it can be opened again
        Ok(Some(Box::new(PoolRepair { store: store.clone(), plan })))
    }

    fn can_copy(&self, object: &Object) -> Result<bool, EngineError> {
        match require_pool(object) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Foreign => Ok(false),
            Err(error) => Err(EngineError::new(error)),
        }
    }

    fn copy(
        &self,
        source: &Store,
        name: &str,
        target: &Store,
        target_name: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), EngineError> {
        copy_pool(&source.object(name)?, target, target_name, progress).map_err(EngineError::new)
    }
}

/// The repair of a typed pool.
struct PoolRepair {
    store: Store,
    plan: RepairPlan,
}

fn steps(plan: &RepairPlan) -> Vec<RepairStep> {
    let counts = plan.counts().iter().filter_map(|fault| match fault {
        Fault { kind: FaultKind::Counts { stored, found }, at, paths, .. } => {
            Some(RepairStep::Counts { at: at.get(), paths: paths.clone(), stored: *stored, found: *found })
        }
        _ => None,
    });
    let leaks = plan.leaks().map(|leak| RepairStep::Free {
        at: leak.at.get(),
        bytes: Some(leak.bytes.get()),
        looks_like: leak.looks_like.to_vec(),
        detail: leak.to_string(),
    });
    counts.chain(leaks).collect()
}

impl Repair for PoolRepair {
    fn token(&self) -> Token {
        self.plan.token()
    }

    fn steps(&self) -> Vec<RepairStep> {
        steps(&self.plan)
    }

    fn run(self: Box<Self>, progress: &dyn Fn(u64, Option<u64>)) -> Result<Vec<RepairStep>, EngineError> {
        let mut pool = UntypedPool::open(&self.store, &self.plan.report().object).map_err(EngineError::new)?;
        let total = pool.allocated().ok().map(|total| total.blocks);
        let done = pool.repair(self.plan.token(), &|met| progress(met, total)).map_err(EngineError::new)?;
        Ok(steps(&done))
    }
}
