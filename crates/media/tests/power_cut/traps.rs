//! Traps, each by its name: the shortest program in which forgetting one sentence of the contract loses data.

use crate::program::{DATA, Op, Program, explore};
use everbyte_media::{Durability, museum};

const A: u64 = DATA;
const B: u64 = DATA + 4096;

/// Explores a program, which must pass, and with the bug, which must be found.
fn check(trap: &str, bug: &'static str, durability: Durability, ops: &[Op]) {
    let program = Program { ops: ops.to_vec(), durability };
    explore(trap, &program, 1).unwrap_or_else(|failure| panic!("{failure}"));
    let found = museum::with(bug, || explore(trap, &program, 1));
    assert!(found.is_err(), "{bug} was not found");
}

/// A record that was only in the cache may not be acted upon: the next cut could take it while keeping what was done.
#[test]
fn recovery_syncs_the_log_before_it_replays() {
    use Op::*;
    let ops = [Store(A), Flush(A, 8), Fence, Store(B), Flush(B, 8), Barrier, Die];
    check("recovery_syncs_the_log_before_it_replays", "media-replay-unsynced", Durability::Process, &ops);
}
