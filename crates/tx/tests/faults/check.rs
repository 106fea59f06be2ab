//! `check` of an engine: a whole one has no findings, and each kind of damage is named with its
//! place.

use crate::common::{create, table};
use everbyte_media::Offset;
use everbyte_store::FindingKind;
use everbyte_tx::layout::{LANES_AT, TABLE};
use everbyte_tx::{Error, Undo};
use std::collections::BTreeSet;

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
