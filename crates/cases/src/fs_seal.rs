//! Cases of sealed pages of file volumes: no crash leaves a seal on bytes that it does not cover.

use crate::Case;
use crate::fs::{allocate, append, case, image_of, make, observe, open, options, path, resize, step, write};
use everbyte_fs::model::Op;
use everbyte_fs::{Allocate, SEAL_AFTER, SealCursor, StepLimits, Volume, VolumeOptions};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Order, Report, Twin};

pub(crate) const CASES: &[Case] =
    &[case("fs-seal", "files are sealed between writes, appends, cuts and clones of sealed pages", 9000, seals)];

/// A pass of sealing, a page in each step.
fn seal(volume: &Volume) {
    let mut cursor = SealCursor::default();
    loop {
        let limits = StepLimits { inodes: 1024, pages: 1 };
        volume.seal_step(&mut cursor, &limits, volume.now() + SEAL_AFTER).expect("room for checksums");
        if cursor.is_at_start() {
            return;
        }
    }
}

fn seals(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("a"), append("a", 9000, 1), make("b"), append("b", 5000, 2), make("c")];
    let ops = [
        write("a", 5000, 64, 3), // at its place: the seal goes first
        append("a", 100, 4),     // into the last page
        resize("b", 4500),
        resize("b", 4900),         // zeros behind the end
        write("a", 4096, 4096, 5), // a new page between sealed ones
        Op::Clone { path: path("a"), at: 0, to: path("c"), to_at: 0, len: 0 },
        write("a", 20, 30, 6), // of a shared and sealed page
        append("c", 10, 7),
        allocate("b", 0, 4096, Allocate::Zero),
        write("b", 10, 20, 8),
    ];
    let (image, tree) = image_of(&VolumeOptions { checksums: true, ..options() }, &before);
    let run = |media: Media, twin: &Twin<'_, crate::fs::Timed>| {
        let volume = open(&media).expect("a whole image");
        seal(&volume);
        for op in &ops {
            step(&volume, twin, op);
            seal(&volume);
        }
    };
    explorer.explore_twin(&image, &tree, Order::InOrder, run, |media, seen| observe(&media, seen))
}
