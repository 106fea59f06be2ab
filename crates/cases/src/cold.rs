//! Cases of clusters that grow cold. Store and backing file are cut off together: the file is bytes
//! of the same recorded media, undecided until it is synced.

use crate::Case;
use everbyte_cold::OpenMode;
use everbyte_cold::layout::{SWAP_SLOTS, SwapHeader};
use everbyte_media::{Checked, Disk, Media};
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::{CLUSTER, Error, Files, FindingKind, FormatOptions, Object, ObjectOptions, Store};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "store-cold",
        crate_name: "store",
        about: "clusters grow cold, come back, are stored to and released: of each exactly one copy counts, and it is whole",
        total: 6000,
        program: |explorer| changes(explorer, true),
    },
    Case {
        name: "store-cold-all-back",
        crate_name: "store",
        about: "the same, and recovery brings everything back at once",
        total: 3000,
        program: |explorer| changes(explorer, false),
    },
    Case {
        name: "store-cold-limit",
        crate_name: "store",
        about: "an object gets a limit, and it is lifted again: it has all its bytes, and no cluster is lost",
        total: 3000,
        program: limit,
    },
    Case {
        name: "store-cold-refused",
        crate_name: "store",
        about: "a limit is refused when its table is made: the table goes, and its clusters are free for growth",
        total: 1000,
        program: refused,
    },
    Case {
        name: "store-cold-again",
        crate_name: "store",
        about: "an object with a limit grows; without one it grows on, and gets a limit again: its words stay",
        total: 600,
        program: limit_again,
    },
    Case {
        name: "store-cold-remove",
        crate_name: "store",
        about: "an object with cold clusters is removed: it is whole with its backing file, or neither is left",
        total: 2000,
        program: removal,
    },
];

const MAX: u64 = 4 << 20;
/// Clusters that the object has at first, behind its first one.
const CLUSTERS: u64 = 4;
/// The least that an object of this span needs.
const LIMIT: u64 = 9;

/// A file that is a range of recorded media. Written bytes are undecided until they are synced, in
/// spite of fences.
struct Range {
    media: Media,
    at: u64,
    unsynced: Mutex<Vec<(u64, u64)>>,
    nothing: File,
}

impl Disk for Range {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.media.read(self.at + at, into);
        Ok(())
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.media.write(self.at + at, bytes);
        self.unsynced.lock().expect("no panics").push((self.at + at, bytes.len() as u64));
        Ok(())
    }

    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_at(at, bytes)?;
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        self.unsynced.lock().expect("no panics").drain(..).for_each(|(at, len)| self.media.flush(at, len));
        self.media.barrier().map_err(io::Error::other)
    }

    /// A file is as long as its header unless that is whole: then it may have slots.
    fn len(&self) -> io::Result<u64> {
        let header: SwapHeader = self.media.get(self.at);
        Ok(match header.magic {
            [0, ..] => 0,
            _ if header.checksum_agrees() => self.media.len() - self.at,
            _ => SWAP_SLOTS,
        })
    }

    fn allocate(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn punch(&self, _at: u64, _len: u64) {}

    fn mappable(&self) -> BorrowedFd<'_> {
        self.nothing.as_fd()
    }
}

/// The one backing file there is: all of the object `disk` behind its first cluster.
struct Drawer {
    media: Media,
    at: u64,
    told: bool,
}

impl Files for Drawer {
    /// There is a file while its first word is not zero. Like a real one it is empty, and created
    /// in a directory that is synced: a file of that name that was removed before does not come
    /// back.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        match self.media.load(self.at) {
            0 => {
                self.media.zero(self.at, SWAP_SLOTS);
                self.media.flush(self.at, SWAP_SLOTS);
                self.media.barrier().map_err(io::Error::other)?;
                self.open(path, OpenMode::ReadWrite)
            }
            _ => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    fn open(&self, _path: &Path, _mode: OpenMode) -> io::Result<Arc<dyn Disk>> {
        let (media, nothing) = (self.media.clone(), File::open("/dev/null")?);
        Ok(Arc::new(Range { media, at: self.at, unsynced: Mutex::default(), nothing }))
    }

