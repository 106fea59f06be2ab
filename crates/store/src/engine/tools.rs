//! [`EngineTools`]: the questions that tools ask an engine about one object.
//!
//! `check`, `check --deep`, repair, `info`, `merge`, the fuzzers and the explorer's cases know no
//! engine: each engine's crate implements this trait once, and one table in `everbyte` lists the
//! implementations (`everbyte::Engines`). A new engine is one implementation and one row.

use super::error::EngineError;
use super::id::Engine;
use super::token::Token;
use crate::{Finding, FindingKind, Object, Store};
use everbyte_media::ErrorInfo;

/// The face of an engine for tools. All calls name an object of that engine.
pub trait EngineTools: Sync {
    /// The engine.
    fn engine(&self) -> Engine;

    /// Figures for `everbyte info`; none unless the engine has some. Opens the object; constant
    /// cost beside that.
    ///
    /// # Errors
    /// As opening the object.
    fn describe(&self, store: &Store, name: &str) -> Result<Vec<Fact>, EngineError> {
        let _ = (store, name);
        Ok(Vec::new())
    }

    /// Opens the object as a program does, which completes or rolls back the changes that a crash
    /// interrupted, and returns a sentence for each kind of work that was done.
    ///
    /// # Errors
    /// As opening the object; it is unchanged.
    fn recover(&self, store: &Store, name: &str) -> Result<Vec<String>, EngineError>;

    /// Verifies the engine's structures; changes nothing. An object that cannot be opened is a
    /// finding, beside those of the heap under it.
    fn check(&self, store: &Store, name: &str) -> Vec<Finding>;

    /// The reason why a deep check does not follow the pointers in the object's blocks.
    fn not_walked(&self) -> String {
        "what it holds only its program knows".into()
    }

    /// As [`EngineTools::check`], and follows every pointer where the engine knows what its blocks
    /// hold. `progress` receives the blocks done and, where known, their total.
    fn deep(&self, store: &Store, name: &str, progress: &dyn Fn(u64, Option<u64>)) -> Deep {
        let _ = progress;
        Deep { findings: self.check(store, name), walk: Walk::No(self.not_walked()) }
    }

    /// Whether a repair removes damage, and loses no more than what is damaged.
    fn repairs_damage(&self) -> bool {
        false
    }

    /// Plans the repair of the object; `None`: it needs none. Changes nothing, but for what opening
    /// it changes.
    ///
    /// # Errors
    /// [`EngineError::Unrepairable`] if anything in the object is damaged that cannot be repaired.
    fn plan_repair(
        &self,
        store: &Store,
        name: &str,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Option<Box<dyn Repair>>, EngineError> {
        let _ = progress;
        require_whole(self.check(store, name)).map(|_| None)
    }

    /// Whether a copy of the object in another store means the same: the engine knows which of its
    /// words are addresses.
    ///
    /// # Errors
    /// Damage of the words that would tell.
    fn can_copy(&self, object: &Object) -> Result<bool, EngineError> {
        let _ = object;
        Ok(false)
    }

    /// Copies the object to the new object `target_name` of `target`. Settled on return; a crash
    /// leaves the copy whole or absent. `progress` receives the bytes of each part. Called only
    /// where [`EngineTools::can_copy`] says yes.
    ///
    /// # Errors
    /// Damage; the name is taken; out of space. Nothing of the copy is left.
    fn copy(
        &self,
        source: &Store,
        name: &str,
        target: &Store,
        target_name: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), EngineError> {
        let _ = (source, target, target_name, progress);
        Err(crate::Error::BadOption { detail: format!("only the program that made `{name}` can copy it") }.into())
    }
}

/// One figure of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Lower case, words joined by `_`.
    pub name: &'static str,
    /// The value.
    pub value: u64,
}

/// A number of blocks, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Number of blocks.
    pub blocks: u64,
    /// Usable bytes of all.
    pub bytes: u64,
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} blocks of {} bytes", self.blocks, self.bytes)
    }
}

/// The answer of a deep check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deep {
    /// The findings.
    pub findings: Vec<Finding>,
    /// The extent of the walk.
    pub walk: Walk,
}

