//! The redo engine: isolation, fences, logs that fill, transactions that do not fit one.

use crate::common::options;
use everbyte_media::{Checked, Media, Options};
use everbyte_sim::{Image, fault_loop};
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
use everbyte_tx::layout::{TABLE, Table};
use everbyte_tx::redo::{STRIPES_MAX, Truncation, Worker, layout};
use everbyte_tx::{Error, Redo, TxError, Undo};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

fn create(span: u64) -> (Store, Redo) {
    create_with(span, 4, 4096)
}

fn create_with(span: u64, logs: u32, log_len: u64) -> (Store, Redo) {
    let media = Media::anonymous(span * 4, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let options = ObjectOptions { engine: Engine::Redo, ..options(span) };
    let object = store.create_object("test", options, |object| Redo::format_with(object, logs, log_len)).unwrap();
    (store, Redo::open(object).unwrap())
}

/// A block of `words` zeros, its address in the root word.
fn table(redo: &Redo, words: u64) -> u64 {
    let root = redo.heap().object().root_at();
    let made = redo.atomically(|tx| {
        let block = tx.allocate(words * 8)?;
        (0..words).try_for_each(|word| tx.store((block.at + word * 8).get(), 0))?;
        tx.store(root.get(), block.at.get())?;
        Ok::<_, Error>(block.at)
    });
    made.unwrap().get()
}

fn add(worker: &mut Worker, at: u64, change: u64) -> Result<u64, Error> {
    let sum = worker.load(at)?.wrapping_add(change);
    worker.store(at, sum)?;
    Ok(sum)
}

/// An object opens with the engine that made it and no other.
#[test]
fn each_engine_refuses_the_others_object() {
    let (store, redo) = create(1 << 20);
    drop(redo);
    assert!(matches!(Undo::open(store.object("test").unwrap()), Err(Error::NoLane { .. })));
    store.create_object("undone", options(1 << 20), Undo::format).unwrap();
    assert!(matches!(Redo::open(store.object("undone").unwrap()), Err(Error::Store(_))));
}

/// Logs of another format are refused, and stay as they are.
#[test]
fn other_formats_are_refused() {
    for (format, expected) in [(1, "no release wrote it"), (3, "use a newer Everbyte")] {
        let (store, redo) = create(1 << 20);
        let at = redo.heap().object().prime() + TABLE;
        drop(redo);
        let media = store.media();
        let mut table: Table = media.get(at);
        table.format = format;
        table = table.sealed();
        media.put(at, &table);
        let refused = Redo::open(store.object("test").unwrap()).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
        assert_eq!(media.get::<Table>(at), table);
    }
}

/// Every byte of the lane table that is read is proven: by its checksum, or by the block it names.
#[test]
fn a_lane_table_of_which_a_bit_has_changed_is_refused() {
    let (store, redo) = create(1 << 20);
    let at = redo.heap().object().prime() + TABLE;
    drop(redo);
    for byte in 0..72 {
        // the rest is not read
        let good = store.media().get::<u8>(at + byte);
        store.media().put(at + byte, &(good ^ 1));
        assert!(Redo::open(store.object("test").unwrap()).is_err(), "byte {byte}");
        store.media().put(at + byte, &good);
    }
    Redo::open(store.object("test").unwrap()).unwrap();
}

/// A commit whose record finds too little room gives back what it has found.
#[test]
fn a_record_without_room_leaves_the_heap_as_it_was() {
    let (_store, redo) = create(1 << 20);
    let at = table(&redo, 40 << 10);
    let free = || {
        let blocks: Vec<_> = std::iter::from_fn(|| redo.heap().reserve(4096).ok()).collect();
        let count = blocks.len();
        blocks.into_iter().for_each(|block| redo.heap().cancel(block));
        count
    };
    let before = free();
    let mut worker = redo.worker();
    for _ in 0..3 {
        worker.begin().unwrap();
        (0..40 << 10).for_each(|word| worker.store(at + word * 8, word).unwrap());
        let filling: Vec<_> = (0..(before - 40) / 2).map_while(|_| redo.heap().reserve(8192).ok()).collect();
        let error = worker.commit().unwrap_err();
        assert!(matches!(&error, Error::Heap(error) if error.is_full()), "{error}");
        worker.give_up();
        filling.into_iter().for_each(|block| redo.heap().cancel(block));
        assert_eq!(free(), before);
    }
}

/// So does one that lies in more pieces than its log has room to name.
#[test]
fn a_record_in_too_many_pieces_leaves_the_heap_as_it_was() {
    let (_store, redo) = create_with(1 << 20, 4, 320);
    let at = table(&redo, 8 << 10);
    let fill = || std::iter::from_fn(|| redo.heap().reserve(8192).ok()).collect::<Vec<_>>();
    let mut blocks = fill();
    blocks.sort();
    let (spare, held): (Vec<_>, Vec<_>) = blocks.iter().enumerate().partition(|(index, _)| index % 2 == 0);
    assert!(spare.len() > 20 && held.len() > 20);
    spare.iter().for_each(|(_, block)| redo.heap().cancel(**block));
    let mut worker = redo.worker();
    for _ in 0..3 {
        worker.begin().unwrap();
        (0..8 << 10).for_each(|word| worker.store(at + word * 8, word).unwrap());
        assert!(matches!(worker.commit(), Err(Error::Log(_))));
        worker.give_up();
        let free = fill();
        assert_eq!(free.len(), spare.len());
        free.into_iter().for_each(|block| redo.heap().cancel(block));
    }
}

/// A commit in conflict gives back the blocks in which its record lay.
#[test]
fn a_long_record_in_conflict_leaves_the_heap_as_it_was() {
    let (_store, redo) = create(1 << 20);
    let at = table(&redo, 8 << 10);
    let free = || {
        let blocks: Vec<_> = std::iter::from_fn(|| redo.heap().reserve(4096).ok()).collect();
        let count = blocks.len();
        blocks.into_iter().for_each(|block| redo.heap().cancel(block));
        count
    };
    let (before, root) = (free(), redo.heap().object().prime() + 3072);
    let mut worker = redo.worker();
    for value in 1..4 {
        worker.begin().unwrap();
        worker.load(root).unwrap();
        (0..8 << 10).for_each(|word| worker.store(at + word * 8, word).unwrap());
        std::thread::scope(|threads| {
            // Waits for the end of this one.
            let other = threads.spawn(|| redo.atomically(|tx| tx.store(root, value)).unwrap());
            while redo.media().load(root) != value && !other.is_finished() {
                std::thread::yield_now();
            }
            let ended = worker.commit();
            worker.give_up();
            assert!(matches!(ended, Err(Error::Conflict)));
        });
        assert_eq!(free(), before);
    }
}

/// A block allocated and freed by one transaction serves the next ones.
#[test]
fn blocks_that_a_transaction_frees_again_are_reserved_to_its_end_alone() {
    let (_store, redo) = create(1 << 20);
    for round in 0..100 {
        let done = redo.atomically(|tx| {
            let block = tx.allocate(60_000)?;
            tx.free(block.at)?;
            if round % 2 == 0 { Ok(()) } else { Err(Error::NoLane { object: "on purpose".into() }) }
        });
        assert_eq!(done.is_ok(), round % 2 == 0, "{done:?}");
        assert!(!matches!(done, Err(TxError::Engine(_))), "{done:?}");
    }
}

/// Four threads move money between sixteen accounts, others add them up: every sum is the same.
#[test]
fn what_a_transaction_sees_was_there_at_one_time() {
    const ACCOUNTS: u64 = 16;
    for truncation in [Truncation::Synchronous, Truncation::Asynchronous] {
        let (_store, redo) = create(4 << 20);
        redo.set_truncation(truncation);
        let at = table(&redo, ACCOUNTS * 5);
        let account = |index: u64| at + index % ACCOUNTS * 40; // some share a stripe, some a line
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for seed in 0..3u64 {
                let (redo, over) = (&redo, &over);
                threads.spawn(move || {
                    let mut random = seed + 1;
                    for _ in 0..3000 {
                        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                        let (from, to, amount) = (random >> 33, random >> 40, random >> 50);
                        let moved = redo.atomically(|tx| {
                            add(tx, account(from), amount.wrapping_neg())?;
                            add(tx, account(to), amount)
                        });
                        moved.unwrap();
                    }
                    over.store(true, Ordering::Release);
                });
            }
            while !over.load(Ordering::Acquire) {
                let sum = redo.atomically(|tx| {
                    (0..ACCOUNTS)
                        .try_fold(0u64, |sum, index| Ok::<_, Error>(sum.wrapping_add(tx.load(account(index))?)))
                });
                assert_eq!(sum.unwrap(), 0);
            }
        });
        redo.truncate();
        let sum = (0..ACCOUNTS).fold(0u64, |sum, index| sum.wrapping_add(redo.media().load(account(index))));
        assert_eq!(sum, 0);
    }
}

