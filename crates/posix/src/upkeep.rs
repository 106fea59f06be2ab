//! [`Upkeep`]: work on a volume in use that is done again and again, step by step.
//!
//! Sealing: a step reads up to 1 MiB. Within a pass a step begins every [`BETWEEN_STEPS`], so that
//! a pass reads at most 100 MiB a second; passes begin [`BETWEEN_PASSES`] after the last one has
//! ended, and [`AFTER_FAILURE`] after one that has failed.
//!
//! Committing bounds the losses of programs that never call `fsync`. A step in which nothing has
//! changed writes nothing. A failed sync, which ends all changes of the volume, ends the work.

use crate::files::Files;
use everbyte_fs::{SealCursor, StepLimits};
use std::time::Duration;

const BETWEEN_STEPS: Duration = Duration::from_millis(10);
const BETWEEN_PASSES: Duration = Duration::from_secs(1);
const AFTER_FAILURE: Duration = Duration::from_secs(60);

/// Work that a thread of the caller does as long as the volume is in use.
#[derive(Debug)]
pub struct Upkeep(Work);

#[derive(Debug)]
enum Work {
    Seal(SealCursor),
    Commit(Duration),
}

impl Upkeep {
    /// Seals data at rest. `None`: the volume keeps no checksums, or does not change.
    pub fn sealing(files: &Files) -> Option<Upkeep> {
        let seals = files.volume().has_checksums() && !files.options().read_only;
        seals.then(|| Upkeep(Work::Seal(SealCursor::default())))
    }

    /// Makes all changes durable at intervals. `None`: calls are durable when they return, the
    /// volume does not change, or its changes are to be durable by calls alone.
    pub fn committing(files: &Files, interval: Option<Duration>) -> Option<Upkeep> {
        let is_durable = files.options().read_only || files.volume().object().media().fences_settle();
        interval.filter(|_| !is_durable).map(|interval| Upkeep(Work::Commit(interval)))
    }

    /// The time before the first step.
    pub fn first(&self) -> Duration {
        match self.0 {
            Work::Seal(_) => BETWEEN_STEPS,
            Work::Commit(interval) => interval,
        }
    }

    /// Does a step; returns the time before the next one. `None`: there is none. A failure is
    /// logged.
    pub fn step(&mut self, files: &Files) -> Option<Duration> {
        match &mut self.0 {
            Work::Seal(cursor) => match files.seal_step(cursor, &StepLimits::default()) {
                // Without room, or damaged.
                Err(_) => {
                    *cursor = SealCursor::default();
                    Some(AFTER_FAILURE)
                }
                Ok(_) if cursor.is_at_start() => Some(BETWEEN_PASSES),
                Ok(_) => Some(BETWEEN_STEPS),
            },
            Work::Commit(interval) => files.settle().ok().map(|()| *interval),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FilesOptions;
    use everbyte_fs::{Volume, VolumeOptions};
    use everbyte_media::{Media, Options};
    use everbyte_store::{FormatOptions, Store};

    #[test]
    fn volumes_without_upkeep_have_none() {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        for (name, checksums, read_only) in [("plain", false, false), ("read", true, true), ("sums", true, false)] {
            let options = VolumeOptions { checksums, span: Some(16 << 20), ..VolumeOptions::default() };
            let volume = Volume::create(&store, name, &options).unwrap();
            let files = Files::new(volume, FilesOptions { read_only, ..FilesOptions::default() });
            assert_eq!(Upkeep::sealing(&files).is_some(), name == "sums");
            let often = Some(Duration::from_millis(1));
            assert!(Upkeep::committing(&files, often).is_none(), "its fences settle");
        }
    }
}
