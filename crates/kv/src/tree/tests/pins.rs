//! Pins: the oldest one holds the horizon, also on the machine's own atomics.

use crate::tree::layout::ReadersPage;
use crate::tree::number::Version;
use crate::tree::pins::{KeyCounts, Pins, Published};
use crate::tree::readers::{LIMIT, Page, Place, Reader, Unready};
use crate::tree::sync::{SLOTS, Words};
use everbyte_media::{Media, Offset};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

#[test]
fn the_oldest_pin_holds_the_horizon() {
    let pins = Pins::new(Published { version: Version::new(5), root: 0, keys: KeyCounts::default() });
    let (early, seen) = pins.pin();
    assert_eq!(seen.version, 5);
    pins.publish(Published { version: Version::new(9), root: 1, keys: KeyCounts::default() });
    let many: Vec<_> = (0..2 * SLOTS).map(|_| pins.pin()).collect();
    assert!(many.iter().all(|(_, seen)| seen.version == 9));
    assert_eq!(pins.oldest(), 5);
    pins.unpin(&early);
    assert_eq!(pins.oldest(), 9);
    pins.publish(Published { version: Version::new(12), root: 1, keys: KeyCounts::default() });
    assert_eq!(pins.oldest(), 9);
    many.iter().for_each(|(ticket, _)| pins.unpin(ticket));
    assert_eq!(pins.oldest(), 12);
}

/// A pin holds the horizon from every slot, and from the list behind them.
#[test]
fn every_pin_holds_the_horizon() {
    let published = |version| Published { version: Version::new(version), root: 0, keys: KeyCounts::default() };
    let pins = Pins::new(published(1));
    let count = SLOTS as u64 + 3;
    let tickets: Vec<_> = (1..=count)
        .map(|version| {
            pins.publish(published(version));
            pins.pin().0
        })
        .collect();
    for (version, ticket) in (1..=count).zip(&tickets) {
        assert_eq!(pins.oldest(), version);
        pins.unpin(ticket);
    }
    // A slot that was given back is used again.
    pins.publish(published(count + 1));
    let again: Vec<_> = (0..SLOTS).map(|_| pins.pin().0).collect();
    pins.publish(published(count + 2));
    assert_eq!(pins.oldest(), count + 1);
    again.iter().for_each(|ticket| pins.unpin(ticket));
    assert_eq!(pins.oldest(), count + 2);
}

/// A writer that reclaims below `oldest` never reclaims what a reader has pinned.
#[test]
fn pin_and_publish_race() {
    let pins = Pins::new(Published { version: Version::new(1), root: 0, keys: KeyCounts::default() });
    let reclaimed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..50_000 {
                    let (ticket, seen) = pins.pin();
                    assert!(reclaimed.load(SeqCst) <= seen.version.get(), "PIN-1");
                    pins.unpin(&ticket);
                }
            });
        }
        for version in 2..50_000 {
            pins.publish(Published { version: Version::new(version), root: 0, keys: KeyCounts::default() });
            reclaimed.store(pins.oldest(), SeqCst);
        }
    });
}

/// PIN-2: a reader may be as many commits behind as the limit says, and not one more; commits from
/// before the limit was set do not count.
#[test]
fn a_reader_may_be_as_far_behind_as_the_limit_says() {
    let published = |version| Published { version: Version::new(version), root: 0, keys: KeyCounts::default() };
    let pins = Pins::new(published(1));
    let commit = |version| {
        pins.publish(published(version));
        pins.expire();
    };
    let is_expired = |version| pins.is_expired(Version::new(version));
    pins.set_limit(3);
    let _first = pins.pin();
    commit(10);
    let _second = pins.pin();
    (11..=12).for_each(commit);
    assert!(!is_expired(1), "three commits behind");
    commit(13);
    assert!(is_expired(1) && !is_expired(10), "four commits behind, and three");
    assert_eq!(pins.oldest(), 10);
    commit(14);
    assert!(is_expired(10));
    let _third = pins.pin();
    (15..=16).for_each(commit);
    pins.set_limit(2);
    (17..=18).for_each(commit);
    assert!(!is_expired(14), "two commits behind since the limit was set");
    commit(19);
    assert!(is_expired(14));
}

/// BESIDE-1: a writer that has set no limit has one for readers in other processes.
#[test]
fn a_reader_in_another_process_always_has_a_limit() {
    let published = |version| Published { version: Version::new(version), root: 0, keys: KeyCounts::default() };
    let media = Media::anonymous(size_of::<ReadersPage>() as u64, &Default::default()).unwrap();
    let words = || Words::new(media.clone(), Offset::new(0));
    let place = |token| Place { object: 1, generation: 1, token };
    let pins = Pins::new(published(1));
    pins.show(Page::begin(words(), place(1), Box::new(|_| true)));
    let reader = Reader::join(words(), place(2), Box::new(|_| true)).unwrap();
    let (pin, seen) = reader.pin(|_| Ok::<(), Unready>(())).unwrap();
    let commit = |version| {
        pins.publish(published(version));
        pins.expire();
    };
    (2..=LIMIT + 1).for_each(commit);
    assert!(!reader.is_expired(&pin) && pins.oldest() == seen.version.get());
    commit(LIMIT + 2);
    assert!(reader.is_expired(&pin) && pins.oldest() == 2);
}
