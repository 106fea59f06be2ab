//! Repairs of a damaged head and damaged lanes that a crash interrupts, and that are done again.
//! A file that was finished long before stays. An opening that repairs a head after a death.

use everbyte_fs::{FileKind, Ino, NewFile, Volume, VolumeOptions, VolumeRepair, layout};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Image, Order, Profile, Seen, Twin};
use everbyte_store::{CLUSTER, FormatOptions, Store};

const LANES: u64 = 2;
/// Offset of the label, which is empty, in a copy of the head.
const LABEL: u64 = std::mem::offset_of!(layout::Head, label) as u64;

fn clock() -> i64 {
    1_000_000_000
}

/// A volume with one file, and with damage.
fn image(damage: fn(&Media, u64)) -> Image {
    Image::zeroed(CLUSTER).with_max(8 << 20).then(|media| {
        let store = Store::format(media.clone(), &FormatOptions { log_len: 0, identity: Some([7; 16]) }).unwrap();
        let options = VolumeOptions {
            lanes: LANES as u32,
            span: Some(4 << 20),
            uuid: Some([1; 16]),
            clock,
            ..Default::default()
        };
        let volume = Volume::create(&store, "volume", &options).unwrap();
        volume.make(Ino::ROOT, b"file", &NewFile::new(FileKind::Regular, 0o644)).unwrap();
        drop(volume);
        let start = store.object("volume").unwrap().prime().get();
        store.close().unwrap();
        damage(&media, start);
    })
}

fn damage_lanes(media: &Media, start: u64) {
    for lane in 0..LANES {
        let at = start + (layout::LANES_PAGE + lane) * layout::PAGE;
        media.store(at, media.load(at) ^ 0xff00);
    }
}

/// The lanes, too: the second repair has work.
fn damage_head(media: &Media, start: u64) {
    damage_lanes(media, start);
    media.store(start + layout::HEAD_COPY_AT + 24, 5);
}

fn plan(media: &Media) -> everbyte_fs::Result<VolumeRepair> {
    VolumeRepair::plan(Store::attach(media.clone())?.object("volume")?, clock(), &|_, _| ())
}

/// Whether the volume needed no repair.
#[derive(Clone, Debug)]
struct IsWhole(bool);

impl PartialEq for IsWhole {
    /// A repair that is not acknowledged may be done.
    fn eq(&self, found: &IsWhole) -> bool {
        found.0 || !self.0
    }
}

fn observe(media: &Media, seen: &Seen) -> Result<IsWhole, String> {
    let text = |error: everbyte_fs::Error| error.to_string();
    let planned = plan(media).map_err(text)?;
    let is_whole = planned.is_empty();
    if !is_whole {
        planned.run().map_err(text)?;
    }
    if !plan(media).map_err(text)?.is_empty() {
        return Err("a second repair has something to do".into());
    }
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    let volume = Volume::open(store.object("volume").map_err(|error| error.to_string())?).map_err(text)?;
    seen.recovered();
    match volume.lookup(Ino::ROOT, b"file").map_err(text)? {
        Some(_) => Ok(IsWhole(is_whole)),
        None => Err("a file is gone".into()),
    }
}

fn explore(explorer: &Explorer, damage: fn(&Media, u64)) {
    let program = |media: Media, twin: &Twin<'_, IsWhole>| {
        let planned = plan(&media).unwrap();
        if !planned.is_empty() {
            twin.step("repair", |is_whole| is_whole.0 = true, || planned.run().unwrap());
        }
    };
    let observe = |media: Media, seen: &Seen| observe(&media, seen);
    explorer.twin(&image(damage), &IsWhole(false), Order::InOrder, program, observe);
}

#[test]
fn a_damaged_lane_whose_repair_is_interrupted_undoes_no_finished_change() {
    explore(&Explorer::new("fs-lanes-renewed").total(300).recoveries(0), damage_lanes);
}

#[test]
fn a_repair_settles_the_head_that_a_dead_repair_wrote() {
    let explorer = Explorer::new("fs-head-adopted").total(40).floor(2).recovery(1 << 40, 1);
    explore(&explorer.after_deaths(u64::MAX, 24).profiles(&[Profile::PMEM]), damage_head);
}

/// A word of the head that its checksum covers, without the flush of a process that died.
fn store_label(media: &Media, start: u64, copy: u64, word: u64) {
    let _section = media.section(); // its pages are guarded
    media.store(start + copy + LABEL, word);
}

/// Both copies of the head are damaged on the medium, and the first is whole in the caches: a
/// repair had written it again and died, and the other one was damaged after that.
#[test]
fn an_opening_settles_both_heads_after_a_death() {
    let image = image(|media, start| {
        Store::attach(media.clone()).unwrap(); // and not closed
        [layout::HEAD_AT, layout::HEAD_COPY_AT].iter().for_each(|&copy| store_label(media, start, copy, 5));
    });
    let object = |media: &Media| Store::attach(media.clone()).unwrap().object("volume").unwrap();
    let program = |media: Media, twin: &Twin<'_, IsWhole>| {
        let object = object(&media);
        store_label(&media, object.prime().get(), layout::HEAD_AT, 0);
        twin.step("open", |is_whole| is_whole.0 = true, || Volume::open(object).unwrap());
    };
    let observe = |media: Media, seen: &Seen| {
        let object = object(&media);
        seen.recovered();
        let label = |copy| media.load(object.prime().get() + copy + LABEL);
        Ok(IsWhole([layout::HEAD_AT, layout::HEAD_COPY_AT].map(label) == [0, 0]))
    };
    let explorer = Explorer::new("fs-heads-opened").total(60).recoveries(0).profiles(&[Profile::PMEM]);
    explorer.twin(&image, &IsWhole(false), Order::InOrder, program, observe);
}