    /// The directory is synced here, too.
    fn remove(&self, path: &Path, _disk: &dyn Disk) {
        self.media.store(self.at, 0);
        self.media.flush(self.at, 8);
        self.settle_removal(path);
    }

    fn settle_removal(&self, _path: &Path) {
        self.media.reflush(self.at, 8);
        self.media.barrier().expect("sim barriers do not fail");
    }

    fn reports_touches(&self) -> bool {
        self.told
    }
}

/// By cluster, the first word of it.
type Words = BTreeMap<u64, u64>;

fn attach(media: &Media, told: bool) -> Result<Store, Error> {
    let store = Store::attach(media.clone())?;
    let at = store.stat("disk")?.span.start + CLUSTER;
    store.set_files(Arc::new(Drawer { media: media.clone(), at, told }));
    Ok(store)
}

fn image(limited: bool) -> Image {
    Image::zeroed(CLUSTER).with_max(MAX).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media.clone(), &options).expect("a small store");
        let span = |bytes| ObjectOptions { span: Some(bytes), ..ObjectOptions::default() };
        let disk = |object: &Object| object.grow(7 * CLUSTER).map(drop);
        drop(store.create_object("disk", span(512 << 10), disk).expect("room for a disk"));
        let large = |object: &Object| object.grow(CLUSTERS * CLUSTER).map(drop);
        drop(store.create_object("large", span(1 << 20), large).expect("room for an object"));
        drop(store);
        let store = attach(&media, true).expect("a whole store");
        if limited {
            store.set_resident("large", Some(LIMIT), None).expect("a limit that will do");
        }
        let object = store.object("large").expect("it is there");
        words().into_iter().for_each(|(cluster, word)| put(&object, cluster, word));
        drop(object);
        store.close().expect("sim barriers do not fail");
    })
}

fn words() -> Words {
    (1..=CLUSTERS).map(|cluster| (cluster, cluster * 0x0101)).collect()
}

fn bytes_of(object: &Object, clusters: std::ops::Range<u64>) -> std::ops::Range<u64> {
    (object.prime() + clusters.start * CLUSTER).get()..(object.prime() + clusters.end * CLUSTER).get()
}

fn put(object: &Object, cluster: u64, word: u64) {
    let bytes = bytes_of(object, cluster..cluster + 1);
    object.warm(bytes.clone()).expect("its bytes are there");
    object.media().store(bytes.start, word);
    object.media().flush(bytes.start, 8);
    object.media().barrier().expect("sim barriers do not fail");
}

/// The duty of a program towards words that it finds after a crash and goes on to build on.
fn adopt(object: &Object) {
    for cluster in 1..(object.backed() - object.prime()) / CLUSTER {
        let bytes = bytes_of(object, cluster..cluster + 1);
        if object.is_backed(bytes.start) {
            object.warm(bytes.clone()).expect("its bytes are there");
            object.media().reflush(bytes.start, 8);
        }
    }
    object.media().fence();
}

/// Recovers, checks everything, and reads out the words.
fn observe(media: &Media, seen: &Seen, told: bool) -> Result<Words, String> {
    let store = attach(media, told).map_err(|error| error.to_string())?;
    seen.recovered();
    read_out(media, &store)
}

/// Checks everything, and reads out the words.
fn read_out(media: &Media, store: &Store) -> Result<Words, String> {
    let text = |error: Error| error.to_string();
    if let Some(finding) = store.check().into_iter().find(|finding| finding.kind != FindingKind::Note) {
        return Err(finding.to_string());
    }
    let object = store.object("large").map_err(text)?;
    let mut words = Words::new();
    for cluster in 1..(object.backed() - object.prime()) / CLUSTER {
        let bytes = bytes_of(&object, cluster..cluster + 1);
        if object.is_backed(bytes.start) {
            object.warm(bytes.clone()).map_err(text)?;
            words.insert(cluster, media.load(bytes.start));
        }
    }
    Ok(words)
}

