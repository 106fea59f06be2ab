//! This program writes the worked example of docs/formats/hkv.md, byte for byte.

use everbyte_hkv::{Kv, KvKind};
use everbyte_media::Media;
use everbyte_sim::{Image, assert_page, dump};
use everbyte_store::{FormatOptions, Store};

/// A store of these pairs; its media, and the offset of its root.
fn written(kind: KvKind, pairs: &[(&str, &str)]) -> (Media, u64) {
    let image = Image::zeroed(128 << 10).with_max(4 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some(*b"worked example 1") };
        let store = Store::format(media, &format).unwrap();
        let kv = Kv::create(&store, "cities", kind, Some(2 << 20)).unwrap();
        pairs.iter().for_each(|(key, value)| assert!(kv.insert(key.as_bytes(), value.as_bytes()).unwrap()));
        drop(kv);
        store.close().unwrap();
    });
    let media = image.media();
    let root = Store::attach(image.media()).unwrap().object("cities").unwrap().root();
    (media, root)
}

#[test]
fn the_worked_example_is_written_byte_for_byte() {
    let (media, root) = written(KvKind::Hash, &[("Oslo", "Norway")]);
    let segment = media.load(root + 128);
    let slot = (segment..segment + 1024).step_by(8).find(|&at| media.load(at) != 0).unwrap();
    let record = media.load(slot) & ((1 << 48) - 1);
    let hash = dump(&media, &[("root", root, 448), ("segment 0", segment, 1024), ("record", record, 48)]);
    let (media, root) = written(KvKind::Tree, &[("Rome", "Italy"), ("Oslo", "Norway")]);
    let leaf = media.load(root + 64);
    let (rome, oslo) = (media.load(leaf + 40), media.load(leaf + 56));
    let tree = [("root of the tree", root, 128), ("leaf", leaf, 256), ("first record", rome, 48), ("second", oslo, 48)];
    assert_page("../../docs/formats/hkv.md", &(hash + &dump(&media, &tree)));
}
