//! A volume at its limits: one copy of its head is damaged, its object grows, its pages end.

use crate::Case;
use crate::fs::{Timed, append, case, directory, image, image_of, link, make, observe, open, options, path, resize};
use crate::fs::{rename, step, unlink, write};
use crate::fs_sequences::{add, observe_all};
use everbyte_fs::layout::{HEAD_AT, HEAD_COPY_AT};
use everbyte_fs::model::{self, Op};
use everbyte_fs::{Allocate, Error, VolumeOptions};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Twin};

pub(crate) const CASES: &[Case] = &[
    case("fs-heads", "opening writes a damaged copy of the head again: a crash keeps the whole one", 1500, heads),
    case("fs-extend", "the object grows while files are written, and pages of the new part are used", 6000, extend),
    case("fs-full", "few pages are left: a call is refused, or whole, and a refused one leaves nothing", 6000, full),
];

/// Either copy of the head is damaged before the program opens the volume.
fn heads(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let mut sum = None;
    for at in [HEAD_AT, HEAD_COPY_AT] {
        let (image, tree) = image(&[make("a"), append("a", 5000, 1)]);
        let image = image.then(|media| {
            let volume = open(&media).expect("a whole image");
            let word_at = volume.object().prime().get() + at + 16;
            drop(volume);
            media.store(word_at, !media.load(word_at));
        });
        let run = |media: Media, twin: &Twin<'_, Timed>| {
            let volume = open(&media).expect("one head is whole");
            [write("a", 4000, 500, 2), append("a", 300, 3)].iter().for_each(|op| step(&volume, twin, op));
        };
        add(&mut sum, explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))?);
    }
    Ok(sum.expect("two places"))
}

fn extend(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (image, tree) = image(&[make("a"), make("b")]);
    let ops = [
        append("a", 90_000, 1),
        append("b", 150_000, 2),
        unlink("a"),
        append("b", 200_000, 3),
        make("c"),
        Op::Allocate { path: path("c"), at: 0, len: 400_000, mode: Allocate::KeepSize },
        write("c", 5000, 9000, 4),
    ];
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        ops.iter().for_each(|op| step(&volume, twin, op));
    };
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe_all(&media, seen))
}

/// Calls are refused where pages end, so the twin of a second run would not know which: there is
/// none.
fn full(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let mut before = vec![make("small"), append("small", 100, 1), make("large"), append("large", 20_000, 2)];
    before.extend([make("sparse"), directory("d")]);
    before.extend((0..8).map(|number| write("sparse", number * 8192, 10, 3)));
    before.extend((0..64).map(|number| link("small", &format!("d/{number}"))));
    before.extend([make("fill"), append("fill", 300_000, 4)]);
    let options = VolumeOptions { span: Some(512 << 10), ..options() };
    let (mut image, mut tree) = image_of(&options, &before);
    // Six pages stay free.
    let mut more = 0;
    image = image.then(|media| {
        let volume = open(&media).expect("a whole image");
        while volume.usage().pages < volume.usage().pages_max || volume.usage().free_pages > 6 {
            model::apply(&volume, &append("fill", 4096, 5)).expect("a page is free");
            more += 1;
        }
    });
    (0..more).for_each(|_| tree.0.apply(&append("fill", 4096, 5)).expect("it is allowed"));
    let ops = [
        write("sparse", 100_000, 10, 6), // a page, and one of a chain
        write("large", 100, 16_000, 7),
        Op::Allocate { path: path("large"), at: 100, len: 10_000, mode: Allocate::Punch },
        link("small", "d/new"),
        append("large", 9000, 8),
        append("small", 200, 9),
        Op::Xattr { path: path("large"), name: b"user.a".to_vec(), len: 5000, seed: 1 },
        make("e"),
        resize("large", 3000), // gives pages back
        append("small", 300, 10),
        rename("sparse", "large"),
        append("large", 30_000, 11),
    ];
    explore_refused(explorer, &(image, tree), &ops, |error| matches!(error, Error::NoSpace { .. }))
}

/// Runs calls of which some are refused, as `is_refusal` says. The twin of a second run would not
/// know which: there is none.
pub(crate) fn explore_refused(
    explorer: Explorer,
    (image, tree): &(Image, Timed),
    ops: &[Op],
    is_refusal: fn(&Error) -> bool,
) -> Result<Report, Box<Failure>> {
    let refused: Vec<bool> = {
        let volume = open(&image.media()).expect("a whole image");
        let is_refused = |outcome| match outcome {
            Ok(()) => false,
            Err(error) if is_refusal(&error) => true,
            Err(error) => panic!("{error}"),
        };
        ops.iter().map(|op| is_refused(model::apply(&volume, op))).collect()
    };
    assert!(refused.contains(&true) && refused.contains(&false), "{refused:?}");
    let run = |media: Media, twin: &Twin<'_, Timed>| {
        let volume = open(&media).expect("a whole image");
        for (op, &is_refused) in ops.iter().zip(&refused) {
            match is_refused {
                true => twin.on_its_thread(|| assert!(model::apply(&volume, op).is_err(), "{op:?}")),
                false => step(&volume, twin, op),
            }
        }
    };
    let explorer = explorer.once();
    explorer.explore_twin(image, tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}
