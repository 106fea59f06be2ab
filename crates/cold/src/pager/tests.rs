//! A pager over a tier whose syncs fail when the test says so.

use super::*;
use everbyte_media::Options;
use everbyte_space::Span;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The object's first cluster, and its clusters; the last one holds the cold table.
const PRIME: u64 = 1 << 20;
const CLUSTERS: u64 = 16;

/// Slots in memory.
#[derive(Default)]
struct Slots {
    fails: AtomicBool,
    written: Mutex<Vec<(u32, u8)>>,
    reserved: Mutex<u64>,
}

impl Tier for Arc<Slots> {
    fn reserve(&self, slots: u64) -> Result<()> {
        *self.reserved.lock() = slots;
        Ok(())
    }

    fn write(&self, slot: u32, bytes: &[u8]) -> Result<()> {
        self.written.lock().push((slot, bytes[0]));
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        if !self.fails.load(SeqCst) {
            return Ok(());
        }
        let [store, path] = ["store", "swap"].map(Into::into);
        Err(Error::Backing { store, object: "object".into(), path, detail: "it cannot be synced".into() })
    }

    fn read(&self, slot: u32, _checksum: u32, _at: u64, into: &mut [u8]) -> Result<()> {
        let written = self.written.lock();
        into.fill(written.iter().rfind(|(number, _)| *number == slot).expect("it was written").1);
        Ok(())
    }
}

/// An object of eight clusters in memory, each with bytes of its own.
fn made() -> (Media, ColdTable, Arc<Slots>) {
    let media = Media::anonymous(8 << 20, &Options::default()).unwrap();
    let table = ColdTable::of(&media, Span::new(PRIME, CLUSTERS * CLUSTER).unwrap()).unwrap();
    (1..8).for_each(|cluster| media.write(PRIME + cluster * CLUSTER, &[cluster as u8; CLUSTER as usize]));
    (media, table, Arc::default())
}

fn open(media: &Media, table: &ColdTable, tier: &Arc<Slots>) -> Result<Pager<Arc<Slots>>, (u64, String)> {
    let parts = (table.clone(), Arc::clone(tier));
    Pager::new(media, PRIME, parts, (TouchSource::Calls, 8), &[true; 8])
}

fn bytes(clusters: Range<u64>) -> Range<u64> {
    PRIME + clusters.start * CLUSTER..PRIME + clusters.end * CLUSTER
}

/// A sync that fails costs no slot, and the clusters stay in memory.
#[test]
fn slots_of_a_failed_sync_are_used_again() {
    let (media, table, tier) = made();
    let pager = open(&media, &table, &tier).unwrap();
    tier.fails.store(true, SeqCst);
    for _ in 0..3 {
        pager.cool(&bytes(1..8)).unwrap_err();
        assert!(table.is_warm());
    }
    tier.fails.store(false, SeqCst);
    tier.written.lock().clear();
    pager.cool(&bytes(1..8)).unwrap();
    let slots: Vec<u32> = tier.written.lock().iter().map(|(slot, _)| *slot).collect();
    assert_eq!(slots, Vec::from_iter(0..7));
    pager.warm(&bytes(1..8)).unwrap();
    assert!((1..8).all(|cluster| media.load(PRIME + cluster * CLUSTER) == u64::from_le_bytes([cluster as u8; 8])));
}

/// A cluster whose bytes are in memory when the barrier fails keeps them at the next touch, and its
/// slot becomes free then.
#[test]
fn a_cluster_is_whole_when_the_barrier_failed_that_brought_it_back() {
    let (media, table, tier) = made();
    let pager = open(&media, &table, &tier).unwrap();
    pager.cool(&bytes(1..3)).unwrap();
    for (cluster, slot) in [(1, 0), (2, 1)] {
        media.raise_memory_error(0_u64);
        media.flush(0_u64, 8_u64); // of a page that is lost: the thread's next barrier fails
        pager.touch(cluster).unwrap_err();
        assert_eq!(pager.state.lock().page(cluster), PageState::Cold);
        pager.touch(cluster).unwrap();
        assert_eq!(media.load(PRIME + u64::from(cluster) * CLUSTER), u64::from_le_bytes([cluster as u8; 8]));
        assert_eq!(pager.state.lock().slots.take(), slot);
    }
    assert_eq!(pager.state.lock().queue.len(), 7);
}

