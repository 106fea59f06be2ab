//! Shared by the tests: stores in memory, and the list of most tests.
#![allow(dead_code, clippy::type_complexity)]

use everbyte_media::{Checked, Length, Media, Options};
use everbyte_object::layout::{HEADER, Header, fingerprint};
use everbyte_object::{Journal, MemPool, PRefCell, PSafe, Pbox};
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
