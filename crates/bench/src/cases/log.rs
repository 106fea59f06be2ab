//! `log`: what the two logs cost over the bare instructions, and where the base form of the word
//! log overtakes torn bits; that also under the profile `pcm`, for the sizes of Mnemosyne's table.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use everbyte_log::{Form, Full, Journal, WordLog};
use everbyte_media::{BackendChoice, Geometry, Media, OpenOptions, Options, Profile};
use std::path::Path;

const SIZES: [u64; 11] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Those of Mnemosyne's table.
const SIZES_PCM: [u64; 6] = [8, 64, 256, 1024, 2048, 4096];

/// Offsets in units: the rings (4 units each), a lane, lines to change, lines to write.
const TORN: u64 = 4;
const BASE: u64 = 16;
const LANE: u64 = 32;
const HOME: u64 = 40;
const BARE: u64 = 48;
const END: u64 = 64;

/// A media of [`END`] units without a store on it, every page touched.
fn media(folder: &Path, unit: u64, profile: Profile) -> Result<Media> {
    let len = END * unit;
    let geometry = Geometry { max: len, len, log_at: 64 << 10, log_len: 64 << 10 };
    let options = Options { backend: BackendChoice::Shm, profile, ..Options::default() };
    let media = OpenOptions::new(folder.join(profile.name)).create(geometry, &options)?;
    media.zero(TORN * unit, (END - TORN) * unit);
    Ok(media)
}

fn ring(media: &Media, at: u64, unit: u64, form: Form) -> Result<WordLog> {
    let range = at * unit..(at + 4) * unit;
    WordLog::format(media, range.clone(), form, 1)?;
    Ok(WordLog::recover(media, range, Full::Error, |_| {})?.log)
}

/// Appends and flushes records; the ring is emptied whenever it is half full.
fn appender(mut log: WordLog, unit: u64, words: Vec<u64>) -> impl FnMut(u64) {
    let round = 2 * unit / (words.len() as u64 * 8 + 32);
    let mut done = 0;
    move |count| {
        for _ in 0..count {
            log.producer.append(&words).expect("half the ring is free");
            log.producer.flush();
            done += 1;
            if done % round == 0 {
                log.truncate_all();
            }
        }
    }
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let folder = tempfile::tempdir_in(&bench.plan.memory)?;
    let unit = bench.plan.pick(1 << 20, 1 << 20, 1 << 16);
    let memory = media(folder.path(), unit, Profile::DRAM)?;
    bench.on(&memory);
    forms(bench, &memory, unit, &SIZES, "")?;
    journal(bench, &memory, unit)?;
    let slower = media(folder.path(), unit, Profile::PCM)?;
    bench.profile = Profile::PCM.name.into();
    forms(bench, &slower, unit, &SIZES_PCM, "_pcm")
}

/// One form of the word log against the other.
fn forms(bench: &mut Bench<'_>, media: &Media, unit: u64, sizes: &[u64], suffix: &str) -> Result {
    let mut crossover = None;
    for &size in sizes {
        let words: Vec<u64> = (0..size / 8).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let torn = appender(ring(media, TORN, unit, Form::Torn)?, unit, words.clone());
        let base = appender(ring(media, BASE, unit, Form::Base)?, unit, words);
        let runners = vec![Runner::new("torn-bit", torn).counting(media), Runner::new("base form", base)];
        let outcome = bench.metric(&format!("append_{size}{suffix}"), Unit::Nanoseconds, 0, runners);
        if outcome.ratio().is_some_and(|ratio| ratio < 1.0) && crossover.is_none() {
            crossover = Some(size);
        }
    }
    // The size from which the base form is ahead; the largest size measured if it never is.
    let at = crossover.unwrap_or(sizes[sizes.len() - 1]) as f64;
    bench.report(&format!("crossover{suffix}"), Unit::Bytes, vec![("torn-bit".into(), vec![at])], None);
    Ok(())
}

/// The journal against the instructions it cannot do without.
fn journal(bench: &mut Bench<'_>, media: &Media, unit: u64) -> Result {
    let (lane, home) = (LANE * unit..LANE * unit + 4096, HOME * unit);
    Journal::format(media, lane.clone(), 1)?;
    let mut journal = Journal::recover(media, lane, 0..media.len())?.finish();
    let log = |count: u64| {
        for i in 0..count {
            journal.log(home + i % 1024 * 64, 8).expect("retired in time");
            journal.fence();
            if i % 32 == 31 {
                journal.retire();
                journal.fence();
            }
        }
        journal.retire();
        journal.fence();
    };
    let bare = |count: u64| {
        for i in 0..count {
            media.copy_nt(BARE * unit + i % 60 * 64, &[i as u8; 64]);
            media.fence();
        }
    };
    let runners = vec![Runner::new("journal", log).counting(media), Runner::new("line and fence", bare)];
    bench.metric("undo_8", Unit::Nanoseconds, 0, runners);
    Ok(())
}
