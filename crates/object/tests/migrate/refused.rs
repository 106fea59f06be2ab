//! Refused migrations, each with advice; and migrations that are rolled back: panics, full pools,
//! damage, rehearsals.

use crate::common::store;
use crate::whole;
use everbyte_object::layout::{HEADER, Header};
use everbyte_object::{
    Error, Journal, MemPool, Migrate, Out, PCell, PSafe, PString, PVec, Pbox, Pool, PoolOptions, PoolTag, pool,
};
use everbyte_store::Store;

/// A pool of version 1: a vector of boxed entries.
mod v1 {
    use super::*;
    #[derive(PSafe)]
    #[repr(C)]
    pub(super) struct Entry<P: MemPool> {
        pub key: u32,
        pub text: PString<P>,
    }
    pub(super) type Root<P> = PVec<Pbox<Entry<P>, P>, P>;
}

type Of<G> = Out<G>;

fn make<G: PoolTag>(store: &Store, count: u32) {
    let options = PoolOptions { span: Some((1 << 20).into()), ..Default::default() };
    let root = Of::<G>::create_with::<v1::Root<Of<G>>>(store, "entries", &options, |j| {
        let entry = |key: u32| Pbox::new(v1::Entry { key, text: PString::from_str(&key.to_string(), j) }, j);
        PVec::from_iter((0..count).map(entry), j)
    });
    drop(root.unwrap());
}

/// The pool is as `make` made it.
fn unchanged<G: PoolTag>(store: &Store, count: u32) {
    let root = Of::<G>::open::<v1::Root<Of<G>>>(store, "entries").unwrap();
    assert!(
        root.iter().map(|entry| (entry.key, entry.text.to_string())).eq((0..count).map(|key| (key, key.to_string())))
    );
    whole(&root);
}

/// A newer entry with other fields, made from an older one with these.
macro_rules! newer {
    ($module:ident, version = $version:literal $(, from = $from:ty)?; { $($new:tt)* }; old = $old:literal { $($fields:tt)* };
     |$value:ident, $j:ident| $body:expr) => {
        mod $module {
            use super::*;
            #[derive(PSafe)]
            #[persist(version = $version $(, from = $from)?)]
            #[repr(C)]
            pub(super) struct Entry<P: MemPool> { $($new)* }
            #[derive(PSafe)]
            #[persist(version = $old, name = "Entry")]
            #[repr(C)]
            pub(super) struct Old<P: MemPool> { $($fields)* }
            #[allow(unused_variables)]
            impl<P: MemPool> Migrate<Old<P>, P> for Entry<P> {
                fn migrate($value: Old<P>, $j: &Journal<P>) -> Self {
                    $body
                }
            }
            pub(super) type Root<P> = PVec<Pbox<Entry<P>, P>, P>;
        }
    };
}

newer!(larger, version = 2, from = Old<P>; { pub key: u64, pub text: PString<P>, pub more: [u64; 6] };
    old = 1 { key: u32, text: PString<P> }; |old, j| Entry { key: old.key.into(), text: old.text, more: [7; 6] });
newer!(panics, version = 2, from = Old<P>; { pub text: PString<P> };
old = 1 { key: u32, text: PString<P> }; |old, j| {
    let text = PString::from_str("made before", j);
    assert!(old.key < 20, "entry {} is too large", old.key);
    Entry { text }
});
newer!(misremembered, version = 2, from = Old<P>; { pub key: u64, pub text: PString<P> };
    old = 1 { key: u16, text: PString<P> }; |old, j| Entry { key: old.key.into(), text: old.text });
newer!(forgetful, version = 2, from = Old<P>; { pub text: PString<P> };
    old = 1 { text: PString<P> }; |old, j| Entry { text: old.text });
newer!(inventive, version = 2, from = Old<P>; { pub text: PString<P> };
    old = 1 { key: u32, text: PString<P>, more: u8 }; |old, j| Entry { text: old.text });
newer!(without_a_path, version = 2; { pub key: u64, pub text: PString<P> };
    old = 1 { key: u32, text: PString<P> }; |old, j| Entry { key: old.key.into(), text: old.text });
