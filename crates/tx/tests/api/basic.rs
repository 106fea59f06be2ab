//! Transactions from outside: all or nothing, nesting, locks, and their costs.

use crate::common::{create, table};
use everbyte_tx::{Error, TxError, TxLock, Undo};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

fn stop() -> Error {
    Error::NoLane { object: "on purpose".into() }
}

fn blocks(undo: &Undo) -> usize {
    let mut count = 0;
    undo.heap().blocks(|_| count += 1).unwrap();
    count
}

#[test]
fn an_error_puts_everything_back() {
    let (_store, undo) = create(8 << 20, 4 << 20);
    let at = table(&undo, 64);
    let (before, free_before) = (blocks(&undo), undo.heap().usage().unwrap());
    let outcome = undo.run(|tx| {
        tx.store(at, 1)?;
        tx.write(at + 3, &[7; 100])?;
        let block = tx.allocate(500)?;
        tx.store(block.at.get(), 9)?;
        tx.free(at)?;
        Err::<(), _>(stop())
    });
    assert!(matches!(outcome, Err(TxError::Aborted(_))));
    assert_eq!(undo.media().read_vec(at, 512), vec![0; 512]);
    assert_eq!(blocks(&undo), before);
    assert_eq!(undo.heap().usage().unwrap().allocated, free_before.allocated);
    undo.run(|tx| tx.free(at)).unwrap(); // the free was taken back too
    assert_eq!(blocks(&undo), before - 1);
}

/// Nested transactions are flattened; a failure inside dooms the outermost, even when it is caught
/// (TX-1).
#[test]
fn a_caught_failure_dooms_the_outermost() {
    let (_store, undo) = create(8 << 20, 4 << 20);
    let at = table(&undo, 64);
    undo.run(|tx| {
        tx.store(at, 1)?;
        undo.run(|inner| inner.store(at + 8, 2)).map_err(|_| stop())?;
        Ok::<_, Error>(())
    })
    .unwrap();
    assert_eq!((undo.media().load(at), undo.media().load(at + 8)), (1, 2));

    let outcome = undo.run(|tx| {
        tx.store(at, 10)?;
        let inner = undo.run(|inner| inner.store(at + 8, 20).and(Err::<(), _>(stop())));
        assert!(matches!(inner, Err(TxError::Aborted(_))));
        tx.store(at + 16, 30)
    });
    assert!(matches!(outcome, Err(TxError::Doomed)));

    let outcome = undo.run(|tx| {
        tx.store(at, 10)?;
        let caught = catch_unwind(AssertUnwindSafe(|| {
            undo.run(|inner| -> Result<(), Error> {
                inner.store(at + 8, 20)?;
                panic!("on purpose")
            })
        }));
        assert!(caught.is_err());
        Ok::<_, Error>(())
    });
    assert!(matches!(outcome, Err(TxError::Doomed)));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        undo.run(|tx| -> Result<(), Error> {
            tx.store(at, 10)?;
            panic!("on purpose")
        })
    }));
    assert!(panicked.is_err());
    // A transaction that is doomed, and fails or panics itself, dooms no later one.
    let failed = undo.run(|_| {
        let inner = undo.run(|_| Err::<(), _>(stop()));
        assert!(matches!(inner, Err(TxError::Aborted(_))));
        Err::<(), _>(stop())
    });
    assert!(matches!(failed, Err(TxError::Aborted(_))));
    undo.run(|tx| tx.store(at, 1)).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        undo.run(|_| -> Result<(), Error> {
            let inner = undo.run(|_| Err::<(), _>(stop()));
            assert!(matches!(inner, Err(TxError::Aborted(_))));
            panic!("on purpose")
        })
    }));
    assert!(panicked.is_err());
    let words: Vec<u64> = (0..3).map(|word| undo.media().load(at + word * 8)).collect();
    assert_eq!(words, [1, 2, 0], "rolled back three times");
    undo.run(|tx| tx.store(at, 5)).unwrap(); // and the engine goes on
    assert_eq!(undo.media().load(at), 5);
}

#[test]
fn hooks_run_after_the_commit_and_never_after_a_rollback() {
    let (_store, undo) = create(8 << 20, 4 << 20);
    let at = table(&undo, 64);
    let count = Rc::new(Cell::new(0));
    for (fail, hooks) in [(false, 1), (true, 1), (false, 2)] {
        let inside = Rc::clone(&count);
        let _ = undo.run(|tx| {
            let inside = Rc::clone(&inside);
            tx.on_commit(move || inside.set(inside.get() + 1));
            tx.store(at, 3)?;
            if fail { Err(stop()) } else { Ok(()) }
        });
        assert_eq!(count.get(), hooks);
    }
}

