//! Queues whose elements have changed.
#![allow(clippy::type_complexity)] // a root with a queue of each form

use crate::common::store;
use crate::whole;
use everbyte_object::layout::{HEADER, Header};
use everbyte_object::{
    Error, Journal, MemPool, Migrate, PBTreeMap, PRefCell, PSafe, PString, PVec, PVecDeque, Pbox, Pool, Prc, pool,
};
use std::mem::offset_of;

mod v1 {
    use super::*;
    #[derive(PSafe)]
    #[repr(C)]
    pub(super) struct Job<P: MemPool> {
        pub number: u32,
        pub text: PString<P>,
    }
    pub(super) type Root<P> = super::Root<Job<P>, P>;
}

mod v2 {
    use super::*;
    #[derive(PSafe)]
    #[persist(version = 2, from = Old<P>)]
    #[repr(C)]
    pub(super) struct Job<P: MemPool> {
        pub text: PString<P>,
        pub number: u64,
        pub more: [u64; 5],
    }
    #[derive(PSafe)]
    #[persist(version = 1, name = "Job")]
    #[repr(C)]
    pub(super) struct Old<P: MemPool> {
        number: u32,
        text: PString<P>,
    }
    impl<P: MemPool> Migrate<Old<P>, P> for Job<P> {
        fn migrate(old: Old<P>, _: &Journal<P>) -> Self {
            assert!(old.number < 1000, "too large a number");
            Job { text: old.text, number: old.number.into(), more: [7; 5] }
        }
    }
    pub(super) type Root<P> = super::Root<Job<P>, P>;
}

/// A newer program whose jobs have no bytes.
mod v3 {
    use super::*;
    #[derive(PSafe)]
    #[persist(version = 3, from = Old<P>)]
    #[repr(C)]
    pub(super) struct Job<P: MemPool>(std::marker::PhantomData<P>);
    #[derive(PSafe)]
    #[persist(version = 1, name = "Job")]
    #[repr(C)]
    pub(super) struct Old<P: MemPool> {
        number: u32,
        text: PString<P>,
    }
    impl<P: MemPool> Migrate<Old<P>, P> for Job<P> {
        fn migrate(_: Old<P>, _: &Journal<P>) -> Self {
            Job(std::marker::PhantomData)
        }
    }
    pub(super) type Root<P> = super::Root<Job<P>, P>;
}

#[derive(PSafe)]
#[repr(C)]
struct Root<T: PSafe<P>, P: MemPool> {
    /// Its ring wraps.
    wrapped: PRefCell<PVecDeque<T, P>, P>,
    /// It fills its block.
    full: PVecDeque<T, P>,
    boxed: PVecDeque<Option<Pbox<T, P>>, P>,
    shared: (PVecDeque<Prc<T, P>, P>, PVec<Prc<T, P>, P>),
    nested: PBTreeMap<u8, PVecDeque<PVecDeque<T, P>, P>, P>,
    empty: PVecDeque<T, P>,
    /// A block without elements.
    emptied: PVecDeque<T, P>,
    same: PVecDeque<u32, P>,
}

const COUNT: u32 = 100;

fn old<P: MemPool>(large: u32, j: &Journal<P>) -> v1::Root<P> {
    let job = |number: u32| {
        let value = if number == large { 1000 } else { number };
        v1::Job { number: value, text: PString::from(number.to_string(), j) }
    };
    let mut wrapped = PVecDeque::with_capacity(128, j);
    (0..COUNT / 2).rev().for_each(|number| wrapped.push_front(job(number), j));
    (COUNT / 2..COUNT).for_each(|number| wrapped.push_back(job(number), j));
    let (mut full, mut number) = (PVecDeque::with_capacity(20, j), 0);
    while full.len() < full.capacity() {
        full.push_back(job(number), j);
        number += 1;
    }
    let mut emptied = PVecDeque::from((0..9).map(job), j);
    emptied.clear(j);
    let shared = PVec::from((0..5).map(|number| Prc::new(job(number), j)), j);
    let inner = || PVecDeque::from((0..4).map(|_| PVecDeque::from((0..3).map(job), j)), j);
    Root {
        wrapped: PRefCell::new(wrapped),
        full,
        boxed: PVecDeque::from((0..COUNT).map(|n| (n % 2 == 0).then(|| Pbox::new(job(n), j))), j),
        shared: (PVecDeque::from(shared.iter().map(|one| one.pclone(j)), j), shared),
        nested: PBTreeMap::from_iter((0..10).map(|key| (key, inner())), j),
        empty: PVecDeque::new(),
        emptied,
        same: PVecDeque::from(0..COUNT, j),
    }
}

