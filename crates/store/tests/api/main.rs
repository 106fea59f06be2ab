//! Tests of public calls.

#[path = "../common/mod.rs"]
mod common;

mod access;
mod ahead;
mod basics;
mod bound;
mod bound_beside;
mod clone;
mod cold;
mod grow;
mod length;
mod names;
mod opening;
mod owners;
mod quotas;
mod second_open;
