//! Helpers of several tests of stores. Each test uses some of them.
#![allow(dead_code)]

use everbyte_media::{Capabilities, Media, Recorder};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// As `cp --sparse=always`, which not every `cp` knows: pages of zeros become holes.
pub(crate) fn copy_sparsely(source: &Path, target: &Path) {
    let (bytes, target) = (fs::read(source).unwrap(), File::create(target).unwrap());
    target.set_len(bytes.len() as u64).unwrap();
    for (page, bytes) in bytes.chunks(4096).enumerate().filter(|(_, bytes)| bytes.iter().any(|&byte| byte != 0)) {
        target.write_all_at(bytes, page as u64 * 4096).unwrap();
    }
}

/// Stores to a media in the order of their making: each place and its new bytes.
pub(crate) type Stores = Vec<(u64, Vec<u8>)>;

/// The offset and the length of each flush.
pub(crate) type Flushes = Vec<(u64, u64)>;

/// A recorder that keeps the stores, how many there were at each fence, for processes that die
/// between any two of them, and the flushes.
#[derive(Default)]
struct Tape(Arc<Mutex<Stores>>, Arc<Mutex<Vec<usize>>>, Arc<Mutex<Flushes>>);

impl Recorder for Tape {
    fn store(&mut self, at: u64, bytes: &[u8]) {
        self.0.lock().unwrap().push((at, bytes.to_vec()));
    }
    fn flush(&mut self, at: u64, len: u64) {
        self.2.lock().unwrap().push((at, len));
    }
    fn fence(&mut self) {
        self.1.lock().unwrap().push(self.0.lock().unwrap().len());
    }
    fn barrier(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn allocate(&mut self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { shared: false, fence_settles: true, huge_pages: false }
    }
}

/// The stores of `body` to a media of this content.
pub(crate) fn record(max: u64, image: &[u8], body: impl FnOnce(Media)) -> Stores {
    let tape = Tape::default();
    let stores = Arc::clone(&tape.0);
    body(Media::recorded(max, image, Box::new(tape)).unwrap());
    stores.lock().unwrap().clone()
}

/// The flushes of `body` on a media of this content.
pub(crate) fn record_flushes(max: u64, image: &[u8], body: impl FnOnce(Media)) -> Flushes {
    let tape = Tape::default();
    let flushes = Arc::clone(&tape.2);
    body(Media::recorded(max, image, Box::new(tape)).unwrap());
    flushes.lock().unwrap().clone()
}

/// [`record`], each store with the number of fences before it.
pub(crate) fn record_with_fences(max: u64, image: &[u8], body: impl FnOnce(Media)) -> Vec<(u64, Vec<u8>, usize)> {
    let tape = Tape::default();
    let (stores, fences) = (Arc::clone(&tape.0), Arc::clone(&tape.1));
    body(Media::recorded(max, image, Box::new(tape)).unwrap());
    let (stores, fences) = (stores.lock().unwrap(), fences.lock().unwrap());
    let before = |index: usize| fences.partition_point(|&fence: &usize| fence <= index);
    stores.iter().cloned().enumerate().map(|(index, (at, bytes))| (at, bytes, before(index))).collect()
}

/// The image after these stores: a process that dies behind the last of them leaves it.
pub(crate) fn after(image: &[u8], stores: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut image = image.to_vec();
    for (at, bytes) in stores {
        let (at, end) = (*at as usize, *at as usize + bytes.len());
        if image.len() < end {
            image.resize(end.next_multiple_of(1 << 16), 0);
        }
        image[at..end].copy_from_slice(bytes);
    }
    image
}
