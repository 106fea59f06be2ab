//! Making and opening stores: [`Store::create`], [`Store::format`] and [`OpenOptions`].

use crate::layout::{FEATURE_ACCESS, SUPERBLOCKS, Superblock};
use crate::superblock::copies::{self, Copy};
use crate::superblock::identity;
use crate::superblock::plan::Plan;
use crate::superblock::words::Words;
use crate::{CLUSTER, Error, Info, Result, Store};
use everbyte_media::{Media, Options};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Options of [`Store::create`].
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Options of the first opening; the log's size is fixed here.
    pub media: Options,
    /// Declared maximum in bytes, 1 TiB by default: the store's file takes no more space on the
    /// disk, and one object may have nearly all of it. A store takes as much as it needs. Of it a
    /// sixteenth at most is set aside for the log.
    pub max: u64,
    /// Binds the store to one address for life, for programs that keep plain pointers in it. Bound
    /// stores share a process if they do not overlap: a smaller maximum makes that likelier. Such a
    /// store has no more addresses than its maximum, so its largest object has half of that.
    pub bound: bool,
}

impl Default for CreateOptions {
    fn default() -> CreateOptions {
        CreateOptions { media: Options::default(), max: 1 << 40, bound: false }
    }
}

/// Options of [`Store::format`].
#[derive(Clone, Copy, Debug, Default)]
pub struct FormatOptions {
    /// Bytes set aside for the log of the `file` backend; 0 on media that will never be opened as a
    /// file.
    pub log_len: u64,
    /// The identity; `None`: random. Tests that compare bytes give one.
    pub identity: Option<[u8; 16]>,
}

/// The number of further addresses that are tried for a new bound store while the first ones are
/// taken in this process.
const TRIES: usize = 32;

/// Ways to open a store.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("everbyte-open-options-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// # let path = dir.join("store");
/// use everbyte_media::Options;
/// use everbyte_store::{CreateOptions, OpenOptions, Store};
/// drop(Store::create(&path, &CreateOptions::default())?);
/// let store = OpenOptions::new(&path).read_only().open(&Options::default())?;
/// assert!(store.is_read_only());
/// # drop(store);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing happens before `open`"]
pub struct OpenOptions {
    path: PathBuf,
    access: OpenAccess,
    bytes: Option<File>,
    locks: Option<File>,
    max: Option<u64>,
}

/// The access of this process, and of others meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenAccess {
    Alone,
    ReadOnly,
    Shared,
    Rebased,
}

impl OpenOptions {
    /// Options for the store at `path`: to read and change it, for this process alone.
    pub fn new(path: impl AsRef<Path>) -> OpenOptions {
        let path = path.as_ref().into();
        OpenOptions { path, access: OpenAccess::Alone, bytes: None, locks: None, max: None }
    }

    /// Opens the store to read it: the file does not change, and the stores of recovery stay in
    /// this process. [`Store::check`] reports what an ordinary opening would repair. Several
    /// processes may read at once.
    pub fn read_only(self) -> OpenOptions {
        OpenOptions { access: OpenAccess::ReadOnly, ..self }
    }

    /// Opens a store that other processes may open in the same way, on a backend whose stores
    /// processes share; on others the process has the store alone. Objects are this process's alone
    /// unless they are opened shared ([`crate::ObjectSharing::Shared`]).
    pub fn shared(self) -> OpenOptions {
        OpenOptions { access: OpenAccess::Shared, ..self }
    }

    /// Gives the store a new identity: for a copy made by hand, which then opens beside its
    /// original.
    pub fn rebased(self) -> OpenOptions {
        OpenOptions { access: OpenAccess::Rebased, ..self }
    }

    /// Uses the descriptor `bytes` of the store's file, which another process has passed; the path
    /// only appears in messages. For stores that are read or shared.
    pub fn over(self, bytes: File) -> OpenOptions {
        OpenOptions { bytes: Some(bytes), ..self }
    }

    /// Uses the descriptor `locks` for the locks on the file; see
    /// [`everbyte_media::OpenOptions::locks`].
    pub fn locks(self, locks: File) -> OpenOptions {
        OpenOptions { locks: Some(locks), ..self }
    }

    /// Raises the declared maximum of the store, which no process has open. A crash leaves the old
    /// maximum or the new one.
    pub fn grown(self, max: u64) -> OpenOptions {
        OpenOptions { max: Some(max / CLUSTER * CLUSTER), ..self }
    }

    /// Opens the store: takes its lock, replays its log, recovers its metadata. The cost does not
    /// grow with its data. Objects recover when they are opened.
    ///
    /// # Errors
    /// [`Error::Media`]: in use, not there, not a store, poisoned. [`Error::SameIdentity`] for a
    /// copy beside its open original. Otherwise as [`Store::attach`], [`Store::rebase`] and
    /// [`Store::grow`]. [`Error::BadOption`] for options that exclude each other.
    pub fn open(self, options: &Options) -> Result<Store> {
        let by_path = self.bytes.is_none() && self.locks.is_none();
        match self.access {
            OpenAccess::Alone | OpenAccess::Rebased if !by_path => {
                Err(self.excluded("a store over a descriptor is read or shared"))
            }
            OpenAccess::ReadOnly | OpenAccess::Shared | OpenAccess::Rebased if self.max.is_some() => {
                Err(self.excluded("only a process that has the store alone raises its maximum"))
            }
            OpenAccess::ReadOnly => Store::attach(self.media().read_only().open(options)?),
            OpenAccess::Shared => {
                if by_path {
                    identity::refuse_copy(&self.path)?;
                    identity::refuse_twice(&self.path)?;
                }
                let store = match self.media().open_shared(options)? {
                    (media, Some(joining)) => Store::share(media, joining),
                    (media, None) => Store::attach(media),
                };
                store?.hold()
            }
            OpenAccess::Rebased => {
                let store = Store::attach(self.media().open(options)?)?;
                store.rebase(identity::random()?)?;
                store.hold()
            }
            OpenAccess::Alone => match self.max {
                Some(max) => self.open_grown(max, options),
                None => self.open_alone(options),
            },
        }
    }

