//! Opening costs two superblocks, the object table and a page for each object, whatever the data.

use everbyte_media::{Media, Recorder};
use everbyte_sim::{Image, Tracer};
use everbyte_store::{CLUSTER, Error, FormatOptions, ObjectOptions, Store};
use std::io;
use std::time::{Duration, Instant};

/// Media on which room costs nothing, so that an object may have terabytes.
struct Bottomless;

impl Recorder for Bottomless {
    fn store(&mut self, _at: u64, _bytes: &[u8]) {}
    fn flush(&mut self, _at: u64, _len: u64) {}
    fn fence(&mut self) {}
    fn barrier(&mut self, _mark: u64) -> io::Result<()> {
        Ok(())
    }
    fn allocate(&mut self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

/// A store on `media` with one object of so many clusters, and its best opening: of as many as it
/// takes to be `good` enough, within reason. However busy the machine is, some are undisturbed.
fn opening(media: &Media, clusters: u64, good: Duration) -> Duration {
    let store = Store::format(media.clone(), &FormatOptions::default()).unwrap();
    let options = ObjectOptions { span: Some(clusters.next_power_of_two() * CLUSTER), ..ObjectOptions::default() };
    store.create_object("data", options, |object| object.grow((clusters - 1) * CLUSTER).map(drop)).unwrap();
    drop(store);
    let open = || {
        let start = Instant::now();
        let store = Store::attach(media.clone()).unwrap();
        let taken = start.elapsed();
        let object = store.object("data").unwrap();
        assert_eq!(object.backed(), object.prime() + clusters * CLUSTER);
        taken
    };
    let mut best = open();
    for _ in 0..200 {
        if best <= good {
            break;
        }
        best = best.min(open());
    }
    best
}

#[test]
fn opening_reads_the_same_whatever_the_data() {
    let media = |max| Media::recorded(max, &[0; 128 << 10], Box::new(Bottomless)).unwrap();
    let small = opening(&media(64 << 20), 4, Duration::ZERO);
    let most = small * 3 + Duration::from_millis(2);
    let large = opening(&media(16 << 40), 128 << 20, most); // 8 TiB: 21 MiB of bitmap
    assert!(large <= most, "4 clusters: {small:?}, 128 Mi clusters: {large:?}");
}

#[test]
fn opening_stores_the_same_whatever_the_data() {
    let trace = |clusters: u64| {
        let prepare = |media: Media| {
            let store = Store::format(media.clone(), &FormatOptions::default()).unwrap();
            let make = |object: &everbyte_store::Object| object.grow(clusters * CLUSTER).map(drop);
            let made = store.create_object("data", ObjectOptions::default(), make);
            made.map(drop).map_err(|error: Error| error.to_string()).unwrap();
            store.close().unwrap();
        };
        let image = Image::zeroed(128 << 10).with_max(64 << 20);
        Tracer::new(&image).run_after(prepare, |media, ()| drop(Store::attach(media).unwrap()))
    };
    let small = trace(1);
    assert_eq!(small, trace(300));
    assert_eq!(small.lines().count(), 6, "two pages of words, a fence and a barrier:\n{small}");
}
