//! # everbyte-cases: programs of every crate for the crash explorer, and the museum
//!
//! A [`Case`] is a small program of one crate with a check of the images that a crash may leave.
//! `everbyte crash CASE` explores one, the tests explore all, and the museum breaks the crates on
//! purpose, one seeded bug at a time, and demands that the case named for it fails.
//!
//! Programs that explore the promises of one crate through its public calls, or that need several
//! crates, live here, under a name that `everbyte crash` knows. A crate's own `tests/crash.rs`
//! holds only explorations of its private parts or of images that no public call can make. The
//! reasons are in docs/design/crash-programs.md.
//!
//! ```
//! use everbyte_cases::{Settings, cases, find};
//! assert!(cases().len() > 5);
//! let report = find("media-publish").unwrap().explore(&Settings::default());
//! assert!(report.passed() && report.images > 10);
//! ```
//!
//! With the feature `museum` (tests, `cargo xtask museum`) seeded bugs are compiled in; see
//! `museum::exhibits`.

#![forbid(unsafe_code)]

mod backup;
mod cold;
mod creation;
mod deaths;
mod disk;
mod fs;
mod fs_bounds;
mod fs_deaths;
mod fs_lanes;
mod fs_limits;
mod fs_mapped;
mod fs_quota;
mod fs_refused;
mod fs_relaxed;
mod fs_repair;
mod fs_seal;
mod fs_sequences;
mod fs_share;
mod heap;
mod heat;
mod hkv;
mod kv;
mod kv_compact;
mod kv_days;
mod kv_drops;
mod kv_hashed;
mod kv_load;
mod kv_optimistic;
mod kv_paths;
mod kv_tables;
mod kv_ttl;
mod kv_typed;
mod kv_versions;
mod log;
mod map;
mod media;
mod merge;
mod mnemosyne;
#[cfg(feature = "museum")]
pub mod museum;
#[cfg(feature = "museum")]
pub mod mutants;
mod names;
mod object;
mod object_collections;
mod object_generation;
mod object_load;
mod object_maps;
mod object_migrate;
mod object_repair;
mod object_types;
mod owners;
mod posix;
mod program;
mod redo;
mod report;
mod server;
mod server_groups;
mod server_import;
mod server_import_follow;
mod server_model;
mod server_replica;
mod server_script;
mod sharing;
mod store;
mod store_words;
mod tx;
mod tx_table;

pub use everbyte_sim::Foreign;
pub use heat::{Heat, HeatColumn, HeatRow, HeatSettings, HeatWorkload, heat};
pub use program::explore_program;
pub use report::{FailureReport, ProfileShare, Report, Settings};

use everbyte_sim::{Explorer, Failure, Report as Explored, Threads};

/// One explorable program.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name on the command line.
    pub name: &'static str,
    /// The crate that it explores.
    pub crate_name: &'static str,
    /// One sentence: what the program does and what must hold.
    pub about: &'static str,
    /// About how many images one profile tries in the soak, unless the user says otherwise; the
    /// usual run tries fewer.
    pub total: u64,
    /// Explores it with the explorer given.
    program: fn(Explorer) -> Result<Explored, Box<Failure>>,
}

/// The usual bound of a case's cost.
const TOTAL: u64 = 24_000;

/// Images that a second run of the program starts from, of one recording, and images of each second
/// run.
const SECOND_RUNS: u64 = 6;
const SECOND_IMAGES: u64 = 18;

/// The usual run tries one part in so many of a case's images, and explores about so many
/// recoveries of one profile. The soak tries all.
const USUAL_PART: u64 = 3;
const USUAL_RECOVERIES: u64 = 80;

/// The same for a run of all cases.
const SAMPLED_PART: u64 = 5;
const SAMPLED_RECOVERIES: u64 = 50;

