//! Pins: the oldest one holds the horizon, also on the machine's own atomics.

use crate::tree::number::Version;
use crate::tree::pins::{KeyCounts, Pins, Published};
use crate::tree::sync::SLOTS;
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
