//! [`FsTools`]: volumes for tools that know no engine.

use crate::{Result, Volume, VolumeRepair, system_clock};
use everbyte_store::{Engine, EngineError, EngineTools, Fact, Finding, Repair, RepairStep, Store, Token};

/// The tools of [`Engine::Fs`].
pub struct FsTools;

fn open(store: &Store, name: &str) -> Result<Volume> {
    Volume::open(store.object(name)?)
}

/// Opens a volume, takes a look and closes it.
fn look<T>(store: &Store, name: &str, body: impl FnOnce(&Volume) -> T) -> Result<T, EngineError> {
    let volume = open(store, name).map_err(EngineError::new)?;
    let found = body(&volume);
    volume.close().map_err(EngineError::new)?;
    Ok(found)
}

impl EngineTools for FsTools {
    fn engine(&self) -> Engine {
        Engine::Fs
    }

    fn describe(&self, store: &Store, name: &str) -> Result<Vec<Fact>, EngineError> {
        let usage = look(store, name, Volume::usage)?;
        let facts = [
            ("pages", usage.pages),
            ("free_pages", usage.free_pages),
            ("inodes", usage.inodes),
            ("free_inodes", usage.free_inodes),
        ];
        Ok(facts.map(|(name, value)| Fact { name, value }).to_vec())
    }

    fn recover(&self, store: &Store, name: &str) -> Result<Vec<String>, EngineError> {
        let recovery = look(store, name, |volume| volume.recovery().clone())?;
        let mut done = Vec::new();
        if recovery.undone > 0 {
            done.push(format!("{} interrupted changes undone", recovery.undone));
        }
        if !recovery.orphans.is_empty() {
            done.push(format!("{} files without a name removed", recovery.orphans.len()));
        }
        if recovery.head_repaired {
            done.push("a copy of the volume's head written again".into());
        }
        Ok(done)
    }

    fn check(&self, store: &Store, name: &str) -> Vec<Finding> {
        match open(store, name) {
            Ok(volume) => {
                let findings = volume.check();
                if findings.is_empty() {
                    // After a failure, as with findings, the next opening scans.
                    drop(volume.close());
                }
                findings
            }
            Err(error) => vec![Finding::unopened("fs", store, name, &error)],
        }
    }

    fn repairs_damage(&self) -> bool {
        true
    }

    fn plan_repair(
        &self,
        store: &Store,
        name: &str,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Option<Box<dyn Repair>>, EngineError> {
        let plan = VolumeRepair::plan(store.object(name)?, system_clock(), progress).map_err(EngineError::new)?;
        Ok((!plan.is_empty()).then(|| Box::new(plan) as Box<dyn Repair>))
    }

    fn not_walked(&self) -> String {
        "it is a volume, whose own check reads all of its inodes and names".into()
    }
}

impl Repair for VolumeRepair {
    fn token(&self) -> Token {
        VolumeRepair::token(self)
    }

    fn steps(&self) -> Vec<RepairStep> {
        VolumeRepair::steps(self).to_vec()
    }

    fn run(self: Box<Self>, _progress: &dyn Fn(u64, Option<u64>)) -> Result<Vec<RepairStep>, EngineError> {
        VolumeRepair::run(*self).map_err(EngineError::new)
    }
}
