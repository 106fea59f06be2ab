//! Bytes of a tree that have changed: the check finds them, or they are without effect; reading
//! never panics.

use super::{MAIN, put};
use crate::tree::Tree;
use crate::tree::layout::{CLAIM_WORDS, CLAIMS_AT, NodeHeader};
use crate::tree::node::Node;
use everbyte_media::museum;
use std::mem::offset_of;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Every pair, or the error that kept it back.
fn pairs(tree: &Tree) -> Result<Pairs, String> {
    let mut cursor = tree.snapshot().cursor();
    cursor.seek(b"").map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    while let Some(entry) = cursor.next().map_err(|error| error.to_string())? {
        let (key, value) = entry.read().map_err(|error| error.to_string())?;
        found.push((key.to_vec(), value.to_vec()));
    }
    Ok(found)
}

/// Flips one bit of each eighth word behind the store's part of the object, one after the other.
#[test]
fn the_check_finds_a_flipped_bit_or_every_pair_is_read() {
    let (store, object) = super::object();
    let keys: Vec<Vec<u8>> = (0..200_u32).map(|number| format!("key{number:04}").into_bytes()).collect();
    let tree = Tree::open(object.clone()).unwrap();
    keys.iter().for_each(|key| put(&tree, &[(key, &[&key[..], &[7; 90]].concat())]));
    let whole = pairs(&tree).unwrap();
    drop(tree);
    let media = store.media();
    let (from, end) = ((object.prime() + 2048).get(), object.backed().get());
    let before = media.read_vec(from, (end - from) as usize);
    let (mut refused, mut reported) = (0, 0);
    for (step, at) in (from..end).step_by(64).enumerate() {
        let at = at + (step as u64 % 8) * 8;
        media.store(at, media.load(at) ^ 1 << (step % 64));
        match Tree::open(object.clone()) {
            Err(_) => refused += 1,
            Ok(tree) => match (tree.check().is_empty(), pairs(&tree)) {
                (true, found) => assert!(found.as_ref() == Ok(&whole), "{at:#x}: no finding, {:?}", found.err()),
                (false, _) => reported += 1, // stamps have no checksum: a pair may be absent
            },
        }
        media.write(from, &before);
    }
    assert!(refused > 0 && reported > 50, "{refused} refused, {reported} reported");
}

/// A writer that finds a flipped bit in a leaf's claims writes the leaf anew: nothing is lost.
#[test]
fn a_flipped_claim_costs_no_pair() {
    for bit in (0..CLAIM_WORDS * 64).step_by(7) {
        let (store, object) = super::object();
        let tree = Tree::open(object.clone()).unwrap();
        let keys = (0..9_u32).map(|number| format!("key{number:04}").into_bytes());
        let mut model: Pairs = keys.map(|key| (key.clone(), [&key[..], &[7; 90]].concat())).collect();
        model.iter().for_each(|(key, value)| put(&tree, &[(key, value)]));
        let view = tree.shared.view(tree.shared.writer.lock().committed.version);
        let root = Node::open(store.media(), tree.shared.writer.lock().committed.root).unwrap();
        let leaf = root.child_for(&view, b"\0\0\0\0key").unwrap().1;
        let at = leaf + (CLAIMS_AT + bit / 64 * 8) as u64;
        store.media().store(at, store.media().load(at) ^ 1 << (bit % 64));
        assert!(!tree.check().is_empty(), "bit {bit} of the claims");
        for number in 5..14_u32 {
            let key = format!("key{number:04}").into_bytes();
            put(&tree, &[(&key, &[8; 60])]);
            model.retain(|(other, _)| *other != key);
            model.push((key, vec![8; 60]));
        }
        model.sort();
        assert_eq!(pairs(&tree).as_ref(), Ok(&model), "bit {bit} of the claims");
        assert!(tree.check().is_empty(), "the leaf was written anew");
    }
}