/// A long transaction extends its lane by what a nearly full heap has, and gives it back.
#[test]
fn a_long_transaction_in_a_nearly_full_heap() {
    let media = everbyte_media::Media::anonymous(4 << 20, &Default::default()).unwrap();
    let store = everbyte_store::Store::format(media, &Default::default()).unwrap();
    let made =
        store.create_object("test", crate::common::options(1 << 20), |object| Undo::format_with(object, 2, 1024));
    let undo = Undo::open(made.unwrap()).unwrap();
    let at = table(&undo, 512);
    let fill = || {
        // blocks of runs first, then the pages that no run has got
        let sizes = [4096, 12 << 10];
        sizes.map(|size| std::iter::from_fn(|| undo.heap().reserve(size).ok()).collect::<Vec<_>>())
    };
    for end in [Ok(()), Err(stop()), Ok(())] {
        let [mut blocks, pages] = fill();
        let count = blocks.len();
        (0..20).for_each(|_| undo.heap().cancel(blocks.pop().unwrap()));
        let fails = end.is_err();
        let outcome = undo.run(|tx| {
            (0..64).try_for_each(|line| tx.store(at + line * 64, line))?;
            end
        });
        assert!(if fails { matches!(outcome, Err(TxError::Aborted(_))) } else { outcome.is_ok() }, "{outcome:?}");
        blocks.into_iter().chain(pages).for_each(|block| undo.heap().cancel(block));
        let [free, pages] = fill();
        assert_eq!(free.len(), count, "what extended the lane is free again");
        free.into_iter().chain(pages).for_each(|block| undo.heap().cancel(block));
    }
}

/// The exact cost of each kind of transaction: (lines, fences, barriers).
#[test]
fn the_price_list() {
    let (_store, undo) = create(8 << 20, 4 << 20);
    let at = table(&undo, 64);
    let cost = |body: &dyn Fn(&everbyte_tx::Tx<'_>) -> Result<(), Error>| {
        let before = undo.media().counts();
        undo.run(|tx| body(tx)).unwrap();
        let cost = undo.media().counts() - before;
        (cost.lines, cost.fences, cost.barriers)
    };
    assert_eq!(cost(&|_| Ok(())), (0, 0, 0), "an empty transaction");
    assert_eq!(cost(&|tx| tx.media().load(at).checked_add(0).map(|_| ()).ok_or_else(stop)), (0, 0, 0), "a reader");
    assert_eq!(cost(&|tx| tx.store(at, 1)), (3, 3, 1), "8 bytes: note, data, retirement");
    assert_eq!(cost(&|tx| tx.store(at, 1).and_then(|()| tx.store(at, 2))), (3, 3, 1), "noted once");
    let named: Vec<(u64, u64)> = (0..8).map(|line| (at + line * 64, 8)).collect();
    let eight = |tx: &everbyte_tx::Tx<'_>| (0..8).try_for_each(|line| tx.store(at + line * 64, 1));
    assert_eq!(
        cost(&|tx| tx.name_ranges(&named).and_then(|()| eight(tx))),
        (12, 3, 1),
        "eight lines, named: three notes"
    );
    assert_eq!(cost(&|tx| eight(tx)), (17, 10, 1), "eight lines, each a surprise");
    let wide = table(&undo, 30 * 8);
    let named: Vec<(u64, u64)> = (0..30).map(|line| (wide + line * 64, 8)).collect();
    let thirty = |tx: &everbyte_tx::Tx<'_>| (0..30).try_for_each(|line| tx.store(wide + line * 64, 1));
    assert_eq!(
        cost(&|tx| tx.name_ranges(&named).and_then(|()| thirty(tx))),
        (41, 3, 1),
        "thirty lines, named: ten notes, and each line flushed at the end"
    );
    let unneeded = |tx: &everbyte_tx::Tx<'_>| {
        tx.overwrite(wide, 128)?;
        tx.media().write(wide, &[9; 128]);
        Ok(())
    };
    assert_eq!(cost(&unneeded), (3, 2, 1), "two lines without a note, flushed all the same, and the retirement");
    let lock = TxLock::new();
    assert_eq!(cost(&|tx| tx.lock(&lock)), (0, 0, 0), "a lock without a writer");
    assert_eq!(cost(&|tx| tx.lock(&lock).and_then(|()| tx.store(at, 3))), (3, 3, 1), "a lock costs nothing");
    assert_eq!(cost(&|tx| tx.lock(&lock)), (0, 0, 1), "TX-5: a reader settles what it saw");
    let old = Cell::new(undo.run(|tx| tx.allocate(64)).unwrap().at);
    let replace = |tx: &everbyte_tx::Tx<'_>| {
        let block = tx.allocate(64)?;
        tx.store(block.at.get(), 1)?;
        tx.free(old.replace(block.at).get())
    };
    assert_eq!(
        cost(&replace),
        (5, 4, 1),
        "64 bytes allocated and freed: new line, operations, commit, bits, retirement"
    );
}