/// Every case, floor by floor.
pub fn cases() -> Vec<Case> {
    [
        media::CASES,
        disk::CASES,
        map::CASES,
        log::CASES,
        store::CASES,
        store_words::CASES,
        owners::CASES,
        cold::CASES,
        names::CASES,
        heap::CASES,
        creation::CASES,
        tx::CASES,
        tx_table::CASES,
        redo::CASES,
        sharing::CASES,
        object::CASES,
        object_collections::CASES,
        object_generation::CASES,
        object_load::CASES,
        hkv::CASES,
        fs::CASES,
        fs_bounds::CASES,
        fs_deaths::CASES,
        fs_lanes::CASES,
        fs_limits::CASES,
        fs_mapped::CASES,
        fs_quota::CASES,
        fs_refused::CASES,
        fs_relaxed::CASES,
        fs_repair::CASES,
        fs_seal::CASES,
        fs_sequences::CASES,
        fs_share::CASES,
        posix::CASES,
        mnemosyne::CASES,
        kv::CASES,
        kv_days::CASES,
        kv_drops::CASES,
        kv_hashed::CASES,
        kv_load::CASES,
        kv_optimistic::CASES,
        kv_paths::CASES,
        kv_tables::CASES,
        kv_ttl::CASES,
        kv_typed::CASES,
        kv_versions::CASES,
        kv_compact::CASES,
        backup::CASES,
        merge::CASES,
        server::CASES,
        server_import::CASES,
        server_import_follow::CASES,
        server_replica::CASES,
        deaths::CASES,
    ]
    .concat()
}

fn is_set(name: &str, value: &str) -> bool {
    std::env::var(name).is_ok_and(|found| found == value)
}

/// Whether this is the soak.
fn is_soak() -> bool {
    is_set("EVERBYTE_CRASH_AGAIN", "whole")
}

/// The case of that name.
pub fn find(name: &str) -> Option<Case> {
    cases().into_iter().find(|case| case.name == name)
}

impl Case {
    /// Steps run on threads of their own, unless `EVERBYTE_CRASH_THREADS` is `one`.
    /// `EVERBYTE_CRASH_AGAIN=whole` is the soak.
    fn explorer(&self) -> Explorer {
        let threads = if is_set("EVERBYTE_CRASH_THREADS", "one") { Threads::One } else { Threads::PerStep };
        let explorer = Explorer::new(self.name).threads(threads);
        if is_soak() {
            return explorer.total(self.total);
        }
        explorer.total(self.total / USUAL_PART).recoveries(USUAL_RECOVERIES)
    }

    /// A small run for the verdict alone: a failing image is not made smaller.
    #[cfg(feature = "museum")]
    pub(crate) fn sketch(&self, starts: u64, settings: &Settings) -> Report {
        let explorer = self.explorer().again(starts, 12).recoveries(30).floor(8).jobs(1).unshrunk();
        Report::new(self.name, self.crate_name, (self.program)(settings.apply(explorer)))
    }

    /// As [`Case::explore`], for the verdict alone.
    #[cfg(feature = "museum")]
    pub(crate) fn glance(&self, settings: &Settings) -> Report {
        let explorer = self.explorer().again(SECOND_RUNS, SECOND_IMAGES).jobs(1).unshrunk();
        Report::new(self.name, self.crate_name, (self.program)(settings.apply(explorer)))
    }

    /// Records the program and tries its crash images.
    pub fn explore(&self, settings: &Settings) -> Report {
        self.run(settings.apply(self.explorer().again(SECOND_RUNS, SECOND_IMAGES)))
    }

    /// As [`Case::explore`] with fewer images, where all cases follow each other; the soak tries
    /// all.
    pub fn explore_sample(&self) -> Report {
        let explorer = self.explorer().again(SECOND_RUNS, SECOND_IMAGES);
        let part = explorer.clone().total(self.total / SAMPLED_PART).recoveries(SAMPLED_RECOVERIES);
        self.run(if is_soak() { explorer } else { part })
    }

    /// Explores second runs after so many deaths, third runs after so many further ones in each
    /// second run, and so many images of each; see [`Explorer::after_deaths`].
    pub fn explore_deaths(&self, (deaths, further): (u64, u64), images: u64) -> Report {
        self.run(deaths::twice(self.explorer(), deaths, further, images))
    }

    fn run(&self, explorer: Explorer) -> Report {
        let command = format!("everbyte crash {} --seed {{seed}} --image '{{image}}'", self.name);
        Report::new(self.name, self.crate_name, (self.program)(explorer.command(command)))
    }
}
