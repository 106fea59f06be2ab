//! `objects`: single operations of typed objects, the rows of Corundum's table, against libpmemobj
//! where it has the operation and against the volatile Rust equivalent.
//!
//! Three ways to time, said with each row: *whole*, a transaction for each operation; *batch*, a
//! hundred operations in a transaction, its commit included; *inside*, a hundred operations in a
//! transaction, the clock around them alone. Counters are given where everything is timed.

use super::Result;
use crate::harness::{Bench, Runner, Unit};
use crate::ours::NAME;
use everbyte_bench_rivals::{Pmemobj, Row};
use everbyte_media::Options;
use everbyte_object::{MemPool, PRefCell, PSafe, PVec, Parc, Pbox, Pool, Prc, Root, parc, pool, prc};
use everbyte_store::{CreateOptions, Store};
use std::cell::RefCell;
use std::hint::black_box;
use std::ops::Deref;
use std::panic::catch_unwind;
use std::rc::{self, Rc};
use std::sync::{self, Arc};
use std::time::{Duration, Instant};

pool!(
    /// Of the pools that this case makes, one after the other.
    Objects
);

/// Operations of one transaction where there are several.
const BATCH: u64 = 100;
/// Operations of a round.
const MOST: u64 = 50_000;
const NS: Unit = Unit::Nanoseconds;
const VOLATILE: &str = "volatile";
const RIVAL: &str = "libpmemobj";

/// Objects of one size.
#[derive(PSafe)]
#[repr(C)]
struct Sized<const W: usize, P: MemPool> {
    boxes: PRefCell<PVec<Pbox<[u64; W], P>, P>, P>,
    cells: PVec<Pbox<PRefCell<[u64; W], P>, P>, P>,
}

/// The objects of single operations.
#[derive(PSafe)]
#[repr(C)]
struct Single<P: MemPool> {
    boxes: PVec<Pbox<u64, P>, P>,
    cell: PRefCell<u64, P>,
    slot: PRefCell<Option<Pbox<u64, P>>, P>,
    prc: Prc<u64, P>,
    prc_weak: prc::PWeak<u64, P>,
    parc: Parc<u64, P>,
    parc_weak: parc::PWeak<u64, P>,
}

/// `count` operations in batches; `batch` answers how long what is timed of one took.
fn batches(count: u64, mut batch: impl FnMut(u64) -> Duration) -> Duration {
    (0..count.div_ceil(BATCH)).map(|index| batch(BATCH.min(count - index * BATCH))).sum()
}

/// Reads all of them. A store for each would meet loads that lie as far into their pages in some
/// runs, and not in others.
#[inline(always)]
fn read_all<B: Deref<Target = u64>>(boxes: &[B]) {
    black_box(boxes.iter().fold(0u64, |sum, value| sum.wrapping_add(**value)));
}

fn timed<T>(body: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let value = body();
    let took = start.elapsed();
    drop(value);
    took
}

struct Field<'b, 'r> {
    bench: &'b mut Bench<'r>,
    rival: Option<Pmemobj>,
    store: Store,
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let folder = tempfile::tempdir_in(&bench.plan.memory)?;
    let create = CreateOptions { media: Options::default(), max: 4 << 30, ..CreateOptions::default() };
    let store = Store::create(&folder.path().join("everbyte"), &create)?;
    let rival = Pmemobj::create(&folder.path().join("pmemobj"), bench.plan.pick(256 << 20, 256 << 20, 32 << 20))?;
    if rival.is_none() {
        bench.skipped(RIVAL, "it was not installed when this was built; `cargo xtask rivals` does that");
    }
    bench.on(store.media());
    let mut field = Field { bench, rival, store };
    field.singles()?;
    field.blocks::<1>("8", &["alloc", "dealloc", "data_log", "drop_log", "pclone"])?;
    field.blocks::<32>("256", &["alloc", "dealloc"])?;
    field.blocks::<128>("1k", &["data_log"])?;
    field.blocks::<512>("4k", &["alloc", "dealloc", "data_log"])?;
    field.blocks::<4096>("32k", &["drop_log"])
}

