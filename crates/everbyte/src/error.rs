//! [`Error`]: any error of the workspace, for programs that pass all of them on.

use crate::{EngineError, MergeError};
use everbyte_media::{Damage, ErrorInfo, ErrorKind};

/// Any error of Everbyte. `?` converts from the error of each part.
///
/// ```
/// use everbyte::{ErrorInfo, ErrorKind, Kv, Store};
///
/// fn visits(path: &std::path::Path) -> Result<u64, everbyte::Error> {
///     let store = Store::create(path, &Default::default())?;
///     let table = Kv::create(&store, "visits")?;
///     Kv::create(&store, "visits")?; // refused: the name is taken
///     Ok(table.len())
/// }
/// # let directory = tempfile::tempdir().unwrap();
/// assert_eq!(visits(&directory.path().join("store")).unwrap_err().kind(), ErrorKind::Exists);
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// From the media.
    #[error(transparent)]
    Media(#[from] everbyte_media::Error),
    /// From the store.
    #[error(transparent)]
    Store(#[from] everbyte_store::Error),
    /// From a table.
    #[error(transparent)]
    Kv(#[from] everbyte_kv::Error),
    /// From a key-value store of `hkv`.
    #[error(transparent)]
    Hkv(#[from] everbyte_hkv::Error),
    /// From a file volume.
    #[error(transparent)]
    Fs(#[from] everbyte_fs::Error),
    /// From a POSIX call.
    #[error(transparent)]
    Posix(#[from] everbyte_posix::Error),
    /// From a typed pool.
    #[error(transparent)]
    Object(#[from] everbyte_object::Error),
    /// From a broker.
    #[error(transparent)]
    Broker(#[from] everbyte_broker::Error),
    /// From a merge.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// From an engine's tools.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Error {
    fn part(&self) -> &dyn ErrorInfo {
        match self {
            Error::Media(error) => error,
            Error::Store(error) => error,
            Error::Kv(error) => error,
            Error::Hkv(error) => error,
            Error::Fs(error) => error,
            Error::Posix(error) => error,
            Error::Object(error) => error,
            Error::Broker(error) => error,
            Error::Merge(error) => error,
            Error::Engine(error) => error,
        }
    }
}

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        self.part().kind()
    }

    fn damage(&self) -> Option<Damage> {
        self.part().damage()
    }
}