fn changes(explorer: Explorer, told: bool) -> Result<Report, Box<Failure>> {
    let program = |media: Media, twin: &Twin<'_, Words>| {
        let store = attach(&media, true).expect("a whole store");
        let object = store.object("large").expect("it is there");
        if twin.model() != words() {
            adopt(&object); // a process that died may have stored a word and not flushed it
        }
        let cool = |clusters: std::ops::Range<u64>| {
            twin.step(
                "cool",
                |_: &mut Words| (),
                || object.cool(bytes_of(&object, clusters)).expect("room on the disk"),
            );
        };
        let set = |cluster: u64, word: u64| {
            let new = move |words: &mut Words| _ = words.insert(cluster, word);
            twin.step(format!("set {cluster}"), new, || put(&object, cluster, word));
        };
        let settled = || object.media().barrier().expect("sim barriers do not fail");
        if !twin.model().contains_key(&1) {
            let back = || object.back(bytes_of(&object, 1..2)).map(|()| settled()).expect("room in the span");
            twin.step("back 1 first", |words: &mut Words| _ = words.insert(1, 0), back);
        }
        cool(1..3);
        set(2, 77); // its slot is free again
        if twin.model().contains_key(&3) {
            cool(3..4); // and taken
        }
        set(1, 78);
        cool(1..3);
        twin.step(
            "one for the other",
            |_: &mut Words| (),
            || {
                object.warm(bytes_of(&object, 1..2)).expect("its bytes are there");
                // in the slot that has just become free
                object.cool(bytes_of(&object, 4..5)).expect("room on the disk");
            },
        );
        let grown = |words: &mut Words| _ = words.insert(5, 0);
        if !twin.model().contains_key(&5) {
            twin.step("grow", grown, || object.grow(CLUSTER).map(|_| settled()).expect("room in the span"));
        }
        set(5, 79);
        if twin.model().contains_key(&3) {
            let gone = |words: &mut Words| _ = words.remove(&3);
            twin.step("release 3", gone, || object.release(bytes_of(&object, 3..4)).expect("it is backed"));
        }
        let back = |words: &mut Words| _ = words.insert(3, 0);
        twin.step("back 3", back, || {
            object.back(bytes_of(&object, 3..4)).map(|()| settled()).expect("room in the span")
        });
        // A cluster that is in memory and has a word; one thread backs it, another stores to it.
        if twin.model().contains_key(&1) {
            set(1, 80);
            let gone = |words: &mut Words| _ = words.remove(&1);
            twin.step("release 1", gone, || object.release(bytes_of(&object, 1..2)).expect("it is backed"));
        }
        let backed = twin.begin("back 1", |words: &mut Words| _ = words.insert(1, 0));
        twin.on_its_thread(|| object.back(bytes_of(&object, 1..2)).expect("room in the span"));
        let stored = twin.begin("set 1", |words: &mut Words| _ = words.insert(1, 81));
        twin.on_its_thread(|| put(&object, 1, 81));
        [backed, stored].into_iter().for_each(|op| twin.acked(op));
    };
    explorer.explore_twin(&image(true), &words(), Order::InOrder, program, |media, seen| observe(&media, seen, told))
}

fn limit(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let program = |media: Media, twin: &Twin<'_, Words>| {
        let store = attach(&media, true).expect("a whole store");
        let limit = |clusters: Option<u64>| {
            let set = || store.set_resident("large", clusters, None).expect("it is not open");
            twin.step("limit", |_: &mut Words| (), set);
        };
        limit(Some(LIMIT));
        let object = store.object("large").expect("it is there");
        object.cool(bytes_of(&object, 1..4)).expect("room on the disk");
        drop(object);
        limit(None);
        limit(Some(LIMIT + 1));
    };
    explorer.explore_twin(&image(false), &words(), Order::InOrder, program, |media, seen| {
        let words = observe(&media, seen, true)?;
        // With any file that the crash left, the object can have a limit.
        let store = attach(&media, true).map_err(|error| error.to_string())?;
        store.set_resident("large", Some(LIMIT), None).map_err(|error| error.to_string())?;
        Ok(words)
    })
}

