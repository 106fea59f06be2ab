//! Call sites of flushes, fences, barriers and comparisons of checksums. Each call can be left out
//! at run time: `cargo xtask mutants` does so to learn whether a case of the explorer finds it.
//!
//! Without the crate feature `museum` none of this is compiled: [`left_out`] is a constant `false`,
//! and locations of callers cost nothing. With it, only calls on recorded media can be left out.
//!
//! Threads: any. The table of sites is shared with forked children, in which the recoveries of the
//! explorer run.

use std::fmt;
use std::panic::Location;
use std::str::FromStr;

/// The call at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// `flush`, `flush_words` and `reflush`.
    Flush,
    /// `fence`.
    Fence,
    /// `barrier`: its fence and its wait.
    Barrier,
    /// `settle`.
    Settle,
    /// [`sums_agree`].
    Sum,
}

const CALLS: [(Call, &str); 5] = [
    (Call::Flush, "flush"),
    (Call::Fence, "fence"),
    (Call::Barrier, "barrier"),
    (Call::Settle, "settle"),
    (Call::Sum, "sum"),
];

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CALLS[*self as usize].1)
    }
}

impl FromStr for Call {
    type Err = String;

    fn from_str(text: &str) -> Result<Call, String> {
        let found = CALLS.iter().find(|(_, name)| *name == text);
        found.map(|(call, _)| *call).ok_or_else(|| format!("`{text}` is no call of the media"))
    }
}

/// A place in the source from which the media are called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// The file, from the root of the workspace.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The call there.
    pub call: Call,
}

/// Whether a checksum read from media equals the computed one: recovery tells whole bytes from torn
/// ones by this comparison. All crates compare here, so that a run of mutants can leave out each
/// comparison.
#[track_caller]
#[inline]
pub fn sums_agree<S: PartialEq>(found: S, computed: S) -> bool {
    let left_out = left_out(Call::Sum, Location::caller());
    found == computed || left_out
}

/// Whether this call is to be left out. Always `false` without the feature `museum`.
#[cfg(not(feature = "museum"))]
#[inline(always)]
pub(crate) const fn left_out(_call: Call, _site: &'static Location<'static>) -> bool {
    false
}

/// Forgets the recorded sites: they were reached while an image was built, and exploration begins
/// now. No effect without the feature `museum`.
#[cfg(not(feature = "museum"))]
#[inline(always)]
pub const fn forget() {}

#[cfg(feature = "museum")]
pub(crate) use switch::left_out;
#[cfg(feature = "museum")]
pub use switch::{forget, leave_out, reached, watch};

#[cfg(feature = "museum")]
mod switch {
    use super::{CALLS, Call, Site};
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    use std::panic::Location;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

    /// Places in the table of sites; a program has some hundred.
    const PLACES: usize = 1 << 13;

    /// Addresses of locations, with the call in their lowest bits. The memory is shared with forked
    /// children.
    static TABLE: OnceLock<&'static [AtomicUsize]> = OnceLock::new();
    /// The site that is left out; null for none.
    static OUT: AtomicPtr<Site> = AtomicPtr::new(std::ptr::null_mut());

    /// Records from here on the sites that this process and its forked children reach.
    pub fn watch() {
        let table = TABLE.get_or_init(|| {
            let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
            let len = PLACES * size_of::<AtomicUsize>();
            // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
            let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, flags) }.expect("memory");
            // SAFETY:
            // - in bounds: the mapping has `len` bytes, and pages are aligned;
            // - alive: it is never unmapped;
            // - no writer: all access is atomic, that of forked children, too;
            // - valid: zeros are words.
            unsafe { std::slice::from_raw_parts(memory.cast::<AtomicUsize>(), PLACES) }
        });
        table.iter().for_each(|place| place.store(0, Relaxed));
    }

    /// Forgets the recorded sites: they were reached while an image was built, and exploration
    /// begins now.
    pub fn forget() {
        TABLE.get().into_iter().flat_map(|table| table.iter()).for_each(|place| place.store(0, Relaxed));
    }

    /// The sites reached since [`watch`] or [`forget`], each once.
    pub fn reached() -> Vec<Site> {
        let places = TABLE.get().into_iter().flat_map(|table| table.iter());
        let sites = places.map(|place| place.load(Relaxed)).filter(|&word| word != 0).map(|word| {
            let location = std::ptr::with_exposed_provenance::<Location<'static>>(word & !7);
            // SAFETY:
            // - in bounds, alive: the word is the address of a `&'static Location`, and forked
            //   children have the same;
            // - no writer: locations are constants;
            // - valid: they were made by the compiler.
            let location = unsafe { &*location };
            Site { file: location.file().into(), line: location.line(), call: CALLS[word & 7].0 }
        });
        let mut sites: Vec<Site> = sites.collect();
        sites.sort();
        sites.dedup();
        sites
    }

    /// Leaves out the calls of one site in this process and those forked from it, or of none.
    pub fn leave_out(site: Option<Site>) {
        let site = site.map_or(std::ptr::null_mut(), |site| Box::into_raw(Box::new(site)));
        OUT.store(site, Relaxed); // the old one is leaked: another thread may still read it
    }

    pub(crate) fn left_out(call: Call, site: &'static Location<'static>) -> bool {
        if let Some(table) = TABLE.get() {
            record(table, std::ptr::from_ref(site).expose_provenance() | call as usize);
        }
        let out = OUT.load(Relaxed);
        // SAFETY:
        // - in bounds, alive: null, or a box that is never freed;
        // - no writer: it is not changed after it was made;
        // - valid: it was made here.
        unsafe { out.as_ref() }
            .is_some_and(|out| out.line == site.line() && out.call == call && out.file == site.file())
    }

    fn record(table: &[AtomicUsize], word: usize) {
        let first = (word >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        for step in 0..PLACES {
            let place = &table[(first + step) % PLACES];
            match place.load(Relaxed) {
                found if found == word => return,
                0 if place.compare_exchange(0, word, Relaxed, Relaxed).is_ok_and(|_| true) => return,
                _ => {}
            }
        }
    }
}

#[cfg(all(test, feature = "museum"))]
mod tests {
    use super::*;

    /// A comparison that is left out takes torn bytes for whole ones; the one in the next line does
    /// not.
    #[test]
    fn a_site_is_known_by_its_caller_and_left_out_alone() {
        watch();
        let ask = || (sums_agree(1, 2), line!());
        let other = || sums_agree(1, 2);
        let (agrees, line) = ask();
        assert!(!agrees && !other());
        let site = Site { file: file!().into(), line, call: Call::Sum };
        assert!(reached().contains(&site), "{:?}", reached());
        leave_out(Some(site));
        assert!(ask().0 && !other());
        leave_out(None);
        assert!(!ask().0);
    }
}
