//! The blocks of a pool that values take.

use super::{build, compiler, open, succeed};
use everbyte_object::UntypedPool;

/// A named instance has its keys and values in its nodes: a hundred take fewer blocks than there
/// are keys. Through bytes each key and each value has a block of its own.
#[test]
fn an_instance_has_no_block_for_each_value() {
    let Some(compiler) = compiler("g++") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (program, path) = (build(compiler, "blocks.cpp", dir.path()), dir.path().join("store"));
    let blocks = |words: [&str; 2]| {
        succeed(&program, &path, &words);
        UntypedPool::open(&open(&path), "shop").unwrap().allocated().unwrap().blocks
    };
    let (before, with_tree, with_map) = (blocks(["0", "0"]), blocks(["100", "0"]), blocks(["0", "100"]));
    let (of_tree, of_map) = (with_tree - before, with_map - with_tree);
    assert!((20..100).contains(&of_tree) && of_map >= 200, "{of_tree} and {of_map} blocks");
}
