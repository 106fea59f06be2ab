//! Calls that are refused half-way: what they have added to the volume, and not fenced, is what the
//! next calls of other threads build on.

use crate::Case;
use crate::fs::{NOW, Timed, append, case, directory, image, link, make, observe, open, path, step, write};
use crate::fs_sequences::add;
use crate::fs_share::clone;
use everbyte_fs::model::{self, Op};
use everbyte_fs::{Allocate, layout};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Order, Report, Seen, Twin};
use std::sync::atomic::Ordering;

pub(crate) const CASES: &[Case] = &[case(
    "fs-refused",
    "calls at the limits of their owner leave a group of inodes, pages of names and chains, and flags",
    3000,
    refused,
)];

fn refused(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let explorer = explorer.once().recoveries(16);
    let mut sum = None;
    // The slots of `sparse` are full, and so is the page of the names of `d`; then the group of
    // inodes.
    let grow = Op::Allocate { path: path("sparse"), at: 4096, len: 4096, mode: Allocate::Grow };
    add(&mut sum, explore(explorer.clone(), 0, &[make("d/new"), grow])?);
    add(&mut sum, explore(explorer.clone(), 0, &[write("sparse", 4096, 10, 2)])?);
    let closed = explorer.clone();
    // Two pages are marked as shared before the quota refuses them.
    add(&mut sum, explore(explorer.clone(), 0, &[clone("sparse", 0, "m/6", 0, 16_384)])?);
    add(&mut sum, explore(explorer, layout::GROUP_INODES, &[make("new")])?);
    add(&mut sum, explore_until(closed, 0, &[make("d/new")], Next::Close)?);
    Ok(sum.expect("some of them"))
}

/// The calls behind the refused ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// They are allowed, and other calls with them.
    Calls,
    /// Another thread closes the volume, which saves the pages that are in use.
    Close,
}

fn explore(explorer: Explorer, inodes: u64, new: &[Op]) -> Result<Report, Box<Failure>> {
    explore_until(explorer, inodes, new, Next::Calls)
}

/// There is no second run: what a crash leaves decides which calls are refused.
///
/// In a volume with that many inodes in use, calls are refused that may take a page and no inode,
/// or no second page; then they are allowed.
fn explore_until(explorer: Explorer, inodes: u64, new: &[Op], next: Next) -> Result<Report, Box<Failure>> {
    let mut before = vec![make("dirty"), append("dirty", 200_000, 9), directory("m"), directory("d"), make("sparse")];
    before.extend((6..inodes.max(9)).map(|number| make(&format!("m/{number}"))));
    before.extend((0..layout::PAGE_LINES).map(|number| link("m/6", &format!("d/{number}"))));
    let slots = u64::from(layout::INLINE_EXTENTS + layout::LIST_EXTENTS);
    before.extend((0..slots).map(|number| write("sparse", number * 8192, 10, 1)));
    before.push(Op::Resize { path: path("dirty"), to: 0 }); // so that free pages are not zeros
    before.push(Op::Quota { uid: 0, pages: 1000, inodes: 1000 });
    let (image, tree) = image(&before);
    let (pages, inodes) = {
        let volume = open(&image.media()).expect("a whole image");
        let found = volume.quotas().expect("a whole list")[0];
        (found.bytes / layout::PAGE, found.inodes)
    };
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        step(&volume, twin, &Op::Quota { uid: 0, pages: pages + new.len() as u64, inodes });
        // A time that a refused call stores for a moment is later than all before.
        NOW.store(twin.model().0.now + 1, Ordering::Relaxed);
        for op in new {
            let refused = twin.on_its_thread(|| model::apply(&volume, op));
            assert!(matches!(refused, Err(everbyte_fs::Error::Quota { .. })), "{op:?}: {refused:?}");
        }
        if next == Next::Close {
            twin.on_its_thread(move || volume.close().expect("no other clone, and no failed write"));
            return;
        }
        step(&volume, twin, &Op::Quota { uid: 0, pages: pages + 90, inodes: inodes + 9 });
        new.iter().for_each(|op| step(&volume, twin, op));
        step(&volume, twin, &write("sparse", 4096, 10, 2));
        step(&volume, twin, &append("dirty", 9000, 3));
    };
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| match next {
        Next::Calls => observe(&media, seen),
        Next::Close => observe_growth(&media, seen),
    })
}

/// As [`observe`]; then the directory whose growth was refused grows again, in a volume that may
/// not have been scanned.
fn observe_growth(media: &Media, seen: &Seen) -> Result<Timed, String> {
    let volume = open(media)?;
    seen.recovered();
    let tree = model::read(&volume).map_err(|error| error.to_string())?;
    for op in [Op::Quota { uid: 0, pages: 1000, inodes: 1000 }, make("d/new")] {
        model::apply(&volume, &op).map_err(|error| format!("{op:?}: {error}"))?;
    }
    match volume.check().first() {
        Some(finding) => Err(finding.to_string()),
        None => Ok(Timed(tree)),
    }
}