/// Stored bytes are loaded again; an abort leaves the old ones.
#[test]
fn a_transaction_reads_its_own_stores() {
    let (_store, redo) = create(1 << 20);
    let at = table(&redo, 8);
    let aborted = redo.atomically(|tx| {
        tx.store(at, 0x1111_1111_1111_1111)?;
        tx.write(at + 3, &[7; 9])?;
        let mut bytes = [0; 16];
        tx.read(at, &mut bytes)?;
        assert_eq!(bytes, [0x11, 0x11, 0x11, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0]);
        assert_eq!(redo.media().load(at), 0, "nothing is stored before the commit");
        Err::<(), _>(Error::NoLane { object: "on purpose".into() })
    });
    assert!(matches!(aborted, Err(TxError::Aborted(_))));
    assert_eq!(redo.media().read_vec(at, 16), [0; 16]);
}

/// Stores to its own new blocks are done in place, also beside other stores.
#[test]
fn a_block_of_the_transactions_own_shares_a_line_with_another() {
    let (_store, redo) = create(1 << 20);
    let elsewhere = table(&redo, 8);
    let before = redo.atomically::<_, Error>(|tx| tx.allocate(16)).unwrap();
    let own = redo.atomically::<_, Error>(|tx| {
        let own = tx.allocate(16)?;
        assert_eq!(own.at.get() / 64, before.at.get() / 64);
        tx.store(before.at.get(), 1)?;
        tx.store(own.at.get(), 2)?;
        tx.store(elsewhere, 3)?;
        tx.store(own.at.get(), 4)?;
        assert_eq!(tx.load(own.at.get())?, 4);
        Ok(own)
    });
    assert_eq!([before.at, own.unwrap().at].map(|at| redo.media().load(at)), [1, 4]);
}

