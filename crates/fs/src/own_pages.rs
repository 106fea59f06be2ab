//! [`OwnPages`]: free pages that a thread has taken from the shared ones, so that threads that write
//! do not wait for each other.
//!
//! A run, for pages that files get, and pages that were freed one by one, for pages that replace
//! others: the next page to be replaced gets the one that was freed last, so that a file which is
//! rewritten in order stays in order.
//!
//! Invariants
//!   FS-45  These pages are free. Before a call finds no free page, before the volume grows, and
//!          before free pages are counted, all of them go back to the shared ones.

/// Pages of a run that is taken at once.
pub(crate) const RUN: u64 = 64;
/// Pages that one call takes from here at most.
pub(crate) const SHORT: u64 = 16;
/// Pages that are kept of those that were freed one by one.
const FREED: usize = 64;

/// Free pages of one thread.
#[derive(Debug, Default)]
pub(crate) struct OwnPages {
    /// The first page, and their number.
    run: (u64, u64),
    freed: Vec<u64>,
}

impl OwnPages {
    /// Takes up to `wanted` adjacent pages of the run.
    #[inline]
    pub(crate) fn take(&mut self, wanted: u64) -> Option<(u64, u64)> {
        let (first, left) = self.run;
        let count = wanted.min(left);
        self.run = (first + count, left - count);
        (count > 0).then_some((first, count))
    }

    /// Takes up to `wanted` pages if they are the next ones of the run; their number.
    #[inline]
    pub(crate) fn take_at(&mut self, page: u64, wanted: u64) -> u64 {
        if self.run.0 != page {
            return 0;
        }
        self.take(wanted).map_or(0, |(_, count)| count)
    }

    /// Takes the page that was freed last.
    #[inline]
    pub(crate) fn take_freed(&mut self) -> Option<u64> {
        self.freed.pop()
    }

    /// The run was taken whole; this is the next one.
    pub(crate) fn put_run(&mut self, run: (u64, u64)) {
        debug_assert_eq!(self.run.1, 0, "the run was taken whole");
        self.run = run;
    }

    /// A page becomes free. Returns pages that are too many, the oldest ones.
    #[inline]
    pub(crate) fn give(&mut self, page: u64) -> Option<impl Iterator<Item = u64>> {
        debug_assert!(!self.has(page, 1), "FS-4: page {page} is freed twice");
        self.freed.push(page);
        (self.freed.len() > FREED).then(|| self.freed.drain(..FREED / 2))
    }

    /// Takes all pages, as runs.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (u64, u64)> {
        let run = std::mem::take(&mut self.run);
        let run = (run.1 > 0).then_some(run);
        run.into_iter().chain(self.freed.drain(..).map(|page| (page, 1)))
    }

    /// Whether one of these pages is here.
    pub(crate) fn has(&self, first: u64, count: u64) -> bool {
        let range = first..first + count;
        let run = self.run.0..self.run.0 + self.run.1;
        run.start < range.end && range.start < run.end || self.freed.iter().any(|page| range.contains(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, FileKind, Ino, NewFile, Volume, VolumeOptions};
    use everbyte_media::{Media, Options};
    use everbyte_store::{FormatOptions, Store};

    /// A thread fills a volume of which others have free pages: it gets every page, and as many are
    /// free again when its file is gone (FS-45). The same with a size, which leaves threads none.
    #[test]
    fn a_full_volume_has_no_page_left_to_any_thread() {
        let media = Media::anonymous(24 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let volume = Volume::create(&store, "volume", &VolumeOptions::default()).unwrap();
        let make =
            |name: &str| volume.make(Ino::ROOT, name.as_bytes(), &NewFile::new(FileKind::Regular, 0o644)).unwrap();
        let files = ["one", "two"].map(make);
        let rewrite = |ino: Ino| {
            for turn in 0..100 {
                volume.write(ino, turn % 9 * 4096, &[turn as u8; 4096]).unwrap();
            }
        };
        let all = make("all");
        for size in [0, 6 << 20, 0] {
            volume.set_size(size).unwrap();
            std::thread::scope(|scope| {
                files.iter().for_each(|&ino| _ = scope.spawn(move || rewrite(ino)));
            });
            let refused = (0..).find_map(|page| volume.write(all, page * 4096, &[1; 4096]).err());
            assert!(matches!(refused, Some(Error::NoSpace { .. } | Error::SizeReached { .. })), "{refused:?}");
            assert_eq!(volume.usage().free_pages, 0);
            let used = volume.pages(all).unwrap().allocated / 4096;
            volume.resize(all, 0).unwrap();
            assert!(volume.usage().free_pages >= used);
            let findings = volume.check();
            assert!(findings.is_empty(), "{findings:?}");
        }
    }

    #[test]
    fn pages_come_from_the_run_in_order_and_the_freed_ones_last_first() {
        let mut own = OwnPages::default();
        assert_eq!((own.take(4), own.take_freed(), own.take_at(0, 1)), (None, None, 0));
        own.put_run((100, 10));
        assert_eq!(own.take(4), Some((100, 4)));
        assert_eq!((own.take_at(105, 2), own.take_at(104, 2)), (0, 2));
        assert!(own.give(7).is_none() && own.give(8).is_none());
        assert!(own.has(109, 1) && own.has(0, 8) && !own.has(100, 6) && !own.has(110, 5));
        assert_eq!((own.take_freed(), own.take(9)), (Some(8), Some((106, 4))));
        own.put_run((20, 2));
        assert_eq!(own.take_all().collect::<Vec<_>>(), [(20, 2), (7, 1)]);
        let mut many = Vec::new();
        (0..200).for_each(|page| many.extend(own.give(page).into_iter().flatten()));
        assert_eq!(many, (0..many.len() as u64).collect::<Vec<_>>(), "the oldest ones go");
        assert_eq!(own.take_all().count() + many.len(), 200);
    }
}
