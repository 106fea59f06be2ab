//! The way from a domain to its store.

use crate::Result;
use everbyte_store::Store;

/// Opens a store whose safe functions change any byte of it: see [`everbyte_store::raw`]. The crate
/// `everbyte` does not export this trait; its own store opens domains.
pub trait Raw {
    /// Opens the domain's store: shared with other writing processes, or for reading while no
    /// process writes.
    ///
    /// # Errors
    /// As [`Store::open_shared`] and [`Store::open_read_only`].
    fn open(self, options: &everbyte_media::Options) -> Result<Store>;
}