/// One fence where a thread truncates; where the transaction does, its log is empty and each line
/// is flushed once.
#[test]
fn fences_and_lines_are_counted() {
    let (_store, redo) = create(1 << 20);
    let at = table(&redo, 64);
    let cost = |truncation| {
        redo.set_truncation(truncation);
        let mut worker = redo.worker();
        let before = redo.media().counts();
        worker.begin().unwrap();
        (0..16).for_each(|word| worker.store(at + word * 8, word).unwrap()); // two lines
        worker.store(at, 5).unwrap();
        worker.commit().unwrap();
        let after = redo.media().counts();
        (after.fences - before.fences, after.lines - before.lines)
    };
    let record_lines = (1 + 2 + 1 + 16 + 1_u64).div_ceil(8);
    let (fences, lines) = cost(Truncation::Synchronous);
    assert_eq!(fences, 3);
    assert_eq!(lines, record_lines + 2 + 1, "record, two lines, head");
    let (fences, lines) = cost(Truncation::Asynchronous);
    assert_eq!(fences, 1);
    assert_eq!(lines, record_lines, "the record alone");
}

/// The log of a transaction that truncates is empty when its commit returns, also after a time
/// without: a store outside of transactions is not replaced by an older one.
#[test]
fn a_commit_after_the_switch_to_synchronous_truncation_leaves_nothing_in_the_logs() {
    let (_store, redo) = create(1 << 20);
    let at = table(&redo, 8);
    redo.set_truncation(Truncation::Asynchronous);
    redo.atomically(|tx| tx.store(at, 1)).unwrap();
    redo.set_truncation(Truncation::Synchronous);
    redo.atomically(|tx| tx.store(at, 2)).unwrap();
    redo.media().store(at, 5);
    redo.media().flush(at, 8);
    redo.media().barrier().unwrap();
    let crashed = Store::attach(Image::of(redo.media()).media()).unwrap();
    let redo = Redo::open(crashed.object("test").unwrap()).unwrap();
    assert_eq!((redo.replayed().transactions, redo.media().load(at)), (0, 5));
}

