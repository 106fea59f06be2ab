//! libpmemobj-cpp where its headers are not installed: there is none, and nothing can be asked of
//! it.

use crate::Failure;
use crate::work::CppRow;
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

/// A pool that cannot exist in this build.
pub struct PmemobjCpp(Infallible);

impl PmemobjCpp {
    /// There is none.
    ///
    /// # Errors
    /// Never.
    pub fn create(_path: &Path, _size: usize) -> Result<Option<PmemobjCpp>, Failure> {
        Ok(None)
    }

    /// Single operations.
    pub fn row(&self, _row: CppRow, _count: u64) -> Duration {
        match self.0 {}
    }
}
