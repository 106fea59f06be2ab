//! Blocks and slots that are given back, and bytes of the trie that have rotted.

mod common;

use common::{AllClusters, Desk, LengthAndName, START};
use everbyte_names::layout::{Block, BlockKind, NODE_HEAD, SLAB_BITS, head, of_slab_word};
use everbyte_names::{Clusters, Damaged, FaultKind, LastClose, PRIME_LEN, Trie};
use everbyte_space::CLUSTER;
use std::cell::Cell;

/// Clusters that are counted.
#[derive(Default)]
struct Counted(Cell<u64>);

impl Clusters for Counted {
    type Error = Damaged;

    fn add_cluster(&self, end: u64) -> Result<u64, Damaged> {
        self.0.set(self.0.get() + 1);
        AllClusters.add_cluster(end)
    }
}

/// Names that make and free nodes and containers do not make the object grow round by round.
#[test]
fn blocks_and_records_that_are_given_back_are_used_again() {
    let (mut desk, clusters) = (Desk::new(), Counted::default());
    let names: Vec<String> =
        (0..40).map(|number| format!("shared/{}/{number:02}", "deep".repeat(number % 3))).collect();
    let mut before = 0;
    for round in 0..100 {
        for name in &names {
            let record = desk.trie.take_record(&clusters).unwrap();
            desk.media.write(record + 8, name.as_bytes());
            desk.media.store(record, name.len() as u64);
            desk.trie.prepare(&clusters).unwrap();
            desk.trie.insert(record, name.as_bytes()).unwrap();
        }
        names.iter().for_each(|name| desk.remove(name));
        match round {
            0 => before = clusters.0.get(),
            _ => assert_eq!(clusters.0.get(), before, "round {round}"),
        }
    }
    for _ in 0..2 * CLUSTER / BlockKind::Record.size() {
        let record = desk.trie.take_record(&clusters).unwrap();
        desk.trie.give_record(record);
    }
    assert_eq!((clusters.0.get(), desk.check()), (before, vec![]));
}

fn reopened(desk: &Desk, end: u64, last: LastClose) -> Trie<LengthAndName> {
    Trie::open(desk.media.clone(), START..end, LengthAndName, last).unwrap()
}

#[test]
fn the_list_of_pending_changes_has_a_slot_for_each_and_gets_it_back() {
    let mut desk = Desk::new();
    let record = desk.trie.take_record(&AllClusters).unwrap();
    for _ in 0..3 * head::PENDING_WORDS {
        let slot = desk.trie.begin_change(record).unwrap();
        desk.trie.end_change(slot);
    }
    let slots: Vec<u32> = (0..head::PENDING_WORDS).map(|_| desk.trie.begin_change(record).unwrap()).collect();
    assert_eq!(slots, Vec::from_iter(0..head::PENDING_WORDS as u32));
    assert_eq!(desk.trie.begin_change(record), None);

    let mut next = reopened(&desk, record + CLUSTER, LastClose::Crashed);
    let found: Vec<(u32, u64)> = slots.iter().map(|&slot| (slot, record)).collect();
    assert_eq!(next.pending_changes(), found);
    assert_eq!(next.begin_change(record), None, "the slots of the dead process are taken");
    next.end_change(7);
    assert_eq!(next.begin_change(record), Some(7));
}

/// The blocks below the root, and the offsets of the words that lead to them.
fn blocks(desk: &Desk) -> (Vec<Block>, Vec<u64>) {
    let (mut found, mut words, mut next) = (Vec::new(), Vec::new(), vec![START + head::ROOT]);
    while let Some(word) = next.pop() {
        let Some(block) = Block::of_word(desk.media.load(word)) else { continue };
        words.push(word);
        found.push(block);
        if block.kind == BlockKind::Node {
            next.extend((0..256).map(|byte| block.at + NODE_HEAD + byte * 8));
        }
    }
    (found, words)
}

/// No flipped bit makes a name absent, or leads to the record of another: a lookup finds the
/// record, or says that the trie is damaged.
#[test]
fn a_flipped_bit_of_the_trie_is_found_and_makes_no_name_absent() {
    let mut desk = Desk::new();
    let names: Vec<String> = (0..40).map(|number| format!("name/{number:02}")).collect();
    names.iter().for_each(|name| desk.insert(name));
    let records: Vec<u64> = names.iter().map(|name| desk.find(name).unwrap()).collect();
    let (found, words) = blocks(&desk);
    let mut places: Vec<(u64, u64)> = words.iter().map(|&word| (word, 8)).collect();
    places.extend(found.iter().map(|block| match block.kind {
        BlockKind::Node => (block.at, NODE_HEAD),
        _ => (block.at, block.kind.size()),
    }));
    assert!(found.iter().any(|block| block.kind == BlockKind::Node), "a node with a skip is among them");
    for at in places.into_iter().flat_map(|(at, len)| (at..at + len).step_by(8)) {
        let good = desk.media.load(at);
        for bit in (at / 8 % 3..64).step_by(3) {
            desk.media.store(at, good ^ 1 << bit);
            for (name, &record) in names.iter().zip(&records) {
                match desk.trie.find(name.as_bytes()) {
                    Ok(None) if good == 0 => {} // an entry or a child that no name has
                    Ok(found) => assert_eq!(found, Some(record), "`{name}` with bit {bit} at {at:#x} flipped"),
                    Err(_) => {}
                }
            }
            let is_damage = desk.check().iter().any(|fault| fault.kind == FaultKind::Damage);
            assert!(is_damage, "bit {bit} at {at:#x}");
            desk.media.store(at, good);
        }
    }
    assert_eq!(desk.check(), []);
}

/// A change that needs a damaged word of the bits of blocks is refused, and the word stays as it
/// is for `check` to report.
#[test]
fn damaged_bits_of_blocks_are_not_written_over() {
    let mut desk = Desk::new();
    (0..16).for_each(|number| desk.insert(&format!("{number:x}")));
    let record = desk.trie.take_record(&AllClusters).unwrap();
    desk.media.write(record + 8, b"more");
    desk.media.store(record, 4);
    desk.trie.prepare(&AllClusters).unwrap();
    let slabs = [START + PRIME_LEN].into_iter().chain((1..8).map(|cluster| START + cluster * CLUSTER));
    let of_nodes = slabs.clone().find(|&slab| of_slab_word(desk.media.load(slab)) == Some(BlockKind::Node)).unwrap();
    for slab in [START + PRIME_LEN, of_nodes] {
        let (at, good) = (slab + SLAB_BITS, desk.media.load(slab + SLAB_BITS));
        let bad = if good == 0 { 1 } else { good ^ 1 << 40 };
        desk.media.store(at, bad);
        desk.trie.prepare(&AllClusters).unwrap();
        let refused = desk.trie.insert(record, b"more").unwrap_err();
        assert!(refused.to_string().contains("bits"), "{refused}");
        assert_eq!(desk.media.load(at), bad);
        assert!(desk.check().iter().any(|fault| fault.kind == FaultKind::Damage && fault.at == at));
        desk.media.store(at, good);
    }
    // The next opening takes the change of form back that could not be made.
    let end = slabs.take_while(|&slab| desk.media.load(slab) != 0).last().unwrap() & !(CLUSTER - 1);
    let mut next = reopened(&desk, end + CLUSTER, LastClose::Crashed);
    next.recover_intents().unwrap();
    desk.trie = next;
    desk.media.store(record, 0);
    assert_eq!((desk.check(), desk.list("").len()), (vec![], 16));
}
