//! # everbyte-sim: what would a power cut have left?
//!
//! Records what a program does to its media and tries the images that a crash may leave, by the
//! rule of the media contract: each is recovered in a process of its own and checked against what
//! the program had acknowledged by then.
//!
//! ```
//! use everbyte_sim::{Explorer, Image};
//!
//! // A counter and its copy: the copy is for readers who do not trust the first.
//! let report = Explorer::new("two-counters").run(
//!     &Image::zeroed(4096),
//!     |media, oracle| {
//!         for round in 1..=3 {
//!             oracle.step(format!("round {round}"), || {
//!                 media.store(0, round);
//!                 media.flush(0, 8);
//!                 media.fence(); // the copy never survives without the counter
//!                 media.store(512, round);
//!                 media.flush(512, 8);
//!                 media.barrier().unwrap(); // settled: the caller may be told
//!             });
//!         }
//!     },
//!     |media, seen| {
//!         let (counter, copy) = (media.load(0), media.load(512));
//!         let fits = copy <= counter && copy as usize >= seen.acked_count();
//!         if fits { Ok(()) } else { Err(format!("counter {counter}, copy {copy}, {seen:?}")) }
//!     },
//! );
//! assert!(report.profiles.iter().all(|profile| profile.share() == 1.0));
//! ```
//!
//! [`Explorer::twin`] compares with a plain model instead of a hand-written check; [`trace`] writes
//! the golden persistence traces of `testdata/`; [`fault_loop`] fails the n-th allocation and the
//! n-th barrier.
//!
//! Manual: docs/manual/explorer.md. The rule as the explorer applies it:
//! docs/semantics/crash-rule.md.

#[cfg(not(target_os = "linux"))]
compile_error!("the explorer forks and reads /proc: it runs on Linux");

mod again;
mod child;
mod disk;
mod engine;
mod explorer;
mod failure;
mod faults;
mod foreign;
mod fork;
mod golden;
mod image;
#[cfg(test)]
mod naive;
mod oracle;
mod page;
mod points;
mod power;
mod recipes;
mod stage;
pub mod swarm;
mod tape;
mod twin;
mod writes;

pub use disk::{DiskCall, DiskEvent, DiskTape, RecordedDisk, SECTOR};
pub use explorer::{Explorer, Profile, ProfileReport, Report};
pub use failure::Failure;
pub use faults::{FaultReport, fault_loop};
pub use foreign::Foreign;
pub use fork::Forked;
pub use golden::{Tracer, assert_golden, trace};
pub use image::Image;
pub use oracle::{Op, Oracle, Seen, Threads};
pub use page::{assert_page, dump};
pub use points::Tear;
pub use power::{Cut, PowerCut, PowerFailure, PowerReport};
pub use tape::Settling;
pub use twin::{Order, Twin};
pub use writes::{Write, each_write};
