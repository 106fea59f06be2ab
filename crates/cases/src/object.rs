//! Cases of typed pools: object graphs changed in transactions, panics in the middle, and what
//! recovery resets.

use crate::{Case, TOTAL, object_maps, object_migrate, object_repair, object_types};
use everbyte_media::Media;
use everbyte_object::raw::Raw as _;
use everbyte_object::{Journal, MemPool, PRefCell, PSafe, Pbox, Pool, PoolOptions, Root, UntypedPool, pool};
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::{CLUSTER, FindingKind, FormatOptions, Store};
use everbyte_workload::Random;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "object-list",
        crate_name: "object",
        about: "a list grows, shrinks and is changed, with a panic in the middle: all of a transaction or nothing, no leak",
        total: TOTAL,
        program: list,
    },
    Case {
        name: "object-create",
        crate_name: "object",
        about: "a pool is made with a root that owns blocks: it is there whole, or not at all",
        total: 8000,
        program: create,
    },
    Case {
        name: "object-types",
        crate_name: "object",
        about: "every mutating method of every type, each in a transaction of its own",
        total: TOTAL,
        program: object_types::each,
    },
    Case {
        name: "object-random",
        crate_name: "object",
        about: "random transactions over a graph of all types, some rolled back by an error or a panic, against a plain twin",
        total: TOTAL,
        program: object_types::random,
    },
    Case {
        name: "object-maps",
        crate_name: "object",
        about: "every mutating method of the maps, each in a transaction of its own",
        total: TOTAL,
        program: object_maps::each,
    },
    Case {
        name: "object-maps-random",
        crate_name: "object",
        about: "random transactions over the maps, some rolled back by an error or a panic, against a plain twin",
        total: 8000,
        program: object_maps::random,
    },
    Case {
        name: "object-buffered",
        crate_name: "object",
        about: "transactions that return unsettled and are settled by `sync`: lost from the end only, and none that is settled",
        total: 8000,
        program: buffered,
    },
    Case {
        name: "object-migrate",
        crate_name: "object",
        about: "a pool of an older program is migrated: it is the older program's or the newer one's, whole, with no leak",
        total: TOTAL,
        program: object_migrate::migrate,
    },
    Case {
        name: "object-migrate-again",
        crate_name: "object",
        about: "a migration that crashed is begun again by the next start, which crashes too",
        total: 8000,
        program: object_migrate::migrate_again,
    },
    Case {
        name: "object-repair",
        crate_name: "object",
        about: "leaks are freed and counts mended; a repair that crashed is finished by the next one, which crashes too",
        total: TOTAL,
        program: object_repair::repair_again,
    },
    Case {
        name: "object-repair-used",
        crate_name: "object",
        about: "a pool whose repair crashed is used without another one: what its pointers lead to is there",
        total: 8000,
        program: object_repair::repair_and_use,
    },
];

pool!(pub(crate) Explored);

pub(crate) fn empty() -> Image {
    Image::zeroed(CLUSTER).with_max(4 << 20).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        Store::format(media, &options).expect("a small store").close().expect("sim barriers do not fail");
    })
}

/// An image of a store whose pool `graph` holds what `init` returns.
pub(crate) fn image<R: PSafe<Explored>>(
    init: impl for<'tx> FnOnce(&'tx Journal<<Explored as MemPool>::At<'tx>>) -> R::At<'tx>,
) -> Image {
    empty().then(|media| {
        let store = Store::attach(media).expect("a whole store");
        let options = PoolOptions { span: Some((2 << 20).into()), lanes: Some(2) };
        drop(Explored::create_with::<R>(&store, "graph", &options, init).expect("room for a pool"));
        store.close().expect("sim barriers do not fail");
    })
}

pub(crate) fn open<R: PSafe<Explored>>(media: &Media) -> Result<Root<R, Explored>, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    Explored::open::<R>(&store, "graph").map_err(|error| error.to_string())
}

/// [`open`] after a crash: checked deeply, by its types and by its description alone, and usable
/// again.
pub(crate) fn recover<R: PSafe<Explored>>(media: &Media, seen: &Seen) -> Result<Root<R, Explored>, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    let by_text = UntypedPool::open(&store, "graph").map_err(|error| error.to_string())?.examine(&|_| ());
    drop(store);
    let root = open::<R>(media)?;
    seen.recovered();
    let by_types = root.examine(&|_| ()).map_err(|error| error.to_string())?;
    // The other walk takes apart values that the description does not explain; they still agree on
    // the damage.
    let agree = if by_text.unread.is_empty() { by_text == by_types } else { by_text.is_clean() == by_types.is_clean() };
    if !agree {
        return Err(format!("by the types: {by_types:?}, by the description: {by_text:?}"));
    }
    is_whole(&root)?;
    Ok(root)
}

/// The deep check and the store's own find nothing.
pub(crate) fn is_whole<R: PSafe<Explored>>(root: &Root<R, Explored>) -> Result<(), String> {
    let mut findings = root.check().map_err(|error| error.to_string())?;
    findings.extend(root.store().check());
    findings.retain(|finding| finding.kind != FindingKind::Note);
    if findings.is_empty() { Ok(()) } else { Err(format!("check: {findings:?}")) }
}