/// A transaction waits for space in a full log, whichever side truncates, and forgets nothing.
#[test]
fn a_full_log_stalls_and_goes_on() {
    let (_store, redo) = create_with(1 << 20, 1, 512);
    let at = table(&redo, 64);
    redo.set_truncation(Truncation::Asynchronous);
    for round in 1..500u64 {
        redo.atomically(|tx| (0..8).try_for_each(|word| tx.store(at + (word * 8 + round) % 64 * 8, round))).unwrap();
    }
    redo.truncate();
    let newest = (0..64).map(|word| redo.media().load(at + word * 8)).max();
    assert_eq!(newest, Some(499));
}

/// A transaction that touches a gigabyte is refused, before it has taken that much memory; nothing
/// of it has happened, and the next one does.
#[test]
fn a_transaction_that_touches_a_gigabyte_is_refused() {
    const LEN: u64 = 1 << 30;
    let (_store, redo) = create_with(2 * LEN, 4, 4096);
    let at = redo.atomically(|tx| tx.allocate(LEN)).unwrap().at.get();
    redo.media().store(at, 7);
    let refused = redo.atomically(|tx| (at..at + LEN).step_by(8).try_for_each(|word| tx.store(word, 1)));
    assert!(matches!(refused, Err(TxError::Aborted(Error::TooLong { most: STRIPES_MAX, .. }))), "{refused:?}");
    assert_eq!(redo.media().load(at), 7);
    redo.atomically(|tx| tx.store(at, 8)).unwrap();
    assert_eq!((redo.media().load(at), redo.media().load(at + 32)), (8, 0));
    assert_eq!(redo.check(Some(&BTreeSet::from([at]))), []);
}

/// A transaction that does not fit its log goes through blocks of the heap, which come back; one
/// that does not fit the object is an error and leaves nothing.
#[test]
fn transactions_longer_than_their_log() {
    let (store, redo) = create_with(2 << 20, 2, 512);
    let at = table(&redo, 30_000);
    for truncation in [Truncation::Synchronous, Truncation::Asynchronous] {
        redo.set_truncation(truncation);
        redo.atomically(|tx| (0..10_000).try_for_each(|word| tx.store(at + word * 8, word + 1))).unwrap();
        redo.truncate();
        assert!((0..10_000).all(|word| redo.media().load(at + word * 8) == word + 1));
        assert_eq!(redo.heap().usage().unwrap().blocks, 2);
    }
    let far = table(&redo, 180_000);
    let outcome = redo.atomically(|tx| (0..180_000).try_for_each(|word| tx.store(far + word * 8, 9)));
    assert!(matches!(&outcome, Err(TxError::Engine(Error::Heap(error))) if error.is_full()), "{outcome:?}");
    assert!((0..180_000).all(|word| redo.media().load(far + word * 8) == 0));
    redo.truncate();
    drop(redo);
    assert_eq!(Redo::open(store.object("test").unwrap()).unwrap().replayed().transactions, 0);
}

/// Records that wait in the logs are stored again when the engine is opened, and timestamps go on
/// above them.
#[test]
fn timestamps_go_on_above_the_newest() {
    let (store, mut redo) = create(1 << 20);
    let at = table(&redo, 8);
    for round in 1..4 {
        redo.set_truncation(Truncation::Asynchronous);
        redo.atomically(|tx| tx.store(at, round)).unwrap();
        redo.media().store(at, 99); // as if the store had been lost
        drop(redo);
        redo = Redo::open(store.object("test").unwrap()).unwrap();
        assert_eq!(redo.replayed().transactions, 1, "round {round}");
        assert_eq!(redo.media().load(at), round);
    }
}