#[test]
fn ranges_that_are_not_the_transactions_are_refused() {
    let (_store, undo) = create(8 << 20, 4 << 20);
    let at = table(&undo, 64);
    let prime = undo.heap().object().prime().get();
    let end = undo.heap().object().backed().get();
    let lanes = undo.media().load(prime + everbyte_tx::layout::LANES_AT);
    for (at, len) in [
        (0, 8),
        (prime, 8),
        (prime + 512, 8),
        (prime + 2048, 8),
        (prime + 4088, 16),
        (prime + 4096, 8),
        (prime + 8192, 8),
        (prime + 12000, 1 << 20),
        (lanes, 64),
        (lanes - 8, 16),
        (end - 8, 16),
        (end, 8),
        (u64::MAX, 2),
        (u64::MAX - 7, 8),
    ] {
        let outcome = undo.run(|tx| tx.log_range(at, len));
        assert!(matches!(outcome, Err(TxError::Aborted(Error::BadRange { .. }))), "{at:#x} + {len}");
    }
    undo.run(|tx| tx.store(undo.heap().object().root_at().get(), at)).unwrap();
    for wild in [at + 8, 0, (end + 4096)] {
        assert!(matches!(undo.run(|tx| tx.free(wild)), Err(TxError::Aborted(Error::Heap(_)))));
    }
    let outcome = undo.run(|tx| tx.free(at).and_then(|()| tx.free(at)));
    assert!(matches!(outcome, Err(TxError::Aborted(Error::Heap(everbyte_heap::Error::BeingFreed { .. })))));
    undo.run(|tx| tx.free(at)).unwrap();
}

/// Far more than a lane holds: segments come from the heap and go back to it. 64 entries and one
/// (daos#11593: entries 41 to 64 were lost where a log's initial capacity was wrong).
#[test]
fn long_transactions_spill_and_give_the_room_back() {
    let (_store, undo) = create(32 << 20, 16 << 20);
    let at = table(&undo, 100_000);
    let (blocks_before, usage) = (blocks(&undo), undo.heap().usage().unwrap());
    for count in [40, 41, 60, 61, 62, 63, 64, 65, 1000, 50_000] {
        let outcome = undo.run(|tx| {
            (0..count).try_for_each(|word| tx.store(at + word * 16, word + 1))?;
            Err::<(), _>(stop())
        });
        assert!(matches!(outcome, Err(TxError::Aborted(_))));
        assert!((0..count).all(|word| undo.media().load(at + word * 16) == 0), "{count} entries are all undone");
    }
    undo.run(|tx| (0..50_000).try_for_each(|word| tx.store(at + word * 16, word + 1))).unwrap();
    assert!((0..50_000).all(|word| undo.media().load(at + word * 16) == word + 1));
    undo.run(|tx| tx.write(at, &vec![5; 700_000])).unwrap(); // one range longer than the lane
    let many: Vec<u64> = undo
        .run(|tx| (0..5000).map(|_| tx.allocate(32).map(|block| block.at.get())).collect::<Result<_, Error>>())
        .unwrap();
    undo.run(|tx| many.iter().try_for_each(|&at| tx.free(at))).unwrap();
    assert_eq!(blocks(&undo), blocks_before);
    assert_eq!(undo.heap().usage().unwrap().allocated, usage.allocated);
    assert_eq!(undo.heap().check(None), []);
}

/// pmdk#5613: freeing a block of the same transaction must not take its neighbours out of what is
/// flushed.
#[test]
fn freeing_in_the_same_transaction_flushes_the_rest() {
    let (_store, undo) = create(8 << 20, 4 << 20);
    let at = table(&undo, 64);
    let spare = undo.run(|tx| tx.allocate(64)).unwrap(); // a run of this class is there now
    let before = undo.media().counts();
    undo.run(|tx| {
        let (one, two, three) = (tx.allocate(64)?, tx.allocate(64)?, tx.allocate(64)?);
        for block in [one, two, three] {
            tx.store(block.at.get(), 1)?;
        }
        tx.store(at, one.at.get())?;
        tx.store(at + 8, three.at.get())?;
        tx.free(two.at.get())
    })
    .unwrap();
    let cost = undo.media().counts() - before;
    // Two notes, the table's line, blocks one and three, operations, commit, bits, retirement.
    assert_eq!(cost.lines, 2 + 1 + 2 + 1 + 1 + 1 + 1);
    let reachable = [at, undo.media().load(at), undo.media().load(at + 8), spare.at.get(), lanes(&undo)].into();
    assert_eq!(undo.heap().check(Some(&reachable)), []);
}

