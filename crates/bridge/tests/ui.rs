//! Export rules: types and methods that cannot cross to C++ do not compile, and the error says what
//! to write instead.

#[path = "../../object/tests/refusals/mod.rs"]
mod refusals;

use refusals::{Used, accepted, refused};

/// The packages that programs use.
const PACKAGES: [&str; 2] = ["everbyte-bridge", "everbyte-object"];

const CRATES: [Used; 2] = [
    ("everbyte_bridge", "everbyte-bridge", "everbyte_bridge"),
    ("everbyte_object", "everbyte-object", "everbyte_object"),
];

/// Rules for types: one pool, public, persistent, exported whole.
#[test]
fn a_type_that_is_not_portable_is_refused_with_the_rule() {
    refused("types");
}

/// Rules for methods: `&self`, values that both languages have, one transaction.
#[test]
fn a_method_that_cannot_cross_is_refused_with_the_rule() {
    refused("methods");
}

/// A panic has to become an exception.
#[test]
fn a_library_that_does_not_unwind_is_refused() {
    refused("aborting");
}

/// A library of everything that can be exported.
#[test]
fn portable_types_are_accepted() {
    accepted("pass", &CRATES);
}
