//! Cases of the repair of file volumes: a damaged volume is repaired, whole or not at all, and a
//! repair that a crash has interrupted is done again.

use crate::Case;
use crate::fs::{FIRST, NOW, append, case, directory, link, make, options, write};
use everbyte_fs::layout::{self, Place, inode};
use everbyte_fs::model::{self, Op, Tree};
use everbyte_fs::{Volume, VolumeRepair};
use everbyte_media::Media;
use everbyte_media::sealed::seal_low;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::{CLUSTER, FormatOptions, Store};
use std::sync::atomic::Ordering;

pub(crate) const CASES: &[Case] = &[
    case(
        "fs-repair",
        "a volume with damaged names, links, extents and lanes is repaired, and again after a crash",
        6000,
        repairs,
    ),
    case("fs-repair-closed", "a closed volume is repaired: its saved state is used no more", 6000, repairs_closed),
    case("fs-repair-lane", "damaged lanes with records of finished changes are made empty", 300, repairs_lanes),
    case("fs-repair-dead", "a repair follows one that died: what that one left in the caches counts", 40, repairs_dead),
];

/// A volume after some operations; it was closed, or only its store.
fn volume(ops: &[Op], is_closed: bool) -> Image {
    NOW.store(FIRST, Ordering::Relaxed);
    Image::zeroed(CLUSTER).with_max(8 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &format).expect("a small store");
        let volume = Volume::create(&store, "volume", &options()).expect("room for a volume");
        ops.iter().for_each(|op| model::apply(&volume, op).expect("the operation is allowed"));
        if is_closed {
            volume.close().expect("sim barriers do not fail");
        }
        store.close().expect("sim barriers do not fail");
    })
}

fn plan(media: &Media) -> Result<VolumeRepair, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    let object = store.object("volume").map_err(|error| error.to_string())?;
    VolumeRepair::plan(object, FIRST, &|_, _| ()).map_err(|error| error.to_string())
}

/// Offset of an inode of the first group.
fn inode_at(media: &Media, ino: u64) -> u64 {
    let store = Store::attach(media.clone()).expect("a whole store");
    let start = store.object("volume").expect("a volume").prime().get();
    let group = layout::LANES_PAGE + u64::from(options().lanes) + 2;
    start + group * layout::PAGE + ino * layout::INODE
}

/// Offset of the page that a slot of an inode leads to.
fn page_at(media: &Media, ino: u64, slot: u64) -> u64 {
    let word = media.load(inode_at(media, ino) + inode::INLINE + slot * layout::EXTENT + 8);
    inode_at(media, 0) - (layout::LANES_PAGE + u64::from(options().lanes) + 2) * layout::PAGE
        + Place::of(word).expect("a whole place").page * layout::PAGE
}

/// Whether the volume needs no repair, and its tree after one.
#[derive(Clone, Debug)]
struct Repaired {
    is_whole: bool,
    tree: Tree,
}

impl PartialEq for Repaired {
    /// A volume that was not repaired yet may be whole: an interrupted recovery has repaired it.
    fn eq(&self, found: &Repaired) -> bool {
        self.tree == found.tree && (found.is_whole || !self.is_whole)
    }
}

/// Repairs what is left to repair, and reads the volume.
fn observe(media: &Media, seen: Option<&Seen>) -> Result<Repaired, String> {
    let planned = plan(media)?;
    let is_whole = planned.is_empty();
    if !is_whole {
        planned.run().map_err(|error| error.to_string())?;
    }
    if !plan(media)?.is_empty() {
        return Err("a second repair has something to do".into());
    }
    let volume = crate::fs::open(media)?;
    seen.into_iter().for_each(Seen::recovered);
    if let Some(finding) = volume.check().first() {
        return Err(finding.to_string());
    }
    let tree = model::read(&volume).map_err(|error| error.to_string())?;
    Ok(Repaired { is_whole, tree })
}

fn explore(explorer: Explorer, image: &Image) -> Result<Report, Box<Failure>> {
    let whole = observe(&image.media(), None).expect("a volume that can be repaired");
    assert!(!whole.is_whole, "the volume is damaged");
    let program = |media: Media, twin: &Twin<'_, Repaired>| {
        let planned = plan(&media).expect("a volume that can be repaired");
        if planned.is_empty() {
            return; // the run before has repaired it
        }
        twin.step("repair", |found| found.is_whole = true, || planned.run().expect("sim barriers do not fail"));
    };
    // Recovery, which is crashed too, is a repair.
    explorer.explore_twin(image, &whole, Order::InOrder, program, |media, seen| observe(&media, Some(seen)))
}

fn before() -> [Op; 9] {
    [
        directory("home"),
        make("home/named"),
        append("home/named", 9000, 1),
        make("home/lost"),
        append("home/lost", 100, 2),
        directory("home/deep"),
        make("home/deep/a"),
        write("home/deep/a", 0, 12_000, 3),
        link("home/deep/a", "b"),
    ]
}

/// Names are lost, links are wrong, and an extent is damaged.
fn damage(media: &Media) {
    let [home, named, deep, a] = [2, 3, 5, 6];
    let lines = page_at(media, home, 0);
    media.store(lines + 64, 0); // `lost`
    media.store(lines + 128, media.load(lines + 128) ^ 7); // `deep`
    media.store(inode_at(media, named) + inode::LINKS, seal_low(9));
    media.store(inode_at(media, a) + inode::LINKS, seal_low(0));
    let slot = inode_at(media, named) + inode::INLINE;
    media.store(slot, media.load(slot) ^ 1 << 50);
    let owner = inode_at(media, deep) + inode::OWNER + 8;
    media.store(owner, media.load(owner) ^ 1);
}

fn repairs(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let image = volume(&before(), false).then(|media| {
        damage(&media);
        let lane = inode_at(&media, 0) - (2 + u64::from(options().lanes)) * layout::PAGE;
        media.store(lane, media.load(lane) ^ 0xff00);
        let head = lane - layout::LANES_PAGE * layout::PAGE + layout::HEAD_COPY_AT;
        media.store(head + 24, 5);
    });
    explore(explorer, &image)
}

fn repairs_closed(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let image =
        volume(&[&before()[..], &[make("c"), append("c", 5000, 4)]].concat(), true).then(|media| damage(&media));
    explore(explorer, &image)
}

/// Damages the header of a lane.
fn damage_lane(media: &Media, index: u64) {
    let lane = inode_at(media, 0) - (2 + u64::from(options().lanes) - index) * layout::PAGE;
    media.store(lane, media.load(lane) ^ 0xff00);
}

/// All lanes are damaged; one of them has the records of the only change.
fn repairs_lanes(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let image = volume(&[make("c")], false)
        .then(|media| (0..u64::from(options().lanes)).for_each(|index| damage_lane(&media, index)));
    explore(explorer, &image)
}

/// A copy of the head and a lane are damaged.
fn repairs_dead(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let image = volume(&[make("c")], false).then(|media| {
        damage_lane(&media, 0);
        let start = inode_at(&media, 0) - (2 + u64::from(options().lanes) + layout::LANES_PAGE) * layout::PAGE;
        media.store(start + layout::HEAD_COPY_AT + 24, 5);
    });
    explore(crate::deaths::starts(explorer, u64::MAX, 60), &image)
}
