//! Golden persistence traces: the stores, flushes and fences of each change of a volume, in order.

use everbyte_fs::{
    Allocate, Error, FileKind, FileMap, Ino, MapOptions, NewFile, OpenVolume, QuotaKind, QuotaLimit, QuotaLimits,
};
use everbyte_fs::{
    Rename, SEAL_AFTER, SealCursor, SetAttributes, SetXattr, StepLimits, Update, Volume, VolumeOptions, layout,
};
use everbyte_sim::{Image, Tracer, assert_golden};
use everbyte_store::{FormatOptions, Store};
use std::sync::atomic::{AtomicI64, Ordering};

/// A directory.
const NOTES: Ino = Ino(2);
/// A file of 8 bytes, `today` of the directory.
const SMALL: Ino = Ino(3);
/// A file of three pages, which lie side by side.
const THREE: Ino = Ino(4);
/// A file of one page.
const ONE: Ino = Ino(5);
/// A file of 5000 bytes.
const PART: Ino = Ino(6);

/// Every time differs from the one before.
fn clock() -> i64 {
    static NOW: AtomicI64 = AtomicI64::new(1_000_000_000);
    NOW.fetch_add(1, Ordering::Relaxed)
}

/// The trace of a change of a volume of one lane.
fn trace(body: impl FnOnce(&Volume)) -> String {
    trace_of(OpenVolume { clock, ..Default::default() }, body)
}

/// As [`trace`], of a volume that is opened with options.
fn trace_of(options: OpenVolume, body: impl FnOnce(&Volume)) -> String {
    trace_after(options, false, |_| (), body)
}

/// As [`trace`], of a volume with checksums of data, after `before`.
fn trace_sealed(before: impl FnOnce(&Volume), body: impl FnOnce(&Volume)) -> String {
    trace_after(OpenVolume { clock, ..Default::default() }, true, before, body)
}

fn trace_after(
    opened: OpenVolume,
    checksums: bool,
    before: impl FnOnce(&Volume),
    body: impl FnOnce(&Volume),
) -> String {
    traced(&image(checksums, |volume| before(&volume)), |tracer| {
        let open = |media| {
            let store = Store::attach(media).unwrap();
            Volume::open_with(store.object("volume").unwrap(), &opened).unwrap()
        };
        tracer.run_after(open, |_, volume| body(&volume))
    })
}

/// A closed store with a volume that the functions above describe; `before` acts on it, and closes
/// it if it is to be closed.
fn image(checksums: bool, before: impl FnOnce(Volume)) -> Image {
    Image::zeroed(128 << 10).with_max(4 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &format).unwrap();
        let options = VolumeOptions { lanes: 1, span: Some(2 << 20), clock, checksums, ..VolumeOptions::default() };
        let volume = Volume::create(&store, "volume", &options).unwrap();
        let make = |parent: Ino, name: &str, kind: FileKind, bytes: &[u8]| {
            let ino = volume.make(parent, name.as_bytes(), &NewFile::new(kind, 0o644)).unwrap();
            if !bytes.is_empty() {
                volume.write(ino, 0, bytes).unwrap();
            }
            ino
        };
        let made = [
            make(Ino::ROOT, "notes", FileKind::Directory, b""),
            make(NOTES, "today", FileKind::Regular, b"remember"),
            make(NOTES, "three", FileKind::Regular, &[3; 3 * 4096]),
            make(NOTES, "one", FileKind::Regular, &[1; 4096]),
            make(NOTES, "part", FileKind::Regular, &[5; 5000]),
        ];
        assert_eq!(made, [NOTES, SMALL, THREE, ONE, PART]);
        before(volume);
        store.close().unwrap();
    })
}

/// The trace that `run` makes with the parts of a volume named.
fn traced(image: &Image, run: impl FnOnce(Tracer) -> String) -> String {
    let object = Store::attach(image.media()).unwrap().object("volume").unwrap();
    let page = |number: u64| object.prime().get() + number * layout::PAGE;
    let mut tracer = Tracer::new(image)
        .label("lane", page(layout::LANES_PAGE)..page(layout::LANES_PAGE + 1))
        .label("pages", page(5 + layout::GROUP_PAGES)..object.backed().get());
    for number in 1..layout::GROUP_INODES {
        let at = page(5) + number * layout::INODE;
        tracer = tracer.label(format!("inode {number}"), at..at + layout::INODE);
    }
    run(tracer)
}

fn golden(name: &str, body: impl FnOnce(&Volume)) {
    assert_golden(format!("testdata/{name}.trace"), &trace(body));
}