/// The path of the backing file does not fit into the table.
fn refused(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let long = "l".repeat(4100);
    let program = |media: Media, twin: &Twin<'_, Words>| {
        let store = attach(&media, true).expect("a whole store");
        let limit = |path: Option<&Path>| store.set_resident("large", Some(LIMIT), path);
        twin.step("refused", |_: &mut Words| (), || limit(Some(Path::new(&long))).expect_err("the path is too long"));
        if !twin.model().contains_key(&5) {
            let grow = || {
                let object = store.object("large").expect("it is there");
                object.grow(CLUSTER).expect("room in the span");
                object.media().barrier().expect("sim barriers do not fail");
            };
            twin.step("grow", |words: &mut Words| _ = words.insert(5, 0), grow);
        }
        let set = || put(&store.object("large").expect("it is there"), 5, 79);
        twin.step("set 5", |words: &mut Words| _ = words.insert(5, 79), set);
        twin.step("limit", |_: &mut Words| (), || limit(None).expect("a limit that will do"));
    };
    let explorer = explorer.once();
    explorer.explore_twin(&image(false), &words(), Order::InOrder, program, |media, seen| observe(&media, seen, true))
}

/// Words that a growth leaves in the table do not count for clusters that come when there is no
/// limit.
fn limit_again(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let program = |media: Media, twin: &Twin<'_, Words>| {
        let store = attach(&media, true).expect("a whole store");
        let object = store.object("large").expect("it is there");
        if !twin.model().contains_key(&5) {
            let grow = || {
                object.grow(CLUSTER).expect("room in the span");
                media.barrier().expect("sim barriers do not fail");
            };
            twin.step("grow", |words: &mut Words| _ = words.insert(5, 0), grow);
        }
    };
    explorer.explore_twin(&image(true), &words(), Order::InOrder, program, |media, seen| {
        let words = observe(&media, seen, true)?;
        let text = |error: Error| error.to_string();
        let store = attach(&media, true).map_err(text)?;
        store.set_resident("large", None, None).map_err(text)?;
        let object = store.object("large").map_err(text)?;
        let grown = object.grow(CLUSTER).map_err(text)?;
        put(&object, (grown.start - object.prime().get()) / CLUSTER, 99);
        drop(object);
        store.set_resident("large", Some(LIMIT), None).map_err(text)?;
        match read_out(&media, &store)?.last_key_value() {
            Some((_, 99)) => Ok(words),
            other => Err(format!("the last cluster is {other:?}")),
        }
    })
}

/// Recovery removes the file, too, so it gets the files before it begins.
fn removal(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let image = image(true).then(|media| {
        let store = attach(&media, true).expect("a whole store");
        let object = store.object("large").expect("it is there");
        object.cool(bytes_of(&object, 1..4)).expect("room on the disk");
        drop(object);
        store.close().expect("sim barriers do not fail");
    });
    let disk = Store::attach(image.media()).and_then(|store| store.stat("disk")).expect("it is there");
    let at = disk.span.start + CLUSTER;
    let open = |media: &Media| {
        Store::attach_with_files(media.clone(), Arc::new(Drawer { media: media.clone(), at, told: true }))
    };
    let program = |media: Media, twin: &Twin<'_, Words>| {
        let store = open(&media).expect("a whole store");
        if !twin.model().is_empty() {
            let remove = || store.remove_object("large").expect("it is not open");
            twin.step("remove", |words: &mut Words| words.clear(), remove);
        }
    };
    explorer.explore_twin(&image, &words(), Order::InOrder, program, |media, seen| {
        let store = open(&media).map_err(|error| error.to_string())?;
        seen.recovered();
        match store.find("large").map_err(|error| error.to_string())? {
            Some(_) => read_out(&media, &store),
            None if media.load(at) != 0 => Err("the object is gone, and its backing file is left".into()),
            None => Ok(Words::new()),
        }
    })
}