fn lanes(undo: &Undo) -> u64 {
    undo.media().load(undo.heap().object().prime() + everbyte_tx::layout::LANES_AT)
}

/// More threads than lanes, locks held across, allocation inside: sums stay right and no thread
/// starves.
#[test]
fn threads_beyond_the_lanes_wait_for_one() {
    let (store, undo) = create(32 << 20, 8 << 20);
    let at = table(&undo, 64);
    let locks: Vec<TxLock> = (0..4).map(|_| TxLock::new()).collect();
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (undo, locks) = (&undo, &locks);
            scope.spawn(move || {
                for round in 0..500u64 {
                    let (from, to) = ((thread + round) % 4, (thread * 3 + round * 7) % 4);
                    let outcome = undo.run(|tx| {
                        tx.lock(&locks[from.min(to) as usize])?;
                        tx.lock(&locks[from.max(to) as usize])?;
                        let block = tx.allocate(32 + round % 200)?;
                        let (from, to) = (at + from * 64, at + to * 64);
                        tx.store(from, tx.media().load(from).wrapping_sub(1))?;
                        tx.store(to, tx.media().load(to).wrapping_add(1))?;
                        if round % 5 == 0 {
                            return Err(stop());
                        }
                        let kept = at + 256 + thread * 8;
                        if tx.media().load(kept) != 0 {
                            tx.free(tx.media().load(kept))?;
                        }
                        tx.store(kept, block.at.get())
                    });
                    assert_eq!(outcome.is_err(), round % 5 == 0, "{outcome:?}");
                }
            });
        }
    });
    let sum = (0..4).fold(0u64, |sum, word| sum.wrapping_add(undo.media().load(at + word * 64)));
    assert_eq!(sum, 0);
    let mut reachable: std::collections::BTreeSet<u64> =
        (0..8).map(|thread| undo.media().load(at + 256 + thread * 8)).collect();
    reachable.extend([at, lanes(&undo)]);
    assert_eq!(undo.heap().check(Some(&reachable)), []);
    drop(undo);
    let undo = Undo::open(store.object("test").unwrap()).unwrap();
    assert_eq!(*undo.recovered(), Default::default());
    assert_eq!(undo.heap().check(Some(&reachable)), []);
}

/// A range that is overwritten without a log entry is flushed at the commit all the same.
#[test]
fn an_overwritten_range_is_flushed() {
    let (_store, undo) = create(8 << 20, 4 << 20);
    let at = table(&undo, 64);
    let before = undo.media().counts();
    undo.run(|tx| {
        tx.overwrite(at, 64)?;
        tx.media().write(at, &[7; 64]);
        Ok::<_, Error>(())
    })
    .unwrap();
    let costs = undo.media().counts() - before;
    assert!(costs.lines >= 1 && costs.fences >= 1, "{costs:?}");
}

/// A block that its transaction allocates and frees is no other's before the end: it may be stored
/// to until then.
#[test]
fn a_block_freed_by_its_transaction_is_kept_to_the_end() {
    let (_store, undo) = create(8 << 20, 4 << 20);
    let before = blocks(&undo);
    let first = undo.run(|tx| {
        let first = tx.allocate(100)?;
        tx.free(first.at)?;
        assert!((0..50).all(|_| tx.allocate(100).unwrap().at != first.at));
        Ok::<_, Error>(first)
    });
    assert_eq!(blocks(&undo), before + 50);
    let again =
        undo.run(|tx| Ok::<_, Error>((0..200).any(|_| tx.allocate(100).unwrap().at == first.as_ref().unwrap().at)));
    assert!(again.unwrap(), "afterwards it is allocated again");
}

/// No byte of the lanes may be changed, their first and last ones among them.
#[test]
fn the_ends_of_the_lanes_are_refused() {
    let (_store, undo) = create(8 << 20, 4 << 20);
    let at = undo.lanes_at();
    let last = at + undo.heap().size_of(at).unwrap() - 8;
    for place in [at, last] {
        let told = undo.run(|tx| tx.store(place, 1));
        assert!(matches!(told, Err(TxError::Aborted(Error::BadRange { .. }))), "{place:#x}: {told:?}");
    }
}
