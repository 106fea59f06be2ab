//! Every form in which a changed type may lie: by value and behind pointers, in cells, locks,
//! options, arrays, tuples, generic types; and values beside them that do not change.

use crate::common::{Node, Twins, append, description, store};
use crate::whole;
use everbyte_object::{
    Journal, MemPool, Migrate, PCell, PMutex, POnceCell, PRefCell, PRwLock, PSafe, PString, PVec, Pbox, Pool, VCell,
    pool,
};

/// The type that changes: it grows by more than its alignment.
pub(crate) mod v1 {
    use super::*;
    #[derive(PSafe, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    #[repr(C)]
    pub(crate) struct Price {
        pub cents: u8,
    }
}

pub(crate) mod v2 {
    use super::*;
    #[derive(PSafe, Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
    #[persist(version = 2, from = PriceV1)]
    #[repr(C)]
    pub(crate) struct Price {
        pub cents: u64,
        pub currency: u8,
    }
    #[derive(PSafe)]
    #[persist(name = "Price")]
    #[repr(C)]
    pub(crate) struct PriceV1 {
        cents: u8,
    }
    impl<P: MemPool> Migrate<PriceV1, P> for Price {
        fn migrate(old: PriceV1, _: &Journal<P>) -> Price {
            Price { cents: old.cents.into(), currency: 7 }
        }
    }
}

fn old(cents: u8) -> v1::Price {
    v1::Price { cents }
}

fn new(cents: u64) -> v2::Price {
    v2::Price { cents, currency: 7 }
}

/// All forms with `$Price` in them.
macro_rules! all {
    ($Price:ty) => {
        #[derive(PSafe)]
        #[repr(C)]
        pub(super) struct All<P: MemPool> {
            pub before: u8,
            pub plain: $Price,
            pub after: u32,
            pub cell: PCell<$Price, P>,
            pub ref_cell: PRefCell<[$Price; 3], P>,
            pub mutex: PMutex<$Price, P>,
            pub lock: PRwLock<($Price, PString<P>, $Price), P>,
            pub once: POnceCell<$Price, P>,
            pub volatile: VCell<$Price, P>,
            pub unused: VCell<u64, P>,
            pub none: Option<$Price>,
            pub some: Option<$Price>,
            pub boxed: Option<Pbox<$Price, P>>,
            pub vector: PVec<$Price, P>,
            pub deep: PVec<Option<Pbox<[PVec<$Price, P>; 2], P>>, P>,
            pub empty: PVec<$Price, P>,
            pub generic: Node<$Price, P>,
            pub either: Either<$Price, P>,
            pub kept: Node<u16, P>,
            pub text: PString<P>,
        }
        #[derive(PSafe)]
        #[repr(C, u8)]
        pub(super) enum Either<T: PSafe<P>, P: MemPool> {
            Left(PString<P>),
            Right { flag: bool, value: T, more: PVec<T, P> },
        }
    };
}

mod old_forms {
    use super::*;
    all!(v1::Price);
}

mod new_forms {
    use super::*;
    all!(v2::Price);
}

#[test]
fn a_type_is_migrated_wherever_it_lies() {
    pool!(P);
    let store = store();
    let all = P::create::<old_forms::All<P>>(&store, "all", |j| {
        let generic = Node::new(old(30));
        append(&generic, old(31), j);
        let kept = Node::new(1);
        append(&kept, 2, j);
        old_forms::All {
            before: 1,
            plain: old(2),
            after: 3,
            cell: PCell::new(old(4)),
            ref_cell: PRefCell::new([5, 6, 7].map(old)),
            mutex: PMutex::new(old(8)),
            lock: PRwLock::new((old(9), PString::from_str("ten", j), old(11))),
            once: {
                let once = POnceCell::new();
                let _ = once.set(old(12), j);
                once
            },
            volatile: VCell::new(),
            unused: VCell::new(),
            none: None,
            some: Some(old(13)),
            boxed: Some(Pbox::new(old(14), j)),
            vector: PVec::from_iter((0..100).map(old), j),
            deep: {
                let arrays = [PVec::from_iter([old(15)], j), PVec::from_iter([16, 17].map(old), j)];
                PVec::from_iter([None, Some(Pbox::new(arrays, j))], j)
            },
            empty: PVec::with_capacity(50, j),
            generic,
            either: old_forms::Either::Right { flag: true, value: old(18), more: PVec::from_iter([old(19)], j) },
            kept,
            text: PString::from_str("text", j),
        }
    });
    all.as_ref().unwrap().tx(|j, all| all.volatile.set(old(99), j)).unwrap();
    let places = |kept: &Node<u16, P>, text: &PString<P>| {
        (kept.next.borrow().as_ref().unwrap().offset(), text.as_ptr() as usize)
    };
    let before = all.as_ref().map(|all| places(&all.kept, &all.text)).unwrap();
    drop(all.unwrap());

    let all = P::open_migrating::<new_forms::All<P>>(&store, "all").unwrap();
    assert_eq!((all.before, all.plain, all.after, all.cell.get()), (1, new(2), 3, new(4)));
    assert_eq!(*all.ref_cell.borrow(), [5, 6, 7].map(new));
    assert_eq!((all.once.get(), all.none, all.some), (Some(&new(12)), None, Some(new(13))));
    assert_eq!((all.volatile.get(), all.unused.get()), (None, None));
    assert_eq!(all.boxed.as_deref(), Some(&new(14)));
    assert!(all.vector.iter().eq((0..100).map(new).collect::<Vec<_>>().iter()));
    let deep = all.deep[1].as_ref().unwrap();
    assert_eq!((all.deep.len(), &deep[0][..], &deep[1][..]), (2, &[new(15)][..], &[new(16), new(17)][..]));
    assert_eq!((all.empty.len(), all.empty.capacity()), (0, 0));
    assert_eq!((all.generic.val, all.generic.next.borrow().as_ref().unwrap().val), (new(30), new(31)));
    let new_forms::Either::Right { flag: true, value, more } = &all.either else { panic!("another variant") };
    assert_eq!((*value, &more[..]), (new(18), &[new(19)][..]));
    // A part that does not change, and points to nothing that does, stays in place.
    assert_eq!(places(&all.kept, &all.text), before);
    let (mutex, lock) = all
        .tx(|j, all| {
            let lock = all.lock.read(j);
            (*all.mutex.lock(j), (lock.0, lock.1.to_string(), lock.2))
        })
        .unwrap();
    assert_eq!((mutex, lock), (new(8), (new(9), "ten".into(), new(11))));
    whole(&all);
    assert_eq!(all.migrated().unwrap().steps[0].values, 1 + 1 + 3 + 1 + 2 + 1 + 1 + 1 + 100 + 3 + 2 + 2);
    all.tx(|j, all| {
        all.volatile.set(new(1), j);
        all.ref_cell.borrow_mut(j)[0] = new(2);
    })
    .unwrap();
    drop(all);
    whole(&P::open::<new_forms::All<P>>(&store, "all").unwrap());
}