    fn open_alone(self, options: &Options) -> Result<Store> {
        identity::refuse_copy(&self.path)?;
        let store = Store::attach(self.media().open(options)?)?;
        store.require_readable()?;
        store.hold()
    }

    fn open_grown(self, max: u64, options: &Options) -> Result<Store> {
        {
            // Every reason to refuse is checked before anything changes.
            let store = Store::open(&self.path, options)?;
            let Info { max: now, max_max, .. } = store.info();
            if max < now || max > max_max {
                store.grow(max)?;
            }
            store.close()?;
        }
        let store = self.open_alone(options)?;
        store.grow(max)?;
        Ok(store)
    }

    fn media(self) -> everbyte_media::OpenOptions {
        let mut media = everbyte_media::OpenOptions::new(self.path);
        if let Some(bytes) = self.bytes {
            media = media.over(bytes);
        }
        if let Some(locks) = self.locks {
            media = media.locks(locks);
        }
        if let Some(max) = self.max {
            media = media.grown(max);
        }
        media
    }

    fn excluded(&self, why: &str) -> Error {
        Error::BadOption { detail: format!("{}: these options exclude each other: {why}", self.path.display()) }
    }
}

impl Store {
    /// Creates the store file, formats and opens it. Settled on return, directory entry included.
    ///
    /// # Errors
    /// [`Error::BadOption`], [`Error::Media`] if the file exists or cannot be made, or a bound
    /// store finds no free address. No file is left behind.
    pub fn create(path: &Path, options: &CreateOptions) -> Result<Store> {
        let plan = match options.bound {
            true => Plan::new(options.max, options.media.log_bytes)?,
            false => Plan::spacious(options.max, options.media.log_bytes)?,
        };
        let mut others = 0..TRIES;
        let media = loop {
            let address = if options.bound { Some(identity::random_address(plan.addresses)?) } else { None };
            let media = everbyte_media::OpenOptions::new(path).bound_to(address);
            match media.create(plan.geometry(), &options.media) {
                // another address does as well
                Err(everbyte_media::Error::AddressTaken { .. }) if others.next().is_some() => {}
                made => break made?,
            }
        };
        Store::format_as(media, &plan, identity::random).and_then(Store::hold).inspect_err(|_| {
            let _ = std::fs::remove_file(path); // this call created it
        })
    }

    /// [`Store::open`], or [`Store::create`] where no file of that name exists.
    ///
    /// # Errors
    /// As both; if two processes create the store at once, one of them finds it in use.
    pub fn open_or_create(path: &Path, options: &CreateOptions) -> Result<Store> {
        match path.try_exists() {
            Ok(false) => Store::create(path, options),
            _ => Store::open(path, &options.media),
        }
    }

    /// Opens a store to read and change it, for this process alone: [`OpenOptions`] without further
    /// options.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(path: &Path, options: &Options) -> Result<Store> {
        OpenOptions::new(path).open(options)
    }

    /// [`OpenOptions::new`].
    pub fn options(path: impl AsRef<Path>) -> OpenOptions {
        OpenOptions::new(path)
    }

    /// Formats empty media, all zeros, and opens the store on it.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::BadOption`], [`Error::Media`].
    pub fn format(media: Media, options: &FormatOptions) -> Result<Store> {
        let plan = Plan::new(media.max(), options.log_len)?;
        let identity = options.identity;
        Store::format_as(media, &plan, || identity.map_or_else(identity::random, Ok))
    }

    fn format_as(media: Media, plan: &Plan, identity: impl FnOnce() -> Result<[u8; 16]>) -> Result<Store> {
        if copies::copies(&media) != [Copy::Blank; 2] {
            return Err(Error::NotEmpty { path: media.path().into() });
        }
        let out_of_space = |bytes| {
            move |source| match source {
                source @ everbyte_media::Error::Io { .. } => Error::OutOfSpace { at: 0, bytes, source },
                source => Error::Media(source),
            }
        };
        media.extend(0, plan.space.bitmap_at).map_err(out_of_space(plan.space.bitmap_at))?;
        // Empty media is zeros as far as it reaches.
        let accounted = media.len().next_multiple_of(CLUSTER);
        Words { accounted, ..Words::default() }.write(&media);
        media.barrier()?; // the words before a superblock that makes this a store
        let plain = plan.superblock(identity()?);
        let (binding, features) = (media.binding().unwrap_or(0), plain.features | FEATURE_ACCESS);
        let superblock = Superblock { binding, features, ..plain };
        copies::write(&media, superblock, &SUPERBLOCKS)?;
        Store::attach(media)
    }

    /// Opens the store's identity in this process (STORE-9). Refuses a copy that only its log
    /// reveals.
    pub(crate) fn hold(self) -> Result<Store> {
        self.parts().identity().open(self.identity(), self.media().path())?;
        Ok(self)
    }
}
