//! Cases of repair: a pool with leaks, a circle among them, and with values whose owners were
//! forgotten, is repaired, and crashes between any two stores.

use crate::object::{Explored, image, is_whole, open};
use everbyte_media::Media;
use everbyte_object::prc::PWeak;
use everbyte_object::raw::Raw as _;
use everbyte_object::{
    Error, FaultKind, Journal, MemPool, PRefCell, PSafe, PVec, Pbox, Pool, Prc, Report, UntypedPool,
};
use everbyte_sim::{Explorer, Failure, Image, Order, Report as Outcome, Seen, Twin};
use everbyte_store::Store;

type Slot<T, P> = PRefCell<Option<T>, P>;
type List<T, P> = PRefCell<PVec<T, P>, P>;

#[derive(PSafe)]
#[repr(C)]
struct Graph<P: MemPool> {
    kept: List<Prc<Knot<P>, P>, P>,
    seen: List<PWeak<Knot<P>, P>, P>,
}

#[derive(PSafe)]
#[repr(C)]
struct Knot<P: MemPool> {
    name: u64,
    own: Pbox<u64, P>,
    next: Slot<Prc<Knot<P>, P>, P>,
}

fn knot<P: MemPool>(name: u64, next: Option<Prc<Knot<P>, P>>, j: &Journal<P>) -> Prc<Knot<P>, P> {
    Prc::new(Knot { name, own: Pbox::new(name, j), next: PRefCell::new(next) }, j)
}

impl<P: MemPool> Knot<P> {
    /// The names from here on, each told twice.
    fn names(&self) -> Result<Vec<u64>, String> {
        if self.name != *self.own {
            return Err(format!("{} has {}", self.name, *self.own));
        }
        let rest = self.next.borrow().as_ref().map_or(Ok(Vec::new()), |next| next.names())?;
        Ok([vec![self.name], rest].concat())
    }
}

impl<P: MemPool> Graph<P> {
    fn add(&self, name: u64, j: &Journal<P>) {
        self.kept.borrow_mut(j).push(knot(name, None, j), j);
    }

    fn leak(&self, j: &Journal<P>) {
        let kept = self.kept.borrow();
        // A circle that shares the first knot.
        let one = knot(11, Some(kept[0].pclone(j)), j);
        let two = knot(12, Some(one.pclone(j)), j);
        *one.next.borrow_mut(j) = Some(two.pclone(j));
        std::mem::forget(kept[0].pclone(j));
        // A chain that weak pointers alone lead to, and that ends in the second.
        let last = knot(22, Some(kept[1].pclone(j)), j);
        let first = knot(21, Some(last.pclone(j)), j);
        let mut seen = self.seen.borrow_mut(j);
        seen.push(last.downgrade(j), j);
        seen.push(first.downgrade(j), j);
        std::mem::forget(first);
        std::mem::forget(Pbox::new(31u64, j));
    }

    fn names(&self) -> Result<Vec<u64>, String> {
        let names: Vec<_> = self.kept.borrow().iter().map(|knot| knot.names()).collect::<Result<_, _>>()?;
        Ok(names.concat())
    }
}

/// A pool with two knots, and what was leaked beside them.
fn leaky() -> Image {
    let whole = image::<Graph<Explored>>(|j| Graph {
        kept: PRefCell::new(PVec::from_iter([1, 2].map(|name| knot(name, None, j)), j)),
        seen: PRefCell::default(),
    });
    whole.then(|media| {
        let graph = open::<Graph<Explored>>(&media).expect("a whole pool");
        graph.tx(|j, graph| graph.leak(j)).expect("room");
        graph.store().close().expect("sim barriers do not fail");
    })
}

/// The contents of the pool, and whether a plan finds nothing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plain {
    names: Vec<u64>,
    repaired: bool,
}

