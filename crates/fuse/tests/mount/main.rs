//! Volumes mounted by a process of their own, and programs on them. Skipped, with the reason, where
//! `/dev/fuse` cannot be opened or the tests do not run as root.

mod bad_days;
mod caches;
mod calls;
mod databases;
mod endings;
mod harness;
mod life;
mod loads;
mod locks;
mod options;
mod places;
mod programs;
mod stores;
mod suites;
mod xfstests;
