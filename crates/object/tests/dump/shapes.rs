//! Chains, trees and graphs: deeper than JSON may nest, shared, and in circles.

use crate::common::store;
use crate::{copy, dump};
use everbyte_object::{
    Journal, MemPool, PBTreeMap, PHashMap, PRefCell, PSafe, PVec, PVecDeque, Parc, Pbox, Pool, Prc, parc, pool, prc,
};

pool!(P1, P2, P3, P4);

#[derive(PSafe)]
#[repr(C)]
struct Link<P: MemPool> {
    number: u32,
    next: Option<Pbox<Link<P>, P>>,
}

#[test]
fn a_long_chain_is_cut_into_lines() {
    let store = store();
    let chain = P1::create::<Option<Pbox<Link<P1>, P1>>>(&store, "chain", |j| {
        (0..10_000).rev().fold(None, |next, number| Some(Pbox::new(Link { number, next }, j)))
    });
    drop(chain.unwrap());
    let lines = copy(&store, "chain", "copy");
    assert!((400..2000).contains(&lines.len()), "{}", lines.len());
    let found = P1::open::<Option<Pbox<Link<P1>, P1>>>(&store, "copy").unwrap();
    let (mut at, mut count) = (&*found, 0);
    while let Some(link) = at {
        assert_eq!(link.number, count);
        (at, count) = (&link.next, count + 1);
    }
    assert_eq!(count, 10_000);
}

#[derive(PSafe, Default)]
#[repr(C)]
struct Tree<P: MemPool> {
    number: u32,
    vector: PVec<Tree<P>, P>,
    queue: PVecDeque<Tree<P>, P>,
    hashed: PHashMap<u8, Tree<P>, P>,
    ordered: PBTreeMap<u8, Tree<P>, P>,
}

/// A tree that goes down through each kind of collection in turn.
fn tree<P: MemPool>(depth: u32, j: &Journal<P>) -> Tree<P> {
    let mut at = Tree::default();
    for number in 0..depth {
        let below = std::mem::replace(&mut at, Tree { number, ..Tree::default() });
        match number % 4 {
            0 => at.vector.push(below, j),
            1 => at.queue.push_back(below, j),
            2 => drop(at.hashed.insert(1, below, j)),
            _ => drop(at.ordered.insert(2, below, j)),
        }
    }
    at
}

#[test]
fn deep_collections_are_cut_into_lines() {
    let store = store();
    drop(P2::create::<Tree<P2>>(&store, "tree", |j| tree(400, j)).unwrap());
    let lines = copy(&store, "tree", "copy");
    let kinds = ["PVec<Tree>", "PVecDeque<Tree>", "PHashMap<u8, Tree>", "PBTreeMap<u8, Tree>"];
    let cut = kinds.iter().filter(|kind| lines.iter().any(|line| line.contains(&format!("\"owned\":\"{kind}\""))));
    assert!(cut.count() >= 1);
    let found = P2::open::<Tree<P2>>(&store, "copy").unwrap();
    let (mut at, mut depth) = (Some(&*found), 0);
    while let Some(tree) = at {
        depth += 1;
        let maps = tree.hashed.values().chain(tree.ordered.values());
        at = tree.vector.iter().chain(&tree.queue).chain(maps).next();
    }
    assert_eq!(depth, 401);
}

#[derive(PSafe)]
#[repr(C)]
struct Person<P: MemPool> {
    name: u64,
    friends: PRefCell<PVec<Prc<Person<P>, P>, P>, P>,
    parent: PRefCell<Option<prc::PWeak<Person<P>, P>>, P>,
}

#[derive(PSafe)]
#[repr(C)]
struct Town<P: MemPool> {
    people: PVec<Prc<Person<P>, P>, P>,
    shared: [Parc<u8, P>; 2],
    gone: PRefCell<Option<parc::PWeak<u8, P>>, P>,
}

#[test]
fn shared_values_stay_shared() {
    let store = store();
    let town = P3::create::<Town<P3>>(&store, "town", |j| {
        let person = |name| Prc::new(Person { name, friends: PRefCell::default(), parent: PRefCell::new(None) }, j);
        let people = PVec::from_iter((0..4).map(person), j);
        for person in 1..4 {
            *people[person].parent.borrow_mut(j) = Some(people[person - 1].downgrade(j));
            people[person].friends.borrow_mut(j).push(people[person - 1].pclone(j), j);
        }
        people[0].friends.borrow_mut(j).push(people[0].pclone(j), j); // a circle
        let number = Parc::new(5, j);
        Town { people, shared: [number.pclone(j), number], gone: PRefCell::new(None) }
    })
    .unwrap();
    town.tx(|j, town| *town.gone.borrow_mut(j) = Some(Parc::new(9, j).downgrade(j))).unwrap();
    drop(town);
    let lines = copy(&store, "town", "copy");
    assert_eq!(lines.iter().filter(|line| line.contains("\"shared\":\"")).count(), 6);
    assert_eq!(lines.iter().filter(|line| line.contains("\"dropped\":true")).count(), 1);
    let town = P3::open::<Town<P3>>(&store, "copy").unwrap();
    town.tx(|j, town| {
        assert_eq!((town.shared[0].counts(j), *town.shared[1]), ((2, 0), 5));
        assert!(town.shared[0].ptr_eq(&town.shared[1]));
        assert!(town.gone.borrow().as_ref().unwrap().upgrade(j).is_none());
        let counts: Vec<_> = town.people.iter().map(|person| person.counts(j)).collect();
        assert_eq!(counts, [(3, 1), (2, 1), (2, 1), (1, 0)]);
        for person in 1..4 {
            let parent = town.people[person].parent.borrow().as_ref().unwrap().upgrade(j).unwrap();
            assert_eq!(parent.name, person as u64 - 1);
            assert!(town.people[person].friends.borrow()[0].ptr_eq(&parent));
        }
    })
    .unwrap();
    assert!(town.check().unwrap().is_empty());
}

/// A dump of a pool is the same when it is made again.
#[test]
fn a_dump_is_deterministic() {
    let store = store();
    drop(P4::create::<Tree<P4>>(&store, "tree", |j| tree(100, j)).unwrap());
    assert_eq!(dump(&store, "tree"), dump(&store, "tree"));
}
