//! C programs over `kv.h`: every call, wrong arguments, the example.

use crate::programs::{compile, pkg_config, root, run, succeed, text};
use everbyte_kv::Kv;
use everbyte_media::Options;
use everbyte_store::Store;
use std::process::Command;

pub(crate) const PARTS: [&str; 5] = ["calls", "batches", "loads", "compacts", "hostile"];

#[test]
fn every_call_on_key_value_stores_does_what_the_header_says() {
    for backend in ["file", "shm"] {
        let dir = tempfile::tempdir().unwrap();
        let program = compile("crates/capi/tests/c/kv.c", dir.path());
        for part in PARTS {
            succeed(&program, &dir.path().join(part), backend, &[part]);
        }
    }
}

/// The header is C11 and C++, for both compilers.
#[test]
fn both_compilers_take_the_header_of_key_value_stores() {
    for (compiler, words) in [("gcc", ["-x", "c", "-std=c11"]), ("clang", ["-x", "c", "-std=c11"])]
        .into_iter()
        .chain([("g++", ["-x", "c++", "-std=c++17"]), ("clang++", ["-x", "c++", "-std=c++17"])])
    {
        let mut cc = Command::new(compiler);
        cc.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic"]).args(words);
        let output = cc.args(pkg_config(&["--cflags"])).arg(root().join("include/everbyte/kv.h")).output();
        let output = output.unwrap_or_else(|error| panic!("{compiler}: {error}"));
        assert!(output.status.success(), "{compiler}: {}", text(&output));
    }
}

/// Rust reads what C wrote.
#[test]
fn sales_outlive_their_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let program = compile("examples/c/stock.c", dir.path());
    assert_eq!(succeed(&program, &path, "file", &["3"]), "order 001: 3 apples\n97 apples are left\n");
    let said = "order 001: 3 apples\norder 002: 90 apples\n7 apples are left\n";
    assert_eq!(succeed(&program, &path, "file", &["90"]), said);
    let refused = run(&program, &path, "file", &["8"]);
    assert!(!refused.status.success() && text(&refused).contains("only 7 apples"), "{}", text(&refused));
    let store = Store::open(&path, &Options::default()).unwrap();
    let kv = Kv::open(&store, "shop").unwrap();
    assert_eq!(kv.get(b"apples").unwrap().as_deref(), Some(&b"7"[..]));
    assert_eq!((kv.open_table("orders").unwrap().len().unwrap(), kv.check()), (2, vec![]));
}
