//! The way from a store of pairs to its object: for servers and tools.

use everbyte_store::Object;

/// Gives access to the object, whose safe functions change any byte of it: see
/// [`everbyte_store::raw`]. The crate `everbyte` does not export this trait.
pub trait Raw {
    /// The object of the store.
    fn object(&self) -> &Object;
}
