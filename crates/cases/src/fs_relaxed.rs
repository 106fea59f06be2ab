//! Relaxed commit: files grow without their last fence. Calls are acknowledged by `settle` alone,
//! and a crash leaves a state that calls have passed in order, whichever thread made each.

use crate::Case;
use crate::fs::{NOW, Timed, append, case, directory, image, make, observe, path, rename, resize, unlink, write};
use crate::fs_share::{remove_snapshot, snapshot};
use everbyte_fs::model::{self, Op};
use everbyte_fs::{Allocate, OpenVolume, Rename, Volume};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Order, Report, Twin};
use everbyte_store::Store;
use std::sync::atomic::Ordering;

pub(crate) const CASES: &[Case] = &[case(
    "fs-relaxed",
    "files grow with relaxed commit: a crash rolls back the newest calls, in order",
    9000,
    relaxed,
)];

fn clock() -> i64 {
    NOW.load(Ordering::Relaxed)
}

fn open(media: &Media) -> Volume {
    let store = Store::attach(media.clone()).expect("a whole store");
    let options = OpenVolume { clock, relaxed: true, ..OpenVolume::default() };
    Volume::open_with(store.object("volume").expect("it was made"), &options).expect("a whole image")
}

/// Calls, then a `settle` of another thread that acknowledges them.
fn steps(volume: &Volume, twin: &Twin<'_, Timed>, ops: &[Op]) {
    let mut begun = Vec::new();
    for op in ops {
        let mut model = twin.model();
        if model.apply(op).is_err() {
            // On a crash image that an earlier run has left.
            assert!(model::apply(volume, op).is_err(), "the twin refuses {op:?}");
            continue;
        }
        NOW.store(model.0.now, Ordering::Relaxed);
        let change = op.clone();
        begun.push(twin.begin(format!("{op:?}"), move |tree: &mut Timed| drop(tree.apply(&change))));
        twin.on_its_thread(|| model::apply(volume, op).unwrap_or_else(|error| panic!("{op:?}: {error}")));
    }
    twin.on_its_thread(|| volume.settle().expect("sim barriers do not fail"));
    begun.into_iter().for_each(|op| twin.acked(op));
}

fn relaxed(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [
        make("a"),
        append("a", 9000, 1),
        make("b"),
        make("small"),
        append("small", 20, 2),
        directory("d"),
        snapshot("s"),
    ];
    let ops: [&[Op]; 7] = [
        &[append("a", 500, 3), write("a", 8000, 1400, 4), append("b", 5000, 5), make("d/new")],
        &[append("small", 30, 6), append("small", 40, 7), write("small", 5, 60, 8), append("d/new", 100, 9)],
        &[resize("a", 20_000), append("a", 10, 10), resize("a", 4000), resize("a", 9000), append("a", 5000, 11)],
        &[
            append("b", 3000, 12),
            Op::Rename { from: path("a"), to: path("b"), mode: Rename::Exchange },
            append("a", 100, 13),
            Op::Clone { path: path("a"), at: 0, to: path("d/new"), to_at: 0, len: 8192 },
            rename("small", "d/new"),
            append("d/new", 60, 14),
        ],
        &[
            append("b", 6000, 15),
            unlink("b"),
            make("b"),
            append("b", 9000, 16),
            Op::Allocate { path: path("b"), at: 0, len: 30_000, mode: Allocate::Grow },
            resize("b", 100),
            resize("b", 5000),
        ],
        &[append("b", 3000, 17), resize("b", 6000), resize("b", 7000)], // in one page
        &[append("b", 3000, 18), remove_snapshot("s")],
    ];
    let (image, tree) = image(&before);
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media);
        ops.iter().for_each(|ops| steps(&volume, twin, ops));
    };
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}
