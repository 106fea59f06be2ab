//! Programs that end, fork, jump or fill their pool in the midst of a transaction.

use super::{COMPILERS, build, open, run, sanitized, succeed, text_of};
use everbyte_object::UntypedPool;
use std::os::unix::process::ExitStatusExt as _;

/// A pool that fills up, a program that ends in its lambda, children of fork, a constructor that
/// throws, lambdas that are left by `longjmp` and `pthread_exit`: the pool stays whole.
#[test]
fn bad_days_leave_the_pool_whole() {
    for name in COMPILERS {
        let Some(compiler) = sanitized(name) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (build(compiler, "bad_days.cpp", dir.path()), dir.path().join("store"));
        for part in ["full", "exit", "fork", "constructor"] {
            succeed(&program, &store, &[part]);
        }
        let jumps = ["jump", "jump_read", "jump_use", "jump_open", "jump_close"];
        let jumps = jumps.map(|part| (part, "was left by `longjmp`"));
        for (part, said) in jumps.into_iter().chain([("leave", "exception not rethrown")]) {
            let ended = run(&program, &store, &[part]);
            let text = text_of(&ended);
            assert!(ended.status.signal() == Some(6) && text.contains(said), "{part}: {:?} {text}", ended.status);
            succeed(&program, &store, &["after"]);
        }
        let store = open(&store);
        let report = UntypedPool::open(&store, "shop").unwrap().examine(&|_| ());
        assert!(report.findings().is_empty(), "{:?}", report.findings());
    }
}
