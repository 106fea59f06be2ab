//! Power cuts: at every point of a recorded disk's life, the images that could be on the medium.
//!
//! Per point: nothing that was pending, all of it in its newest form, each pending sector alone and
//! each missing, then seeded samples in which each sector has any of its contents; all images where
//! these are fewer than the budget.
//!
//! A failure names its point and image; the environment variable `EVERBYTE_CUT=seed:point:image`
//! runs that one alone.

use crate::disk::{DiskEvent, DiskTape, Medium, RecordedDisk};
use everbyte_workload::Random;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// How power is cut.
#[derive(Clone, Debug)]
pub struct PowerCut {
    name: String,
    seed: u64,
    images_per_point: usize,
    images_max: usize,
    only: Option<(usize, usize)>,
}

/// One cut, as its check sees it.
#[derive(Clone, Copy, Debug)]
pub struct Cut<'a> {
    /// Index of the first event that did not happen.
    pub point: usize,
    /// Number of the image among those of the point.
    pub image: usize,
    /// The operations that the program had recorded by then.
    pub notes: &'a [u64],
}

/// The images explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerReport {
    /// Crash points.
    pub points: usize,
    /// Images checked.
    pub images: usize,
    /// Points of which every possible image was checked.
    pub exhausted: usize,
    /// Images that the model permits, all points together.
    pub possible: u128,
}

/// An image that did not pass.
#[derive(Clone, Debug)]
pub struct PowerFailure {
    /// Index of the first event that did not happen.
    pub point: usize,
    /// Number of the image among those of the point.
    pub image: usize,
    /// The message of the check.
    pub detail: String,
    /// How to see it again.
    pub replay: String,
}

impl fmt::Display for PowerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nreplay: {}", self.detail, self.replay)
    }
}

impl PowerCut {
    /// Cuts for the test of that name, which a failure tells the reader to run.
    pub fn new(name: &str) -> PowerCut {
        PowerCut { name: name.into(), seed: 1, images_per_point: 24, images_max: 20_000, only: None }
    }

    /// The seed of the samples.
    pub fn seed(mut self, seed: u64) -> PowerCut {
        self.seed = seed;
        self
    }

    /// Images per point; at most 12 undecided sectors of one content each are always taken in all
    /// ways if this allows.
    pub fn images_per_point(mut self, images: usize) -> PowerCut {
        self.images_per_point = images;
        self
    }

    /// Images in all; where the points would need more, later ones get fewer samples, never none.
    pub fn images_max(mut self, images: usize) -> PowerCut {
        self.images_max = images;
        self
    }

    /// This image of this point alone, as a failure named them.
    pub fn only(mut self, point: usize, image: usize) -> PowerCut {
        self.only = Some((point, image));
        self
    }