newer!(with_a_gap, version = 9, from = Old<P>; { pub key: u64, pub text: PString<P> };
    old = 8 { key: u32, text: PString<P> }; |old, j| Entry { key: old.key.into(), text: old.text });
newer!(of_this_version, version = 1; { pub key: u64, pub text: PString<P> };
    old = 8 { key: u32, text: PString<P> }; |old, j| Entry { key: old.key.into(), text: old.text });

#[test]
fn what_does_not_lead_from_the_pool_is_named() {
    pool!(P);
    let store = store();
    make::<PTag>(&store, 3);
    let check = |error: Error, texts: &[&str]| {
        assert!(matches!(error, Error::NoMigration { .. }), "{error}");
        let said = error.to_string();
        texts.iter().for_each(|text| assert!(said.contains(text), "{text:?} is not in: {said}"));
        unchanged::<PTag>(&store, 3);
    };
    let open = |error: Result<_, Error>| error.map(|_: ()| ()).unwrap_err();
    check(
        open(P::open_migrating::<misremembered::Root<P>>(&store, "entries").map(drop)),
        &["field `key` of `Entry` is `u32` in the pool and `u16` in the program"],
    );
    check(
        open(P::open_migrating::<forgetful::Root<P>>(&store, "entries").map(drop)),
        &["field `key` of `Entry` is in the pool and not in the program"],
    );
    check(
        open(P::open_migrating::<inventive::Root<P>>(&store, "entries").map(drop)),
        &["field `more` of `Entry` is new in the program"],
    );
    check(
        open(P::open_migrating::<without_a_path::Root<P>>(&store, "entries").map(drop)),
        &[
            "no type of the program is version 1 of `Entry`",
            "in the pool:    Entry 32 8 { key: u32 @0; text: PString @8 }",
            "in the program: Entry 32 8 v2 { key: u64 @0; text: PString @8 }",
            "`#[persist(version = 1, name = \"Entry\")]`",
        ],
    );
    check(
        open(P::open_migrating::<with_a_gap::Root<P>>(&store, "entries").map(drop)),
        &["no type of the program is version 1", "in the program: Entry 32 8 v9 {"],
    );
    check(
        open(P::open_migrating::<of_this_version::Root<P>>(&store, "entries").map(drop)),
        &["field `key` of `Entry` is `u32` in the pool and `u64` in the program"],
    );
    check(
        open(P::open_migrating::<PCell<u64, P>>(&store, "entries").map(drop)),
        &["its root is `PVec<Pbox<Entry>>`, the program's is `PCell<u64>`"],
    );
    let error = P::open::<without_a_path::Root<P>>(&store, "entries").unwrap_err();
    assert!(matches!(error, Error::WrongType { .. }), "{error}");
    assert!(error.to_string().contains("`Entry` is version 1 in the pool and version 2 in the program"), "{error}");
}

#[test]
fn a_panic_in_the_middle_rolls_everything_back() {
    pool!(P);
    let store = store();
    make::<PTag>(&store, 40);
    let error = P::open_migrating::<panics::Root<P>>(&store, "entries").unwrap_err();
    assert!(matches!(&error, Error::Panicked { message } if message.contains("too large")), "{error}");
    unchanged::<PTag>(&store, 40);
    assert!(P::open_migrating::<larger::Root<P>>(&store, "entries").is_ok());
}

#[test]
fn a_full_pool_rolls_everything_back() {
    pool!(P);
    let store = store();
    let count = 6000;
    make::<PTag>(&store, count);
    let error = P::open_migrating::<larger::Root<P>>(&store, "entries").unwrap_err();
    assert!(matches!(error, Error::Store(_) | Error::Tx(_)), "{error}");
    unchanged::<PTag>(&store, count);
}

#[test]
fn a_rehearsal_does_everything_and_leaves_nothing() {
    pool!(P);
    let store = store();
    make::<PTag>(&store, 100);
    let rehearsed = P::rehearse_migration::<larger::Root<P>>(&store, "entries").unwrap();
    unchanged::<PTag>(&store, 100);
    assert_eq!((rehearsed.steps[0].values, rehearsed.blocks), (100, 102), "entries, the array and the root");
    let root = P::open_migrating::<larger::Root<P>>(&store, "entries").unwrap();
    assert_eq!(root.migrated(), Some(&rehearsed));
    assert!(root.iter().map(|entry| (entry.key, &*entry.text == "5")).eq((0..100).map(|key| (key, key == 5))));
    whole(&root);
    drop(root);
    assert_eq!(P::rehearse_migration::<larger::Root<P>>(&store, "entries").unwrap(), Default::default());
    assert!(matches!(P::rehearse_migration::<panics::Root<P>>(&store, "entries"), Err(Error::NoMigration { .. })));
}

