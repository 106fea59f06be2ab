//! Merging stores: objects of some stores, copied into another.
//!
//! Steps:
//!   1. conflicts are refused before the first copy: taken names, objects that no engine can copy,
//!      damaged stores
//!   2. each object is copied, and gets its name only when it is whole
//!
//! An interrupted merge has copied some objects whole and the others not at all. With
//! [`MergeOptions::resume`] the same merge copies the rest: each copy records its source.

use crate::Engines;
use everbyte_media::{Damage, ErrorInfo, ErrorKind, Length};
use everbyte_store::raw::AsStore;
use everbyte_store::{Engine, EngineError, EngineTools, Info, Object, Origin, Store};
use std::path::PathBuf;

/// The choice and the names of objects.
#[derive(Clone, Debug, Default)]
pub struct MergeOptions {
    /// Put before every name that is not in `renames`.
    pub prefix: String,
    /// Names in the sources, and their new names.
    pub renames: Vec<(String, String)>,
    /// Names in the sources that are left out.
    pub skip: Vec<String>,
    /// Whether copies that an earlier merge has made of the same objects are left as they are,
    /// rather than refused.
    pub resume: bool,
    /// The engines that know how to copy their objects.
    pub engines: Engines,
}

/// A possible merge; see [`Merge::plan`].
#[derive(Debug)]
pub struct Merge<'t> {
    target: &'t Store,
    engines: Engines,
    steps: Vec<MergeStep>,
}

/// One object of a [`Merge`].
#[derive(Clone, Debug)]
pub struct MergeStep {
    /// Its store.
    source: Store,
    /// Its name there.
    pub name: String,
    /// Its name in the target.
    pub target: String,
    /// Its engine.
    pub engine: Engine,
    /// Bytes that it takes in its store.
    pub bytes: Length,
    /// Whether an earlier merge has copied it.
    pub present: bool,
}

/// The reason why stores cannot be merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A store refused.
    #[error(transparent)]
    Store(#[from] everbyte_store::Error),
    /// An object could not be read or written.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A name is taken.
    #[error(
        "{source_path}: `{name}` would be `{target}`, {by}; nothing was merged: choose a prefix, rename it, or skip it"
    )]
    Taken {
        /// The source.
        source_path: PathBuf,
        /// The object there.
        name: String,
        /// The name that is taken.
        target: String,
        /// By what.
        by: &'static str,
    },
    /// The copy is there already.
    #[error(
        "{source_path}: `{name}` has been merged before, as `{target}`; resume the merge to leave that copy as it is, or skip it"
    )]
    Present {
        /// The source.
        source_path: PathBuf,
        /// The object there.
        name: String,
        /// The copy's name.
        target: String,
    },
    /// Only the program that made an object knows what in it is an address.
    #[error(
        "{source_path}: `{name}` (engine `{engine}`) can be copied only by the program that made it; nothing was merged: skip it"
    )]
    Unknown {
        /// The source.
        source_path: PathBuf,
        /// The object.
        name: String,
        /// Its engine.
        engine: Engine,
    },
    /// A rename or a skip names no object.
    #[error("no object `{name}` is in the stores to be merged")]
    Absent {
        /// The name.
        name: String,
    },
}

impl ErrorInfo for MergeError {
    fn kind(&self) -> ErrorKind {
        match self {
            MergeError::Store(error) => error.kind(),
            MergeError::Engine(error) => error.kind(),
            MergeError::Taken { .. } | MergeError::Present { .. } => ErrorKind::Exists,
            MergeError::Unknown { .. } | MergeError::Absent { .. } => ErrorKind::Invalid,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            MergeError::Store(error) => error.damage(),
            MergeError::Engine(error) => error.damage(),
            _ => None,
        }
    }
}

