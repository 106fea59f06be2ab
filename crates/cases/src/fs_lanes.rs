//! Threads that change a volume at the same time, as many as it has lanes: 1, 3, 5 and 7.
//!
//! A crash leaves changes of several lanes in the middle. Each thread has a directory of its own,
//! so that its operations do not depend on those of the others: each is there or not (Order::Free).

use crate::Case;
use crate::fs::{
    FIRST, NOW, Timed, append, case, directory, image_of, make, observe, open, options, path, rename, unlink, write,
};
use crate::fs_sequences::add;
use everbyte_fs::model::{self, Op};
use everbyte_fs::{Rename, Volume, VolumeOptions};
use everbyte_media::Media;
use everbyte_media::museum::carried;
use everbyte_sim::{Explorer, Failure, Order, Report, Twin};
use std::sync::Barrier;
use std::sync::atomic::Ordering;

pub(crate) const CASES: &[Case] =
    &[case("fs-lanes", "1, 3, 5 and 7 threads change a volume of as many lanes at the same time", 1500, lanes)];

/// Lanes, and threads.
const COUNTS: [u32; 4] = [1, 3, 5, 7];

fn before(thread: u32) -> Vec<Op> {
    let at = |name: &str| format!("{thread}{name}");
    vec![
        directory(&at("")),
        make(&at("/pages")),
        append(&at("/pages"), 9000, 1),
        make(&at("/small")),
        append(&at("/small"), 60, 2),
    ]
}

/// The operations of one thread: changes of two and more words each, so that each logs.
fn work(thread: u32) -> Vec<Op> {
    let at = |name: &str| format!("{thread}{name}");
    vec![
        make(&at("/new")),
        write(&at("/pages"), 100, 300, 3),
        Op::Rename { from: path(&at("/small")), to: path(&at("/pages")), mode: Rename::Exchange },
        rename(&at("/new"), &at("/small")),
        unlink(&at("/pages")),
    ]
}

/// One operation on the calling thread; every time is the same.
fn step(volume: &Volume, twin: &Twin<'_, Timed>, op: &Op) {
    if twin.model().0.apply(op).is_err() {
        assert!(model::apply(volume, op).is_err(), "the twin refuses {op:?}");
        return;
    }
    let change = op.clone();
    twin.step_here(
        format!("{op:?}"),
        move |tree: &mut Timed| drop(tree.0.apply(&change)),
        || {
            model::apply(volume, op).unwrap_or_else(|error| panic!("{op:?}: {error}"));
            if !volume.object().media().fences_settle() {
                volume.settle().expect("sim barriers do not fail");
            }
        },
    );
}

fn lanes(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let mut sum = None;
    for count in COUNTS {
        let ops: Vec<Op> = (0..count).flat_map(before).collect();
        let (image, tree) = image_of(&VolumeOptions { lanes: count, ..options() }, &ops);
        let run = |media: Media, twin: &Twin<'_, Timed>| {
            NOW.store(FIRST, Ordering::Relaxed);
            let volume = open(&media).expect("a whole image");
            let begin = Barrier::new(count as usize);
            std::thread::scope(|scope| {
                for thread in 0..count {
                    let (volume, begin) = (&volume, &begin);
                    let body = move || {
                        begin.wait();
                        work(thread).iter().for_each(|op| step(volume, twin, op));
                    };
                    scope.spawn(carried(body));
                }
            });
        };
        add(&mut sum, explorer.explore_twin(&image, &tree, Order::Free, run, |media, seen| observe(&media, seen))?);
    }
    Ok(sum.expect("there are counts"))
}