/// Pointers that lead nowhere, lengths and owners that contradict the heap: an error that says
/// where, and nothing changed.
#[test]
fn damage_is_found_before_it_is_followed() {
    pool!(P);
    let store = store();
    make::<PTag>(&store, 3);
    let prime = store.object("entries").unwrap().prime();
    let header: Header = store.media().get(prime + HEADER);
    let media = store.media();
    let array = prime + media.load(prime + header.root);
    for (at, word) in [
        (prime + header.root, 1 << 30),
        (prime + header.root, 8),
        (prime + header.root + 8, 1 << 40),
        (prime + header.root + 8, 1 << 63),
        (array, u64::MAX),
        (array, media.load(array + 8)),
        (array, header.root.get()),
    ] {
        let was = media.load(at);
        media.store(at, word);
        let error = P::open_migrating::<larger::Root<P>>(&store, "entries").unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{at:#x}: {error}");
        media.store(at, was);
        unchanged::<PTag>(&store, 3);
    }
}

mod a {
    use super::*;
    #[derive(PSafe, Clone, Copy)]
    #[repr(C)]
    pub(super) struct Id(pub u64);
}

mod b {
    use super::*;
    #[derive(PSafe, Clone, Copy)]
    #[repr(C)]
    pub(super) struct Id(pub u64);
}

/// Declares modules, each with a root of one name and another pair of types.
macro_rules! roots {
    ($($module:ident: $x:ty, $y:ty;)*) => { $(
        mod $module {
            use super::*;
            #[derive(PSafe)]
            #[repr(C)]
            pub(super) struct R {
                pub x: $x,
                pub y: $y,
            }
        }
    )* };
}

roots! {
    two: a::Id, b::Id;
    one: a::Id, a::Id;
}

fn is_wrong_type<T>(opened: Result<T, Error>) -> bool {
    matches!(opened, Err(Error::WrongType { .. }))
}

#[test]
fn two_types_of_one_name_do_not_become_one_without_a_step() {
    pool!(P);
    let store = store();
    drop(P::create::<two::R>(&store, "two", |_| two::R { x: a::Id(1), y: b::Id(2) }).unwrap());
    assert!(is_wrong_type(P::open::<one::R>(&store, "two")));
    let refused = P::open_migrating::<one::R>(&store, "two").unwrap_err().to_string();
    assert!(refused.contains("two types of the pool, `Id` and `Id#2`, are one in the program, `Id`"), "{refused}");
    assert_eq!(P::open::<two::R>(&store, "two").unwrap().y.0, 2);
    drop(P::create::<one::R>(&store, "one", |_| one::R { x: a::Id(1), y: a::Id(2) }).unwrap());
    assert!(is_wrong_type(P::open::<two::R>(&store, "one")));
    let refused = P::open_migrating::<two::R>(&store, "one").unwrap_err().to_string();
    assert!(refused.contains("one type of the pool, `Id`, is two in the program"), "{refused}");
    assert_eq!(P::open::<one::R>(&store, "one").unwrap().y.0, 2);
}

/// A number that says what it counts by an argument alone.
#[derive(PSafe)]
#[repr(C)]
struct Share<const PARTS: usize> {
    amount: u64,
}

#[test]
fn a_type_whose_arguments_have_changed_is_another() {
    pool!(P);
    let store = store();
    drop(P::create::<Share<100>>(&store, "share", |_| Share { amount: 7 }).unwrap());
    assert!(is_wrong_type(P::open::<Share<1000>>(&store, "share")));
    let refused = P::open_migrating::<Share<1000>>(&store, "share").unwrap_err().to_string();
    assert!(refused.contains("`Share<100>` in the pool is `Share<1000>` in the program"), "{refused}");
    assert_eq!(P::open::<Share<100>>(&store, "share").unwrap().amount, 7);
}
