//! The museum: seeded bugs of every crate, and the case that must find each.
//!
//! Each exhibit is a plausible mistake: a line of a crate is left out, moved or doubled while the
//! bug's switch is on (`everbyte_media::seeded`). A museum visit explores the named case with the
//! bug on, and the explorer must find a failing image. The tests of the cases show that the same
//! case passes with the bug off.

mod engines;
mod kv;
mod server;
mod storage;

use crate::{Report, Settings, find};
use everbyte_media::museum::with;
use everbyte_sim::{Explorer, Image, Profile};
use serde::Serialize;

/// One seeded bug.
#[derive(Clone, Copy, Debug)]
pub struct Exhibit {
    /// The name of its switch.
    pub name: &'static str,
    /// The crate that it breaks.
    pub crate_name: &'static str,
    /// The effect of the bug, and the damage that follows.
    pub story: &'static str,
    /// The case that must find it.
    pub case: &'static str,
}

const fn exhibit(name: &'static str, crate_name: &'static str, case: &'static str, story: &'static str) -> Exhibit {
    Exhibit { name, crate_name, story, case }
}

/// All exhibits, layer by layer.
pub fn exhibits() -> Vec<Exhibit> {
    [storage::EXHIBITS, engines::EXHIBITS, kv::EXHIBITS, server::EXHIBITS].concat()
}

/// The result of a visit to one exhibit.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The bug.
    pub name: &'static str,
    /// The crate that it breaks.
    pub crate_name: &'static str,
    /// The case explored.
    pub case: &'static str,
    /// The effect of the bug.
    pub story: &'static str,
    /// Whether the explorer found it.
    pub found: bool,
    /// The failure found, or the images explored in vain.
    pub report: Report,
}

/// Whether the explorer can tell right from wrong at all, under one profile.
#[derive(Clone, Debug, Serialize)]
pub struct Canary {
    /// The profile.
    pub profile: &'static str,
    /// The right program passes.
    pub right_passes: bool,
    /// The one that acknowledges before it stores fails.
    pub wrong_fails: bool,
}

/// One right and one wrong program, under every profile.
pub fn canaries() -> Vec<Canary> {
    let passes = |profile: Profile, early: bool| {
        let explorer = Explorer::new("canary").profiles(&[profile]);
        let outcome = explorer.explore(
            &Image::zeroed(4096),
            |media, oracle| {
                for value in 1..4 {
                    let op = oracle.begin("store");
                    if early {
                        oracle.acked(op);
                    }
                    media.store(64, value);
                    media.flush(64, 8);
                    media.barrier().expect("sim barriers do not fail");
                    if !early {
                        oracle.acked(op);
                    }
                }
            },
            |media, seen| match media.load(64) as usize >= seen.acked_count() {
                true => Ok(()),
                false => Err(format!("{seen:?}")),
            },
        );
        outcome.is_ok()
    };
    let told = |&(name, profile): &(&'static str, Profile)| {
        let (right_passes, wrong_fails) = (passes(profile, false), !passes(profile, true));
        Canary { profile: name, right_passes, wrong_fails }
    };
    Profile::ALL.iter().map(told).collect()
}

impl Exhibit {
    /// Explores the case with the bug switched on.
    ///
    /// # Panics
    /// If no case has the name.
    pub fn visit(&self) -> Outcome {
        let Exhibit { name, crate_name, story, case } = *self;
        let program = find(case).unwrap_or_else(|| panic!("{name}: no case is called {case}"));
        // A bug may break the program itself, before any crash: that counts as found by its first
        // ordinary run.
        let explore = std::panic::AssertUnwindSafe(|| with(name, || program.explore(&Settings::default())));
        let report = match std::panic::catch_unwind(explore) {
            Ok(report) => report,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "panicked".into());
                Report::broken(case, crate_name, format!("the program itself fails: {text}"))
            }
        };
        Outcome { name, crate_name, case, story, found: !report.passed(), report }
    }
}