#[test]
fn a_creation() {
    let new = NewFile::new(FileKind::Regular, 0o644);
    golden("make", |volume| assert_eq!(volume.make(NOTES, b"new", &new).unwrap(), Ino(7)));
}

#[test]
fn a_new_directory() {
    let new = NewFile::new(FileKind::Directory, 0o755);
    golden("mkdir", |volume| assert_eq!(volume.make(NOTES, b"new", &new).unwrap(), Ino(7)));
}

#[test]
fn a_removal() {
    golden("unlink", |volume| volume.unlink(NOTES, b"today").unwrap());
}

#[test]
fn a_rename() {
    golden("rename", |volume| volume.rename(NOTES, b"today", NOTES, b"then", Rename::Replace).unwrap());
}

#[test]
fn a_link() {
    golden("link", |volume| volume.link(SMALL, NOTES, b"again").unwrap());
}

#[test]
fn a_symbolic_link() {
    let new = NewFile { target: b"today", ..NewFile::new(FileKind::Link, 0o777) };
    golden("symlink", |volume| assert_eq!(volume.make(NOTES, b"new", &new).unwrap(), Ino(7)));
}

#[test]
fn a_device() {
    let new = NewFile { device: 0x0501, ..NewFile::new(FileKind::CharDevice, 0o600) };
    golden("mknod", |volume| assert_eq!(volume.make(NOTES, b"new", &new).unwrap(), Ino(7)));
}

/// The file leaves the list of orphans with its first name.
#[test]
fn a_first_name() {
    let new = NewFile::new(FileKind::Regular, 0o600);
    golden("link_unnamed", |volume| {
        let held = volume.make_unnamed(&new).unwrap();
        volume.link(held.ino(), NOTES, b"new").unwrap();
    });
}

/// The last holder's end frees the file.
#[test]
fn a_file_that_never_has_a_name() {
    let new = NewFile::new(FileKind::Regular, 0o600);
    golden("unnamed", |volume| drop(volume.make_unnamed(&new).unwrap()));
}

/// The file is freed as its holder ends, not with its name.
#[test]
fn a_removal_of_a_held_file() {
    golden("unlink_held", |volume| {
        let held = volume.hold(ONE).unwrap();
        volume.unlink(NOTES, b"one").unwrap();
        drop(held);
    });
}

#[test]
fn a_removal_of_a_directory() {
    let (opened, new) = (OpenVolume { clock, ..Default::default() }, NewFile::new(FileKind::Directory, 0o755));
    let before = |volume: &Volume| assert_eq!(volume.make(NOTES, b"new", &new).unwrap(), Ino(7));
    let body = |volume: &Volume| volume.remove_directory(NOTES, b"new").unwrap();
    assert_golden("testdata/rmdir.trace", &trace_after(opened, false, before, body));
}

#[test]
fn renames_of_other_kinds() {
    golden("rename_replaces", |volume| volume.rename(NOTES, b"one", NOTES, b"today", Rename::Replace).unwrap());
    // A directory moves, too: the links of both parents, and its own word.
    golden("rename_exchanges", |volume| {
        let moved = volume.make(NOTES, b"new", &NewFile::new(FileKind::Directory, 0o755)).unwrap();
        volume.rename(NOTES, b"today", moved, b"then", Rename::Replace).unwrap();
        volume.rename(moved, b"then", NOTES, b"one", Rename::Exchange).unwrap();
        volume.rename(NOTES, b"new", Ino::ROOT, b"moved", Rename::NoReplace).unwrap();
    });
    let file = NewFile { device: 0, ..NewFile::new(FileKind::CharDevice, 0) };
    let mode = Rename::Whiteout { replace: false, file };
    golden("rename_leaves", |volume| volume.rename(NOTES, b"today", NOTES, b"then", mode).unwrap());
}

#[test]
fn extended_attributes() {
    golden("xattr_set", |volume| volume.set_xattr(SMALL, b"user.a", b"1", SetXattr::Any).unwrap());
    let (opened, set) = (OpenVolume { clock, ..Default::default() }, SetXattr::Any);
    let before = |volume: &Volume| volume.set_xattr(SMALL, b"user.a", b"1", set).unwrap();
    let body = |volume: &Volume| volume.remove_xattr(SMALL, b"user.a").unwrap();
    assert_golden("testdata/xattr_remove.trace", &trace_after(opened, false, before, body));
}

#[test]
fn a_time_of_a_read() {
    golden("set_accessed", |volume| volume.set_accessed(ONE, volume.now()).unwrap());
}

