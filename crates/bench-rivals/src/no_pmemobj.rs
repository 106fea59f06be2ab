//! libpmemobj where it is not installed: there is none, and nothing can be asked of it.

use crate::Failure;
use std::convert::Infallible;
use std::path::Path;

/// A pool that cannot exist in this build.
pub struct Pmemobj(Infallible);

impl Pmemobj {
    /// There is none.
    ///
    /// # Errors
    /// Never.
    pub fn create(_path: &Path, _size: usize) -> Result<Option<Pmemobj>, Failure> {
        Ok(None)
    }

    /// Empty transactions.
    pub fn empty(&self, _count: u64) {
        match self.0 {}
    }

    /// Updates of ranges.
    pub fn update(&self, _count: u64, _line: usize, _ranges: usize, _len: usize) {
        match self.0 {}
    }

    /// Allocations and frees.
    pub fn alloc_free(&self, _count: u64, _size: usize) {
        match self.0 {}
    }
}
