//! Repairs of a damaged head and damaged lanes that a crash interrupts, and that are done again.
//! A file that was finished long before stays.

use everbyte_fs::{FileKind, Ino, NewFile, Volume, VolumeOptions, VolumeRepair, layout};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Image, Order, Profile, Seen, Twin};
use everbyte_store::{CLUSTER, FormatOptions, Store};

const LANES: u64 = 2;

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