/// How a transaction is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Error,
    Panic,
}

impl End {
    /// As often as random programs end so.
    pub(crate) fn any(random: &mut Random) -> End {
        [End::Commit, End::Commit, End::Commit, End::Error, End::Panic][random.below(5) as usize]
    }
}

/// A transaction that does what `body` does and ends as `end` says, beside a twin that is changed
/// if it commits. The root may hold cells of one thread, so the step stays on the thread that
/// opened it.
pub(crate) fn step<R: PSafe<Explored>, T>(
    root: &Root<R, Explored>,
    twin: &Twin<'_, T>,
    name: String,
    end: End,
    change: impl Fn(&mut T) + Send + Sync + 'static,
    body: impl for<'tx> Fn(&'tx Journal<<Explored as MemPool>::At<'tx>>, &'tx R::At<'tx>),
) {
    let change = move |plain: &mut T| {
        if end == End::Commit {
            change(plain);
        }
    };
    twin.step_here(name, change, || {
        let outcome = root.try_tx(|j, root| {
            body(j, root);
            match end {
                End::Commit => Ok(()),
                End::Error => Err(()),
                // without a message
                End::Panic => std::panic::resume_unwind(Box::new("in the middle")),
            }
        });
        assert_eq!(outcome.is_ok(), end == End::Commit, "{outcome:?}");
    });
}

#[derive(PSafe)]
#[repr(C)]
pub(crate) struct Node<P: MemPool> {
    pub val: u64,
    pub next: PRefCell<Option<Pbox<Node<P>, P>>, P>,
}

pub(crate) fn append<P: MemPool>(node: &Node<P>, val: u64, j: &Journal<P>) {
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

pub(crate) fn values<P: MemPool>(node: &Node<P>) -> Vec<u64> {
    match &*node.next.borrow() {
        Some(next) => [vec![next.val], values(next)].concat(),
        None => Vec::new(),
    }
}

type List = Root<Node<Explored>, Explored>;

/// Explores a program that changes a list, which is empty at first and usable after every crash.
fn explore_list(explorer: Explorer, program: impl Fn(&List, &Twin<'_, Vec<u64>>)) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image::<Node<Explored>>(|_| Node { val: 0, next: PRefCell::new(None) }),
        &Vec::<u64>::new(),
        Order::InOrder,
        |media, twin| program(&open(&media).expect("a whole pool"), twin),
        |media, seen| {
            let head: List = recover(&media, seen)?;
            let found = values(&head);
            head.tx(|j, head| append(head, 7, j)).map_err(|error| error.to_string())?;
            Ok(found)
        },
    )
}

fn list(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore_list(explorer, |head, twin| {
        for val in 1..4 {
            twin.step_here(
                format!("append {val}"),
                move |list| list.push(val),
                || {
                    head.tx(|j, head| append(head, val, j)).expect("room");
                },
            );
        }
        twin.step_here(
            "double",
            |list| list.iter_mut().for_each(|val| *val *= 2),
            || {
                head.tx(|j, head| double(head, j)).expect("room");
            },
        );
        twin.step_here(
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
        twin.step_here("pop and append", change, || {
            head.tx(|j, head| {
                pop(head, j);
                append(head, 9, j);
            })
            .expect("room");
        });
    })
}

fn create(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &empty(),
        &None::<Vec<u64>>,
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            let options = PoolOptions { span: Some((2 << 20).into()), lanes: Some(2) };
            if twin.model().is_some() {
                return;
            }
            twin.step(
                "create",
                |pool| *pool = Some(vec![5]),
                || {
                    let made = Explored::create_with::<Node<Explored>>(&store, "graph", &options, |j| {
                        let head = Node { val: 0, next: PRefCell::new(None) };
                        append(&head, 5, j);
                        head
                    });
                    drop(made.expect("room for a pool"));
                },
            );
        },
        |media, seen| {
            let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
            if store.objects().map_err(|error| error.to_string())?.is_empty() {
                seen.recovered();
                return Ok(None);
            }
            drop(store);
            let head = recover::<Node<Explored>>(&media, seen)?;
            Ok(Some(values(&*head)))
        },
    )
}

fn buffered(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore_list(explorer, |head, twin| {
        let mut waiting = Vec::new();
        for val in 1..9 {
            waiting.push(twin.begin(format!("append {val}"), move |list: &mut Vec<u64>| list.push(val)));
            head.tx_buffered(|j, head| append(head, val, j)).expect("room");
            if val % 3 == 0 {
                head.sync().expect("sim barriers do not fail");
                waiting.drain(..).for_each(|op| twin.acked(op));
            }
        }
        // A transaction that settles has seen what was not settled: reading is enough.
        head.tx(|_, head| values(head)).expect("nothing to do");
        waiting.drain(..).for_each(|op| twin.acked(op));
    })
}
