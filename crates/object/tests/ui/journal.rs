//! A journal is made by transactions alone (row CR15).
#[path = "common.rs"]
mod common;
use common::*;

//@ a_journal_of_ones_own: E0451 private
fn a_journal_of_ones_own() {
    let _: Journal<P1> = Journal { running: std::ptr::null(), marker: Default::default() };
}
