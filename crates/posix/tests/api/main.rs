//! Calls that the comparison with the kernel leaves out: locks, handles, times, listings, unnamed
//! files, and the options of a volume in use.

mod directories;
mod files;
mod locks;
mod maps;
mod modes;
mod opening;
mod options;
mod quotas;
mod relaxed;
mod times;

use everbyte_fs::{Volume, VolumeOptions};
use everbyte_media::{Media, Options};
use everbyte_posix::{Files, FilesOptions, OpenFile, OpenFlags, Process, User};
use everbyte_store::{FormatOptions, Store};

const MAKE: OpenFlags = OpenFlags::CREAT.union(OpenFlags::RDWR);

/// A new volume, with a clock that the test sets.
fn volume(store: &Store, clock: fn() -> i64) -> Volume {
    let options = VolumeOptions { span: Some(32 << 20), clock, ..VolumeOptions::default() };
    Volume::create(store, "files", &options).unwrap()
}

fn store() -> Store {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    Store::format(media, &FormatOptions::default()).unwrap()
}

/// A new volume in use, with the default options.
fn files() -> Files {
    Files::new(volume(&store(), everbyte_fs::system_clock), FilesOptions::default())
}

fn root(files: &Files) -> Process {
    files.process(User::root()).unwrap()
}

fn make(process: &Process, path: &str, bytes: &[u8]) -> OpenFile {
    let file = process.open(path, MAKE, 0o644).unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}