/// The extent of a deep check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Walk {
    /// Every pointer was followed.
    Whole(Sums),
    /// The engine's own check is all, for this reason.
    No(String),
}

/// The blocks of an object, by a walk over all pointers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Reachable, or the engine's own.
    pub reached: Total,
    /// Allocated and not reachable.
    pub leaked: Total,
    /// Allocated, and reachable only by bytes that cannot be followed, if at all.
    pub unsure: Total,
}

/// A repair that was planned and not yet done.
pub trait Repair {
    /// Names the plan and the state that it was made for.
    fn token(&self) -> Token;

    /// The steps, in order.
    fn steps(&self) -> Vec<RepairStep>;

    /// Does the steps and returns those that were done. Settled on return. A crash leaves some
    /// steps done and the others not; the next repair does the rest.
    ///
    /// # Errors
    /// [`everbyte_media::ErrorKind::Conflict`] if the object has changed since the plan.
    fn run(self: Box<Self>, progress: &dyn Fn(u64, Option<u64>)) -> Result<Vec<RepairStep>, EngineError>;
}

/// One step of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairStep {
    /// Free a block.
    Free {
        /// Its offset in the store.
        at: u64,
        /// Its bytes, where known.
        bytes: Option<u64>,
        /// The types whose values it could be.
        looks_like: Vec<String>,
        /// The reason.
        detail: String,
    },
    /// Correct the counts of a shared object; with no strong pointer left its value is dropped.
    Counts {
        /// Its offset in the store.
        at: u64,
        /// The ways that lead to it from the root.
        paths: Vec<String>,
        /// Strong and weak count on media.
        stored: (u64, u64),
        /// Strong and weak pointers that exist.
        found: (u64, u64),
    },
    /// Remove damage.
    Mend {
        /// Its offset in the store.
        at: u64,
        /// The paths of the file that it is in.
        paths: Vec<String>,
        /// The damage, and the part that is kept.
        detail: String,
    },
}

/// Passes findings on unless one of them is damage.
///
/// # Errors
/// [`EngineError::Unrepairable`] with the first damage.
pub fn require_whole(findings: Vec<Finding>) -> Result<Vec<Finding>, EngineError> {
    match findings.iter().find(|finding| finding.is_damage()) {
        Some(damage) => Err(EngineError::Unrepairable(damage.clone())),
        None => Ok(findings),
    }
}

impl Finding {
    /// The finding that the engine of the object `name` cannot open it.
    pub fn unopened(source: &'static str, store: &Store, name: &str, error: &impl ErrorInfo) -> Finding {
        let start = || store.object(name).map_or(0, |object| object.span().start);
        Finding {
            room: source,
            kind: FindingKind::Damage,
            at: error.damage().and_then(|damage| damage.offset).unwrap_or_else(start),
            object: Some(name.into()),
            detail: format!("cannot be opened: {error}"),
        }
    }
}

/// The tools of [`Engine::None`]: the program stores what it likes, and there is nothing to verify.
pub struct PlainTools;

impl EngineTools for PlainTools {
    fn engine(&self) -> Engine {
        Engine::None
    }

    fn recover(&self, _: &Store, _: &str) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new())
    }

    fn check(&self, _: &Store, _: &str) -> Vec<Finding> {
        Vec::new()
    }
}

/// The tools of an engine that this program does not know.
pub struct NoTools(pub Engine);

impl EngineTools for NoTools {
    fn engine(&self) -> Engine {
        self.0
    }

    fn recover(&self, _: &Store, _: &str) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new())
    }

    fn check(&self, store: &Store, name: &str) -> Vec<Finding> {
        vec![Finding {
            room: "store",
            kind: FindingKind::Note,
            at: store.object(name).map_or(0, |object| object.span().start),
            object: Some(name.into()),
            detail: format!("this program has no engine `{}`: what it keeps was not checked", self.0),
        }]
    }

    fn not_walked(&self) -> String {
        format!("this program has no engine `{}`", self.0)
    }
}
