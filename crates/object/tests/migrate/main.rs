//! Pools of older versions of a program become pools of this one: migrations, refusals,
//! roll-backs.
//!
//! In each test the module `v1` is the older program, `v2` and `v3` are newer ones.
#![allow(dead_code)]

#[path = "../common/mod.rs"]
mod common;

mod forms;
mod maps;
mod queues;
mod refused;
mod shared;
mod values;

use everbyte_object::{Out, PSafe, PoolTag, Root};

/// Nothing has leaked, and nothing is damaged.
fn whole<R: PSafe<Out<G>>, G: PoolTag>(root: &Root<R, Out<G>>) {
    assert_eq!(root.check().unwrap(), []);
}