/// REPAIR-1: what can be reached is there, and counted often enough.
fn is_safe(report: &Report) -> Result<(), String> {
    let is_high =
        |kind| matches!(kind, FaultKind::Counts { stored, found } if stored.0 >= found.0 && stored.1 >= found.1);
    match report.faults.iter().find(|fault| !is_high(fault.kind)) {
        None if report.heap.is_empty() => Ok(()),
        fault => Err(format!("{fault:?}, {:?}", report.heap)),
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// The program changes a pool that was planned for, and repairs it.
fn explore(
    explorer: &Explorer,
    repaired: bool,
    repair: impl Fn(&Store) + Sync,
    observe: fn(Media, &Seen) -> Result<Plain, String>,
) -> Result<Outcome, Box<Failure>> {
    let initial = Plain { names: vec![1, 2], repaired };
    let program = |media: Media, twin: &Twin<'_, Plain>| {
        let store = Store::attach(media.clone()).expect("a whole store");
        let plan = UntypedPool::open(&store, "graph").and_then(|pool| pool.plan_repair(&|_| ())).expect("a whole pool");
        let graph = open::<Graph<Explored>>(&media).expect("a whole pool");
        let name = 1 + twin.model().names.len() as u64;
        let add = || graph.tx(|j, graph| graph.add(name, j)).expect("room");
        twin.step_here(format!("add {name}"), move |plain: &mut Plain| plain.names.push(name), add);
        drop(graph);
        if plan.is_empty() {
            return; // the run before has repaired it
        }
        let late = UntypedPool::open(&store, "graph").and_then(|mut pool| pool.repair(plan.token(), &|_| ()));
        assert!(matches!(late, Err(Error::Changed { .. })), "the pool has changed since: {late:?}");
        twin.step("repair", |plain| plain.repaired = true, || repair(&store));
    };
    explorer.explore_twin(&leaky(), &initial, Order::InOrder, program, observe)
}

/// By the description alone; after a crash it is begun again, so recovery, which is crashed too, is
/// a repair.
pub(crate) fn repair_again(explorer: Explorer) -> Result<Outcome, Box<Failure>> {
    fn repair(store: &Store) -> Result<(), String> {
        let mut pool = UntypedPool::open(store, "graph").map_err(text)?;
        is_safe(&pool.examine(&|_| ()))?;
        let plan = pool.plan_repair(&|_| ()).map_err(text)?;
        pool.repair(plan.token(), &|_| ()).map_err(text)?;
        match pool.plan_repair(&|_| ()).map_err(text)?.is_empty() {
            true => Ok(()),
            false => Err("a second repair has something to do".into()),
        }
    }
    let now = |store: &Store| assert_eq!(repair(store), Ok(()));
    explore(&explorer, true, now, |media, seen| {
        let store = Store::attach(media.clone()).map_err(text)?;
        repair(&store)?;
        drop(store);
        let graph = open::<Graph<Explored>>(&media)?;
        seen.recovered();
        is_whole(&graph)?;
        let names = graph.tx(|j, graph| {
            let names = graph.names();
            graph.add(7, j);
            names
        });
        Ok(Plain { names: names.map_err(text)??, repaired: true })
    })
}

/// By the program's types; after a crash the program goes on with what it finds, and drops all of
/// it.
pub(crate) fn repair_and_use(explorer: Explorer) -> Result<Outcome, Box<Failure>> {
    let now = |store: &Store| {
        let mut graph = Explored::open::<Graph<Explored>>(store, "graph").expect("a whole pool");
        let token = graph.plan_repair(&|_| ()).expect("leaks").token();
        graph.repair(token, &|_| ()).expect("sim barriers do not fail");
    };
    explore(&explorer, false, now, |media, seen| {
        let graph = open::<Graph<Explored>>(&media)?;
        seen.recovered();
        is_safe(&graph.examine(&|_| ()).map_err(text)?)?;
        let repaired = graph.plan_repair(&|_| ()).map_err(text)?.is_empty();
        let names = graph.tx(|j, graph| {
            for weak in graph.seen.borrow().iter() {
                weak.upgrade(j).map_or(Ok(Vec::new()), |knot| knot.names())?;
            }
            let names = graph.names();
            graph.kept.borrow_mut(j).clear(j);
            graph.seen.borrow_mut(j).clear(j);
            names
        });
        is_safe(&graph.examine(&|_| ()).map_err(text)?)?;
        Ok(Plain { names: names.map_err(text)??, repaired })
    })
}
