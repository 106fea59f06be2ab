//! `check` of an engine: a whole one has no findings, and each kind of damage is named with its
//! place.

use crate::common::options;
use crate::common::{create, table};
use everbyte_media::{Media, Offset, Options};
use everbyte_store::{FindingKind, FormatOptions, Store};
use everbyte_tx::layout::{LANES_AT, TABLE};
use everbyte_tx::{Error, TxError, TxLock, Undo};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn a_working_engine_is_whole_and_its_lanes_are_no_leak() {
    let (_store, undo) = create(8 << 20, 4 << 20);
    let at = table(&undo, 64);
    let mut reachable = BTreeSet::from([at]);
    for round in 0..50_u64 {
        let block = undo.run(|tx| {
            tx.store(at, round)?;
            tx.allocate(100 + round * 300)
        });
        reachable.insert(block.unwrap().at.get());
    }
    assert_eq!(undo.check(None), []);
    assert_eq!(undo.check(Some(&reachable)), []);
    let lost = reachable.pop_last().unwrap();
    let findings = undo.check(Some(&reachable));
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!((findings[0].room, findings[0].kind, findings[0].at), ("heap", FindingKind::Leak, lost));
    reachable.extend([lost, lost + (1 << 20)]);
    let findings = undo.check(Some(&reachable));
    assert!(findings.iter().any(|finding| finding.kind == FindingKind::DoubleUse), "{findings:?}");
}

#[test]
fn damage_is_named_with_its_place() {
    let (_store, undo) = create(8 << 20, 4 << 20);
    let (media, prime) = (undo.media().clone(), undo.heap().object().prime());
    let lanes = media.load(prime + LANES_AT);
    let found = |undo: &Undo| {
        let found = undo.check(None).into_iter().map(|finding| (finding.room, finding.kind, finding.at));
        found.collect::<Vec<_>>()
    };
    for (word, at) in [
        (prime + TABLE + 16, prime + TABLE),
        (prime + LANES_AT, prime + LANES_AT),
        (Offset::new(lanes), Offset::new(lanes)),
    ] {
        let good = media.load(word);
        media.store(word, good ^ 1 << 20);
        assert!(found(&undo).contains(&("tx", FindingKind::Damage, at.get())), "{word:#x}: {:x?}", undo.check(None));
        media.store(word, good);
    }
    assert_eq!(found(&undo), []);
    // A lane with entries in force and without a transaction: its changes would be lost at the next
    // opening.
    let word = lanes + 64;
    let good = media.load(word);
    media.store(word, !good);
    assert!(!found(&undo).is_empty());
    media.store(word, good);
    undo.run(|tx| tx.allocate(64).map(drop)).unwrap();
    assert!(matches!(undo.run(|tx| tx.free(lanes + 64)), Err(everbyte_tx::TxError::Aborted(Error::Heap(_)))));
    assert_eq!(found(&undo), []);
}

/// A rollback that fails keeps its lane and its locks: a thread that waits for them gets an error,
/// a check names the lane.
#[test]
fn no_thread_waits_for_a_rollback_that_has_failed() {
    const LANE: u64 = 4096;
    // With one lane the second thread waits for it, with two it waits for the lock.
    for lanes in [1, 2] {
        let store = Store::format(Media::anonymous(8 << 20, &Options::default()).unwrap(), &FormatOptions::default());
        let object =
            store.unwrap().create_object("test", options(4 << 20), |object| Undo::format_with(object, lanes, LANE));
        let undo = Undo::open(object.unwrap()).unwrap();
        let (at, lock, media) = ((undo.heap().object().prime() + 3072).get(), TxLock::new(), undo.media());
        let ((comes, coming), (tells, told)) = (channel(), channel());
        let failed = undo.run(|tx| {
            tx.lock(&lock)?;
            tx.store(at, 1)?;
            let (undo, lock) = (undo.clone(), lock.clone());
            std::thread::spawn(move || {
                comes.send(()).unwrap();
                let outcome = undo.run(|tx| tx.lock(&lock));
                tells.send((outcome, undo.check(None), undo.logged())).unwrap();
            });
            coming.recv().unwrap();
            (0..100).for_each(|_| std::thread::yield_now()); // it waits by now, most likely
            for entry in (0..u64::from(lanes)).map(|lane| media.load(undo_lanes(tx.heap())) + lane * LANE + 128) {
                media.store(entry, !media.load(entry));
            }
            Err::<(), Error>(Error::NoLane { object: "on purpose".into() })
        });
        assert!(matches!(failed, Err(TxError::Engine(Error::Log(_)))), "{failed:?}");
        let (outcome, findings, _) = told.recv_timeout(Duration::from_secs(60)).expect("it waits for ever");
        assert!(matches!(outcome, Err(TxError::Aborted(Error::Poisoned { .. }))), "{outcome:?}");
        let is_of_the_lane = |text: &str| text.contains("rollback has failed in lane");
        assert!(findings.iter().any(|finding| is_of_the_lane(&finding.detail)), "{findings:?}");
    }
}

fn undo_lanes(heap: &everbyte_heap::Heap) -> u64 {
    (heap.object().prime() + LANES_AT).get()
}