impl Field<'_, '_> {
    /// One row: ours, the volatile equivalent, and libpmemobj's row on objects of a size, if it has
    /// it.
    fn row(&mut self, metric: &str, ours: Runner<'_>, volatile: Runner<'_>, theirs: Option<(Row, u64)>) {
        let mut runners = vec![ours, volatile];
        if let (Some(rival), Some((row, size))) = (&self.rival, theirs) {
            runners.push(Runner::timed(RIVAL, move |count| rival.row(row, size, count)));
        }
        self.bench.metric(metric, NS, MOST, runners);
    }

    /// Rows that do not depend on a size.
    fn singles(&mut self) -> Result {
        let store = self.store.clone();
        let top = Objects::create::<Single<Objects>>(&store, "singles", |j| {
            let (prc, parc) = (Prc::new(1, j), Parc::new(1, j));
            Single {
                boxes: PVec::from_iter((0..BATCH).map(|i| Pbox::new(i, j)), j),
                cell: PRefCell::new(0),
                slot: PRefCell::new(None),
                prc_weak: prc.downgrade(j),
                prc,
                parc_weak: parc.downgrade(j),
                parc,
            }
        })?;
        self.deref(&top);
        self.whole(&top);
        self.counted(&top);
        Ok(())
    }

    fn deref(&mut self, top: &Root<Single<Objects>, Objects>) {
        let boxes: Vec<Box<u64>> = (0..BATCH).map(Box::new).collect();
        let sweeps = |count: u64| (count / BATCH).max(1);
        let ours = Runner::new(NAME, |count| {
            let boxes: &[Pbox<u64, Objects>] = &top.boxes;
            (0..sweeps(count)).for_each(|_| read_all(black_box(boxes)));
        });
        let theirs = Runner::new(VOLATILE, |count| {
            (0..sweeps(count)).for_each(|_| read_all(black_box(&boxes[..])));
        });
        self.row("deref", ours, theirs, Some((Row::Deref, 8)));

        // Of a guard whose value is logged.
        let ours = Runner::timed(NAME, |count| {
            let took = top.tx(|j, top| {
                let mut guard = top.cell.borrow_mut(j);
                *guard = 1;
                timed(|| (0..count).for_each(|value| **black_box(&mut guard) = value))
            });
            took.expect("a transaction that must succeed")
        });
        let cell = RefCell::new(0);
        let volatile = Runner::timed(VOLATILE, |count| {
            let mut guard = cell.borrow_mut();
            timed(|| (0..count).for_each(|value| **black_box(&mut guard) = value))
        });
        self.row("deref_mut_later", ours, volatile, Some((Row::DerefMut, 8)));
    }

    /// A transaction for each operation.
    fn whole(&mut self, top: &Root<Single<Objects>, Objects>) {
        let store = self.store.clone();
        let media = store.media();
        let each = |body: &dyn Fn(u64) -> everbyte_object::Result<()>, count: u64| {
            (0..count).for_each(|value| body(value).expect("a transaction that must succeed"));
        };
        let cell = RefCell::new(0);
        let ours = Runner::new(NAME, |count| {
            each(&|value| top.tx(|j, top| *top.cell.borrow_mut(j) = value), count);
        });
        let volatile =
            Runner::new(VOLATILE, |count| (0..count).for_each(|value| *black_box(&cell).borrow_mut() = value));
        let mut runners = vec![ours.counting(media), volatile];
        runners.extend(self.rival.iter().map(|rival| Runner::new(RIVAL, |count| rival.update(count, 100, 1, 8))));
        self.bench.metric("deref_mut_first", NS, MOST, runners);

        let ours = Runner::new(NAME, |count| {
            (0..count).for_each(|_| top.tx(|_, _| ()).expect("a transaction that must succeed"));
        });
        // The payload that catches a panic: nothing volatile is rolled back.
        let volatile = Runner::new(VOLATILE, |count| {
            (0..count).for_each(|value| drop(black_box(catch_unwind(|| black_box(value)))));
        });
        let mut runners = vec![ours.counting(media), volatile];
        runners.extend(self.rival.iter().map(|rival| Runner::new(RIVAL, |count| rival.empty(count))));
        self.bench.metric("tx_nop", NS, MOST, runners);

        let mut last = None;
        let ours = Runner::new(NAME, |count| {
            each(&|value| top.tx(|j, top| *top.slot.borrow_mut(j) = Some(Pbox::new(value, j))), count);
        });
        let volatile =
            Runner::new(VOLATILE, |count| (0..count).for_each(|value| last = black_box(Some(Box::new(value)))));
        self.row("new_free_8", ours.counting(media), volatile, Some((Row::NewFree, 8)));

        let shared = Arc::new(1);
        let ours = Runner::new(NAME, |count| {
            // one pointer more for good
            each(&|_| top.tx(|j, top| std::mem::forget(top.parc.pclone(j))), count);
        });
        let volatile = Runner::new(VOLATILE, |count| (0..count).for_each(|_| drop(black_box(Arc::clone(&shared)))));
        self.row("parc_pclone_committed", ours.counting(media), volatile, None);
    }
}

