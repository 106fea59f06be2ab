//! Lists: the side that is moved, pops that are refused, and the cost of either end.

use super::Desk;
use crate::keyspace::{Collection, Keyspace, ValueType};
use crate::options::Options;
use everbyte_kv::raw::Raw as _;

fn list(desk: &mut Desk, key: &[u8]) -> (Collection, Vec<Vec<u8>>) {
    let tables = std::sync::Arc::clone(&desk.shared.tables);
    let mut keys = Keyspace::new(&tables, std::mem::take(&mut desk.shared.remembered), 1, false, false);
    let found = keys.collection(key, ValueType::List).unwrap().expect("a list");
    let mut elements = Vec::new();
    keys.visit_list(&found, 0..found.count, false, &mut |element| {
        elements.push(element.to_vec());
        true
    })
    .unwrap();
    desk.shared.remembered = keys.into_remembered();
    (found, elements)
}

/// LINSERT and LREM move the elements before the place or those behind it, whichever are fewer,
/// also when these are more than are moved together.
#[test]
fn a_list_moves_its_shorter_side_in_pieces() {
    let mut desk = Desk::new(Options::default());
    let mut model: Vec<Vec<u8>> =
        (0..4000).map(|number| [format!("{number} ").as_bytes(), &[b'x'; 200]].concat()).collect();
    let words: Vec<&[u8]> = [&b"RPUSH"[..], b"l"].into_iter().chain(model.iter().map(Vec::as_slice)).collect();
    desk.iteration(&[&words]);
    let start = 1u64 << 63;
    assert_eq!(list(&mut desk, b"l").0.first, start);
    let twice = b"twice";
    for (at, first) in [(2400, start), (1602, start - 1), (4001, start - 1), (1, start - 2)] {
        let pivot = model[at].clone();
        desk.iteration(&[&[b"LINSERT", b"l", b"BEFORE", &pivot, twice]]);
        model.insert(at, twice.to_vec());
        let (found, elements) = list(&mut desk, b"l");
        assert_eq!((found.first, found.count), (first, model.len() as u64), "before {at}");
        assert!(elements == model, "before {at}");
    }
    // Places of `twice`: 1, 1603, 2402, 4002. The last one alone, the first one alone, the others.
    for (count, first) in [(&b"-1"[..], start - 2), (b"1", start - 1), (b"0", start - 1)] {
        desk.iteration(&[&[b"LREM", b"l", count, twice]]);
        match count {
            b"-1" => drop(model.remove(4002)),
            b"1" => drop(model.remove(1)),
            _ => model.retain(|element| element != twice),
        }
        let (found, elements) = list(&mut desk, b"l");
        assert_eq!((found.first, found.count), (first, model.len() as u64), "LREM {count:?}");
        assert!(elements == model, "LREM {count:?}");
    }
}

/// A pop whose reply is above the output limit removes nothing, and what others wrote in its
/// iteration stands.
#[test]
fn a_refused_pop_removes_nothing() {
    let mut desk = Desk::new(Options { output_size_max: 450, ..Options::default() });
    let large = [b'v'; 300];
    desk.iteration(&[&[b"RPUSH", b"l", &large, &large, b"small"]]);
    for words in [
        &[&b"LPOP"[..], b"l", b"2"][..],
        &[b"RPOP", b"l", b"3"],
        &[b"LMPOP", b"1", b"l", b"LEFT", b"COUNT", b"2"],
        &[b"LRANGE", b"l", b"0", b"-1"],
    ] {
        let ends = desk.iteration(&[&[b"SET", b"other", b"kept"], words]);
        assert!(ends[0].is_ok() && matches!(&ends[1], Err(text) if text.contains("output limit")), "{ends:?}");
        assert_eq!(desk.get(b"other").as_deref(), Some(&b"kept"[..]));
        assert_eq!(list(&mut desk, b"l").1.len(), 3);
    }
    desk.iteration(&[&[b"RPUSH", b"m", &[b'w'; 460]]]);
    for words in [&[&b"LPOP"[..], b"m"][..], &[b"LMOVE", b"m", b"l", b"LEFT", b"LEFT"], &[b"RPOPLPUSH", b"m", b"m"]] {
        assert!(desk.iteration(&[words])[0].is_err());
        assert_eq!((list(&mut desk, b"m").1.len(), list(&mut desk, b"l").1.len()), (1, 3));
    }
}

/// A command at an end of a list costs as much on a long list as on a short one: counted in bytes
/// fetched out of blocks, where each element lies, and in lines that were stored.
#[test]
fn the_ends_of_a_long_list_cost_as_little_as_those_of_a_short_one() {
    const ELEMENT: usize = 600;
    // The widest reply below, and an element's neighbours.
    const FEW: u64 = 8 * ELEMENT as u64;
    // A path of nodes, each written anew, of some 64 lines a node; a walk would store 40,000.
    const LINES: u64 = 1000;
    let mut desk = Desk::new(Options::default());
    let element = [b'e'; ELEMENT];
    for (key, count) in [(&b"short"[..], 20), (b"long", 20_000)] {
        let words: Vec<&[u8]> = [&b"RPUSH"[..], key].into_iter().chain((0..count).map(|_| &element[..])).collect();
        assert_eq!(desk.iteration(&[&words]), [Ok(())]);
        desk.out.send(&mut std::io::sink()).unwrap();
        for words in [
            &[&b"LINDEX"[..], key, b"0"][..],
            &[b"LINDEX", key, b"-1"],
            &[b"LINDEX", key, b"10"],
            &[b"LRANGE", key, b"0", b"3"],
            &[b"LRANGE", key, b"-4", b"-1"],
            &[b"LPUSH", key, &element],
            &[b"RPUSH", key, &element],
            &[b"LSET", key, b"-1", &element],
            &[b"LPOP", key],
            &[b"RPOP", key, b"2"],
            &[b"LINSERT", key, b"BEFORE", &element, &element],
            &[b"LREM", key, b"1", &element],
            &[b"LTRIM", key, b"1", b"-2"],
            &[b"LPOS", key, &element],
            &[b"LMOVE", key, key, b"LEFT", b"RIGHT"],
            &[b"LLEN", key],
        ] {
            let lines = |desk: &Desk| desk.shared.kv.store().media().counts().lines;
            let (fetched, stored) = (everbyte_kv::fetched(), lines(&desk));
            assert_eq!(desk.iteration(&[words]), [Ok(())]);
            let (fetched, stored) = (everbyte_kv::fetched() - fetched, lines(&desk) - stored);
            desk.out.send(&mut std::io::sink()).unwrap();
            let text = String::from_utf8_lossy(words[0]);
            assert!(fetched <= FEW, "{text} of {count} elements fetched {fetched} bytes");
            assert!(stored <= LINES, "{text} of {count} elements stored {stored} lines");
        }
    }
}
