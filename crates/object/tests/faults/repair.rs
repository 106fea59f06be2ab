//! Repair: the steps of a plan are done, and no others; twice over, by the program's types and by
//! the description alone.

use crate::common::{make_vague, store};
use everbyte_object::{
    Error, FaultKind, Journal, MemPool, PBTreeMap, PHashMap, PRefCell, PSafe, PVec, Pbox, Pool, Prc, RepairPlan, Root,
    UntypedPool, pool, prc,
};
use everbyte_store::Store;
use std::sync::{Mutex, MutexGuard, PoisonError};

pool!(P);

#[derive(PSafe)]
#[repr(C)]
struct World<P: MemPool> {
    all: PRefCell<PVec<Prc<Node<P>, P>, P>, P>,
    seen: PRefCell<PVec<prc::PWeak<Node<P>, P>, P>, P>,
    boxes: PRefCell<PVec<Pbox<u64, P>, P>, P>,
}

/// May lead in a circle.
#[derive(PSafe)]
#[repr(C)]
struct Node<P: MemPool> {
    name: u64,
    next: PRefCell<Option<Prc<Node<P>, P>>, P>,
    own: Pbox<u64, P>,
}

fn node<P: MemPool>(name: u64, next: Option<Prc<Node<P>, P>>, j: &Journal<P>) -> Prc<Node<P>, P> {
    Prc::new(Node { name, next: PRefCell::new(next), own: Pbox::new(name, j) }, j)
}

/// One test at a time has the pool type.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn world(store: &Store) -> Root<World<P>, P> {
    let world = P::create::<World<P>>(store, "world", |j| World {
        all: PRefCell::new(PVec::from_iter([1, 2].map(|name| node(name, None, j)), j)),
        seen: PRefCell::default(),
        boxes: PRefCell::new(PVec::from_iter([Pbox::new(7, j)], j)),
    });
    world.unwrap()
}

fn open(store: &Store) -> Root<World<P>, P> {
    P::open::<World<P>>(store, "world").unwrap()
}

/// A box and a circle without an owner; the circle shares the first node.
fn leak(world: &Root<World<P>, P>) {
    world.tx(|j, _| std::mem::forget(Pbox::new(1u64, j))).unwrap();
    let circle = world.tx(|j, world| {
        let shared = world.all.borrow()[0].pclone(j);
        let last = node(9, Some(shared), j);
        let first = node(8, None, j);
        let middle = node(7, Some(first.pclone(j)), j);
        *first.next.borrow_mut(j) = Some(middle);
        std::mem::forget(last);
    });
    circle.unwrap();
}

/// Repairs by one of the two interfaces; returns the steps done.
fn repair(store: &Store, by_types: bool) -> RepairPlan {
    if by_types {
        let mut world = open(store);
        let plan = world.plan_repair(&|_| ()).unwrap();
        world.repair(plan.token(), &|_| ()).unwrap()
    } else {
        let mut pool = UntypedPool::open(store, "world").unwrap();
        let plan = pool.plan_repair(&|_| ()).unwrap();
        pool.repair(plan.token(), &|_| ()).unwrap()
    }
}

/// Both walks find nothing, and a further plan has nothing to do.
#[track_caller]
fn whole(store: &Store) {
    let world = open(store);
    assert!(world.check().unwrap().is_empty(), "{:?}", world.check());
    assert!(world.plan_repair(&|_| ()).unwrap().is_empty());
    drop(world);
    let pool = UntypedPool::open(store, "world").unwrap();
    assert!(pool.examine(&|_| ()).is_clean() && pool.plan_repair(&|_| ()).unwrap().is_empty());
}

#[test]
fn leaks_are_freed_and_counts_are_mended() {
    let _alone = alone();
    for by_types in [true, false] {
        let store = store();
        let world = world(&store);
        let before = world.examine(&|_| ()).unwrap().reached;
        leak(&world);
        drop(world);
        let done = repair(&store, by_types);
        assert_eq!((done.leaks().count(), done.counts().len()), (1 + 2 * 3, 1), "{done:?}");
        assert_eq!(done.counts()[0].kind, FaultKind::Counts { stored: (2, 0), found: (1, 0) });
        whole(&store);
        let world = open(&store);
        assert_eq!(world.examine(&|_| ()).unwrap().reached, before);
        let names =
            world.tx(|_, world| world.all.borrow().iter().map(|node| node.name + *node.own).collect::<Vec<_>>());
        assert_eq!(names.unwrap(), [2, 4]);
    }
}

