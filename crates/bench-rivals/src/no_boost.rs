//! Boost.Serialization where it is not installed: there is none, and nothing can be asked of it.

use crate::Failure;
use crate::work::Payload;
use std::convert::Infallible;
use std::path::Path;

/// A tree that cannot exist in this build.
pub struct BoostTree(Infallible);

impl BoostTree {
    /// There is none.
    pub fn new() -> Option<BoostTree> {
        None
    }

    /// There is none.
    ///
    /// # Errors
    /// Never.
    pub fn load(_path: &Path) -> Result<Option<BoostTree>, Failure> {
        Ok(None)
    }

    /// Adds a key.
    pub fn insert(&mut self, _key: u64, _payload: &Payload) {
        match self.0 {}
    }

    /// How many keys there are.
    pub fn len(&self) -> u64 {
        match self.0 {}
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        match self.0 {}
    }

    /// The payload of a key.
    pub fn get(&self, _key: u64) -> Option<Payload> {
        match self.0 {}
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// Never.
    pub fn save(&self, _path: &Path) -> Result<(), Failure> {
        match self.0 {}
    }
}
