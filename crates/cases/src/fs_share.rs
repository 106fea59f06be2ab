//! Cases of shared pages of file volumes: clones and copies of ranges.

use crate::Case;
use crate::fs::{allocate, append, case, explore, make, path, resize, unlink, write};
use everbyte_fs::Allocate;
use everbyte_fs::model::Op;
use everbyte_sim::{Explorer, Failure, Report};

pub(crate) const CASES: &[Case] = &[
    case("fs-share", "ranges are cloned and copied, then either side is written to, cut or removed", 12_000, share),
    case("fs-share-tail", "the end of a file moves over a last page that another file shares", 6000, tail),
];

fn clone(from: &str, at: u64, to: &str, to_at: u64, len: u64) -> Op {
    Op::Clone { path: path(from), at, to: path(to), to_at, len }
}

fn copy(from: &str, at: u64, to: &str, to_at: u64, len: u64) -> Op {
    Op::Copy { path: path(from), at, to: path(to), to_at, len }
}

fn share(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("a"), append("a", 20_000, 1), make("b"), make("c"), append("c", 9000, 2), make("taker")];
    let ops = [
        clone("a", 0, "b", 0, 0),
        write("a", 5000, 64, 3), // few bytes of a shared page
        write("b", 8192, 4096, 4),
        write("b", 100, 20, 5),
        write("b", 110, 20, 6), // at its place now
        clone("b", 4096, "c", 0, 8192),
        copy("a", 100, "c", 12_388, 9000), // shared pages between two edges
        copy("c", 1, "b", 30_000, 6000),   // bytes alone
        clone("a", 0, "a", 40_960, 8192),
        allocate("c", 0, 6000, Allocate::Zero),
        write("c", 4000, 300, 7),
        resize("a", 4096),
        append("taker", 30_000, 8), // takes pages that are free
        unlink("b"),
        append("taker", 30_000, 9),
        write("c", 16_500, 30, 10),
        unlink("a"),
        append("taker", 9000, 11),
    ];
    explore(explorer, &before, &ops)
}

fn tail(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let before = [make("a"), append("a", 9000, 1), make("b"), make("c"), make("taker")];
    let ops = [
        clone("a", 0, "b", 0, 0),
        clone("a", 0, "c", 0, 0),
        append("b", 50, 2),
        resize("a", 8200), // bytes of `c` lie behind its end
        resize("a", 9100),
        append("taker", 9000, 3),
        clone("c", 8192, "a", 8192, 0),
        write("c", 20_000, 10, 4),
        clone("c", 8192, "c", 24_576, 4096),
        unlink("b"),
        append("taker", 9000, 5),
    ];
    explore(explorer, &before, &ops)
}
