//! A part of `files`: a change that one word publishes against a logged one (PMFS, section 4.2.3).
//! 64 bytes behind the end, inside the last page, become valid with the size; the same bytes inside
//! of the file are changed under undo records.

use super::Result;
use super::files_bars::bars;
use super::files_systems::{Files, Ours};
use crate::harness::{Bench, Unit};
use crate::host;
use everbyte_media::Counts;
use std::time::{Duration, Instant};

/// A file of more bytes than an inode holds: they lie in a page.
const START: u64 = 256;
const SIZE: u64 = 64;
/// Writes until the page is full.
const BATCH: u64 = (4096 - START) / SIZE;
const METRICS: [&str; 2] = ["append_64_in_place", "write_64_logged"];

pub(super) fn run(bench: &mut Bench<'_>, ours: &Ours) -> Result {
    if !METRICS.iter().any(|metric| bench.wants(metric)) {
        return Ok(());
    }
    host::pin(0);
    let media = ours.store.media();
    let file = ours.make(ours.root(), "in-place")?;
    ours.append(&file, 0, &[b'a'; START as usize])?;
    let (batches, mut byte) = (bench.plan.pick(400, 100, 2), 0_u8);
    let mut one = |is_logged: bool| -> Result<(Duration, Counts)> {
        let (mut took, mut counts) = (Duration::ZERO, Counts::default());
        for _ in 0..batches {
            byte = byte.wrapping_add(1); // a volume logs only words that change
            if is_logged {
                ours.append(&file, START, &[byte.wrapping_add(1); (4096 - START) as usize])?;
            }
            let (bytes, before, start) = ([byte; SIZE as usize], media.counts(), Instant::now());
            (0..BATCH).try_for_each(|turn| ours.write(&file, START + turn * SIZE, &bytes))?;
            took += start.elapsed();
            counts = counts + (media.counts() - before);
            file.set_size(START)?;
        }
        Ok((took, counts))
    };
    let (mut times, mut counts) = ([const { Vec::new() }; 2], [Counts::default(); 2]);
    let operations = batches * BATCH;
    for round in 0..=bench.plan.rounds {
        for turn in 0..2 {
            let index = (turn + round) % 2;
            let (took, counted) = one(index == 1)?;
            counts[index] = counted;
            if round > 0 {
                times[index].push(took.as_secs_f64() * 1e9 / operations as f64); // after one to warm up
            }
        }
    }
    let [in_place, logged] = times;
    let all =
        [vec![(ours.name().into(), in_place), ("logged".into(), logged.clone())], vec![(ours.name().into(), logged)]];
    for ((metric, measured), counts) in METRICS.into_iter().zip(all).zip(counts) {
        if bench.wants(metric) {
            bench.bars = bars(metric);
            bench.report(metric, Unit::Nanoseconds, measured, Some((counts, operations)));
        }
    }
    Ok(())
}
