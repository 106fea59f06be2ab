//! The deep check of objects of C++, without their program: by the descriptions in the pool.

use super::*;
use everbyte_object::UntypedPool;

/// The findings of the deep check in a pool with a list of two nodes, after `damage` was done.
fn found(damage: impl Fn(List, u64)) -> Vec<String> {
    let (store, handle) = made();
    let list = list(&handle, "list");
    txn(|number| {
        list.push(number, 1);
        list.push(number, 2);
        true
    });
    let ended = txn(|number| {
        damage(list, number);
        true
    });
    assert_eq!(ended, DONE);
    drop(handle);
    let report = UntypedPool::open(&store, "pool").unwrap().examine(&|_| ());
    report.findings().into_iter().map(|finding| finding.detail).collect()
}

#[test]
fn pointers_of_cpp_are_followed_without_their_program() {
    let _alone = alone();
    assert_eq!(found(|_, _| ()), [""; 0]);
    let head = |list: List| list.node(read(list.at)[1]);
    let next = |list: List| head(list).wrapping_add(1);
    // To an object that was destroyed; and a null one.
    let dangling = found(|list, number| {
        // SAFETY: an open pool.
        assert_done(unsafe { destroy::<Named<Explored>, ExploredTag>(list.handle, number, read(head(list))[1]) });
    });
    assert!(
        matches!(&*dangling, [one] if one.starts_with("root.owned.objects[")
            && one.contains(".next: a pointer to a `node` leads to 0x") && one.ends_with("where no object is")),
        "{dangling:?}"
    );
    assert_eq!(
        found(|list, number| {
            // SAFETY: an open pool.
            assert_done(unsafe { destroy::<Named<Explored>, ExploredTag>(list.handle, number, read(head(list))[1]) });
            store(number, next(list), 0);
        }),
        [""; 0]
    );
    // Into an object, and to one of another class.
    let inside = found(|list, number| store(number, next(list), read(list.at)[1] + 8));
    assert!(matches!(&*inside, [one] if one.contains("where no object is")), "{inside:?}");
    let another = found(|list, number| store(number, next(list), list.at.addr() as u64 - list.base.addr() as u64));
    assert!(
        matches!(&*another, [one] if one.contains(".next: a pointer to a `node` leads to a `list`")),
        "{another:?}"
    );
    // Of a root.
    let of_root = found(|list, number| store(number, list.at.wrapping_add(1), 4096));
    let expected = "root.named[0].object.head: a pointer to a `node` leads to 0x1000, where no object is";
    assert_eq!(of_root, [expected]);
}

/// The entry of an object in the pool's map: its key, its class, and the vector of its bytes.
fn entry(base: *const u8, offset: u64) -> *mut u64 {
    let mut words = (512..1 << 16).map(|word| base.wrapping_add(8 * word).cast_mut().cast::<u64>());
    let is_entry = |at: &*mut u64| read(*at)[0] == offset && read(at.wrapping_add(2))[0] == offset;
    words.find(is_entry).expect("the pool owns the object")
}

/// An object under a key that is not its place.
#[test]
fn a_key_that_is_not_the_place_of_its_object_is_found() {
    let _alone = alone();
    let said = found(|list, number| {
        let offset = read(list.at)[1];
        store(number, entry(list.base, offset), offset + 8);
    });
    assert!(matches!(&*said, [one] if one.ends_with(", not at its key")), "{said:?}");
}

/// Offsets of a class's name and of an object's bytes at which no block can start.
#[test]
fn damaged_offsets_between_blocks_are_found() {
    let _alone = alone();
    let name = found(|list, number| {
        let mut words = (512..1 << 16).map(|word| list.base.wrapping_add(8 * word).cast_mut().cast::<u64>());
        let len = |at: *mut u64| read(at)[1];
        let is_node = |at: &*mut u64| len(*at) == 4 && len(at.wrapping_add(3)) == NODE.len() as u64;
        let name = words.find(is_node).expect("a class of the pool");
        store(number, name, read(name)[0] + 1);
    });
    assert!(name.iter().any(|one| one.contains("name: a pointer to 0x")), "{name:?}");
    let bytes = found(|list, number| {
        let offset = read(list.at)[1];
        store(number, entry(list.base, offset).wrapping_add(2), offset + 8);
    });
    assert!(bytes.iter().any(|one| one.contains("bytes: a pointer to 0x")), "{bytes:?}");
}

/// A class that is described in a way of its own: it is noted, and its objects are not read.
#[test]
fn objects_of_other_descriptions_are_noted() {
    let _alone = alone();
    let make_one = |description: &'static str, size: usize| {
        let (store, handle) = made();
        let (at, mut out) = ((&raw const handle).cast(), std::ptr::null());
        announce::<ExploredTag>(at);
        txn(|number| {
            let object = RawObject { size, ..raw("late", description, &[7u64, 9]) };
            // SAFETY: an open pool, an object that lives during the call.
            assert_done(unsafe { make::<Named<Explored>, ExploredTag>(at, number, &object, &mut out) });
            true
        });
        drop(handle);
        let report = UntypedPool::open(&store, "pool").unwrap().examine(&|_| ());
        report.findings().into_iter().map(|finding| finding.detail).collect::<Vec<_>>()
    };
    assert_eq!(make_one("root late\nlate 16 8 { all: [u64; 2] @0 }\n", 16), [""; 0]);
    let said = make_one("root late\nlate 16 8 { all: from_a_later_version @0 }\n", 16);
    assert!(matches!(&*said, [one] if one.contains("1 values of type `late` cannot be taken apart")), "{said:?}");
    let said = make_one("root late\nlate 16 8 { all: [u64; 2] @0 }\n", 8);
    assert!(matches!(&*said, [one] if one.contains("8 bytes as a `late`, which has 16")), "{said:?}");
    let said = make_one("root late\nlate 1099511627776 8 { all: [bool; 1099511627776] @0 }\n", 16);
    assert!(matches!(&*said, [one] if one.contains("16 bytes as a `late`, which has 1099511627776")), "{said:?}");
    let said = make_one("root late\nlate 16 8 { flag: bool @0; all: u64 @8 }\n", 16);
    assert!(matches!(&*said, [one] if one.ends_with(".flag: not a `bool`")), "{said:?}");
}

/// An object that is damaged to lie where another one does, and to be longer than any block: its
/// bytes are not read.
#[test]
fn an_object_longer_than_its_block_is_found_and_not_read() {
    let _alone = alone();
    let (store_of, handle) = made();
    let at = (&raw const handle).cast();
    announce::<ExploredTag>(at);
    let ended = txn(|number| {
        let object = raw("late", "root late\nlate 16 8 { all: from_a_later_version @0 }\n", &[7u64, 9]);
        let [one, other] = [(); 2].map(|()| {
            let mut out = std::ptr::null();
            // SAFETY: an open pool, an object that lives during the call.
            assert_done(unsafe { make::<Named<Explored>, ExploredTag>(at, number, &object, &mut out) });
            out.addr() as u64 - handle.base().addr() as u64
        });
        let entry = entry(handle.base(), one);
        store(number, entry.wrapping_add(2), other);
        store(number, entry.wrapping_add(3), u64::MAX - 7);
        true
    });
    assert_eq!(ended, DONE);
    drop(handle);
    let report = UntypedPool::open(&store_of, "pool").unwrap().examine(&|_| ());
    let said: Vec<String> = report.faults.iter().map(|fault| fault.detail.clone()).collect();
    assert!(said.iter().any(|one| one == "a vector longer than its block"), "{said:?}");
}
