//! `log`: what the two logs cost over the bare instructions, and where the base form of the word log overtakes torn bits.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use everbyte_log::{Form, Full, Journal, WordLog};
use everbyte_media::{BackendChoice, Geometry, Media, Options};
use std::path::Path;

const SIZES: [u64; 11] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
const LEN: u64 = 64 << 20;
const RING: u64 = 4 << 20;

/// A media without a store on it, every page touched.
fn media(folder: &Path) -> Result<Media> {
    let geometry = Geometry { max: LEN, len: LEN, log_at: 64 << 10, log_len: 64 << 10 };
    let options = Options { backend: BackendChoice::Shm, ..Options::default() };
    let media = Media::create(&folder.join("log"), geometry, &options)?;
    media.zero(1 << 20, LEN - (1 << 20));
    Ok(media)
}

fn ring(media: &Media, at: u64, form: Form) -> Result<WordLog> {
    WordLog::format(media, at..at + RING, form, 1)?;
    Ok(WordLog::recover(media, at..at + RING, Full::Error, |_| {})?.log)
}

/// Appends and flushes records; the ring is emptied whenever it is half full.
fn appender(mut log: WordLog, words: Vec<u64>) -> impl FnMut(u64) {
    let round = RING / 2 / (words.len() as u64 * 8 + 32);
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
    let media = media(folder.path())?;
    bench.on(&media);
    let mut crossover = None;
    for size in SIZES {
        let words: Vec<u64> = (0..size / 8).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let torn = appender(ring(&media, 1 << 20, Form::Torn)?, words.clone());
        let base = appender(ring(&media, 16 << 20, Form::Base)?, words);
        let runners = vec![Runner::new("torn-bit", torn).counting(&media), Runner::new("base form", base)];
        let outcome = bench.metric(&format!("append_{size}"), Unit::Nanoseconds, 0, runners);
        if outcome.ratio().is_some_and(|ratio| ratio < 1.0) && crossover.is_none() {
            crossover = Some(size);
        }
    }
    // The size from which the base form is ahead; the largest size measured if it never is.
    let at = crossover.unwrap_or(SIZES[SIZES.len() - 1]) as f64;
    bench.report("crossover", Unit::Bytes, vec![("torn-bit".into(), vec![at])], None);
    journal(bench, &media)
}

/// The journal against the instructions it cannot do without.
fn journal(bench: &mut Bench<'_>, media: &Media) -> Result {
    let (lane, home) = (32 << 20..(32 << 20) + 4096, 40 << 20);
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
            media.copy_nt((48 << 20) + i % 60 * 64, &[i as u8; 64]);
            media.fence();
        }
    };
    let runners = vec![Runner::new("journal", log).counting(media), Runner::new("line and fence", bare)];
    bench.metric("undo_8", Unit::Nanoseconds, 0, runners);
    Ok(())
}