/// The leaf of the key `key`.
fn leaf_of(tree: &Tree, key: &[u8]) -> u64 {
    let committed = tree.shared.writer.lock().committed;
    let root = Node::open(&tree.shared.media, committed.root).unwrap();
    root.child_for(&tree.shared.view(committed.version), &super::full(key)).unwrap().1
}

/// A write trusts no header with a flipped bit: it stores nothing over what the leaf holds, nor
/// behind its end, and what could be read before can be read afterwards.
#[test]
fn a_flipped_header_costs_no_other_pair() {
    let key = |number: u32| format!("key{number:04}").into_bytes();
    let value = |number: u32| [&key(number)[..], &[7; 90]].concat();
    let fields = [(offset_of!(NodeHeader, size), 32), (offset_of!(NodeHeader, base_end), 32)];
    let more = [(offset_of!(NodeHeader, base), 16), (offset_of!(NodeHeader, prefix), 64)];
    for (field, bit) in fields.into_iter().chain(more).flat_map(|(field, bits)| (0..bits).map(move |bit| (field, bit)))
    {
        let (store, object) = super::object();
        let tree = Tree::open(object).unwrap();
        let mut batch = tree.batch();
        (0..200).for_each(|number| assert!(!batch.put(MAIN, &key(number), &value(number)).unwrap()));
        tree.settle(batch.commit().unwrap()).unwrap();
        let word = leaf_of(&tree, &key(100)) + field as u64 + bit / 64 * 8;
        let (word, bit_of_word) = (word & !7, word % 8 * 8 + bit % 64);
        store.media().store(word, store.media().load(word) ^ 1 << bit_of_word);
        let found = |number: u32| tree.get(MAIN, &key(number)).ok().flatten();
        let readable: Vec<u32> = (0..200).filter(|&number| found(number) == Some(value(number))).collect();
        for number in 0..20 {
            let mut batch = tree.batch();
            let new = [&key(100)[..], &[number]].concat();
            match batch.put(MAIN, &new, &[8; 500]) {
                Ok(_) => tree.settle(batch.commit().unwrap()).unwrap(),
                Err(_) => batch.abort(),
            }
        }
        for number in readable {
            assert_eq!(found(number), Some(value(number)), "key {number}, bit {bit} of byte {field} of the header");
        }
    }
}

/// NAME-2: what a name leads to is kept, also if it cannot be read.
#[test]
fn a_named_version_that_cannot_be_read_holds_every_version() {
    let (_store, object) = super::object();
    let tree = Tree::open(object.clone()).unwrap();
    put(&tree, &[(b"key", b"value")]);
    let mut batch = tree.batch();
    batch.put(crate::tree::TableNumber::VERSIONS, b"name", b"no record").unwrap();
    tree.settle(batch.commit().unwrap()).unwrap();
    drop(tree);
    assert_eq!(Tree::open(object).unwrap().shared.pins.oldest(), 1);
}

/// A close in good order does not hide an earlier death: the next process, too, flushes empty slots
/// before it fills them.
#[test]
fn a_close_in_good_order_does_not_hide_a_death() {
    use crate::tree::layout::CLOSED_AT;
    let (store, object) = super::object();
    let suspects = |tree: Tree| tree.shared.writer.lock().suspicious;
    assert!(!suspects(Tree::open(object.clone()).unwrap()));
    let tree = Tree::open(object.clone()).unwrap();
    put(&tree, &[(b"key", b"value")]);
    drop(tree);
    store.media().store(object.prime() + crate::tree::format::HEADER_AT + CLOSED_AT, 0); // as a process that dies
    let voids = |tree: &Tree| tree.stats().void_ranges;
    for _ in 0..3 {
        let tree = Tree::open(object.clone()).unwrap();
        assert_eq!(voids(&tree), 1, "the mark of a close still says that nothing is to be voided");
        assert!(suspects(tree));
    }
    let tree = Tree::open(object.clone()).unwrap();
    put(&tree, &[(b"key", b"other")]);
    drop(tree);
    let suspects = museum::with("tree-close-hides-a-death", || suspects(Tree::open(object.clone()).unwrap()));
    assert!(!suspects, "the seeded bug does not bite");
}
