//! `pmap` and `punmap`: regions of persistent memory. The header states their contracts.

use super::sections::{Owner, home, owners};
use crate::fault::{Fault, Result, answer, done};
use crate::process::Process;
use everbyte_media::Media;
use everbyte_mnemosyne::{Region, Regions};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::{null_mut, with_exposed_provenance_mut};

const PAGE: usize = 4096;
const READ: u64 = libc::PROT_READ as u64;
const WRITE: u64 = libc::PROT_WRITE as u64;

fn protect(media: &Media, region: Region) -> Result<()> {
    match region.access == READ | WRITE {
        true => Ok(()),
        false => Ok(media.protect(region.at, region.len, (region.access & READ != 0, region.access & WRITE != 0))?),
    }
}

/// The protection of regions, which applies again after a restart.
pub(super) fn protect_all(media: &Media, regions: &Regions) -> Result<()> {
    regions.list().into_iter().try_for_each(|region| protect(media, region))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn pmap(address: *mut c_void, size: usize, access: c_int, flags: c_int) -> *mut c_void {
    answer(map(address.addr(), size, access, flags), null_mut(), with_exposed_provenance_mut)
}

fn map(word: usize, size: usize, access: c_int, flags: c_int) -> Result<usize> {
    if size == 0 || flags != 0 || access as u64 & !(READ | WRITE) != 0 {
        return Err(Fault::invalid("a region has bytes, may be read and written, and knows no flags"));
    }
    let home = home(word, 8)?;
    let owner = home.owner.as_ref();
    let Owner { program, regions } =
        &**owner.ok_or_else(|| Fault::invalid(format!("{word:#x} is not in a variable, block or region")))?;
    home.push(word, 8);
    let region = regions.map(program, size as u64, access as u64, home.at)?;
    home.pull(word);
    protect(&home.media, region)?;
    Ok(home.media.address().addr().get() + region.at as usize)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn punmap(start: *mut c_void, size: usize) -> c_int {
    done(unmap(start.addr(), size))
}

fn unmap(start: usize, size: usize) -> Result<()> {
    let process = Process::get()?;
    let (at, len) = (process.offset(start, size)?, size.next_multiple_of(PAGE) as u64);
    if !start.is_multiple_of(PAGE) || size == 0 {
        return Err(Fault::invalid(format!("{start:#x} + {size} is not whole pages")));
    }
    let media = process.media();
    let mut gone: Vec<Range<u64>> = Vec::new();
    for owner in owners() {
        let hit: Vec<_> = owner.regions.list().into_iter().filter_map(|region| overlap(region, at..at + len)).collect();
        if hit.is_empty() {
            continue;
        }
        // A later region at these addresses must be writable.
        let mut remove = |range: Range<u64>| {
            let _ = media.protect(range.start, range.end - range.start, (true, true));
            gone.push(range);
        };
        owner.regions.unmap(at, len, &mut remove)?;
        for part in hit.iter().filter(|part| !gone.iter().any(|gone| gone.contains(&part.start))) {
            media.protect(part.start, part.end - part.start, (false, false))?;
        }
        return Ok(());
    }
    Err(Fault::invalid(format!("nothing is mapped at {start:#x} + {size}")))
}

fn overlap(region: Region, range: Range<u64>) -> Option<Range<u64>> {
    let part = region.at.max(range.start)..region.end().min(range.end);
    (part.start < part.end).then_some(part)
}