/// Timestamps have 48 bits, beside the form of a record: the transaction behind the last one is
/// refused, not misread.
#[test]
fn a_transaction_beyond_the_last_timestamp_is_refused() {
    let (store, redo) = create(1 << 20);
    let at = table(&redo, 8);
    redo.atomically(|tx| tx.store(at, 1)).unwrap();
    let floor = redo.heap().object().prime() + layout::FLOOR;
    drop(redo);
    store.media().store(floor, everbyte_media::sealed::seal_low(layout::TIMESTAMPS_LAST - 2));
    let redo = Redo::open(store.object("test").unwrap()).unwrap();
    redo.set_truncation(Truncation::Asynchronous);
    for value in [2, 3] {
        redo.atomically(|tx| tx.store(at, value)).unwrap();
    }
    let refused = |redo: &Redo| redo.atomically(|tx| tx.store(at, 4)).unwrap_err();
    assert!(matches!(refused(&redo), TxError::Engine(Error::TimestampsExhausted { .. })));
    redo.truncate();
    assert!(
        everbyte_media::sealed::unseal_low(store.media().load(floor)).is_some_and(|floor| floor < layout::TIMESTAMPS)
    );
    drop(redo);
    let redo = Redo::open(store.object("test").unwrap()).unwrap();
    assert!(matches!(refused(&redo), TxError::Engine(Error::TimestampsExhausted { .. })), "after opening, too");
    assert_eq!(store.media().load(at), 3, "what was committed is there");
}

/// A checkpoint takes back later stores, blocks and frees, and leaves earlier ones.
#[test]
fn a_checkpoint_takes_back_what_came_after_it() {
    let (_store, redo) = create(1 << 20);
    let at = table(&redo, 8);
    let mut worker = redo.worker();
    worker.begin().unwrap();
    let kept = worker.allocate(64).unwrap();
    worker.store(kept.at.get(), 1).unwrap();
    worker.store(at, 1).unwrap();
    let checkpoint = worker.checkpoint();
    worker.store(at, 2).unwrap();
    worker.store(at + 8, 2).unwrap();
    worker.store(kept.at.get(), 2).unwrap();
    let lost = worker.allocate(64).unwrap();
    worker.free(kept.at.get()).unwrap();
    worker.roll_back_to(checkpoint);
    assert_eq!(
        (worker.load(at).unwrap(), worker.load(at + 8).unwrap(), worker.load(kept.at.get()).unwrap()),
        (1, 0, 1)
    );
    worker.store(at + 16, kept.at.get()).unwrap();
    worker.commit().unwrap();
    assert_eq!(redo.heap().size_of(kept.at.get()).unwrap(), 64);
    assert!(redo.heap().size_of(lost.at.get()).is_err());
    assert_eq!([0, 8, 16].map(|word| redo.media().load(at + word)), [1, 0, kept.at.get()]);
}

/// Places that are not data are refused: the heap's own pages, the logs, other objects, numbers
/// that are no places.
#[test]
fn places_that_are_not_data_are_refused() {
    let (_store, redo) = create(1 << 20);
    let prime = redo.heap().object().prime().get();
    for at in [0, prime, prime + 512, prime + 4096, redo.logs_at().get(), prime + (1 << 20), u64::MAX - 7, 12] {
        let outcome = redo.atomically(|tx| tx.store(at, 1));
        assert!(matches!(outcome, Err(TxError::Aborted(Error::BadRange { .. }))), "{at:#x}: {outcome:?}");
    }
    redo.atomically(|tx| tx.store(prime + 4088, 1)).unwrap();
    // A word of the header beside the root word, of which the transaction has stored to the root
    // word.
    let root = redo.heap().object().root_at();
    let header = redo.media().read_vec(root, 32);
    for bytes in [16, 24] {
        let outcome = redo.atomically(|tx| {
            tx.store(root.get(), 1)?;
            tx.write(root.get(), &vec![7; bytes])
        });
        assert!(matches!(outcome, Err(TxError::Aborted(Error::BadRange { .. }))), "{outcome:?}");
        assert_eq!(redo.media().read_vec(root, 32), header);
    }
}

/// An unused engine is whole, its logs are no leak, and damage is named with its place.
#[test]
fn a_check_knows_the_logs_and_names_damage() {
    let (_store, redo) = create(1 << 20);
    let at = table(&redo, 8);
    assert_eq!(redo.check(Some(&BTreeSet::from([at]))), []);
    assert_eq!(redo.check(Some(&BTreeSet::new())).len(), 1, "the table has leaked");
    let floor = redo.heap().object().prime() + layout::FLOOR;
    redo.media().store(floor, 77);
    assert!(redo.check(None).iter().any(|finding| finding.at == floor.get()));
}

