//! [`Store`]: the interface of a store for programs, without calls that change bytes directly.
//!
//! A program that has references into a pool must not be able to change the pool's bytes by a safe
//! call. So this store and its objects offer neither the media nor the clusters of objects;
//! `everbyte-store`, on which it is built, does. [`Store::from`] makes one of those for
//! tools that need both.

use everbyte_media::{Length, Offset, Options};
use everbyte_store::raw::{AsStore, IntoObject};
use std::ops::Range;
use std::path::Path;

pub use everbyte_store::{
    Access, CLUSTER, Caller, CreateOptions, Engine, Error, Finding, FindingKind, Info, NAME_MAX, ObjectInfo, Origin,
    Recovery, Residency, Result, Want,
};

/// One open store. Cheap to clone; all clones are one store.
#[derive(Clone, Debug)]
pub struct Store(everbyte_store::Store);

/// A named object of a store, opened by the type of its contents. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Object(everbyte_store::Object);

impl AsStore for Store {
    fn as_store(&self) -> &everbyte_store::Store {
        &self.0
    }
}

impl IntoObject for Object {
    fn into_object(self) -> everbyte_store::Object {
        self.0
    }
}

impl From<everbyte_store::Store> for Store {
    fn from(store: everbyte_store::Store) -> Store {
        Store(store)
    }
}

/// Methods of the store below, with its documentation's first sentence, and its errors.
macro_rules! same {
    ($($(#[$about:meta])* $name:ident($($argument:ident: $of:ty),*) -> $answer:ty;)*) => { $(
        $(#[$about])*
        ///
        /// # Errors
        /// As the method of this name in `everbyte-store`.
        pub fn $name(&self, $($argument: $of),*) -> Result<$answer> {
            self.0.$name($($argument),*)
        }
    )* };
}

impl Store {
    /// Creates a store at `path`, which must not exist.
    ///
    /// # Errors
    /// The path exists or cannot be created; the options conflict.
    pub fn create(path: &Path, options: &CreateOptions) -> Result<Store> {
        everbyte_store::Store::create(path, options).map(Store)
    }

    /// Opens the store at `path`: recovery completes or undoes the changes that a crash
    /// interrupted.
    ///
    /// # Errors
    /// There is no store, it is damaged beyond recovery, or another process has it.
    pub fn open(path: &Path, options: &Options) -> Result<Store> {
        everbyte_store::Store::open(path, options).map(Store)
    }

    /// Opens the store at `path` read-only: no byte of it changes.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_read_only(path: &Path, options: &Options) -> Result<Store> {
        everbyte_store::Store::options(path).read_only().open(options).map(Store)
    }

    /// Opens the store at `path`, shared with other processes.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_shared(path: &Path, options: &Options) -> Result<Store> {
        everbyte_store::Store::options(path).shared().open(options).map(Store)
    }

    /// Opens the store of a domain: shared with other processes for writing, or read-only.
    ///
    /// # Errors
    /// As [`Store::open_shared`] and [`Store::open_read_only`].
    pub fn open_domain(domain: crate::broker::Domain, options: &Options) -> crate::broker::Result<Store> {
        everbyte_broker::raw::Raw::open(domain, options).map(Store)
    }

    /// Whether it was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.0.is_read_only()
    }

    /// Random 16 bytes that identify the store.
    pub fn identity(&self) -> [u8; 16] {
        self.0.identity()
    }

    /// The number of openings of the store.
    pub fn generation(&self) -> u64 {
        self.0.generation()
    }

    /// Findings and repairs of the opening.
    pub fn recovery(&self) -> &Recovery {
        self.0.recovery()
    }

    /// Description of the store.
    pub fn info(&self) -> Info {
        self.0.info()
    }

    /// Checks the store's own structures. An empty list: all is well.
    pub fn check(&self) -> Vec<Finding> {
        self.0.check()
    }

    /// The object of that name.
    ///
    /// # Errors
    /// There is none, or its rights do not allow the access.
    pub fn object(&self, name: &str) -> Result<Object> {
        self.0.object(name).map(Object)
    }

    /// Raises the declared maximum.
    ///
    /// # Errors
    /// As the method of this name in `everbyte-store`.
    pub fn grow(&self, max: impl Into<Length>) -> Result<()> {
        self.0.grow(max.into().get())
    }

    /// Returns released clusters to the file system: the number of their bytes.
    ///
    /// # Errors
    /// As the method of this name in `everbyte-store`.
    pub fn trim(&self) -> Result<Length> {
        self.0.trim().map(Length::new)
    }

    /// Copies all objects to a new file, as of one moment, while other threads change them.
    ///
    /// # Errors
    /// As the function of this name in `everbyte-backup`.
    pub fn backup(
        &self,
        to: &Path,
        options: &everbyte_backup::Options,
        report: &mut dyn FnMut(everbyte_backup::Progress),
    ) -> everbyte_backup::Result<everbyte_backup::Summary> {
        everbyte_backup::backup(&self.0, to, options, report)
    }

    same! {
        /// All objects, by name.
        objects() -> Vec<ObjectInfo>;
        /// The objects whose names begin with `prefix`.
        objects_below(prefix: &str) -> Vec<ObjectInfo>;
        /// Description of the object of that name.
        stat(name: &str) -> ObjectInfo;
        /// The names that begin with `prefix`.
        names(prefix: &str) -> Vec<String>;
        /// Removes an object that is not open.
        remove_object(name: &str) -> ();
        /// Renames an object.
        rename_object(from: &str, to: &str) -> ();
        /// Sets the rights of an object.
        chmod(name: &str, mode: u16) -> ();
        /// Sets the owner and the group of an object.
        chown(name: &str, owner: Option<u32>, group: Option<u32>) -> ();
        /// Sets the quota of an object, in clusters.
        set_quota(name: &str, clusters: Option<u64>) -> ();
        /// Sets the quota of all objects of one user together, in clusters.
        set_user_quota(clusters: Option<u64>) -> ();
        /// Settles everything and closes the store; open objects stay whole.
        close() -> ();
    }
}

impl Object {
    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The object's number, which the store never uses again.
    pub fn id(&self) -> u64 {
        self.0.id().get()
    }

    /// The engine that may change it.
    pub fn engine(&self) -> Engine {
        self.0.engine()
    }

    /// The addresses reserved for it.
    pub fn span(&self) -> Range<Offset> {
        let span = self.0.span();
        span.start.into()..span.end.into()
    }
}
