//! Structures that pass the bounds of a page or a line: a second page of a chain, names of several
//! lines; and closing, which makes durable what came before.

use crate::Case;
use crate::fs::{NOW, Timed, append, case, directory, explore, image, link, make, observe, open, path, rename};
use crate::fs::{unlink, write};
use everbyte_fs::model::{self, Op};
use everbyte_fs::{Rename, layout};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Order, Report, Twin};
use std::sync::atomic::Ordering;

pub(crate) const CASES: &[Case] = &[
    case("fs-chain-second", "a file gets a second page of its chain, and slots there", 1500, chain),
    case("fs-long-names", "names of two to five lines are made, linked, renamed and exchanged", 3000, names),
    case("fs-close", "changes that are settled by closing alone", 1500, closes),
];

fn chain(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let slots = u64::from(layout::INLINE_EXTENTS + layout::LIST_EXTENTS);
    let mut before = vec![make("dirty"), append("dirty", 50_000, 9), make("sparse")];
    before.extend((0..slots).map(|number| write("sparse", number * 8192, 5, number as u8)));
    before.push(unlink("dirty")); // so that free pages are not zeros
    let at = |slot: u64| (slots + slot) * 8192;
    let ops = [
        write("sparse", at(0), 10, 1),
        write("sparse", at(1) + 4000, 200, 2),
        write("sparse", 3, 7, 3),
        append("sparse", 20_000, 4),
        Op::Resize { path: path("sparse"), to: at(1) },
        write("sparse", at(5), 10, 5),
    ];
    explore(explorer, &before, &ops)
}

fn names(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let name = |letter: &str, len: usize| letter.repeat(len);
    let within = |name: &str| format!("d/{name}");
    let [two, three, five] = [name("b", 60), name("c", 150), name("e", 255)];
    let before = [
        directory("dirty"),
        make(&format!("dirty/{five}")),
        unlink(&format!("dirty/{five}")),
        directory("d"),
        make("a"),
        append("a", 100, 1),
        make(&within(&name("x", 200))), // leaves lines that are not zeros
        unlink(&within(&name("x", 200))),
    ];
    let ops = [
        make(&within(&two)),
        link("a", &within(&three)),
        rename(&within(&two), &within(&five)),
        Op::Rename { from: path(&within(&five)), to: path(&within(&three)), mode: Rename::Exchange },
        rename("a", &within(&two)),
        unlink(&within(&five)),
        directory(&within(&five)),
        make(&within(&format!("{five}/{three}"))),
        rename(&within(&three), &within(&two)),
    ];
    explore(explorer, &before, &ops)
}

/// Each round is one step, which closing acknowledges. A crash within it may keep any beginning of
/// its changes.
fn closes(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (image, tree) = image(&[make("a"), append("a", 9000, 1), make("b")]);
    let rounds = [append("b", 5000, 2), write("a", 100, 20, 3), make("c"), unlink("a"), append("c", 9000, 4)];
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        for op in &rounds {
            let volume = twin.on_its_thread(|| open(&media).expect("a whole image"));
            let mut model = twin.model();
            if model.apply(op).is_err() {
                continue; // done by the run before
            }
            NOW.store(model.0.now, Ordering::Relaxed);
            let change = op.clone();
            twin.step(
                format!("{op:?} and close"),
                move |tree: &mut Timed| drop(tree.apply(&change)),
                || {
                    model::apply(&volume, op).expect("the operation is allowed");
                    volume.close().expect("no other clone, and no failed write");
                },
            );
        }
    };
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}
