//! Shared objects: migrated once, so that pointers that were equal are equal; counts and weak
//! pointers stay right.

use crate::common::store;
use crate::whole;
use everbyte_object::parc::PWeak as ArcWeak;
use everbyte_object::prc::PWeak;
use everbyte_object::{Error, Journal, MemPool, Migrate, PMutex, PRefCell, PSafe, PVec, Parc, Pool, Prc, pool};

/// A tree of counted nodes whose children know their parents.
mod v1 {
    use super::*;
    #[derive(PSafe)]
    #[repr(C)]
    pub(super) struct Node<P: MemPool> {
        pub n: u8,
        pub parent: Option<PWeak<Node<P>, P>>,
        pub children: PRefCell<PVec<Prc<Node<P>, P>, P>, P>,
    }
    #[derive(PSafe)]
    #[repr(C)]
    pub(super) struct Root<P: MemPool> {
        pub tree: Prc<Node<P>, P>,
        pub again: Prc<Node<P>, P>,
        pub dead: PWeak<Node<P>, P>,
        pub jobs: PVec<Parc<PMutex<Job, P>, P>, P>,
        pub watched: ArcWeak<PMutex<Job, P>, P>,
    }
    #[derive(PSafe)]
    #[repr(C)]
    pub(super) struct Job {
        pub id: u8,
    }
}

mod v2 {
    use super::*;
    #[derive(PSafe)]
    #[persist(version = 2, from = NodeV1<P>)]
    #[repr(C)]
    pub(super) struct Node<P: MemPool> {
        pub n: u64,
        pub parent: Option<PWeak<Node<P>, P>>,
        pub children: PRefCell<PVec<Prc<Node<P>, P>, P>, P>,
        /// Whether the parent was there when this was migrated.
        pub saw_parent: bool,
    }
    #[derive(PSafe)]
    #[persist(name = "Node")]
    #[repr(C)]
    pub(super) struct NodeV1<P: MemPool> {
        n: u8,
        parent: Option<PWeak<Node<P>, P>>,
        children: PRefCell<PVec<Prc<Node<P>, P>, P>, P>,
    }
    impl<P: MemPool> Migrate<NodeV1<P>, P> for Node<P> {
        fn migrate(old: NodeV1<P>, j: &Journal<P>) -> Node<P> {
            let saw_parent = old.parent.as_ref().is_some_and(|parent| parent.upgrade(j).is_some());
            Node { n: u64::from(old.n) * 10, parent: old.parent, children: old.children, saw_parent }
        }
    }
    #[derive(PSafe)]
    #[repr(C)]
    pub(super) struct Root<P: MemPool> {
        pub tree: Prc<Node<P>, P>,
        pub again: Prc<Node<P>, P>,
        pub dead: PWeak<Node<P>, P>,
        pub jobs: PVec<Parc<PMutex<Job, P>, P>, P>,
        pub watched: ArcWeak<PMutex<Job, P>, P>,
    }
    #[derive(PSafe)]
    #[persist(version = 2, from = JobV1)]
    #[repr(C)]
    pub(super) struct Job {
        pub id: u64,
        pub tries: u32,
    }
    #[derive(PSafe)]
    #[persist(name = "Job")]
    #[repr(C)]
    pub(super) struct JobV1 {
        id: u8,
    }
    impl<P: MemPool> Migrate<JobV1, P> for Job {
        fn migrate(old: JobV1, _: &Journal<P>) -> Job {
            Job { id: old.id.into(), tries: 0 }
        }
    }
}

fn child<P: MemPool>(parent: &Prc<v1::Node<P>, P>, n: u8, j: &Journal<P>) -> Prc<v1::Node<P>, P> {
    let children = PRefCell::new(PVec::new());
    let child = Prc::new(v1::Node { n, parent: Some(parent.downgrade(j)), children }, j);
    parent.children.borrow_mut(j).push(child.pclone(j), j);
    child
}

