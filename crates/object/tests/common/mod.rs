//! Shared by the tests: stores in memory, and the list of most tests.
#![allow(dead_code, clippy::type_complexity)]

use everbyte_media::{Checked, Length, Media, Options};
use everbyte_object::layout::{HEADER, Header, fingerprint};
use everbyte_object::{
    Journal, MemPool, PBTreeMap, PBinaryHeap, PHashMap, PHashSet, PRefCell, PSafe, PVec, PVecDeque, Pbox, Prc, VCell,
};
use everbyte_store::{FormatOptions, Store};
use zerocopy::IntoBytes;

/// A store in memory of this process.
pub(crate) fn store() -> Store {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    Store::format(media, &FormatOptions { log_len: 0, identity: Some([3; 16]) }).unwrap()
}

/// [`store`] with room for chains of a soak.
pub(crate) fn large_store() -> Store {
    let room = if everbyte_workload::is_long() { 2 << 30 } else { 128 << 20 };
    let media = Media::anonymous(room, &Options::default()).unwrap();
    Store::format(media, &FormatOptions { log_len: 0, identity: Some([3; 16]) }).unwrap()
}

/// The description of its root's type that the pool called `name` bears.
pub(crate) fn description(store: &Store, name: &str) -> String {
    let prime = store.object(name).unwrap().prime();
    let header: Header = store.media().get(prime + HEADER);
    String::from_utf8(store.media().read_vec(prime + header.schema, header.schema_len.to_usize())).unwrap()
}

/// Lets a pool be one of an older format, with that description.
pub(crate) fn make_old(store: &Store, name: &str, format: u32, text: &str) {
    let prime = store.object(name).unwrap().prime();
    let mut header: Header = store.media().get(prime + HEADER);
    store.media().write(prime + header.schema, text.as_bytes());
    (header.format, header.schema_len, header.fingerprint) =
        (format, Length::new(text.len() as u64), fingerprint(text));
    header = header.sealed();
    header.root_checksum = header.root_sum();
    store.media().write(prime + HEADER, header.as_bytes());
}

/// Lets a pool be one of format 1, whose description says nothing of the inside of an `Option`.
pub(crate) fn make_vague(store: &Store, name: &str) {
    let text = description(store, name);
    let vague = |line: &str| match line.split_once(" u64 { None = 0;") {
        Some((option, _)) => format!("{option}\n"),
        None => format!("{line}\n"),
    };
    let old: String = text.lines().map(vague).collect();
    assert_ne!(old, text);
    make_old(store, name, 1, &old);
}

/// Containers of types that are called alike in descriptions: the second of each pair is numbered.
#[derive(PSafe)]
#[repr(C)]
pub(crate) struct Twins<T: PSafe<P>, P: MemPool> {
    pub vectors: (PVec<PVec<T, P>, P>, PVec<PBinaryHeap<T, P>, P>),
    pub queues: (PVecDeque<PVec<T, P>, P>, PVecDeque<PBinaryHeap<T, P>, P>),
    pub hashed: (PHashMap<u8, PVec<T, P>, P>, PHashMap<u8, PBinaryHeap<T, P>, P>),
    pub ordered: (PBTreeMap<u8, PVec<T, P>, P>, PBTreeMap<u8, PBinaryHeap<T, P>, P>),
    pub options: (Option<PVec<T, P>>, Option<PBinaryHeap<T, P>>),
    pub shared: (Prc<PVec<T, P>, P>, Prc<PBinaryHeap<T, P>, P>),
    pub sets: (PVec<PHashMap<u8, (), P>, P>, PVec<PHashSet<u8, P>, P>),
    pub volatile: (Option<VCell<u64, P>>, Option<VCell<i64, P>>),
}

impl<T: PSafe<P> + Ord, P: MemPool> Twins<T, P> {
    pub(crate) fn new(make: impl Fn(u8) -> T, j: &Journal<P>) -> Twins<T, P> {
        let vector = |number| PVec::from_iter([make(number)], j);
        let heap = |number| PBinaryHeap::from_iter([make(number)], j);
        Twins {
            vectors: (PVec::from_iter([vector(1)], j), PVec::from_iter([heap(2)], j)),
            queues: (PVecDeque::from_iter([vector(3)], j), PVecDeque::from_iter([heap(4)], j)),
            hashed: (PHashMap::from_iter([(0, vector(5))], j), PHashMap::from_iter([(0, heap(6))], j)),
            ordered: (PBTreeMap::from_iter([(0, vector(7))], j), PBTreeMap::from_iter([(0, heap(8))], j)),
            options: (Some(vector(9)), Some(heap(10))),
            shared: (Prc::new(vector(11), j), Prc::new(heap(12), j)),
            sets: (
                PVec::from_iter([PHashMap::from_iter([(13, ())], j)], j),
                PVec::from_iter([PHashSet::from_iter([14], j)], j),
            ),
            volatile: (Some(VCell::new()), Some(VCell::new())),
        }
    }

    /// The values, in the order of their numbers.
    pub(crate) fn values(&self) -> Vec<&T> {
        let (one, other) = (&self.options.0, &self.options.1);
        vec![
            &self.vectors.0[0][0],
            self.vectors.1[0].peek().unwrap(),
            &self.queues.0[0][0],
            self.queues.1[0].peek().unwrap(),
            &self.hashed.0[&0][0],
            self.hashed.1[&0].peek().unwrap(),
            &self.ordered.0[&0][0],
            self.ordered.1[&0].peek().unwrap(),
            &one.as_ref().unwrap()[0],
            other.as_ref().unwrap().peek().unwrap(),
            &self.shared.0[0],
            self.shared.1.peek().unwrap(),
        ]
    }
}

#[derive(PSafe)]
#[repr(C)]
pub(crate) struct Node<T: PSafe<P>, P: MemPool> {
    pub val: T,
    pub next: PRefCell<Option<Pbox<Node<T, P>, P>>, P>,
}

impl<T: PSafe<P>, P: MemPool> Node<T, P> {
    pub(crate) fn new(val: T) -> Self {
        Node { val, next: PRefCell::new(None) }
    }
}

pub(crate) fn append<T: PSafe<P>, P: MemPool>(n: &Node<T, P>, v: T, j: &Journal<P>) {
    let mut t = n.next.borrow_mut(j);
    match &*t {
        Some(succ) => append(succ, v, j),
        None => *t = Some(Pbox::new(Node::new(v), j)),
    }
}

/// Takes the first node out.
pub(crate) fn pop<T: PSafe<P> + Clone, P: MemPool>(n: &Node<T, P>, j: &Journal<P>) -> Option<T> {
    let mut first = n.next.borrow_mut(j);
    let gone = first.take()?;
    *first = gone.next.take(j);
    Some(gone.val.clone())
}

pub(crate) fn values<T: PSafe<P> + Clone, P: MemPool>(n: &Node<T, P>) -> Vec<T> {
    let mut all = Vec::new();
    n.next.borrow().as_ref().into_iter().for_each(|node| collect(node, &mut all));
    all
}

fn collect<T: PSafe<P> + Clone, P: MemPool>(n: &Node<T, P>, all: &mut Vec<T>) {
    all.push(n.val.clone());
    n.next.borrow().as_ref().into_iter().for_each(|node| collect(node, all));
}
