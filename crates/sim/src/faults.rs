//! Fault loops: the n-th allocation fails, or barriers fail from the n-th on, for every n that a
//! program reaches.

use crate::Image;
use crate::tape::{Faults, Settling};
use everbyte_media::Media;
use std::fmt::Debug;

/// The faults that a fault loop injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultReport {
    /// Allocations that were made to fail, one a run.
    pub allocations: u64,
    /// Barriers from which on all failed, one a run.
    pub barriers: u64,
}

/// Runs `program` on `image` once for each allocation it makes, letting that one fail as on a full
/// disk, then once for each barrier, letting it and all later ones fail as after a failed sync. The
/// program must answer with an error or with success, never a panic; `check` then looks at what
/// memory holds, told whether the program succeeded.
///
/// # Panics
/// If a run panics or the check fails, saying which fault it was.
pub fn fault_loop<E: Debug>(
    image: &Image,
    program: impl Fn(Media) -> Result<(), E>,
    check: impl Fn(Media, &Result<(), E>) -> Result<(), String>,
) -> FaultReport {
    let run = |faults: Faults, what: &str| -> (u64, u64) {
        let (media, tape) = image.open(Settling::Barrier);
        tape.0.lock().faults = faults;
        let result = program(media.clone());
        let (allocations, barriers) = {
            let inner = tape.0.lock();
            (inner.allocations, inner.barriers)
        };
        // As the next program that opens the store finds it.
        if let Err(text) = check(Image::of(&media).media(), &result) {
            panic!("with {what} (program: {result:?}): {text}");
        }
        (allocations, barriers)
    };
    let mut report = FaultReport { allocations: 0, barriers: 0 };
    run(Faults::default(), "no fault");
    for nth in 1.. {
        let faults = Faults { allocate: Some(nth), ..Faults::default() };
        if run(faults, &format!("allocation {nth} failing")).0 < nth {
            break;
        }
        report.allocations = nth;
    }
    for nth in 1.. {
        let faults = Faults { barrier: Some(nth), ..Faults::default() };
        if run(faults, &format!("barriers failing from number {nth} on")).1 < nth {
            break;
        }
        report.barriers = nth;
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_allocation_and_barrier_fails_once() {
        let program = |media: Media| -> everbyte_media::Result<()> {
            for page in 1..4 {
                media.extend(page * 4096, 4096)?;
                media.store(page * 4096, page);
                media.flush(page * 4096, 8);
                media.barrier()?;
            }
            Ok(())
        };
        let check = |media: Media, result: &everbyte_media::Result<()>| {
            let pages = media.len() / 4096;
            if result.is_ok() != (pages == 4 && media.load(pages * 4096 - 4096) == 3) {
                // A failed last barrier leaves all pages there, and an error: that is the one legal
                // mix.
                return if pages == 4 { Ok(()) } else { Err(format!("{pages} pages")) };
            }
            Ok(())
        };
        let report = fault_loop(&Image::zeroed(4096).with_max(1 << 20), program, check);
        assert_eq!(report, FaultReport { allocations: 3, barriers: 3 });
    }
}
