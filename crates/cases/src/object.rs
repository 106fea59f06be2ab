//! Cases of typed pools: object graphs changed in transactions, panics in the middle, and what recovery resets.

use crate::{Case, TOTAL};
use everbyte_media::Media;
use everbyte_object::{Journal, MemPool, PRefCell, PSafe, Pbox, Pool, PoolOptions, Root, pool};
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen};
use everbyte_store::{CLUSTER, FindingKind, FormatOptions, Store};

pub(crate) const CASES: &[Case] = &[Case {
    name: "object-list",
    room: "object",
    about: "a list grows, shrinks and is changed, with a panic in the middle: all of a transaction or nothing, no leak",
    total: TOTAL,
    program: list,
}];

pool!(Explored);

fn empty() -> Image {
    Image::zeroed(CLUSTER).with_max(4 << 20).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        Store::format(media, &options).expect("a small store").close().expect("sim barriers do not fail");
    })
}

/// An image of a store whose pool `graph` holds what `init` returns.
fn image<R: PSafe<Explored>>(
    init: impl for<'tx> FnOnce(&'tx Journal<<Explored as MemPool>::At<'tx>>) -> R::At<'tx>,
) -> Image {
    empty().then(|media| {
        let store = Store::attach(media).expect("a whole store");
        let options = PoolOptions { span: Some(2 << 20), lanes: Some(2) };
        drop(Explored::create_with::<R>(&store, "graph", &options, init).expect("room for a pool"));
        store.close().expect("sim barriers do not fail");
    })
}

fn open<R: PSafe<Explored>>(media: &Media) -> Result<Root<R, Explored>, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    Explored::open::<R>(&store, "graph").map_err(|error| error.to_string())
}

/// [`open`] after a crash: checked deeply, and of use again.
fn recover<R: PSafe<Explored>>(media: &Media, seen: &Seen) -> Result<Root<R, Explored>, String> {
    let root = open::<R>(media)?;
    seen.recovered();
    let mut findings = root.check().map_err(|error| error.to_string())?;
    findings.extend(root.store().check());
    findings.retain(|finding| finding.kind != FindingKind::Note);
    if findings.is_empty() { Ok(root) } else { Err(format!("check: {findings:?}")) }
}

#[derive(PSafe)]
#[repr(C)]
struct Node<P: MemPool> {
    val: u64,
    next: PRefCell<Option<Pbox<Node<P>, P>>, P>,
}

fn append<P: MemPool>(node: &Node<P>, val: u64, j: &Journal<P>) {
    let mut next = node.next.borrow_mut(j);
    match &*next {
        Some(next) => append(next, val, j),
        None => *next = Some(Pbox::new(Node { val, next: PRefCell::new(None) }, j)),
    }
}

fn pop<P: MemPool>(node: &Node<P>, j: &Journal<P>) {
    let mut first = node.next.borrow_mut(j);
    if let Some(gone) = first.take() {
        *first = gone.next.take(j);
    }
}

/// Doubles every value, in place.
fn double<P: MemPool>(node: &Node<P>, j: &Journal<P>) {
    if let Some(next) = &mut *node.next.borrow_mut(j) {
        let next = next.as_mut(j);
        next.val *= 2;
        double(next, j);
    }
}

fn values<P: MemPool>(node: &Node<P>) -> Vec<u64> {
    match &*node.next.borrow() {
        Some(next) => [vec![next.val], values(next)].concat(),
        None => Vec::new(),
    }
}

fn list(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image::<Node<Explored>>(|_| Node { val: 0, next: PRefCell::new(None) }),
        &Vec::<u64>::new(),
        Order::InOrder,
        |media, twin| {
            let head = open::<Node<Explored>>(&media).expect("a whole pool");
            for val in 1..4 {
                twin.step(
                    format!("append {val}"),
                    move |list| list.push(val),
                    || {
                        head.tx(|j, head| append(head, val, j)).expect("room");
                    },
                );
            }
            twin.step(
                "double",
                |list| list.iter_mut().for_each(|val| *val *= 2),
                || {
                    head.tx(|j, head| double(head, j)).expect("room");
                },
            );
            twin.step(
                "panic",
                |_| (),
                || {
                    let outcome = head.try_tx(|j, head| {
                        append(head, 100, j);
                        pop(head, j);
                        double(head, j);
                        Err::<(), ()>(())
                    });
                    assert!(outcome.is_err());
                },
            );
            let change = |list: &mut Vec<u64>| {
                list.remove(0);
                list.push(9);
            };
            twin.step("pop and append", change, || {
                head.tx(|j, head| {
                    pop(head, j);
                    append(head, 9, j);
                })
                .expect("room");
            });
        },
        |media, seen| {
            let head = recover::<Node<Explored>>(&media, seen)?;
            let found = values(&head);
            head.tx(|j, head| append(head, 7, j)).map_err(|error| error.to_string())?;
            Ok(found)
        },
    )
}