/// A released cluster gives its slot to another one only when the table has forgotten it for good.
#[test]
fn a_released_slot_is_free_behind_a_barrier() {
    let (media, table, tier) = made();
    let pager = open(&media, &table, &tier).unwrap();
    pager.cool(&bytes(1..3)).unwrap();
    let before = media.counts().barriers;
    pager.forget(&bytes(1..2)).unwrap();
    assert_eq!(media.counts().barriers, before + 1);
    assert_eq!(table.get(1), Location::Memory);
    pager.cool(&bytes(3..4)).unwrap();
    assert!(matches!(table.get(3), Location::Slot { slot: 0, .. }), "{:?}", table.get(3));
}

/// Slots for all clusters but the first one; words of the table's own cluster count for nothing,
/// and no word leads behind the last slot.
#[test]
fn slots_are_counted_by_the_clusters_that_may_be_cold() {
    let (media, table, tier) = made();
    assert_eq!(u64::from(table.clusters()), CLUSTERS - 1);
    let pager = open(&media, &table, &tier).unwrap();
    pager.reserve(&bytes(8..10)).unwrap();
    assert_eq!(*tier.reserved.lock(), 9);
    for (slot, is_good) in [(CLUSTERS as u32 - 2, true), (CLUSTERS as u32 - 1, false)] {
        table.set(1, Location::Slot { slot, checksum: 0 });
        assert_eq!(open(&media, &table, &tier).is_ok(), is_good, "slot {slot}");
    }
}

/// A cluster whose bytes could not be written is hidden, whatever it was before: its next touch
/// shows it, and it may become cold again.
#[test]
fn clusters_of_a_failed_sync_are_hidden_and_stay_in_the_queue() {
    let (media, table, tier) = made();
    let pager = open(&media, &table, &tier).unwrap();
    pager.touch(1).unwrap();
    let states = |pager: &Pager<_>| [1, 2].map(|cluster| pager.state.lock().page(cluster));
    assert_eq!(states(&pager), [PageState::Warm, PageState::Hidden]);
    tier.fails.store(true, SeqCst);
    pager.cool(&bytes(1..3)).unwrap_err();
    assert_eq!((states(&pager), pager.state.lock().queue.len()), ([PageState::Hidden; 2], 7));
    tier.fails.store(false, SeqCst);
    pager.cool(&bytes(1..3)).unwrap();
    assert_eq!((states(&pager), pager.state.lock().queue.len()), ([PageState::Cold; 2], 5));
}

/// No frame of a cluster that was released, or given back to the object, counts against the limit.
#[test]
fn a_cluster_that_the_object_releases_leaves_the_queue() {
    let (media, table, tier) = made();
    let pager = open(&media, &table, &tier).unwrap();
    pager.touch(1).unwrap();
    pager.forget(&bytes(1..3)).unwrap();
    assert_eq!(pager.state.lock().queue.len(), 5);
    assert!(!pager.touch(1).unwrap(), "the object has it no more");
    pager.cool(&bytes(1..8)).unwrap();
    assert_eq!((table.get(1), table.get(2)), (Location::Memory, Location::Memory));
    assert_eq!(tier.written.lock().len(), 5);
    pager.expect(&bytes(1..3));
    pager.admit(&bytes(1..3));
    assert_eq!((table.get(1), pager.state.lock().page(1)), (Location::Zeros, PageState::Cold));
    pager.warm(&bytes(1..3)).unwrap();
    assert_eq!(media.load(PRIME + CLUSTER), 0, "not the bytes of its earlier life");
}

/// Words of clusters that the object does not have are leftovers, and their slots are not read.
#[test]
fn the_check_tells_leftovers_from_damage_and_finds_a_slot_that_two_have() {
    let (media, table, tier) = made();
    open(&media, &table, &tier).unwrap().cool(&bytes(1..3)).unwrap();
    let Location::Slot { slot, checksum } = table.get(1) else { panic!("it is cold") };
    let check = |table: &ColdTable| {
        let is_backed = |at| at < PRIME + 8 * CLUSTER;
        let found = crate::check(table, PRIME, 12, is_backed, || Ok::<_, Error>(Arc::clone(&tier)));
        found.into_iter().map(|fault| (fault.kind, (fault.at - PRIME) / CLUSTER)).collect::<Vec<_>>()
    };
    assert_eq!(check(&table), []);
    table.set(9, Location::Slot { slot: 77, checksum: 0 });
    table.set(0, Location::Slot { slot: 78, checksum: 0 });
    assert_eq!(check(&table), [(crate::FaultKind::Note, 0), (crate::FaultKind::Note, 9)]);
    table.set(3, Location::Slot { slot, checksum });
    assert!(check(&table).contains(&(crate::FaultKind::DoubleUse, 3)));
    drop(open(&media, &table, &tier).err().expect("COLD-3"));
}