#[test]
fn each_mode_of_allocation() {
    let allocate = |name: &str, at: u64, len: u64, mode: Allocate| {
        golden(name, |volume| volume.allocate(THREE, at, len, mode).unwrap());
    };
    allocate("punch", 100, 8192, Allocate::Punch);
    allocate("zero", 4096, 12_288, Allocate::Zero);
    allocate("zero_keep_size", 100, 8192, Allocate::ZeroKeepSize);
    allocate("allocate", 8192, 12_288, Allocate::Grow);
    allocate("allocate_keep_size", 12_288, 4096, Allocate::KeepSize);
}

#[test]
fn ranges_that_leave_and_come() {
    golden("collapse", |volume| volume.collapse(THREE, 4096, 4096).unwrap());
    golden("insert", |volume| volume.insert(THREE, 4096, 4096).unwrap());
}

/// Also of a file whose bytes lay in the inode.
#[test]
fn a_larger_size() {
    golden("resize_up", |volume| volume.resize(PART, 9000).unwrap());
    golden("resize_inline", |volume| volume.resize(SMALL, 9000).unwrap());
}

#[test]
fn an_append_inside_a_page() {
    golden("append_inside", |volume| assert_eq!(volume.append(PART, &[6; 64]).unwrap(), 5000));
}

fn fences(trace: &str) -> usize {
    trace.lines().filter(|line| *line == "fence").count()
}

/// 64 bytes behind the end become valid with the size; inside of the file they are logged.
#[test]
fn a_change_that_one_word_publishes_takes_a_fence_less_than_a_logged_one() {
    let in_place = trace(|volume| assert_eq!(volume.append(PART, &[6; 64]).unwrap(), 5000));
    let small = trace(|volume| assert_eq!(volume.append(SMALL, &[6; 64]).unwrap(), 8));
    let logged = trace(|volume| volume.write(ONE, 20, &[6; 64]).unwrap());
    let small_logged = trace(|volume| volume.write(SMALL, 2, b"call").unwrap());
    assert_eq!([&in_place, &small, &logged, &small_logged].map(|trace| fences(trace)), [2, 2, 3, 3]);
}

/// With relaxed commit one fence, and the last one is left out.
#[test]
fn a_relaxed_append_inside_a_page() {
    let options = OpenVolume { clock, relaxed: true, ..Default::default() };
    let traced = trace_of(options, |volume| assert_eq!(volume.append(PART, &[6; 64]).unwrap(), 5000));
    assert_golden("testdata/append_relaxed.trace", &traced);
    let fenced = trace(|volume| assert_eq!(volume.append(PART, &[6; 64]).unwrap(), 5000));
    assert_eq!((fences(&traced), fences(&fenced)), (1, 2));
}

#[test]
fn an_append_of_a_page() {
    golden("append_page", |volume| assert_eq!(volume.append(ONE, &[6; 4096]).unwrap(), 4096));
}

#[test]
fn an_overwrite_of_a_page_that_is_an_extent() {
    golden("overwrite", |volume| volume.write(ONE, 0, &[6; 4096]).unwrap());
}

#[test]
fn an_overwrite_that_splits_an_extent() {
    golden("overwrite_splits", |volume| volume.write(THREE, 4096, &[6; 4096]).unwrap());
}

#[test]
fn a_write_of_a_few_bytes_of_a_page() {
    golden("write_in_page", |volume| volume.write(ONE, 20, &[6; 64]).unwrap());
}

/// The rest of the last page becomes zeros, and the pages between stay a hole.
#[test]
fn a_write_behind_the_end() {
    golden("write_behind", |volume| volume.write(PART, 20_000, &[6; 64]).unwrap());
}

#[test]
fn a_write_to_a_small_file() {
    golden("write_small", |volume| volume.write(SMALL, 2, b"call").unwrap());
}

#[test]
fn a_clone() {
    golden("clone", |volume| assert_eq!(volume.clone_range(THREE, 0, ONE, 4096, 8192).unwrap(), 8192));
}

#[test]
fn a_copy_of_a_range() {
    golden("copy_range", |volume| assert_eq!(volume.copy_range(THREE, 4000, ONE, 4000, 5000).unwrap(), 5000));
}

#[test]
fn a_write_of_a_few_bytes_of_a_shared_page() {
    golden("write_shared", |volume| {
        volume.clone_range(THREE, 0, ONE, 0, 4096).unwrap();
        volume.write(ONE, 20, &[6; 64]).unwrap();
    });
}

