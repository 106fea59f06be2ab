//! The cost of persistence in lines: the list, the tree and the hash map of `volatile/` against
//! those of `persistent/`.
//!
//! A line counts as added if it is not in the longest common subsequence of both files, so a
//! changed line counts, too. Empty lines and comments do not count. The bars are those of
//! Corundum's paper.

use everbyte::{CreateOptions, PRefCell, Pool, Store, pool};
use everbyte_examples::{persistent, volatile};

fn lines(file: &str) -> Vec<String> {
    let path = format!("{}/src/{file}.rs", env!("CARGO_MANIFEST_DIR"));
    code(&std::fs::read_to_string(path).unwrap())
}

fn code(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(String::from).collect()
}

/// Lines of the volatile file, and lines that the persistent one has beside them.
fn added(name: &str) -> (usize, usize) {
    compare(&lines(&format!("volatile/{name}")), &lines(&format!("persistent/{name}")))
}

fn compare(before: &[String], after: &[String]) -> (usize, usize) {
    let mut common = vec![vec![0; after.len() + 1]; before.len() + 1];
    for (a, one) in before.iter().enumerate() {
        for (b, other) in after.iter().enumerate() {
            let longest = common[a][b + 1].max(common[a + 1][b]);
            common[a + 1][b + 1] = if one == other { common[a][b] + 1 } else { longest };
        }
    }
    (before.len(), after.len() - common[before.len()][after.len()])
}

#[test]
fn few_lines_make_a_structure_persistent() {
    for (name, most) in [("list", 19), ("tree", 12), ("map", 10)] {
        let (lines, added) = added(name);
        println!("{name}: {lines} lines, {added} added or changed, bar {most}");
        assert!(added <= most, "{name}: {added} lines, {most} allowed");
    }
    // The figures of docs/manual/objects.md.
    assert_eq!(["list", "tree", "map"].map(|name| added(name).1), [19, 11, 10]);
}

/// The two programs of the manual, and the count that it gives.
#[test]
fn the_manual_counts_its_lines() {
    let manual = include_str!("../../../docs/manual/objects.md");
    let programs: Vec<_> =
        manual.split("```rust,no_run\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let (lines, added) = compare(&code(programs[0]), &code(programs[1]));
    assert!(manual.contains(&format!("Of {lines} lines, {added} are new or changed")), "{lines} lines, {added} added");
}

#[test]
fn both_forms_do_the_same() {
    pool!(P);
    type All<P> = (persistent::list::List<P>, persistent::tree::Tree<P>, persistent::map::Map<P>);
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(&directory.path().join("all.everbyte"), &CreateOptions::default()).unwrap();
    let root = P::create::<PRefCell<All<P>, P>>(&store, "all", |_| {
        PRefCell::new((persistent::list::List::empty(), None, persistent::map::Map::empty()))
    });
    let root = root.unwrap();
    let (mut list, mut tree, mut map) = (volatile::list::List::empty(), None, volatile::map::Map::empty());
    for key in [5u64, 2, 9, 2, 7, 1, 9, 40] {
        let here = (tree_insert(&mut tree, key), map.insert(key, key * 2));
        list.append(key as i64);
        list.push(-1);
        list.reverse();
        let there = root.tx(|j, root| {
            let all = &mut *root.borrow_mut(j);
            all.0.append(key as i64, j);
            all.0.push(-1, j);
            all.0.reverse(j);
            (persistent::tree::insert(&mut all.1, key, key * 3, j), all.2.insert(key, key * 2, j))
        });
        assert_eq!(here, there.unwrap());
    }
    let there = root.tx(|j, root| {
        let all = &mut *root.borrow_mut(j);
        (all.0.pop(j), all.2.remove(9, j), all.2.remove(9, j), persistent::tree::get(&all.1, 7))
    });
    assert_eq!((list.pop(), map.remove(9), map.remove(9), volatile::tree::get(&tree, 7)), there.unwrap());
    let (mut here, mut there) = (Vec::new(), Vec::new());
    list.each(|value| here.push(value as u64));
    volatile::tree::each(&tree, &mut |key, value| here.extend([key, value]));
    let all = root.borrow();
    all.0.each(|value| there.push(value as u64));
    persistent::tree::each(&all.1, &mut |key, value| there.extend([key, value]));
    assert_eq!(here, there);
    assert_eq!((map.len(), map.get(40)), (all.2.len(), all.2.get(40)));
    drop(all);
    assert!(root.check().unwrap().is_empty());
}

fn tree_insert(tree: &mut volatile::tree::Tree, key: u64) -> Option<u64> {
    volatile::tree::insert(tree, key, key * 3)
}