/// A block that was freed is not handed out again while a transaction runs that began before.
#[test]
fn a_freed_block_waits_for_those_who_may_look_at_it() {
    let (_store, redo) = create(1 << 20);
    let at = table(&redo, 8);
    let block = redo.atomically(|tx| {
        let block = tx.allocate(5000)?;
        tx.store(at, block.at.get())?;
        Ok::<_, Error>(block)
    });
    let block = block.unwrap();
    std::thread::scope(|threads| {
        let mut reader = redo.worker();
        reader.begin().unwrap();
        assert_eq!(reader.load(at).unwrap(), block.at.get());
        let freeing = threads.spawn(|| {
            redo.atomically(|tx| {
                tx.store(at, 0)?;
                tx.free(block.at.get())
            })
            .unwrap();
        });
        while redo.media().load(at) != 0 {
            std::thread::yield_now();
        }
        assert!(reader.allocate(5000).unwrap().at != block.at);
        assert!(matches!(reader.size_of(block.at), Err(Error::Conflict)), "it has loaded the address before");
        assert!(matches!(reader.free(block.at), Err(Error::Conflict)));
        reader.abort();
        freeing.join().unwrap();
    });
    let again = redo.atomically(|tx| tx.allocate(5000)).unwrap();
    assert!(again.at <= block.at + 8192, "{again:?} after {block:?}");
}

/// Two transactions free one block: one of them is begun again, and finds that it is gone. Without
/// another transaction in its way the heap's error remains.
#[test]
fn a_free_meets_that_of_another_transaction() {
    let (_store, redo) = create(1 << 20);
    let at = table(&redo, 8);
    let replace = |tx: &mut Worker, size: u64| {
        let (old, new) = (tx.load(at)?, if size == 0 { 0 } else { tx.allocate(size)?.at.get() });
        if old != 0 {
            tx.free(old)?;
        }
        tx.store(at, new)?;
        Ok::<_, Error>(old != 0)
    };
    for size in [64, 20_000] {
        redo.atomically(|tx| replace(tx, size)).unwrap();
        let (mut first, mut second) = (redo.worker(), redo.worker());
        let blocks = [&mut first, &mut second].map(|worker| {
            worker.begin().unwrap();
            worker.load(at).unwrap()
        });
        first.free(blocks[0]).unwrap();
        let twice = first.free(blocks[0]);
        assert!(matches!(twice, Err(Error::Heap(everbyte_heap::Error::BeingFreed { .. }))), "{twice:?}");
        assert!(matches!(second.free(blocks[1]), Err(Error::Conflict)));
        second.abort_to_retry();
        first.store(at, 0).unwrap();
        first.commit().unwrap();
        assert!(!redo.atomically(|tx| replace(tx, 0)).unwrap());

        redo.atomically(|tx| replace(tx, size)).unwrap();
        let freed_outside = redo.heap().op_free(redo.media().load(at)).unwrap();
        let outcome = redo.atomically(|tx| replace(tx, 0));
        assert!(
            matches!(outcome, Err(TxError::Aborted(Error::Heap(everbyte_heap::Error::BeingFreed { .. })))),
            "{outcome:?}"
        );
        redo.heap().abandon(&[freed_outside]);
        assert!(redo.atomically(|tx| replace(tx, 0)).unwrap());
    }
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads
                .spawn(|| (0..2000).for_each(|round| _ = redo.atomically(|tx| replace(tx, round % 2 * 64)).unwrap()));
        }
    });
}

/// A block that a commit took out of reach belongs to its thread alone when the commit returns:
/// transactions that began before have ended by then.
#[test]
fn a_commit_returns_when_those_who_began_before_have_ended() {
    for truncation in [Truncation::Synchronous, Truncation::Asynchronous] {
        let (_store, redo) = create(1 << 20);
        redo.set_truncation(truncation);
        let at = table(&redo, 8);
        let mut reader = redo.worker();
        reader.begin().unwrap();
        assert_eq!(reader.load(at).unwrap(), 0);
        std::thread::scope(|threads| {
            let taking = threads.spawn(|| redo.atomically(|tx| tx.store(at, 1)).unwrap());
            while redo.media().load(at) == 0 {
                std::thread::yield_now();
            }
            for _ in 0..20_000 {
                assert!(!taking.is_finished(), "a transaction that began before still runs");
                std::thread::yield_now();
            }
            reader.abort();
        });
    }
}