/// Of the whole tree: the root, one directory and four files.
#[test]
fn a_snapshot() {
    golden("snapshot", |volume| assert_eq!(volume.snapshot(b"one").unwrap().root, Ino(7)));
}

#[test]
fn a_snapshot_that_is_removed() {
    golden("snapshot_remove", |volume| {
        volume.snapshot(b"one").unwrap();
        volume.remove_snapshot(b"one").unwrap();
    });
}

/// A mapping of the whole of a file, stores to which are allowed.
fn map(volume: &Volume, ino: Ino) -> FileMap {
    volume.map(ino, 0, 1 << 20, &MapOptions { writable: true, ..MapOptions::default() }).unwrap()
}

/// The hole gets a page of zeros.
#[test]
fn a_mapping_of_a_page_and_a_hole() {
    golden("map", |volume| {
        volume.resize(ONE, 8192).unwrap();
        drop(map(volume, ONE));
    });
}

#[test]
fn stores_to_a_mapping() {
    golden("map_store", |volume| {
        let map = map(volume, ONE);
        map.store(64, 7).unwrap();
        map.write(4000, b"remember").unwrap();
        map.sync(0, 2048).unwrap();
    });
}

#[test]
fn a_write_to_a_mapped_range() {
    golden("write_mapped", |volume| {
        let _map = map(volume, ONE);
        volume.write(ONE, 8, &[6; 4096]).unwrap();
    });
}

#[test]
fn a_quota() {
    let limit = QuotaLimit { hard: 40_960, ..QuotaLimit::default() };
    let limits = QuotaLimits { bytes: limit, ..QuotaLimits::default() };
    golden("quota", |volume| volume.set_quota(QuotaKind::User, 5, &limits).unwrap());
}

#[test]
fn limits_that_are_removed() {
    let limits = QuotaLimits { inodes: QuotaLimit { hard: 5, ..QuotaLimit::default() }, ..QuotaLimits::default() };
    let opened = OpenVolume { clock, ..Default::default() };
    let before = |volume: &Volume| volume.set_quota(QuotaKind::Group, 5, &limits).unwrap();
    let body = |volume: &Volume| volume.remove_quotas().unwrap();
    assert_golden("testdata/quotas_remove.trace", &trace_after(opened, false, before, body));
}

/// A file that is charged is written with the same stores.
#[test]
fn an_append_that_is_charged() {
    let limit = QuotaLimit { hard: 1 << 20, ..QuotaLimit::default() };
    let limits = QuotaLimits { bytes: limit, ..QuotaLimits::default() };
    let append = |volume: &Volume| _ = volume.append(THREE, &[7; 4096]).unwrap();
    let trace_of = |has_quota: bool| {
        let image = std::cell::Cell::new(0);
        trace(|volume| {
            append(volume);
            if has_quota {
                volume.set_quota(QuotaKind::User, 0, &limits).unwrap();
            }
            let before = volume.object().media().counts();
            append(volume);
            let after = volume.object().media().counts();
            image.set(after.fences - before.fences);
        });
        image.get()
    };
    assert_eq!(trace_of(true), trace_of(false));
}

#[test]
fn a_size_of_the_volume() {
    golden("set_size", |volume| volume.set_size(1 << 20).unwrap());
}

#[test]
fn a_smaller_size() {
    golden("resize", |volume| volume.resize(THREE, 4096).unwrap());
}

#[test]
fn other_attributes() {
    let set = SetAttributes { permissions: Some(0o600), uid: Some(5), ..SetAttributes::default() };
    golden("set_attributes", |volume| volume.set_attributes(SMALL, &set).unwrap());
}

#[test]
fn times_that_are_set() {
    let set = SetAttributes { accessed: Some(5), modified: Some(6), ..SetAttributes::default() };
    golden("set_times", |volume| volume.set_attributes(SMALL, &set).unwrap());
}

#[test]
fn a_project_that_a_directory_passes_on() {
    let set = SetAttributes { project: Some(7), inherits_project: Some(true), ..SetAttributes::default() };
    golden("set_project", |volume| volume.set_attributes(NOTES, &set).unwrap());
}