#[test]
fn queues_are_migrated_with_their_elements_in_order() {
    pool!(P);
    let store = store();
    let root = P::create::<v1::Root<P>>(&store, "jobs", |j| old(COUNT, j)).unwrap();
    assert!(!root.wrapped.borrow().as_slices().1.is_empty(), "the ring wraps");
    let full = root.full.len();
    drop(root);
    let rehearsed = P::rehearse_migration::<v2::Root<P>>(&store, "jobs").unwrap();
    drop(P::open::<v1::Root<P>>(&store, "jobs").unwrap());
    let root = P::open_migrating::<v2::Root<P>>(&store, "jobs").unwrap();
    assert_eq!(root.migrated().unwrap().steps, rehearsed.steps);
    assert_eq!(rehearsed.steps[0].values, (100 + full + 50 + 5 + 10 * 4 * 3) as u64);
    whole(&root);
    let is = |job: &v2::Job<P>, number: usize| {
        assert_eq!((job.number, job.text.as_str(), job.more), (number as u64, &*number.to_string(), [7; 5]));
    };
    root.wrapped.borrow().iter().enumerate().for_each(|(index, job)| is(job, index));
    root.full.iter().enumerate().for_each(|(index, job)| is(job, index));
    for (index, job) in root.boxed.iter().enumerate() {
        assert_eq!(job.is_some(), index % 2 == 0);
        job.iter().for_each(|job| is(job, index));
    }
    assert_eq!((root.wrapped.borrow().len(), root.full.len(), root.boxed.len()), (100, full, 100));
    assert!(root.shared.0.iter().zip(&root.shared.1).all(|(one, other)| one.ptr_eq(other)));
    let inner: Vec<_> = root.nested.values().flatten().collect();
    assert_eq!(inner.len(), 40);
    inner.into_iter().for_each(|inner| inner.iter().enumerate().for_each(|(index, job)| is(job, index)));
    assert_eq!((root.empty.len(), root.emptied.len()), (0, 0));
    assert!(root.same.iter().copied().eq(0..COUNT));
    root.tx(|j, root| {
        let mut queue = root.wrapped.borrow_mut(j);
        let first = queue.pop_front(j).unwrap();
        queue.push_back(first, j);
        let last = queue.pop_back(j).unwrap();
        (0..COUNT).for_each(|_| queue.push_front(v2::Job { text: PString::new(), number: 5, more: [1; 5] }, j));
        queue.push_front(last, j);
        assert_eq!(queue.drain(1..=COUNT as usize, j).len(), 100);
    })
    .unwrap();
    drop(root);
    let root = P::open::<v2::Root<P>>(&store, "jobs").unwrap();
    root.wrapped.borrow().iter().enumerate().for_each(|(index, job)| is(job, index));
    whole(&root);
}

#[test]
fn a_panic_in_the_middle_of_a_queue_rolls_everything_back() {
    pool!(P);
    let store = store();
    drop(P::create::<v1::Root<P>>(&store, "jobs", |j| old(90, j)).unwrap());
    let error = P::open_migrating::<v2::Root<P>>(&store, "jobs").unwrap_err();
    assert!(matches!(error, Error::Panicked { .. }), "{error}");
    let root = P::open::<v1::Root<P>>(&store, "jobs").unwrap();
    assert_eq!((root.wrapped.borrow()[90].number, root.wrapped.borrow()[89].number), (1000, 89));
    whole(&root);
}

/// Elements that lose their bytes are still as many.
#[test]
fn a_queue_of_elements_without_bytes_keeps_its_length() {
    pool!(P);
    let store = store();
    drop(P::create::<v1::Root<P>>(&store, "jobs", |j| old(COUNT, j)).unwrap());
    let root = P::open_migrating::<v3::Root<P>>(&store, "jobs").unwrap();
    assert_eq!((root.wrapped.borrow().len(), root.empty.len()), (100, 0));
    whole(&root);
    root.tx(|j, root| assert!(root.wrapped.borrow_mut(j).pop_front(j).is_some())).unwrap();
    assert_eq!(root.wrapped.borrow().len(), 99);
    whole(&root);
}

/// A queue whose words lead nowhere, or contradict its block, is damage, and nothing changes.
#[test]
fn damaged_queues_are_not_migrated() {
    pool!(P);
    let (wrapped, empty) = (offset_of!(v1::Root<P>, wrapped), offset_of!(v1::Root<P>, empty));
    for (at, bad) in [
        (wrapped, 0),
        (wrapped, 24),
        (wrapped + 8, u64::MAX),
        (wrapped + 8, 1 << 20),
        (wrapped + 16, u64::MAX),
        (wrapped + 16, 1 << 40),
        (wrapped + 16, 0),
        (wrapped + 24, 1 << 20),
        (wrapped + 24, u64::MAX),
        (empty + 8, 1),
        (empty + 16, 8),
        (empty + 24, 1),
    ] {
        let store = store();
        drop(P::create::<v1::Root<P>>(&store, "jobs", |j| old(COUNT, j)).unwrap());
        let prime = store.object("jobs").unwrap().prime();
        let header: Header = store.media().get(prime + HEADER);
        let word = prime + header.root + at as u64;
        let before = store.media().load(word);
        store.media().store(word, bad);
        let error = P::open_migrating::<v2::Root<P>>(&store, "jobs").unwrap_err();
        assert!(matches!(error, Error::Damaged(_)), "{bad} at {at}: {error}");
        store.media().store(word, before);
        whole(&P::open::<v1::Root<P>>(&store, "jobs").unwrap());
        whole(&P::open_migrating::<v2::Root<P>>(&store, "jobs").unwrap());
    }
}
