//! This program writes the worked example of docs/formats/volume.md, byte for byte.

use everbyte_fs::{FileKind, Ino, NewFile, Volume, VolumeOptions, layout};
use everbyte_sim::{Image, assert_page, dump};
use everbyte_store::{FormatOptions, Store};

#[test]
fn the_worked_example_is_written_byte_for_byte() {
    let image = Image::zeroed(128 << 10).with_max(4 << 20).then(|media| {
        let format = FormatOptions { log_len: 0, identity: Some(*b"worked example 1") };
        let store = Store::format(media, &format).unwrap();
        let options = VolumeOptions {
            label: "home".into(),
            uuid: Some(*b"worked example 2"),
            lanes: 1,
            span: Some(2 << 20),
            clock: || 1_000_000_000,
            ..VolumeOptions::default()
        };
        let volume = Volume::create(&store, "volume", &options).unwrap();
        let notes = volume.make(Ino::ROOT, b"notes", &NewFile::new(FileKind::Directory, 0o755)).unwrap();
        let today = volume.make(notes, b"today", &NewFile::new(FileKind::Regular, 0o644)).unwrap();
        volume.write(today, 0, b"remember").unwrap();
        volume.close().unwrap();
        store.close().unwrap();
    });
    let media = image.media();
    let start = Store::attach(image.media()).unwrap().object("volume").unwrap().prime().get();
    let page = |number: u64| start + number * layout::PAGE;
    let inode = |number: u64| page(5) + number * layout::INODE;
    let place = |at: u64| layout::Place::of(media.load(at)).unwrap().page;
    let slot = inode(2) + layout::inode::INLINE;
    let parts = [
        ("head", start + layout::HEAD_AT, 256),
        ("words of the inode table and of the saved state, number of openings", start + layout::TABLE_AT, 24),
        ("pages of the table", page(3), 8),
        ("", page(4), 8),
        ("inode 1, the root", inode(1), 256),
        ("inode 2, notes", inode(2), 256),
        ("inode 3, today", inode(3), 256),
        ("a line of notes", page(place(slot + 8)), 64),
        ("the saved state", page(place(start + layout::SAVED_AT)), 64 + 96 + 16 + 64 + 16 + 32),
    ];
    assert_page("../../docs/formats/volume.md", &dump(&media, &parts));
}