#[test]
fn a_pool_in_which_nothing_is_wrong_needs_nothing() {
    let _alone = alone();
    let store = store();
    drop(world(&store));
    whole(&store);
    let allocated = UntypedPool::open(&store, "world").unwrap().allocated().unwrap();
    assert!(repair(&store, true).is_empty() && repair(&store, false).is_empty());
    assert_eq!(UntypedPool::open(&store, "world").unwrap().allocated().unwrap(), allocated);
}

fn forget_a_chain<P: MemPool>(world: &World<P>, length: u64, j: &Journal<P>) {
    let mut next = None;
    for name in 5..5 + length {
        let node = node(name, next.take(), j);
        world.seen.borrow_mut(j).push(node.downgrade(j), j);
        next = Some(node);
    }
    std::mem::forget(next);
}

/// A chain that weak pointers alone lead to, since its owner was forgotten: each of its values
/// holds the next.
#[test]
fn a_value_that_only_weak_pointers_lead_to_is_given_up_with_what_it_holds() {
    let _alone = alone();
    for by_types in [true, false] {
        let store = store();
        let mut world = world(&store);
        world.tx(|j, world| forget_a_chain(world, 40, j)).unwrap();
        drop(world);
        let done = repair(&store, by_types);
        let mended: Vec<_> = done.counts().iter().map(|fault| fault.kind).collect();
        assert_eq!(mended, [FaultKind::Counts { stored: (1, 1), found: (0, 1) }; 40]);
        assert_eq!(done.leaks().count(), 40, "their boxes; the objects stay until the weak pointers go");
        whole(&store);
        world = open(&store);
        let alive = |world: &Root<World<P>, P>| {
            world.tx(|j, world| world.seen.borrow().iter().filter(|weak| weak.upgrade(j).is_some()).count()).unwrap()
        };
        assert_eq!(alive(&world), 0);
        world.tx(|j, world| world.seen.borrow_mut(j).clear(j)).unwrap();
        drop(world);
        whole(&store);
    }
}

/// A circle that holds itself stays, since weak pointers to it are upgraded; so does an object that
/// a lost one shares with another. A value that only lost ones lead to has leaked.
#[test]
fn a_value_that_a_strong_pointer_leads_to_is_not_given_up() {
    let _alone = alone();
    for by_types in [true, false] {
        let store = store();
        let world = world(&store);
        let made = world.tx(|j, world| {
            let mut seen = world.seen.borrow_mut(j);
            let circle = node(5, None, j);
            let other = node(6, Some(circle.pclone(j)), j);
            seen.push(circle.downgrade(j), j);
            *circle.next.borrow_mut(j) = Some(other);
            let lost = node(7, Some(world.all.borrow()[0].pclone(j)), j);
            let head = node(8, Some(node(9, Some(lost.pclone(j)), j)), j);
            seen.push(lost.downgrade(j), j);
            seen.push(head.downgrade(j), j);
            drop((circle, lost));
            std::mem::forget(head);
        });
        made.unwrap();
        drop(world);
        let done = repair(&store, by_types);
        let mut mended: Vec<_> = done.counts().iter().map(|fault| fault.kind).collect();
        mended.sort_by_key(|kind| format!("{kind:?}"));
        let lost = FaultKind::Counts { stored: (1, 1), found: (0, 1) };
        assert_eq!(mended, [lost, lost, FaultKind::Counts { stored: (2, 0), found: (1, 0) }]);
        assert_eq!(done.leaks().count(), 3 + 1, "the boxes of three, and the one between");
        whole(&store);
        let world = open(&store);
        let names = world.tx(|j, world| {
            let seen = world.seen.borrow();
            let names = seen.iter().filter_map(|weak| weak.upgrade(j)).map(|node| (node.name, *node.own));
            names.collect::<Vec<_>>()
        });
        assert_eq!(names.unwrap(), [(5, 5)]);
    }
}