    /// Gives each image to `check` as a fresh disk.
    ///
    /// # Errors
    /// The first image that does not pass.
    ///
    /// # Panics
    /// If there is no memory for an image.
    pub fn explore(
        &self,
        tape: &DiskTape,
        mut check: impl FnMut(Cut<'_>, Arc<RecordedDisk>) -> Result<(), String>,
    ) -> Result<PowerReport, PowerFailure> {
        let chosen = self.only.map(|(point, image)| (self.seed, point, image));
        let only = chosen.or_else(|| std::env::var("EVERBYTE_CUT").ok().and_then(|text| parse(&text)));
        let seed = only.map_or(self.seed, |(seed, ..)| seed);
        let mut medium = Medium::new(&tape.image);
        let (mut notes, mut report) = (Vec::new(), PowerReport::default());
        for (point, event) in tape.events.iter().map(Some).chain([None]).enumerate() {
            if let Some(DiskEvent::Note(note)) = event {
                notes.push(*note); // a cut right after it is the cut before the next event
                continue;
            }
            let mut random = Random::new(seed ^ (point as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let spent = report.images >= self.images_max;
            let undecided = medium.undecided();
            let sizes: Vec<usize> = undecided.iter().map(|(_, contents)| contents.len() + 1).collect();
            let budget = if spent { 2 } else { self.images_per_point };
            let (images, all) = choices(&sizes, medium.is_growing(), budget, &mut random);
            report.points += 1;
            let lengths = 1 + u128::from(medium.is_growing());
            let possible = sizes.iter().fold(lengths, |product, &size| product.saturating_mul(size as u128));
            report.possible = report.possible.saturating_add(possible);
            report.exhausted += usize::from(all);
            for (image, (choice, grown)) in images.into_iter().enumerate() {
                if only.is_some_and(|(_, only_point, only_image)| (only_point, only_image) != (point, image)) {
                    continue;
                }
                report.images += 1;
                let disk = RecordedDisk::new(&medium.image(&undecided, &choice, grown)).expect("memory for an image");
                check(Cut { point, image, notes: &notes }, disk).map_err(|detail| PowerFailure {
                    point,
                    image,
                    detail: format!(
                        "{}: power cut before event {point} ({}), image {image} of contents {choice:?}: {detail}",
                        self.name,
                        event.map_or("the end".into(), brief)
                    ),
                    replay: format!("EVERBYTE_CUT={seed}:{point}:{image} cargo test {}", self.name),
                })?;
            }
            if let Some(event) = event {
                medium.apply(event);
            }
        }
        Ok(report)
    }
}

fn brief(event: &DiskEvent) -> String {
    match event {
        DiskEvent::Write { at, bytes } => format!("write {at:#x} + {}", bytes.len()),
        other => format!("{other:x?}"),
    }
}

fn parse(text: &str) -> Option<(u64, usize, usize)> {
    let mut parts = text.split(':');
    let parsed = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(parsed)
}

/// A choice of contents for each pending sector, and whether the growth of the file survived.
type Choice = (Vec<usize>, bool);

/// The images of one point, without repetition, and whether these are all there can be.
fn choices(sizes: &[usize], growing: bool, budget: usize, random: &mut Random) -> (Vec<Choice>, bool) {
    let lengths: &[bool] = if growing { &[true, false] } else { &[true] };
    let possible = sizes.iter().try_fold(lengths.len(), |product, &size| product.checked_mul(size));
    if possible.is_some_and(|possible| possible <= budget) {
        let mut all = vec![(Vec::new(), false)];
        all.clear();
        for &grown in lengths {
            let mut partial = vec![Vec::new()];
            for &size in sizes {
                partial = partial
                    .into_iter()
                    .flat_map(|choice: Vec<usize>| {
                        (0..size).map(move |content| choice.iter().copied().chain([content]).collect())
                    })
                    .collect();
            }
            all.extend(partial.into_iter().map(|choice| (choice, grown)));
        }
        return (all, true);
    }
    let mut seen = HashSet::new();
    let mut images = Vec::new();
    let mut add = |choice: Choice| {
        if images.len() < budget && seen.insert(choice.clone()) {
            images.push(choice);
        }
    };
    let newest: Vec<usize> = sizes.iter().map(|size| size - 1).collect();
    let settled = vec![0; sizes.len()];
    for &grown in lengths {
        add((newest.clone(), grown));
        add((settled.clone(), grown));
    }
    // Half of the budget for the systematic ones, spread over the sectors, the rest for samples.
    let step = (sizes.len() * 4 / budget.max(1)).max(1);
    for sector in (random.below(step as u64) as usize..sizes.len()).step_by(step) {
        let (mut alone, mut missing) = (settled.clone(), newest.clone());
        (alone[sector], missing[sector]) = (newest[sector], 0);
        add((alone, true));
        add((missing, true));
    }
    for _ in 0..budget * 4 {
        let likely = 1 + random.below(7); // of eight: how likely a sector is written
        let pick = |size: &usize| {
            if random.below(8) < likely { 1 + random.below(*size as u64 - 1) as usize } else { 0 }
        };
        let choice = sizes.iter().map(pick).collect();
        add((choice, lengths.len() == 1 || random.below(2) == 0));
    }
    (images, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_media::Disk;

    /// Two unsynced sectors come in four ways, a synced one in one, a twice-written one in three.
    #[test]
    fn pending_sectors_are_taken_in_all_ways() {
        let disk = RecordedDisk::new(&[0; 2048]).unwrap();
        disk.write_sync_at(0, &[1; 512]).unwrap();
        disk.write_at(512, &[2; 1024]).unwrap();
        let mut at_end = HashSet::new();
        let tape = disk.tape();
        let explore = |at_end: &mut HashSet<Vec<u8>>, tape: &DiskTape| {
            at_end.clear();
            let cut = PowerCut::new("x").explore(tape, |cut, disk| {
                if cut.point == tape.events.len() {
                    at_end.insert(disk.content().iter().step_by(512).copied().collect());
                }
                Ok(())
            });
            cut.unwrap()
        };
        explore(&mut at_end, &tape);
        let expected = [[1, 0, 0, 0], [1, 2, 0, 0], [1, 0, 2, 0], [1, 2, 2, 0]];
        assert_eq!(at_end, expected.into_iter().map(Vec::from).collect());
        disk.sync().unwrap();
        disk.write_at(0, &[3; 512]).unwrap();
        disk.write_at(0, &[4; 512]).unwrap();
        let report = explore(&mut at_end, &disk.tape());
        assert_eq!(at_end, [[1, 2, 2, 0], [3, 2, 2, 0], [4, 2, 2, 0]].into_iter().map(Vec::from).collect());
        assert_eq!(report.points, report.exhausted);
    }

    /// After a failed sync the cache shows what the medium may lack, and a later sync does not
    /// help.
    #[test]
    fn a_failed_sync_leaves_a_clean_cache_and_an_undecided_medium() {
        let disk = RecordedDisk::new(&[0; 8192]).unwrap();
        disk.write_at(0, &[1; 512]).unwrap();
        disk.fail(crate::DiskCall::Sync, 0, libc::EIO);
        disk.sync().unwrap_err();
        disk.sync().unwrap();
        let mut byte = [0];
        disk.read_at(0, &mut byte).unwrap();
        assert_eq!(byte, [1]);
        let mut seen = HashSet::new();
        let tape = disk.tape();
        let _ = PowerCut::new("x").explore(&tape, |cut, disk| {
            if cut.point == tape.events.len() {
                seen.insert(disk.content()[0]);
            }
            Ok(())
        });
        assert_eq!(seen, HashSet::from([0, 1]));
        disk.forget(0, 8192);
        disk.read_at(0, &mut byte).unwrap();
        assert_eq!(byte, [0]);
    }

    #[test]
    fn an_image_that_fails_is_told_with_its_replay() {
        let disk = RecordedDisk::new(&[0; 512]).unwrap();
        disk.note(7);
        disk.write_at(0, &[1; 512]).unwrap();
        let check = |cut: Cut<'_>, disk: Arc<RecordedDisk>| {
            assert_eq!(cut.notes, [7]);
            if disk.content()[0] == 1 { Err("a one".into()) } else { Ok(()) }
        };
        let failure = PowerCut::new("mine").seed(9).explore(&disk.tape(), check).unwrap_err();
        assert!(failure.to_string().contains("EVERBYTE_CUT=9:2:1 cargo test mine"), "{failure}");
    }
}
