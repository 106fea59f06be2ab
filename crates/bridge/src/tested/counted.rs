//! The cost of transactions, as docs/manual/bench.md has it.

use super::*;

/// An empty transaction has no fence, and one that changes a number three, as in Rust.
#[test]
fn an_empty_transaction_has_no_fence_and_a_change_three() {
    let _alone = alone();
    let (store, handle) = made();
    let list = list(&handle, "list");
    let fences = |body: &dyn Fn(u64)| {
        let before = store.media().counts().fences;
        let ended = txn(|number| {
            body(number);
            true
        });
        assert_eq!(ended, DONE);
        store.media().counts().fences - before
    };
    for value in 0..3 {
        assert_eq!(fences(&|_| ()), 0);
        assert_eq!(fences(&|number| super::store(number, list.at, value)), 3);
        assert_eq!(fences(&|_| assert_eq!(txn(|_| true), DONE)), 0);
    }
}
