//! Transactions that a C++ program keeps past their lambda.

use super::{COMPILERS, build, open, sanitized, succeed};
use everbyte_object::UntypedPool;

/// In a function, a static variable, an optional, a coroutine's frame and another thread, used
/// outside of any transaction and in later ones at the same place of the stack: each use is
/// refused, and changes nothing.
#[test]
fn a_transaction_kept_past_its_lambda_is_refused_whatever_runs() {
    for name in COMPILERS {
        let Some(mut compiler) = sanitized(name) else { continue };
        compiler.args(["-pthread", "-O1"]);
        let dir = tempfile::tempdir().unwrap();
        let (program, path) = (build(compiler, "kept.cpp", dir.path()), dir.path().join("store"));
        succeed(&program, &path, &[]);
        let store = open(&path);
        let report = UntypedPool::open(&store, "shop").unwrap().examine(&|_| ());
        assert!(report.findings().is_empty(), "{:?}", report.findings());
    }
}