/// Containers that are called alike, of what changes and of what does not.
#[test]
fn containers_of_types_of_one_name_are_migrated() {
    pool!(P);
    type Both<T> = (Twins<T, P>, Twins<u8, P>);
    let store = store();
    let both =
        P::create::<Both<v1::Price>>(&store, "both", |j| (Twins::new(old, j), Twins::new(|number| 100 + number, j)));
    drop(both.unwrap());
    assert!(description(&store, "both").contains("\nPHashMap<u8, PVec<Price>>#2 48 8\n"));
    let both = P::open_migrating::<Both<v2::Price>>(&store, "both").unwrap();
    assert!(both.0.values().into_iter().copied().eq((1..=12).map(new)));
    assert!(both.1.values().into_iter().copied().eq(101..=112));
    assert_eq!(both.migrated().unwrap().steps[0].values, 12);
    assert!(both.0.sets.0[0].contains_key(&13) && both.1.sets.1[0].contains(&14));
    whole(&both);
    drop(both);
    whole(&P::open::<Both<v2::Price>>(&store, "both").unwrap());
}

/// An `Option` of a type that holds a changed one by value has a layout that no type of the program
/// has; the type that holds it is given a version.
#[test]
fn an_option_of_what_holds_a_changed_value_needs_a_version() {
    mod old_forms {
        use super::*;
        #[derive(PSafe)]
        #[repr(C)]
        pub(crate) struct Tag {
            pub price: v1::Price,
        }
        pub(crate) type Root<P> = PCell<Option<Tag>, P>;
    }
    mod unversioned {
        use super::*;
        #[derive(PSafe)]
        #[repr(C)]
        pub(crate) struct Tag {
            pub price: v2::Price,
        }
        pub(crate) type Root<P> = PCell<Option<Tag>, P>;
    }
    mod versioned {
        use super::*;
        #[derive(PSafe)]
        #[persist(version = 2, from = TagV1)]
        #[repr(C)]
        pub(crate) struct Tag {
            pub price: v2::Price,
        }
        #[derive(PSafe)]
        #[persist(name = "Tag")]
        #[repr(C)]
        pub(crate) struct TagV1 {
            price: v2::PriceV1,
        }
        impl<P: MemPool> Migrate<TagV1, P> for Tag {
            fn migrate(old: TagV1, j: &Journal<P>) -> Tag {
                Tag { price: Migrate::migrate(old.price, j) }
            }
        }
        pub(crate) type Root<P> = PCell<Option<Tag>, P>;
    }
    pool!(P);
    let store = store();
    drop(
        P::create::<old_forms::Root<P>>(&store, "tag", |_| PCell::new(Some(old_forms::Tag { price: old(5) }))).unwrap(),
    );
    let error = P::open_migrating::<unversioned::Root<P>>(&store, "tag").unwrap_err();
    assert!(error.to_string().contains("give the type that holds it a version, too"), "{error}");
    let tag = P::open_migrating::<versioned::Root<P>>(&store, "tag").unwrap();
    let price = tag.tx(|j, tag| tag.replace(None, j).unwrap().price).unwrap();
    assert_eq!(price, new(5));
}
