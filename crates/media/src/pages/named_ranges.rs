//! Names of ranges, for errors about unreadable pages.
//!
//! Threads: any.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The named ranges of one media, by start.
#[derive(Default)]
pub(crate) struct RangeNames(Mutex<BTreeMap<u64, RangeName>>);

struct RangeName {
    end: u64,
    name: Arc<str>,
    /// Handles that name the range.
    handles: usize,
}

/// The name of a range; it ends when the last value for the range is dropped. See
/// [`crate::Media::name_range`].
pub struct NamedRange {
    names: Arc<RangeNames>,
    start: u64,
}

impl RangeNames {
    /// The name of the range that holds `at`.
    pub(crate) fn of(&self, at: u64) -> Option<String> {
        let names = self.0.lock();
        let (_, range) = names.range(..=at).next_back()?;
        (at < range.end).then(|| range.name.to_string())
    }
}

impl NamedRange {
    pub(crate) fn new(names: &Arc<RangeNames>, range: Range<u64>, name: &str) -> NamedRange {
        let start = range.start;
        let new = || RangeName { end: range.end, name: name.into(), handles: 0 };
        names.0.lock().entry(start).or_insert_with(new).handles += 1;
        NamedRange { names: Arc::clone(names), start }
    }
}

impl Drop for NamedRange {
    fn drop(&mut self) {
        let mut names = self.names.0.lock();
        if let Some(range) = names.get_mut(&self.start) {
            range.handles -= 1;
            if range.handles == 0 {
                names.remove(&self.start);
            }
        }
    }
}
