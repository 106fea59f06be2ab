//! The age of the oldest version in use, as the figures tell it.

use everbyte_kv::{Kv, ManualClock};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};
use std::time::{Duration, UNIX_EPOCH};

#[test]
fn a_reader_that_is_behind_has_an_age() {
    let media = Media::anonymous(1 << 26, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "t").unwrap();
    let clock = ManualClock::default();
    kv.set_clock(clock.clone());
    let at = |seconds| clock.set(UNIX_EPOCH + Duration::from_secs(seconds));
    let age = || kv.stats().oldest_age.as_secs();
    // Each replaces a value with a block of its own, which dies.
    let put = || kv.put(b"key", &[1; 3000]).unwrap();
    at(1000);
    (0..4).for_each(|_| put());
    let old = kv.snapshot();
    at(2000);
    assert_eq!(age(), 0, "it reads the newest version");
    // Commits notice the reader, without a look at the figures.
    (0..3).for_each(|_| put());
    at(2060);
    (0..3).for_each(|_| put());
    let newer = kv.snapshot();
    assert_eq!((age(), kv.stats().oldest), (60, old.version().get()));
    put();
    at(1500);
    assert_eq!(age(), 0, "the clock has gone back");
    at(2100);
    assert_eq!(age(), 100);
    drop(old);
    (0..3).for_each(|_| put());
    at(2130);
    assert_eq!((age(), kv.stats().oldest), (30, newer.version().get()));
    drop(newer);
    assert_eq!(age(), 0);
    // A name keeps a version as a reader does.
    kv.name_version("one").unwrap();
    (0..3).for_each(|_| put());
    at(2200);
    assert_eq!(age(), 70);
}