/// One row of pointers, inside: a hundred of what `$make` makes, dropped after the clock.
macro_rules! counted {
    ($field:ident, $top:ident, $metric:expr, |$j:ident, $at:ident| $make:expr, $volatile:expr) => {
        let ours = Runner::timed(NAME, |count| {
            batches(count, |n| {
                let took = $top.tx(|$j, $at| {
                    let mut made = Vec::with_capacity(BATCH as usize);
                    timed(|| {
                        (0..n).for_each(|_| made.push($make));
                        black_box(&made);
                    })
                });
                took.expect("a transaction that must succeed")
            })
        });
        let volatile = Runner::timed(VOLATILE, |count| {
            batches(count, |n| {
                let mut made = Vec::with_capacity(BATCH as usize);
                timed(|| {
                    (0..n).for_each(|_| made.push($volatile));
                    black_box(&made);
                })
            })
        });
        $field.row($metric, ours, volatile, None);
    };
}

impl Field<'_, '_> {
    fn counted(&mut self, top: &Root<Single<Objects>, Objects>) {
        let (rc, arc) = (Rc::new(1u64), Arc::new(1u64));
        let (rc_weak, arc_weak): (rc::Weak<u64>, sync::Weak<u64>) = (Rc::downgrade(&rc), Arc::downgrade(&arc));
        let volatile = top.tx(|j, top| (top.prc.demote(j), top.parc.demote(j)));
        let (prc, parc) = volatile.expect("a transaction that must succeed");
        counted!(self, top, "pbox_init_8", |j, _top| Pbox::new(7u64, j), Box::new(7u64));
        counted!(self, top, "prc_init_8", |j, _top| Prc::new(7u64, j), Rc::new(7u64));
        counted!(self, top, "parc_init_8", |j, _top| Parc::new(7u64, j), Arc::new(7u64));
        counted!(self, top, "prc_pclone", |j, top| top.prc.pclone(j), Rc::clone(&rc));
        counted!(self, top, "parc_pclone", |j, top| top.parc.pclone(j), Arc::clone(&arc));
        counted!(self, top, "prc_downgrade", |j, top| top.prc.downgrade(j), Rc::downgrade(&rc));
        counted!(self, top, "parc_downgrade", |j, top| top.parc.downgrade(j), Arc::downgrade(&arc));
        counted!(self, top, "prc_upgrade", |j, top| top.prc_weak.upgrade(j), rc_weak.upgrade());
        counted!(self, top, "parc_upgrade", |j, top| top.parc_weak.upgrade(j), arc_weak.upgrade());
        counted!(self, top, "prc_demote", |j, top| top.prc.demote(j), Rc::downgrade(&rc));
        counted!(self, top, "parc_demote", |j, top| top.parc.demote(j), Arc::downgrade(&arc));
        counted!(self, top, "prc_promote", |j, _top| prc.promote(j), rc_weak.upgrade());
        counted!(self, top, "parc_promote", |j, _top| parc.promote(j), arc_weak.upgrade());
    }

