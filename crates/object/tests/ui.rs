//! Programs that must not compile do not, and programs that should compile do: see `refusals`.

mod refusals;

use refusals::{Used, accepted, refused};

/// The packages that programs use.
const PACKAGES: [&str; 3] = ["everbyte-object", "everbyte", "everbyte-store"];

const CRATES: [Used; 2] =
    [("everbyte_object", "everbyte-object", "everbyte_object"), ("everbyte_store", "everbyte-store", "everbyte_store")];

/// A pointer into a pool is no result of a transaction.
#[test]
fn nothing_leaves_as_a_result() {
    refused("leave");
}

/// Statics, thread-locals, channels, leaked references and wrappers that fake `Send` carry nothing
/// out.
#[test]
fn nothing_is_carried_out() {
    refused("carry");
}

/// Captured variables, cells and foreign locks are not changed.
#[test]
fn the_lint_names_what_a_body_could_change() {
    refused("capture");
}

/// References, handles, heap types and cells of the standard library do not live in a pool.
#[test]
fn only_persistent_types_live_in_a_pool() {
    refused("types");
}

/// No pointer crosses pools, and no journal changes another pool.
#[test]
fn pools_do_not_mix() {
    refused("pools");
}

/// Threads share locks, never cells or values that a running transaction made.
#[test]
fn threads_share_locks_alone() {
    refused("threads");
}

/// No change without a journal, no reading of a closed pool.
#[test]
fn changes_take_a_journal_and_an_open_pool() {
    refused("change");
}

/// No `Drop` of its own, no claims by hand.
#[test]
fn types_of_a_pool_have_no_drop_of_their_own() {
    refused("items");
}

/// The derive names the field.
#[test]
fn every_field_is_checked() {
    refused("fields");
}

/// The macros name the code to write instead.
#[test]
fn macros_say_what_to_write() {
    refused("derive");
}

/// Right programs that cannot compile are told what to write, by one error each.
#[test]
fn everyday_programs_are_told_what_to_write() {
    refused("advice");
}

/// Keys and values of maps do not leave, change unnoted or change places under a reference.
#[test]
fn maps_open_no_way_out() {
    refused("maps");
}

/// A migration is whole: a function for every step and every pool, and nothing kept outside.
#[test]
fn migrations_are_complete() {
    refused("migrate");
}

/// A journal is not made, nor a pool.
#[test]
fn a_journal_is_made_by_transactions_alone() {
    refused("journal");
}

/// Lists, trees, maps, helpers, threads, nested transactions, generics and enums, without a trick.
#[test]
fn legitimate_programs_compile() {
    accepted("pass", &CRATES);
    accepted("everyday", &CRATES);
}

/// The macros find the crate under any name that a program gives it.
#[test]
fn crates_can_be_renamed() {
    accepted("renamed", &[("memory", "everbyte", "everbyte")]);
    accepted("renamed_object", &[("objects", "everbyte-object", "everbyte_object")]);
}