impl<'t> Merge<'t> {
    /// Decides what a merge of all objects of `sources` into `target` would do, and refuses an
    /// impossible one. The sources may be open read-only; they must not change until the
    /// merge is done.
    ///
    /// # Errors
    /// See [`MergeError`]; `everbyte_store::Error::Damaged` for a damaged source. Nothing has
    /// changed.
    pub fn plan(
        target: &'t impl AsStore,
        sources: &[impl AsStore],
        options: &MergeOptions,
    ) -> Result<Merge<'t>, MergeError> {
        let target = target.as_store();
        let sources: Vec<Store> = sources.iter().map(|source| source.as_store().clone()).collect();
        sources.iter().try_for_each(Store::require_sound)?;
        let lists = sources.iter().map(Store::objects).collect::<Result<Vec<_>, _>>()?;
        let mut named = options.renames.iter().map(|(name, _)| name).chain(&options.skip);
        if let Some(name) = named.find(|name| lists.iter().flatten().all(|info| info.name != **name)) {
            return Err(MergeError::Absent { name: name.clone() });
        }
        let mut steps: Vec<MergeStep> = Vec::new();
        for (source, objects) in sources.iter().zip(&lists) {
            for info in objects.iter().filter(|info| !options.skip.contains(&info.name)) {
                let step = MergeStep::new(target, source, &source.object(&info.name)?, options)?;
                if steps.iter().any(|other| other.target == step.target) {
                    return Err(step.taken("which another object of this merge would be, too"));
                }
                steps.push(step);
            }
        }
        let Info { slots, objects, .. } = target.info();
        if steps.iter().filter(|step| !step.present).count() as u64 > slots - objects {
            return Err(everbyte_store::Error::Full { slots }.into());
        }
        Ok(Merge { target, engines: options.engines.clone(), steps })
    }

    /// The objects to copy, in that order.
    pub fn steps(&self) -> &[MergeStep] {
        &self.steps
    }

    /// Copies all of them, one after the other.
    ///
    /// # Errors
    /// As [`Merge::copy`]: the objects before are merged, that one and those behind it are not.
    pub fn run(&self) -> Result<(), MergeError> {
        self.steps.iter().try_for_each(|step| self.copy(step, &mut |_| ()))
    }

    /// Copies one of [`Merge::steps`], unless it is there already. Settled, with its name, on
    /// return. `progress` receives the bytes copied so far.
    ///
    /// # Errors
    /// A full disk or store, damage inside the object: its copy is absent.
    pub fn copy(&self, step: &MergeStep, progress: &mut dyn FnMut(u64)) -> Result<(), MergeError> {
        if step.present {
            return Ok(());
        }
        let copy = |tools: &dyn EngineTools| tools.copy(&step.source, &step.name, self.target, &step.target, progress);
        Ok(self.engines.with_tools(step.engine, copy)?)
    }
}

impl MergeStep {
    fn new(target: &Store, source: &Store, object: &Object, options: &MergeOptions) -> Result<MergeStep, MergeError> {
        let (name, engine) = (object.name().to_string(), object.engine());
        let renamed = options.renames.iter().find(|(from, _)| *from == name).map(|(_, to)| to.clone());
        let target_name = renamed.unwrap_or_else(|| format!("{}{name}", options.prefix));
        let bytes = Length::new((object.backed() - object.prime()).get());
        let step = MergeStep { source: source.clone(), name, target: target_name, engine, bytes, present: false };
        if !options.engines.with_tools(engine, |tools| tools.can_copy(object))? {
            return Err(step.unknown());
        }
        drop(object.claim()?); // an object that is open here could change meanwhile
        match target.require_free(&step.target) {
            Ok(()) => Ok(step),
            Err(everbyte_store::Error::Exists { .. }) => {
                let copied = target.object(&step.target)?.origin() == Some(Origin::of(object));
                match (copied, options.resume) {
                    (true, true) => Ok(MergeStep { present: true, ..step }),
                    (true, false) => Err(step.merged_before()),
                    (false, _) => Err(step.taken("which the target has already")),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The path of its store.
    pub fn source_path(&self) -> PathBuf {
        self.source.media().path().into()
    }

    fn taken(self, by: &'static str) -> MergeError {
        MergeError::Taken { source_path: self.source_path(), name: self.name, target: self.target, by }
    }

    fn merged_before(self) -> MergeError {
        MergeError::Present { source_path: self.source_path(), name: self.name, target: self.target }
    }

    fn unknown(self) -> MergeError {
        MergeError::Unknown { source_path: self.source_path(), name: self.name, engine: self.engine }
    }
}