#[test]
fn a_token_is_of_one_plan_for_one_state() {
    let _alone = alone();
    let store = store();
    let mut world = world(&store);
    leak(&world);
    let token = world.plan_repair(&|_| ()).unwrap().token();
    assert_eq!(world.plan_repair(&|_| ()).unwrap().token(), token, "walking again finds the same");
    assert_eq!(token.to_string().parse(), Ok(token));
    let refused = |world: &mut Root<World<P>, P>, token, why: &str| {
        let before = world.examine(&|_| ()).unwrap();
        let error = world.repair(token, &|_| ()).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{error}");
        assert_eq!(world.examine(&|_| ()).unwrap(), before, "{why}");
    };
    // A block more, one leak more, one count more, a reopening.
    world.tx(|j, world| world.boxes.borrow_mut(j).push(Pbox::new(8, j), j)).unwrap();
    refused(&mut world, token, "a block more");
    let token = world.plan_repair(&|_| ()).unwrap().token();
    world.tx(|j, _| std::mem::forget(Pbox::new(1u64, j))).unwrap();
    refused(&mut world, token, "a leak more");
    let token = world.plan_repair(&|_| ()).unwrap().token();
    world.tx(|j, world| std::mem::forget(world.all.borrow()[1].pclone(j))).unwrap();
    refused(&mut world, token, "a count more");
    let token = world.plan_repair(&|_| ()).unwrap().token();
    drop(world);
    let mut world = open(&store);
    refused(&mut world, token, "another opening may hold what this one does not know");
    drop(world);
    repair(&store, true);
    whole(&store);
}

#[test]
fn a_volatile_weak_pointer_to_what_was_freed_is_not_promoted() {
    let _alone = alone();
    let store = store();
    let mut world = world(&store);
    let (gone, kept) = {
        let both = world.tx(|j, world| {
            let circle = node(5, None, j);
            *circle.next.borrow_mut(j) = Some(circle.pclone(j));
            (circle.demote(j), world.all.borrow()[0].demote(j))
        });
        both.unwrap()
    };
    let alive =
        |world: &Root<World<P>, P>| world.tx(|j, _| (gone.promote(j).is_some(), kept.promote(j).is_some())).unwrap();
    assert_eq!(alive(&world), (true, true));
    let token = world.plan_repair(&|_| ()).unwrap().token();
    world.repair(token, &|_| ()).unwrap();
    assert_eq!(alive(&world), (false, true));
    drop(world);
    whole(&store);
}

#[test]
fn thousands_of_leaks_are_freed_in_small_transactions() {
    let _alone = alone();
    let store = store();
    let world = world(&store);
    for _ in 0..30 {
        world.tx(|j, _| (0..100).for_each(|_| std::mem::forget(Pbox::new(1u64, j)))).unwrap();
    }
    drop(world);
    assert_eq!(repair(&store, false).leaks().count(), 3000);
    whole(&store);
}

/// REPAIR-3.
#[test]
fn damage_and_double_owners_are_refused_wholly() {
    let _alone = alone();
    let store = store();
    let world = world(&store);
    leak(&world);
    let place = |at: *const u64| at as u64 - store.media().address().as_ptr() as u64;
    let first = place((&raw const *world.all.borrow()).cast());
    let boxes = place((&raw const *world.boxes.borrow()).cast());
    let node = world.all.borrow()[0].offset();
    drop(world);
    let prime = store.object("world").unwrap().prime();
    let media = store.media();
    let elements = prime + media.load(boxes);
    let refused = |at: u64, value: u64, why: &str| {
        let before = media.load(at);
        media.store(at, value);
        let mut pool = UntypedPool::open(&store, "world").unwrap();
        let report = pool.examine(&|_| ());
        let error = pool.plan_repair(&|_| ()).unwrap_err();
        assert!(matches!(error, Error::Unrepairable { .. }) && error.to_string().contains(why), "{error}");
        assert!(pool.repair("0".parse().unwrap(), &|_| ()).is_err());
        assert_eq!(pool.examine(&|_| ()), report);
        media.store(at, before);
    };
    refused(first + 8, 1000, "a vector longer than its block");
    refused(elements.get(), 1 << 40, "root.boxes[0]: a pointer to");
    refused(elements.get(), node, "owners");
    refused((prime + node).get(), 0, "1 strong pointers to a value that was dropped");
    repair(&store, false);
    whole(&store);
}

