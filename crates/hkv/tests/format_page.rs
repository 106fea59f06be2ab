//! The worked example of docs/formats/hkv.md is what this program writes, byte for byte.

use everbyte_hkv::Hash;
use everbyte_sim::{Image, assert_page, dump};
use everbyte_store::{FormatOptions, Store};

#[test]
fn the_worked_example_is_what_is_written() {
    let image = Image::zeroed(128 << 10).with_max(4 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some(*b"worked example 1") };
        let store = Store::format(media, &format).unwrap();
        let hash = Hash::create(&store, "cities", Some(2 << 20)).unwrap();
        assert!(hash.insert(b"Oslo", b"Norway").unwrap());
        drop(hash);
        store.close().unwrap();
    });
    let media = image.media();
    let store = Store::attach(image.media()).unwrap();
    let root = store.object("cities").unwrap().root();
    let segment = media.load(root + 128);
    let slot = (segment..segment + 1024).step_by(8).find(|&at| media.load(at) != 0).unwrap();
    let record = media.load(slot) & ((1 << 48) - 1);
    let parts = [("root", root, 448), ("segment 0", segment, 1024), ("record", record, 48)];
    assert_page("../../docs/formats/hkv.md", &dump(&media, &parts));
}
