//! Cases of migration: a pool of an older program is changed, migrated and changed again, and
//! crashes at every step. The older program or the newer one can open what is left, and it is what
//! was settled.

use crate::object::{Explored, image, is_whole};
use everbyte_media::Media;
use everbyte_object::prc::PWeak;
use everbyte_object::{
    Error, Journal, MemPool, Migrate, PBTreeMap, PHashMap, PRefCell, PSafe, PString, PVec, PVecDeque, Pbox, Pool, Prc,
};
use everbyte_sim::{Explorer, Failure, Order, Report, Seen};
use everbyte_store::Store;

type Slot<T, P> = PRefCell<Option<T>, P>;

/// The root of both programs, around a `Node` of their own.
macro_rules! root {
    () => {
        #[derive(PSafe)]
        #[repr(C)]
        pub(super) struct Root<P: MemPool> {
            pub nodes: PRefCell<PVec<Prc<Node<P>, P>, P>, P>,
            /// Shares the first.
            pub first: Slot<Prc<Node<P>, P>, P>,
            pub weak: Slot<PWeak<Node<P>, P>, P>,
            pub own: Slot<Pbox<Node<P>, P>, P>,
            pub kept: PRefCell<PVec<PString<P>, P>, P>,
            pub hashed: PRefCell<PHashMap<u32, Node<P>, P>, P>,
            pub ordered: PRefCell<PBTreeMap<PString<P>, Pbox<Node<P>, P>, P>, P>,
            /// The last node goes to the front, so the ring wraps.
            pub queue: PRefCell<PVecDeque<Node<P>, P>, P>,
        }

        pub(super) fn add<P: MemPool>(root: &Root<P>, val: u32, j: &Journal<P>) {
            let text = val.to_string();
            let node = Prc::new(Node::new(val, j), j);
            let mut first = root.first.borrow_mut(j);
            if first.is_none() {
                *root.weak.borrow_mut(j) = Some(node.downgrade(j));
                *first = Some(node.pclone(j));
            }
            root.nodes.borrow_mut(j).push(node, j);
            *root.own.borrow_mut(j) = Some(Pbox::new(Node::new(val, j), j));
            root.queue.borrow_mut(j).push_front(Node::new(val, j), j);
            root.kept.borrow_mut(j).push(PString::from_str(&text, j), j);
            root.hashed.borrow_mut(j).insert(val, Node::new(val, j), j);
            root.ordered.borrow_mut(j).insert(PString::from_str(&text, j), Pbox::new(Node::new(val, j), j), j);
        }

        /// Its contents; an error if parts contradict each other.
        pub(super) fn read<P: MemPool>(root: &Root<P>, j: &Journal<P>) -> Result<Vec<u32>, String> {
            let nodes = root.nodes.borrow();
            let all: Vec<u32> = nodes.iter().map(|node| node.read()).collect::<Result<_, _>>()?;
            let texts: Vec<String> = root.kept.borrow().iter().map(|text| text.to_string()).collect();
            let own = root.own.borrow().as_ref().map(|own| own.read()).transpose()?;
            let first = root.first.borrow();
            let weak = root.weak.borrow().as_ref().and_then(|weak| weak.upgrade(j));
            let is_shared = match (&*first, &weak) {
                (Some(first), Some(weak)) => first.ptr_eq(weak) && first.ptr_eq(&nodes[0]),
                (None, None) => nodes.is_empty(),
                _ => false,
            };
            let (hashed, ordered) = (root.hashed.borrow(), root.ordered.borrow());
            for val in &all {
                let found =
                    (hashed.get(val).map(Node::read), ordered.get(val.to_string().as_str()).map(|node| node.read()));
                if found != (Some(Ok(*val)), Some(Ok(*val))) {
                    return Err(format!("the maps have {found:?} for {val}"));
                }
            }
            let is_shared = is_shared && hashed.len() == all.len() && ordered.len() == all.len();
            let queue = root.queue.borrow().iter().rev().map(Node::read).collect::<Result<Vec<_>, _>>()?;
            let agrees = queue == all
                && texts == all.iter().map(u32::to_string).collect::<Vec<_>>()
                && own == all.last().copied();
            if is_shared && agrees { Ok(all) } else { Err(format!("{all:?}, {texts:?}, {own:?}, {is_shared}")) }
        }
    };
}

mod v1 {
    use super::*;
    root!();

    #[derive(PSafe)]
    #[repr(C)]
    pub(super) struct Node<P: MemPool> {
        val: u32,
        name: PString<P>,
    }

    impl<P: MemPool> Node<P> {
        pub(super) fn new(val: u32, j: &Journal<P>) -> Self {
            Node { val, name: PString::from_str(&format!("{val}-{val}"), j) }
        }

        pub(super) fn read(&self) -> Result<u32, String> {
            let named = *self.name == *format!("{0}-{0}", self.val);
            if named { Ok(self.val) } else { Err(format!("{} is called {}", self.val, self.name)) }
        }
    }
}

mod v2 {
    use super::*;
    root!();

    #[derive(PSafe)]
    #[persist(version = 2, from = NodeV1<P>)]
    #[repr(C)]
    pub(super) struct Node<P: MemPool> {
        one: PString<P>,
        other: PString<P>,
        val: u64,
    }

