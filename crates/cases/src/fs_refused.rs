//! Calls that are refused half-way: what they have added to the volume, and not fenced, is what the
//! next calls of other threads build on.

use crate::Case;
use crate::fs::{Timed, append, case, directory, image, link, make, observe, open, path, step, write};
use everbyte_fs::layout;
use everbyte_fs::model::{self, Op};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Order, Report, Twin};

pub(crate) const CASES: &[Case] = &[case(
    "fs-refused",
    "calls at the limits of their owner leave a group of inodes, a page of names and one of a chain",
    3000,
    refused,
)];

/// The group of inodes is full, and so are the page of the names of `d` and the slots of `sparse`.
fn refused(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let mut before = vec![make("dirty"), append("dirty", 200_000, 9), directory("m"), directory("d"), make("sparse")];
    before.extend((6..layout::GROUP_INODES).map(|number| make(&format!("m/{number}"))));
    before.extend((0..layout::PAGE_LINES).map(|number| link("m/6", &format!("d/{number}"))));
    before.extend((0..u64::from(layout::INLINE_EXTENTS)).map(|number| write("sparse", number * 8192, 10, 1)));
    before.push(Op::Resize { path: path("dirty"), to: 0 }); // so that free pages are not zeros
    before.push(Op::Quota { uid: 0, pages: 1000, inodes: 1000 });
    let (image, tree) = image(&before);
    let (pages, inodes) = {
        let volume = open(&image.media()).expect("a whole image");
        let found = volume.quotas().expect("a whole list")[0];
        (found.bytes / layout::PAGE, found.inodes)
    };
    let new = [make("d/new"), write("sparse", 1 << 20, 10, 2)];
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        // One page of names and one of a chain are allowed, and not the inode or the bytes.
        step(&volume, twin, &Op::Quota { uid: 0, pages: pages + 2, inodes });
        for op in &new {
            let refused = twin.on_its_thread(|| model::apply(&volume, op));
            assert!(matches!(refused, Err(everbyte_fs::Error::Quota { .. })), "{op:?}: {refused:?}");
        }
        step(&volume, twin, &Op::Quota { uid: 0, pages: pages + 90, inodes: inodes + 9 });
        new.iter().for_each(|op| step(&volume, twin, op));
        step(&volume, twin, &append("d/new", 9000, 3));
    };
    explorer.once().explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}
