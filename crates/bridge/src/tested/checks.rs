//! The checks of single calls, each beside the seeded bug that leaves it out.

use super::*;
use crate::calls::changing;
use crate::fault::FAILED;
use everbyte_media::museum;

/// The checks that find a bug, in a new pool.
fn found() -> Vec<&'static str> {
    let (_store, handle) = made();
    let list = list(&handle, "list");
    let mut found = Vec::new();
    let mut require = |is_right: bool, check| {
        if !is_right {
            found.push(check);
        }
    };
    // FOREIGN-3
    txn(|number| {
        // SAFETY: the pool's first page; nothing is stored.
        let refused = unsafe { change::<ExploredTag>(number, list.base.cast(), 8) };
        require(refused == FAILED, "first page");
        false
    });
    // CALL-2
    txn(|number| {
        // SAFETY: an object of the pool; nothing is stored.
        let refused = unsafe { change::<ExploredTag>(number + 1, list.at.cast(), 8) };
        require(refused == FAILED, "number");
        false
    });
    // FOREIGN-1
    txn(|number| {
        let changed = "root list\nlist 16 8 { size: i64 @0; head: u64 @8 }\n";
        let (value, mut at) = (ListClass { size: 0, head: 0 }, std::ptr::null());
        // SAFETY: an open pool; a value and a place that live during the call.
        let refused = unsafe {
            make::<Named<Explored>, ExploredTag>(list.handle, number, &raw("list", changed, &value), &mut at)
        };
        require(refused == FAILED, "class");
        false
    });
    // HANDLE-2
    require(open_list(&handle, "list", &mut std::ptr::null()) == FAILED, "open twice");
    // The error of a method dooms the transaction around it.
    txn(|number| {
        list.push(number, 1);
        let mut out = 0;
        // SAFETY: a place that lives during the call.
        let refused = unsafe { changing::<ExploredTag, Result<u64, &str>>(number, &mut out, |_| Ok(Err("half done"))) };
        require(refused == FAILED, "refused");
        true
    });
    require(list.nodes().is_empty(), "refused and committed");
    // DROP-1
    destroyed::registered(true);
    let mut guards = [0; 2];
    txn(|number| {
        guards = [3, 4].map(|value| list.make_guard(number, value, 0));
        true
    });
    txn(|number| {
        assert_done(list.destroy_guard(number, guards[0]));
        require(list.destroy_guard(number, guards[0]) == FAILED, "destroyed twice");
        false
    });
    // DROP-2: read, but not destroyed, by a program without the destructor.
    destroyed::registered(false);
    let [value, _] = read(list.node(guards[1]));
    let ended = txn(|number| {
        list.push(number, value);
        require(list.destroy_guard(number, guards[1]) == FAILED, "no destructor");
        true
    });
    require(ended == FAILED || !list.nodes().is_empty(), "destroyed in part");
    found
}

/// Without bugs nothing is found, and each seeded one is, by its own check.
#[test]
fn each_check_of_a_call_finds_its_bug() {
    let _alone = alone();
    assert_eq!(found(), [""; 0]);
    for (bug, check) in [
        ("bridge-first-page-logged", "first page"),
        ("bridge-number-trusted", "number"),
        ("bridge-class-trusted", "class"),
        ("bridge-root-opened-twice", "open twice"),
        ("bridge-refused-commits", "refused and committed"),
        ("bridge-destroyed-twice", "destroyed twice"),
        ("bridge-destructor-lacking", "no destructor"),
    ] {
        assert_eq!(museum::with(bug, found), [check], "{bug}");
    }
}
