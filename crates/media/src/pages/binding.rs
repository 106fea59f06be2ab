//! Bound stores: mapped at one address for life, so that plain pointers into them are valid in
//! every process.
//!
//! The address is written into the head when the file is made and never changes. Only programs that
//! store plain pointers need it; all other stores map anywhere, many at once. HEAPO calls this
//! static binding (Hwang et al., ACM TOS 11(1), 2014).
//!
//! Invariants
//!   BIND-1  A bound store is mapped at its address or not at all; an existing mapping there is
//!           never replaced.

use crate::bytes::sizes::LARGE;
use crate::{Error, Result};
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;

/// The addresses of bound stores: a range within 47 bits from which Linux gives no addresses
/// unasked.
pub const WINDOW: Range<u64> = 0x2000_0000_0000..0x4000_0000_0000;

/// The address for a new bound store of at most `max` bytes, chosen by `random`; `None` if the
/// store is too large. Two stores fit into one process if they do not overlap: a smaller maximum
/// makes that more likely.
pub fn address(max: u64, random: u64) -> Option<u64> {
    let places = (WINDOW.end - WINDOW.start).checked_sub(max)? / LARGE + 1;
    Some(WINDOW.start + random % places * LARGE)
}

/// Whether a store of at most `max` bytes can be bound to `address`.
pub fn is_possible(address: u64, max: u64) -> bool {
    address.is_multiple_of(LARGE)
        && address >= WINDOW.start
        && address.checked_add(max).is_some_and(|end| end <= WINDOW.end)
}

/// Reserves `len` bytes at `address`, which may not be in use (BIND-1). The kernel rounds to whole
/// pages.
pub(crate) fn reserve(path: &Path, address: u64, len: u64) -> Result<NonNull<u8>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    let place = std::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the kernel refuses a range with an existing mapping, so the new one aliases nothing.
    match unsafe { mmap_anonymous(place, len as usize, ProtFlags::empty(), flags) } {
        Ok(start) if start.addr() as u64 == address => {
            return Ok(NonNull::new(start.cast()).expect("an address of the window"));
        }
        Ok(elsewhere) => {
            // A kernel before 4.17 ignores the flag and takes the address for a hint. SAFETY:
            // exactly the mapping made above, which is not used. A failure leaves it mapped, which
            // is harmless.
            let _ = unsafe { rustix::mm::munmap(elsewhere, len as usize) };
        }
        Err(rustix::io::Errno::EXIST) => {}
        Err(errno) => {
            return Err(Error::Io {
                action: "reserve as many addresses as its maximum needs (see `ulimit -v`)",
                path: path.into(),
                source: errno.into(),
            });
        }
    }
    Err(Error::AddressTaken { path: path.into(), address, len, holder: holder(address..address + len) })
}

/// The mapping of this process in `range`, by the kernel's table: ` (…)`, or empty.
fn holder(range: Range<u64>) -> String {
    let table = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    table.lines().find_map(|line| entry(line, &range)).map(|name| format!(" ({name})")).unwrap_or_default()
}

/// The name and address in a line of the kernel's table, if its range overlaps `range`.
fn entry(line: &str, range: &Range<u64>) -> Option<String> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let name = fields.nth(4).map(str::trim).filter(|name| !name.is_empty()).unwrap_or("memory without a name");
    (start < range.end && end > range.start).then(|| format!("{name} at {start:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_possible_and_spread_over_the_window() {
        for max in [4096, 1 << 30, 4 << 40, 32 << 40] {
            for random in [0, 1, 12345, u64::MAX / 3, u64::MAX] {
                let address = address(max, random).unwrap();
                assert!(is_possible(address, max), "{max:#x} {random:#x}: {address:#x}");
            }
        }
        assert_eq!(address((32 << 40) + 4096, 7), None, "larger than the window");
        assert_ne!(address(1 << 30, 1), address(1 << 30, 2));
        assert!(!is_possible(WINDOW.start + 4096, 4096), "not at a large page");
        assert!(!is_possible(WINDOW.end - LARGE, LARGE + 4096) && !is_possible(1 << 30, 4096));
    }

    #[test]
    fn the_holder_of_an_address_is_named() {
        let line = "200000000000-200000010000 rw-s 00000000 00:19 1234   /dev/shm/other store";
        let taken = WINDOW.start..WINDOW.start + 4096;
        assert_eq!(entry(line, &taken).unwrap(), "/dev/shm/other store at 0x200000000000");
        assert_eq!(entry(line, &(WINDOW.start + 0x10000..WINDOW.start + 0x20000)), None);
        let nameless = "200000000000-200000010000 rw-p 00000000 00:00 0 ";
        assert_eq!(entry(nameless, &taken).unwrap(), "memory without a name at 0x200000000000");
        assert_eq!(entry("", &taken), None);
    }
}