#[derive(PSafe)]
#[repr(C)]
struct Maps<P: MemPool> {
    hashed: PRefCell<PHashMap<u64, Pbox<u64, P>, P>, P>,
    sorted: PRefCell<PBTreeMap<u64, Pbox<u64, P>, P>, P>,
}

/// Any line of the description about maps.
#[test]
fn what_maps_hold_is_never_freed() {
    pool!(M);
    let store = store();
    let maps =
        M::create::<Maps<M>>(&store, "maps", |_| Maps { hashed: PRefCell::default(), sorted: PRefCell::default() });
    let mut maps = maps.unwrap();
    maps.tx(|j, maps| {
        for key in 0..100 {
            maps.hashed.borrow_mut(j).insert(key, Pbox::new(key, j), j);
            maps.sorted.borrow_mut(j).insert(key, Pbox::new(key, j), j);
        }
        std::mem::forget(Pbox::new(1u64, j));
    })
    .unwrap();
    let before = maps.examine(&|_| ()).unwrap();
    drop(maps);
    let mut pool = UntypedPool::open(&store, "maps").unwrap();
    match pool.plan_repair(&|_| ()) {
        Ok(plan) => assert_eq!(pool.repair(plan.token(), &|_| ()).unwrap().leaks().count(), 1),
        Err(error) => assert!(error.to_string().contains("does not tell what values of"), "{error}"),
    }
    drop(pool);
    maps = M::open::<Maps<M>>(&store, "maps").unwrap();
    let token = maps.plan_repair(&|_| ()).unwrap().token();
    maps.repair(token, &|_| ()).unwrap();
    let after = maps.examine(&|_| ()).unwrap();
    assert!(after.is_clean() && after.reached == before.reached, "{after:?}");
    let (hashed, sorted) = (maps.hashed.borrow(), maps.sorted.borrow());
    assert!((0..100).all(|key| [hashed.get(&key), sorted.get(&key)].iter().all(|found| **found.unwrap() == key)));
}

type Two<P> = (Pbox<u64, P>, Pbox<(u64, u64), P>);

#[derive(PSafe)]
#[repr(C)]
struct Unclear<P: MemPool> {
    /// A description of format 1 does not say how it tells `None`.
    both: PRefCell<Option<Two<P>>, P>,
}

/// REPAIR-3.
#[test]
fn what_the_description_does_not_explain_only_the_program_repairs() {
    pool!(U);
    let store = store();
    let unclear = U::create::<Unclear<U>>(&store, "unclear", |j| Unclear {
        both: PRefCell::new(Some((Pbox::new(1, j), Pbox::new((2, 3), j)))),
    });
    drop(unclear.unwrap());
    make_vague(&store, "unclear");
    let mut pool = UntypedPool::open(&store, "unclear").unwrap();
    assert!(pool.plan_repair(&|_| ()).unwrap().is_empty(), "nothing is known to be wrong");
    drop(pool);
    let mut unclear = U::open::<Unclear<U>>(&store, "unclear").unwrap();
    unclear.tx(|j, _| std::mem::forget(Pbox::new(1u64, j))).unwrap();
    drop(unclear);
    pool = UntypedPool::open(&store, "unclear").unwrap();
    let error = pool.plan_repair(&|_| ()).unwrap_err().to_string();
    assert!(error.contains("does not tell what values of `Option<(Pbox<u64>, Pbox<(u64, u64)>)>` hold"), "{error}");
    drop(pool);
    unclear = U::open::<Unclear<U>>(&store, "unclear").unwrap();
    let token = unclear.plan_repair(&|_| ()).unwrap().token();
    assert_eq!(unclear.repair(token, &|_| ()).unwrap().leaks().count(), 1);
    assert!(unclear.check().unwrap().is_empty());
}