#[test]
fn shared_objects_are_migrated_once() {
    pool!(P);
    let store = store();
    let root = P::create::<v1::Root<P>>(&store, "root", |j| {
        let tree = Prc::new(v1::Node { n: 1, parent: None, children: PRefCell::new(PVec::new()) }, j);
        let second = child(&tree, 2, j);
        child(&second, 3, j);
        let dead = Prc::new(v1::Node { n: 9, parent: None, children: PRefCell::new(PVec::new()) }, j);
        let jobs = PVec::from_iter([1, 2].map(|id| Parc::new(PMutex::new(v1::Job { id }), j)), j);
        v1::Root { tree, again: second, dead: dead.downgrade(j), watched: jobs[1].downgrade(j), jobs }
    });
    drop(root.unwrap());
    let root = P::open_migrating::<v2::Root<P>>(&store, "root").unwrap();
    whole(&root);
    root.tx(|j, root| {
        let second = root.tree.children.borrow()[0].pclone(j);
        assert!(second.ptr_eq(&root.again));
        assert_eq!(second.counts(j), (3, 1), "the root's, the parent's, and this one");
        assert!(second.parent.as_ref().unwrap().upgrade(j).unwrap().ptr_eq(&root.tree));
        let third = second.children.borrow()[0].pclone(j);
        assert_eq!((root.tree.n, second.n, third.n), (10, 20, 30));
        assert!(third.parent.as_ref().unwrap().upgrade(j).unwrap().ptr_eq(&second));
        assert!(!second.saw_parent && !third.saw_parent, "a parent is made after its children");
        assert!(root.dead.upgrade(j).is_none());
        let job = root.watched.upgrade(j).unwrap();
        assert!(job.ptr_eq(&root.jobs[1]));
        assert_eq!((job.lock(j).id, root.jobs[0].lock(j).id), (2, 1));
    })
    .unwrap();
    assert_eq!(root.migrated().unwrap().steps.iter().map(|step| step.values).sum::<u64>(), 3 + 2);
    // The counts that were taken over let everything go again.
    drop(root);
    let root = P::open::<v2::Root<P>>(&store, "root").unwrap();
    root.tx(|j, root| drop(root.tree.children.borrow_mut(j).pop(j))).unwrap();
    whole(&root);
}

/// A circle of strong pointers has no first object; it is refused, and nothing has changed.
#[test]
fn a_circle_of_strong_pointers_is_refused() {
    pool!(P);
    let store = store();
    let node = P::create::<Prc<v1::Node<P>, P>>(&store, "ring", |j| {
        let first = Prc::new(v1::Node { n: 1, parent: None, children: PRefCell::new(PVec::new()) }, j);
        let second = child(&first, 2, j);
        second.children.borrow_mut(j).push(first.pclone(j), j);
        first
    });
    drop(node.unwrap());
    let error = P::open_migrating::<Prc<v2::Node<P>, P>>(&store, "ring").unwrap_err();
    assert!(matches!(error, Error::Circle { .. }), "{error}");
    let node = P::open::<Prc<v1::Node<P>, P>>(&store, "ring").unwrap();
    whole(&node);
    node.tx(|j, node| node.children.borrow_mut(j).clear(j)).unwrap();
    drop(node);
    let node = P::open_migrating::<Prc<v2::Node<P>, P>>(&store, "ring").unwrap();
    assert_eq!(node.n, 10);
}

/// A shared object that only weak pointers reach, since its strong one was forgotten, is migrated
/// with them.
#[test]
fn what_weak_pointers_keep_in_sight_is_migrated() {
    pool!(P);
    let store = store();
    type Old = PWeak<v1::Job, P>;
    let weak = P::create::<Old>(&store, "weak", |j| {
        let job = Prc::new(v1::Job { id: 5 }, j);
        let weak = job.downgrade(j);
        std::mem::forget(job);
        weak
    });
    drop(weak.unwrap());
    let weak = P::open_migrating::<PWeak<v2::Job, P>>(&store, "weak").unwrap();
    assert_eq!(weak.tx(|j, weak| weak.upgrade(j).map(|job| job.id)).unwrap(), Some(5));
}

/// One object cannot be taken as two types.
#[test]
fn a_shared_object_is_of_one_type() {
    mod both {
        use super::*;
        #[derive(PSafe)]
        #[repr(C)]
        pub(crate) struct Pair<P: MemPool> {
            pub one: Prc<v2::Job, P>,
            pub other: Prc<v2::JobV1, P>,
        }
    }
    mod before {
        use super::*;
        #[derive(PSafe)]
        #[repr(C)]
        pub(crate) struct Pair<P: MemPool> {
            pub one: Prc<v1::Job, P>,
            pub other: Prc<v1::Job, P>,
        }
    }
    pool!(P);
    let store = store();
    let pair = P::create::<before::Pair<P>>(&store, "pair", |j| {
        let one = Prc::new(v1::Job { id: 5 }, j);
        before::Pair { other: one.pclone(j), one }
    });
    drop(pair.unwrap());
    let error = P::open_migrating::<both::Pair<P>>(&store, "pair").unwrap_err();
    assert!(error.to_string().contains("shared objects `Job` are"), "{error}");
}
