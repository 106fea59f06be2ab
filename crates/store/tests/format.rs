//! The worked example of docs/formats/store.md is what this program writes, byte for byte.

use everbyte_media::Disk;
use everbyte_sim::{Image, RecordedDisk, assert_page, dump};
use everbyte_store::{Access, CLUSTER, Caller, Engine, Error, Files, FormatOptions, ObjectOptions, Plan, Store};
use std::path::Path;
use std::sync::Arc;

/// Both copies of the access words have fixed values, for any user who runs the test.
fn owned_by_nobody_in_particular(store: &Store, name: &str) {
    let root = Caller { user: 0, groups: vec![] };
    for mode in [0o660, 0o640] {
        store.change_access(&root, name, |_| Access { owner: 1000, group: 100, mode }).unwrap();
    }
}

#[test]
fn the_worked_example_is_written_byte_for_byte() {
    let plan = Plan::new(1 << 20, 64 << 10).unwrap();
    let image = Image::zeroed(plan.spans_at).with_max(1 << 20).then(|media| {
        let identity = Some(*b"worked example 1");
        let store = Store::format(media, &FormatOptions { log_len: 64 << 10, identity }).unwrap();
        let options = ObjectOptions { engine: Engine::Cdds, fingerprint: 0xf00d, span: Some(4 * CLUSTER) };
        let object = store.create_object("shop/orders", options, |_| Ok::<(), Error>(())).unwrap();
        let room = object.grow(2 * CLUSTER).unwrap();
        object.set_root(room.start + 64);
        object.release(room.end - CLUSTER..room.end).unwrap();
        drop(object);
        owned_by_nobody_in_particular(&store, "shop/orders");
        store.close().unwrap();
    });
    let media = image.media();
    let parts = [
        ("superblock A", 0, 512),
        ("words beside superblock A", 1024, 64),
        ("record 0 of the object table", plan.table_at, 256),
        ("bitmap of backed clusters", plan.space.bitmap_at, 4096),
        ("bitmap of used clusters", plan.space.used_at, 4096),
        ("header of `shop/orders`", 0x40000, 512),
    ];
    assert_page("../../docs/formats/store.md", &dump(&media, &parts));
    let b = media.read_vec(4096, 512);
    assert_eq!(media.read_vec(0, 512), b, "both copies are the same");
}

/// One backing file, in memory.
struct OneFile(Arc<RecordedDisk>);

impl Files for OneFile {
    fn create(&self, _path: &Path) -> std::io::Result<Arc<dyn Disk>> {
        Ok(Arc::clone(&self.0) as _)
    }

    fn open(&self, path: &Path, _mode: everbyte_cold::OpenMode) -> std::io::Result<Arc<dyn Disk>> {
        self.create(path)
    }

    fn remove(&self, _path: &Path, _disk: &dyn Disk) {}

    fn pair(&self) -> std::io::Result<[u8; 16]> {
        Ok(*b"worked example 5")
    }

    fn reports_touches(&self) -> bool {
        true
    }
}

#[test]
fn the_worked_example_of_a_cold_table_is_what_is_written() {
    let plan = Plan::new(4 << 20, 0).unwrap();
    let file = RecordedDisk::new(&[]).unwrap();
    let image = Image::zeroed(plan.spans_at).with_max(4 << 20).then(|media| {
        let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some(*b"worked example 4") }).unwrap();
        store.set_files(Arc::new(OneFile(Arc::clone(&file))));
        let options = ObjectOptions { span: Some(16 * CLUSTER), ..ObjectOptions::default() };
        drop(store.create_object("large", options, |object| object.grow(3 * CLUSTER).map(drop)).unwrap());
        store.set_resident("large", Some(9), None).unwrap();
        let object = store.object("large").unwrap();
        object.media().write(object.prime() + CLUSTER, &[7]);
        object.cool(object.prime() + CLUSTER..object.prime() + 3 * CLUSTER).unwrap();
        drop(object);
        store.close().unwrap();
    });
    let parts = [("header of `large`", 0x100000, 512), ("start of its cold table", 0x1f0000, 8192)];
    let content = file.content();
    let copy = Image::zeroed(content.len().next_multiple_of(4096) as u64).then(|media| media.write(0, &content));
    let file = dump(&copy.media(), &[("start of its backing file", 0, 4096 + 64)]);
    assert_page("../../docs/formats/swap.md", &(dump(&image.media(), &parts) + &file));
}

#[test]
fn the_worked_example_of_the_trie_is_what_is_written() {
    let plan = Plan::new(4 << 20, 0).unwrap();
    let image = Image::zeroed(plan.spans_at).with_max(4 << 20).then(|media| {
        let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some(*b"worked example 2") }).unwrap();
        store.index_names().unwrap();
        let options = ObjectOptions { span: Some(CLUSTER), ..ObjectOptions::default() };
        for last in 'a'..='q' {
            let name = format!("shop/{last}");
            store.create_object(&name, options, |_| Ok::<(), Error>(())).unwrap();
        }
        store.close().unwrap();
    });
    let media = image.media();
    let (prime, node) = (0x40000, 0x50100);
    let parts = [
        ("head, root and intent list", prime + 512, 512),
        ("start of the first cluster's blocks", prime + 4096, 256),
        ("start of the second cluster's blocks", node - 256, 256),
        ("node: skip", node, 192),
        ("node: children for `a` to `d`", node + 192 + 0x61 * 8, 32),
        ("record 255 of the object table", plan.table_at + 255 * 256, 80),
    ];
    assert_page("../../docs/formats/names.md", &dump(&media, &parts));
    let child = everbyte_names::layout::Block::of_word(media.load(node + 192 + 0x61 * 8)).unwrap();
    let entry = everbyte_names::layout::of_entry_word(media.load(child.at)).unwrap();
    assert_eq!(entry, (plan.table_at, everbyte_names::layout::tag(b"shop/a")));
}