/// A pass of truncation does not give a freed block out while a transaction runs that began before
/// the commit that freed it, though that commit's record is truncated (REDO-6).
#[test]
fn a_freed_block_is_not_reused_while_an_older_transaction_runs() {
    let (_store, redo) = create(1 << 20);
    redo.set_truncation(Truncation::Asynchronous);
    let at = table(&redo, 8);
    let make = |redo: &Redo| redo.atomically(|tx| Ok::<_, Error>(tx.allocate(3000)?.at)).unwrap();
    let block = make(&redo);
    redo.truncate();
    let mut reader = redo.worker();
    reader.begin().unwrap();
    assert_eq!(reader.load(at).unwrap(), 0);
    let mut reused = false;
    std::thread::scope(|threads| {
        let freeing = threads.spawn(|| {
            let free = |tx: &mut Worker| tx.store(at, 1).and_then(|()| tx.free(block.get()));
            redo.atomically(free).unwrap();
        });
        while redo.media().load(at) == 0 {
            std::thread::yield_now();
        }
        for _ in 0..100 {
            redo.truncate();
            let mut other = redo.worker();
            other.begin().unwrap();
            reused |= other.allocate(3000).unwrap().at == block;
            other.abort();
        }
        reader.abort();
        freeing.join().unwrap();
    });
    assert!(!reused, "the reader could still load from it");
    redo.truncate();
    let found = (0..400).any(|_| make(&redo) == block);
    assert!(found, "the block is of use again once the reader has ended");
}

/// A transaction that has met many conflicts runs alone: a later one waits until it has
/// committed.
#[test]
fn a_transaction_that_always_meets_others_runs_alone_in_the_end() {
    const PATIENCE: u32 = 24;
    let (_store, redo) = create(1 << 20);
    let at = table(&redo, 8);
    let (mut unlucky, mut other) = (redo.worker(), redo.worker());
    other.begin().unwrap();
    add(&mut other, at, 1).unwrap();
    for attempt in 0..PATIENCE {
        unlucky.begin().unwrap();
        assert_eq!(unlucky.attempts(), attempt);
        assert!(matches!(add(&mut unlucky, at, 10), Err(Error::Conflict)));
        unlucky.abort_to_retry();
    }
    other.commit().unwrap();
    unlucky.begin().unwrap();
    std::thread::scope(|threads| {
        let coming = threads.spawn(|| redo.atomically(|tx| add(tx, at + 8, 1)).unwrap());
        let has_come = (0..20_000).any(|_| {
            std::thread::yield_now();
            redo.media().load(at + 8) != 0
        });
        let sum = add(&mut unlucky, at, 10);
        unlucky.commit().unwrap();
        coming.join().unwrap();
        assert!(!has_come && sum.unwrap() == 11, "it runs alone, whatever others change");
    });
    assert_eq!([at, at + 8].map(|at| redo.media().load(at)), [11, 1]);
    assert_eq!(unlucky.attempts(), 0);
}

/// A commit whose barrier fails has stored nothing in place and given no lock back: no transaction
/// reads data that the medium may not have, even one that began before, none begins, and none
/// commits. Its record may be found later: its block belongs to it.
#[test]
fn a_commit_whose_barrier_fails_shows_nothing_to_anybody() {
    let image = Image::zeroed(128 << 10).with_max(2 << 20).then(|media| {
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let options = ObjectOptions { engine: Engine::Redo, ..options(1 << 20) };
        let object = store.create_object("test", options, |object| Redo::format_with(object, 4, 4096)).unwrap();
        table(&Redo::open(object).unwrap(), 16);
        store.close().unwrap();
    });
    let program = |media: Media| -> Result<(), Error> {
        let store = Store::attach(media)?;
        let redo = Redo::open(store.object("test")?)?;
        let at = redo.heap().object().root();
        let (mut worker, mut beside, mut apart) = (redo.worker(), redo.worker(), redo.worker());
        beside.begin()?;
        apart.begin()?;
        apart.store(at + 64, 1)?;
        worker.begin()?;
        let block = worker.allocate(20_000)?;
        worker.store(at, block.at.get())?;
        let outcome = std::thread::scope(|threads| {
            let committing = threads.spawn(|| worker.commit()); // whose success waits for `beside`
            while !committing.is_finished() && redo.media().load(at) == 0 {
                std::thread::yield_now();
            }
            if redo.media().load(at) == 0 {
                assert!(matches!(beside.load(at), Err(Error::Conflict)), "REDO-3");
                assert!(matches!(redo.worker().begin(), Err(Error::Poisoned { .. })));
                assert!(matches!(committing.join().unwrap(), Err(Error::Media(_))));
                assert!(matches!(apart.commit(), Err(Error::Poisoned { .. })));
                return Err(Error::Conflict);
            }
            beside.abort();
            apart.abort();
            committing.join().unwrap()
        });
        if matches!(outcome, Err(Error::Conflict)) {
            worker.abort();
            assert!(redo.heap().reserve(20_000)?.at != block.at, "the record may be in the log");
        }
        outcome
    };
    let refused = AtomicBool::new(false);
    fault_loop(&image, program, |media, result| {
        refused.fetch_or(matches!(result, Err(Error::Conflict)), Ordering::Relaxed);
        let store = Store::attach(media).map_err(|error| error.to_string())?;
        let redo = Redo::open(store.object("test").map_err(|error| error.to_string())?);
        redo.map(drop).map_err(|error| error.to_string())
    });
    assert!(refused.into_inner(), "the barrier of the commit was one of them");
}