    #[derive(PSafe)]
    #[persist(version = 1, name = "Node")]
    #[repr(C)]
    struct NodeV1<P: MemPool> {
        val: u32,
        name: PString<P>,
    }

    impl<P: MemPool> Migrate<NodeV1<P>, P> for Node<P> {
        fn migrate(old: NodeV1<P>, j: &Journal<P>) -> Self {
            let (one, other) = old.name.split_once('-').expect("a name of two parts");
            Node { one: PString::from_str(one, j), other: PString::from_str(other, j), val: u64::from(old.val) << 32 }
        }
    }

    impl<P: MemPool> Node<P> {
        pub(super) fn new(val: u32, j: &Journal<P>) -> Self {
            let name = || PString::from_str(&val.to_string(), j);
            Node { one: name(), other: name(), val: u64::from(val) << 32 }
        }

        pub(super) fn read(&self) -> Result<u32, String> {
            let val = (self.val >> 32) as u32;
            let named = [&self.one, &self.other].iter().all(|name| ***name == *val.to_string());
            if named { Ok(val) } else { Err(format!("{val} is called {} {}", self.one, self.other)) }
        }
    }
}

/// The contents of the pool, and the program that they belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Plain {
    all: Vec<u32>,
    is_new: bool,
}

/// The program: the older one adds, the newer one migrates, perhaps after a rehearsal, and adds.
fn explore(
    explorer: &Explorer,
    initial: &Plain,
    rehearse: bool,
    observe: fn(Media, &Seen) -> Result<Plain, String>,
) -> Result<Report, Box<Failure>> {
    let before = image::<v1::Root<Explored>>(|_| v1::Root {
        nodes: PRefCell::default(),
        first: PRefCell::default(),
        weak: PRefCell::default(),
        own: PRefCell::default(),
        kept: PRefCell::default(),
        hashed: PRefCell::default(),
        ordered: PRefCell::default(),
        queue: PRefCell::default(),
    });
    explorer.explore_twin(
        &before,
        initial,
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            // the run before may have added it
            let left = |val: &u32| !twin.model().all.contains(val);
            match Explored::open::<v1::Root<Explored>>(&store, "graph") {
                Ok(root) => {
                    for val in [3, 5, 7].into_iter().filter(left) {
                        let add = || root.tx(|j, root| v1::add(root, val, j)).expect("room");
                        twin.step_here(format!("add {val}"), move |plain| plain.all.push(val), add);
                    }
                    drop(root);
                    if rehearse {
                        let rehearsed = Explored::rehearse_migration::<v2::Root<Explored>>(&store, "graph");
                        assert_eq!(rehearsed.expect("room").steps[0].values, 13);
                    }
                }
                // A run after a crash in the migration or behind it: the older program is not
                // started again.
                Err(Error::NewerVersion { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            let migrate = || Explored::open_migrating::<v2::Root<Explored>>(&store, "graph").expect("room");
            let root = twin.step_here("migrate", |plain| plain.is_new = true, migrate);
            for val in [9].into_iter().filter(left) {
                let add = || root.tx(|j, root| v2::add(root, val, j)).expect("room");
                twin.step_here("add 9", |plain| plain.all.push(9), add);
            }
        },
        observe,
    )
}

/// The program whose pool it is opens it; the other one refuses it.
pub(crate) fn migrate(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(&explorer, &Plain::default(), false, |media, seen| {
        let store = Store::attach(media).map_err(|error| error.to_string())?;
        match Explored::open::<v1::Root<Explored>>(&store, "graph") {
            Ok(root) => {
                seen.recovered();
                is_whole(&root)?;
                let all = root.tx(|j, root| v1::read(root, j)).map_err(|error| error.to_string())??;
                drop(root);
                match Explored::open::<v2::Root<Explored>>(&store, "graph") {
                    Err(Error::OlderVersion { .. }) => Ok(Plain { all, is_new: false }),
                    other => Err(format!("the newer program says {other:?}")),
                }
            }
            Err(Error::NewerVersion { found: 2, known: 1, .. }) => {
                let root = Explored::open::<v2::Root<Explored>>(&store, "graph").map_err(|error| error.to_string())?;
                seen.recovered();
                is_whole(&root)?;
                let all = root.tx(|j, root| v2::read(root, j)).map_err(|error| error.to_string())??;
                Ok(Plain { all, is_new: true })
            }
            Err(error) => Err(error.to_string()),
        }
    })
}

/// The newer program is started again, and migrates: so recovery, which is crashed too, is a
/// migration.
pub(crate) fn migrate_again(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let migrated = Plain { is_new: true, ..Plain::default() };
    explore(&explorer, &migrated, true, |media, seen| {
        let store = Store::attach(media).map_err(|error| error.to_string())?;
        let root =
            Explored::open_migrating::<v2::Root<Explored>>(&store, "graph").map_err(|error| error.to_string())?;
        seen.recovered();
        is_whole(&root)?;
        let all = root.tx(|j, root| v2::read(root, j)).map_err(|error| error.to_string())??;
        root.tx(|j, root| v2::add(root, 11, j)).map_err(|error| error.to_string())?;
        Ok(Plain { all, is_new: true })
    })
}