/// One change takes the rights of a program: set-id bits, and an extended attribute.
#[test]
fn attributes_and_extended_attributes_that_change_at_once() {
    let (opened, name): (_, &[u8]) = (OpenVolume { clock, ..Default::default() }, b"security.capability");
    let before = |volume: &Volume| volume.set_xattr(SMALL, name, b"1", SetXattr::Any).unwrap();
    let body = |volume: &Volume| {
        let set = SetAttributes { permissions: Some(0o700), ..SetAttributes::default() };
        let update = Update { set, xattrs: vec![(name, None)] };
        volume.update(SMALL, |_| Ok::<_, Error>(update)).unwrap();
    };
    assert_golden("testdata/update.trace", &trace_after(opened, false, before, body));
}

#[test]
fn a_creation_with_an_extended_attribute() {
    let xattrs: &[(&[u8], &[u8])] = &[(b"user.a", b"1")];
    let new = NewFile { xattrs, ..NewFile::new(FileKind::Regular, 0o644) };
    golden("make_xattr", |volume| assert_eq!(volume.make(NOTES, b"new", &new).unwrap(), Ino(7)));
}

#[test]
fn a_store_to_a_mapping_that_is_flushed() {
    golden("map_flush", |volume| {
        let map = map(volume, ONE);
        map.store(64, 7).unwrap();
        map.flush(64, 8).unwrap();
        map.fence();
    });
}

/// Its free pages and its inodes are saved.
#[test]
fn a_closing() {
    let opened = OpenVolume { clock, ..Default::default() };
    let closing = traced(&image(false, drop), |tracer| {
        let open = |media| Volume::open_with(Store::attach(media).unwrap().object("volume").unwrap(), &opened).unwrap();
        tracer.run_after(open, |_, volume| volume.close().unwrap())
    });
    assert_golden("testdata/close.trace", &closing);
}

/// The saved state is used up, and the opening counted. A recovery fences once more.
#[test]
fn an_opening() {
    let opened = OpenVolume { clock, ..Default::default() };
    let open = |before: fn(Volume)| {
        traced(&image(false, before), |tracer| {
            let attach = |media| Store::attach(media).unwrap();
            let open = |store: Store| drop(Volume::open_with(store.object("volume").unwrap(), &opened).unwrap());
            tracer.run_after(attach, |_, store| open(store))
        })
    };
    assert_golden("testdata/open_closed.trace", &open(|volume| volume.close().unwrap()));
    assert_golden("testdata/open.trace", &open(drop));
}

/// The object of the volume is visible last.
#[test]
fn a_new_volume() {
    let format = FormatOptions { log_len: 0, identity: Some([7; 16]) };
    let store = Image::zeroed(128 << 10)
        .with_max(4 << 20)
        .then(|media| Store::format(media, &format).unwrap().close().unwrap());
    let options =
        VolumeOptions { lanes: 1, span: Some(2 << 20), uuid: Some([1; 16]), clock, ..VolumeOptions::default() };
    let made = Tracer::new(&store).run_after(
        |media| Store::attach(media).unwrap(),
        |_, store| {
            Volume::create(&store, "volume", &options).unwrap();
        },
    );
    assert_golden("testdata/create.trace", &made);
}

/// Seals the file of three pages.
fn seal(volume: &Volume) {
    let mut cursor = SealCursor::default();
    let limits = StepLimits { inodes: THREE.0, pages: 100 };
    assert_eq!(volume.seal_step(&mut cursor, &limits, volume.now() + SEAL_AFTER).unwrap(), 3);
}

/// Of the first file: the pages of the table of checksums come with it.
#[test]
fn sealing_an_extent() {
    assert_golden("testdata/seal.trace", &trace_sealed(|_| (), seal));
}

#[test]
fn a_write_of_a_few_bytes_of_a_sealed_page() {
    let write = |volume: &Volume| volume.write(THREE, 4100, &[6; 64]).unwrap();
    assert_golden("testdata/write_sealed.trace", &trace_sealed(seal, write));
}

/// The journal takes at most so many bytes for the operations on names.
#[test]
fn changes_of_names_log_a_few_lines() {
    let logged = |body: &dyn Fn(&Volume)| {
        let mut bytes = 0;
        trace(|volume| {
            body(volume);
            bytes = volume.logged();
        });
        bytes
    };
    let make = |kind| {
        move |volume: &Volume| assert_eq!(volume.make(NOTES, b"new", &NewFile::new(kind, 0o644)).unwrap(), Ino(7))
    };
    let (touch, mkdir) = (logged(&make(FileKind::Regular)), logged(&make(FileKind::Directory)));
    let mv = logged(&|volume| volume.rename(NOTES, b"today", NOTES, b"then", Rename::Replace).unwrap());
    assert!(touch <= 512 && mkdir <= 320 && mv <= 384, "{touch} {mkdir} {mv}");
}
