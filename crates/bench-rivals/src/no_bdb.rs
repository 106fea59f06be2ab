//! Berkeley DB where it is not installed: there is none, and nothing can be asked of it.

use crate::Failure;
use crate::work::Access;
use std::convert::Infallible;
use std::path::Path;

/// A database that cannot exist in this build.
pub struct Bdb(Infallible);

impl Bdb {
    /// There is none.
    ///
    /// # Errors
    /// Never.
    pub fn open(_folder: &Path, _access: Access) -> Result<Option<Bdb>, Failure> {
        Ok(None)
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// Never.
    pub fn insert(&self, _key: &[u8], _value: &[u8]) -> Result<bool, Failure> {
        match self.0 {}
    }

    /// Stores a value.
    ///
    /// # Errors
    /// Never.
    pub fn put(&self, _key: &[u8], _value: &[u8]) -> Result<(), Failure> {
        match self.0 {}
    }

    /// Takes a key away.
    ///
    /// # Errors
    /// Never.
    pub fn delete(&self, _key: &[u8]) -> Result<bool, Failure> {
        match self.0 {}
    }

    /// Copies a value.
    ///
    /// # Errors
    /// Never.
    pub fn get(&self, _key: &[u8], _value: &mut Vec<u8>) -> Result<bool, Failure> {
        match self.0 {}
    }

    /// Bytes of log.
    pub fn log_bytes(&self) -> u64 {
        match self.0 {}
    }
}
