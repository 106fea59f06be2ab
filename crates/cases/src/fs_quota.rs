//! Quotas and sizes of volumes: limits change while files do, and refused calls leave nothing.

use crate::Case;
use crate::fs::{FIRST, NOW, Timed, append, case, directory, explore, image, image_of, make, observe, open, options};
use crate::fs::{path, rename, resize, step, unlink, write};
use crate::fs_deaths;
use crate::fs_limits::explore_refused;
use crate::fs_sequences::{add, observe_all};
use everbyte_fs::model::{self, Op};
use everbyte_fs::{Allocate, Error, VolumeOptions};
use everbyte_media::museum::carried;
use everbyte_media::{ErrorInfo, Media};
use everbyte_sim::{Explorer, Failure, Order, Report, Twin};
use std::sync::Barrier;
use std::sync::atomic::Ordering;

pub(crate) const CASES: &[Case] = &[
    case("fs-quota", "limits are set and removed between changes of files that they count", 6000, limits),
    case("fs-quota-full", "calls at their limits are refused, or whole; 1, 3 and 5 lanes", 6000, full),
    case("fs-quota-dead", "a process ends while it sets a limit; then pages have other uses", 3000, dead),
    case("fs-size", "the size of a volume is lowered and raised between writes that need it", 6000, sizes),
    case("fs-size-lanes", "a thread changes the size while 1, 3 and 5 threads take pages", 1500, lanes),
];

fn quota(uid: u32, pages: u64, inodes: u64) -> Op {
    Op::Quota { uid, pages, inodes }
}

fn owner(at: &str, uid: u32) -> Op {
    Op::Set { path: path(at), permissions: 0o600, uid }
}

fn limits(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("a"), append("a", 9000, 1), make("b"), directory("d")];
    let mut ops = vec![quota(0, 100, 100), append("b", 9000, 2), owner("a", 7)];
    ops.extend((1..70).filter(|uid| uid % 23 == 0).map(|uid| quota(uid, u64::from(uid), 5)));
    ops.extend([
        quota(7, 40, 0), // not reached, also by a second run
        Op::Clone { path: path("a"), at: 0, to: path("b"), to_at: 0, len: 8192 },
        Op::Snapshot { name: b"s".to_vec() },
        append("a", 20_000, 3), // takes pages that lists have left
        quota(7, 0, 0),
        unlink("a"),
        Op::RemoveSnapshot { name: b"s".to_vec() },
        quota(0, 90, 0),
        make("d/new"),
        append("d/new", 9000, 4),
        quota(23, 0, 0),
        quota(46, 0, 0),
        quota(69, 0, 0),
        quota(0, 0, 0),
        append("d/new", 9000, 5),
    ]);
    explore(explorer, &before, &ops)
}

fn full(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let mut sum = None;
    for lanes in [1, 3, 5] {
        let mut before = vec![make("a"), append("a", 9000, 1), make("b"), directory("d"), quota(0, 8, 6)];
        before.push(append("b", 300, 2));
        let image = image_of(&VolumeOptions { lanes, ..options() }, &before);
        let ops = [
            append("b", 20_000, 3),
            write("a", 4096, 4096, 4), // a page takes the place of another
            append("b", 4000, 5),
            Op::Allocate { path: path("a"), at: 0, len: 40_000, mode: Allocate::Grow },
            Op::Clone { path: path("a"), at: 0, to: path("b"), to_at: 0, len: 0 },
            Op::Xattr { path: path("b"), name: b"user.a".to_vec(), len: 5000, seed: 1 },
            resize("a", 100),
            Op::Xattr { path: path("b"), name: b"user.a".to_vec(), len: 5000, seed: 2 },
            make("d/one"),
            make("d/two"),
            make("d/three"),
            rename("d/one", "a"),
            make("d/three"),
            owner("b", 5),
            append("a", 20_000, 6),
        ];
        let explored = explore_refused(explorer.clone(), &image, &ops, |error| matches!(error, Error::Quota { .. }));
        add(&mut sum, explored?);
    }
    Ok(sum.expect("three counts"))
}

fn dead(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("a"), append("a", 9000, 1), make("b"), quota(3, 10, 10)];
    let first = |volume: &everbyte_fs::Volume, twin: &Twin<'_, Timed>| {
        step(volume, twin, &quota(3, 11, 0));
        step(volume, twin, &Op::Size { bytes: 3 << 20 });
    };
    // The long link takes the lowest free page: that of the list before.
    let link = Op::MakeLink { path: path("l"), target: vec![b'l'; 300] };
    fs_deaths::explore(explorer, &image(&before), first, &[write("b", 0, 20, 2), link, make("c"), append("c", 9000, 3)])
}

fn sizes(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (image, tree) = image(&[make("a"), make("b"), append("b", 9000, 1)]);
    let ops = [
        Op::Size { bytes: 1 << 20 },
        append("a", 90_000, 2),
        Op::Size { bytes: 512 << 10 },
        append("b", 150_000, 3),
        unlink("a"),
        Op::Size { bytes: 2 << 20 },
        append("b", 400_000, 4),
        Op::Size { bytes: 0 },
        make("c"),
        append("c", 200_000, 5),
        Op::Size { bytes: 3 << 20 },
    ];
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        ops.iter().for_each(|op| step(&volume, twin, op));
    };
    // What a crash has left may have more pages in use than the first size allows.
    let explorer = explorer.once();
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe_all(&media, seen))
}

/// The times of all operations are one, as threads have no order.
fn lanes(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let mut sum = None;
    for count in [1, 3, 5] {
        let before: Vec<Op> = (0..count).map(|thread| make(&format!("{thread}"))).collect();
        let size = Op::Size { bytes: 1 << 20 };
        let options = VolumeOptions { lanes: count, ..options() };
        let (image, tree) = image_of(&options, &[before, vec![size]].concat());
        let run = |media: Media, twin: &Twin<'_, Timed>| {
            NOW.store(FIRST, Ordering::Relaxed);
            let volume = open(&media).expect("a whole image");
            let begin = Barrier::new(count as usize + 1);
            std::thread::scope(|scope| {
                for thread in 0..=count {
                    let (volume, begin) = (&volume, &begin);
                    let body = move || {
                        begin.wait();
                        let ops = match thread < count {
                            true => {
                                vec![append(&format!("{thread}"), 30_000, 1), append(&format!("{thread}"), 9000, 2)]
                            }
                            false => vec![Op::Size { bytes: 2 << 20 }, Op::Size { bytes: 3 << 20 }],
                        };
                        for op in &ops {
                            let change = op.clone();
                            twin.step_here(
                                format!("{op:?}"),
                                move |tree: &mut Timed| drop(tree.0.apply(&change)),
                                || {
                                    let outcome = model::apply(volume, op);
                                    outcome.unwrap_or_else(|error| panic!("{op:?}: {:?} {error}", error.kind()));
                                    if !volume.object().media().fences_settle() {
                                        volume.settle().expect("sim barriers do not fail");
                                    }
                                },
                            );
                        }
                    };
                    scope.spawn(carried(body));
                }
            });
        };
        let once = explorer.clone().once();
        add(&mut sum, once.explore_twin(&image, &tree, Order::Free, run, |media, seen| observe(&media, seen))?);
    }
    Ok(sum.expect("there are counts"))
}