    /// The rows `which` on objects of `W` words.
    fn blocks<const W: usize>(&mut self, name: &str, which: &[&str]) -> Result {
        let store = self.store.clone();
        let top = Objects::create::<Sized<W, Objects>>(&store, name, |j| Sized {
            boxes: PRefCell::new(PVec::new()),
            cells: PVec::from_iter((0..BATCH).map(|_| Pbox::new(PRefCell::new([0; W]), j)), j),
        })?;
        let fill = |n: u64| {
            top.tx(|j, top| *top.boxes.borrow_mut(j) = PVec::from_iter((0..n).map(|i| Pbox::new([i; W], j)), j))
                .expect("a transaction that must succeed");
        };
        let empty = || {
            top.tx(|j, top| *top.boxes.borrow_mut(j) = PVec::new()).expect("a transaction that must succeed");
        };
        let boxes = |n: u64| (0..n).map(|i| Box::new([i; W])).collect::<Vec<_>>();
        let size = W as u64 * 8;
        for row in which {
            let metric = format!("{row}_{name}");
            let (ours, volatile, theirs): (Runner<'_>, Runner<'_>, _) = match *row {
                // Batch.
                "alloc" => (
                    Runner::timed(NAME, |count| {
                        batches(count, |n| {
                            let took = timed(|| fill(n));
                            empty();
                            took
                        })
                    }),
                    Runner::timed(VOLATILE, |count| batches(count, |n| timed(|| black_box(boxes(n))))),
                    Some(Row::Alloc),
                ),
                // Batch.
                "dealloc" => (
                    Runner::timed(NAME, |count| {
                        batches(count, |n| {
                            fill(n);
                            timed(empty)
                        })
                    }),
                    Runner::timed(VOLATILE, |count| {
                        batches(count, |n| {
                            let boxes = black_box(boxes(n));
                            timed(|| drop(boxes))
                        })
                    }),
                    Some(Row::Free),
                ),
                // Batch.
                "pclone" => (
                    Runner::timed(NAME, |count| {
                        fill(1);
                        let took = batches(count, |n| {
                            let took = timed(|| {
                                let cloned = top.tx(|j, top| {
                                    let mut boxes = top.boxes.borrow_mut(j);
                                    let clones = PVec::from_iter((0..n).map(|_| boxes[0].pclone(j)), j);
                                    *boxes = clones;
                                });
                                cloned.expect("a transaction that must succeed");
                            });
                            empty();
                            fill(1);
                            took
                        });
                        empty();
                        took
                    }),
                    Runner::timed(VOLATILE, |count| {
                        let one = Box::new([0u64; W]);
                        batches(count, |n| timed(|| (0..n).map(|_| black_box(&one).clone()).collect::<Vec<_>>()))
                    }),
                    None,
                ),
                // Inside.
                "data_log" => (
                    Runner::timed(NAME, |count| {
                        batches(count, |n| {
                            let took = top.tx(|j, top| {
                                let cells = &top.cells[..n as usize];
                                timed(|| cells.iter().for_each(|cell| cell.borrow_mut(j)[0] = n))
                            });
                            took.expect("a transaction that must succeed")
                        })
                    }),
                    Runner::timed(VOLATILE, |count| {
                        let cells: Vec<_> = (0..BATCH).map(|_| Box::new(RefCell::new([0u64; W]))).collect();
                        batches(count, |n| {
                            timed(|| cells[..n as usize].iter().for_each(|cell| black_box(cell).borrow_mut()[0] = n))
                        })
                    }),
                    Some(Row::DataLog),
                ),
                // Inside.
                _ => (
                    Runner::timed(NAME, |count| {
                        batches(count, |n| {
                            fill(n);
                            let took = top.tx(|j, top| {
                                let boxes = std::mem::take(&mut *top.boxes.borrow_mut(j));
                                timed(|| drop(boxes))
                            });
                            took.expect("a transaction that must succeed")
                        })
                    }),
                    Runner::timed(VOLATILE, |count| {
                        batches(count, |n| {
                            let boxes = black_box(boxes(n));
                            timed(|| drop(boxes))
                        })
                    }),
                    Some(Row::DropLog),
                ),
            };
            self.row(&metric, ours, volatile, theirs.map(|row| (row, size)));
        }
        Ok(())
    }
}