/// Records that are replayed free blocks. These serve the process that replays, and not only the
/// next one.
#[test]
fn blocks_that_replayed_records_free_are_allocated_by_the_same_process() {
    let (_store, redo) = create(1 << 20);
    redo.set_truncation(Truncation::Asynchronous);
    let block = redo.atomically(|tx| tx.allocate(300_000)).unwrap();
    redo.atomically(|tx| tx.free(block.at.get())).unwrap();
    let crashed = Image::of(redo.media());
    let [first, second] = [1, 2].map(|openings| {
        let store = Store::attach(crashed.media()).unwrap();
        let open = || Redo::open(store.object("test").unwrap()).unwrap();
        (1..openings).for_each(|_| assert!(open().replayed().transactions > 0));
        let redo = open();
        assert_eq!(redo.replayed().transactions > 0, openings == 1);
        (0..100).take_while(|_| redo.heap().reserve(50_000).is_ok()).count()
    });
    assert_eq!(first, second, "blocks of 50 kB until the heap is full");
    assert!(first >= 5, "{first}");
}

/// A free that a checkpoint takes back is no part of the commit.
#[test]
fn a_checkpoint_takes_back_frees() {
    let (_store, redo) = create(1 << 20);
    let at = table(&redo, 16);
    let mut worker = redo.worker();
    worker.begin().unwrap();
    let checkpoint = worker.checkpoint();
    worker.free(at).unwrap();
    worker.roll_back_to(checkpoint);
    worker.store(at, 1).unwrap();
    worker.commit().unwrap();
    assert_eq!((redo.heap().size_of(at).unwrap() >= 128, redo.media().load(at)), (true, 1));
    worker.begin().unwrap();
    worker.free(at).unwrap();
    worker.commit().unwrap();
    assert!(redo.heap().size_of(at).is_err());
}

/// A full heap is asked again once the logs are truncated: freed blocks may wait for that.
#[test]
fn blocks_that_wait_for_truncation_serve_a_full_heap() {
    let (_store, redo) = create(1 << 20);
    redo.set_truncation(Truncation::Asynchronous);
    let mut worker = redo.worker();
    for _ in 0..5 {
        worker.begin().unwrap();
        let block = worker.allocate(600_000).unwrap();
        worker.commit().unwrap();
        worker.begin().unwrap();
        worker.free(block.at).unwrap();
        worker.commit().unwrap();
    }
}

/// A thread that has read memory under a lock which another one took and gave back, by an abort,
/// does not take what it read for unchanged.
#[test]
fn memory_that_an_abort_has_put_back_is_read_again() {
    let (_store, redo) = create(1 << 20);
    let (mut reader, mut writer, address) = (redo.worker(), redo.worker(), 0x1000);
    reader.begin().unwrap();
    assert_eq!(reader.load_foreign(address, |_| 7), Ok(7));
    writer.begin().unwrap();
    writer.lock_foreign(address).unwrap();
    writer.abort();
    assert!(reader.load_foreign(address, |_| 7).is_err(), "it may have seen the change");
    reader.abort();
}
