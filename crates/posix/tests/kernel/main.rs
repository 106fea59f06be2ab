//! The kernel as the model: the same random calls go to a volume and to a directory of this
//! machine, and have the same results and the same errno.
//!
//! Calls by path are those of several users, so that this test compares them as root, and on
//! kernels from 6.6 on. Results that file systems may choose are left out: sizes of directories,
//! numbers of inodes, times.

#![allow(clippy::multiple_unsafe_ops_per_block, reason = "each table of system calls has one proof")]

mod calls;
mod names;
mod open_files;

use everbyte_fs::{Volume, VolumeOptions};
use everbyte_media::{Media, Options};
use everbyte_posix::{Files, FilesOptions};
use everbyte_store::{FormatOptions, Store};

/// The files of a new volume.
fn new_files() -> (Store, Files) {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let options = VolumeOptions { span: Some(32 << 20), ..VolumeOptions::default() };
    let volume = Volume::create(&store, "files", &options).unwrap();
    (store, Files::new(volume, FilesOptions::default()))
}

/// Seeds of a run: a few; more in a soak, others in each of its rounds.
fn seeds() -> std::ops::Range<u64> {
    let count = everbyte_workload::soak().unwrap_or(6);
    let first = everbyte_workload::round() * count;
    first..first + count
}
