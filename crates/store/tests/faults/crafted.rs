//! Bytes that another user of the file, or another program, has put there, under good checksums.

use crate::common::{after, record};
use everbyte_media::{Checked, Media, Options, museum::with};
use everbyte_members::SLOTS;
use everbyte_space::ObjectId;
use everbyte_store::layout::{Header, Record, SUPERBLOCKS, Superblock, WORDS, words};
use everbyte_store::{CLUSTER, Engine, Error, FormatOptions, ObjectOpen, ObjectOptions, Store};

const MAX: u64 = 64 << 20;

fn format(media: Media) -> Store {
    Store::format(media, &FormatOptions { identity: Some([7; 16]), log_len: 0 }).unwrap()
}

fn make(store: &Store, name: &str) {
    let options = ObjectOptions { engine: Engine::Heap, span: Some(CLUSTER), ..ObjectOptions::default() };
    drop(store.create_object(name, options, |_| Ok::<(), Error>(())).unwrap());
}

/// Gives the object of a record another id, in its header, too.
fn change_id(media: &Media, slot: u64, id: u64) {
    let superblock: Superblock = media.get(SUPERBLOCKS[0]);
    let at = superblock.table_at + slot * size_of::<Record>() as u64;
    let mut record = Record { id: ObjectId::new(id), ..media.get(at) };
    record = record.sealed();
    media.put(at, &record);
    let header: Header = media.get(record.span_at);
    media.put(record.span_at, &Header { id: ObjectId::new(id), ..header }.sealed());
}

/// Ids are places of locks on the file: one that is too large made every process panic that opened
/// the object.
#[test]
fn an_id_that_is_none_is_damage_and_no_panic() {
    for id in [0, SLOTS, u64::MAX] {
        let media = Media::anonymous(MAX, &Options::default()).unwrap();
        let store = format(media.clone());
        make(&store, "x");
        store.close().unwrap();
        drop(store);
        change_id(&media, 0, id);
        let store = Store::attach_shared(media).unwrap();
        assert!(store.open_object("x", &ObjectOpen::shared(Engine::Heap, 0)).is_err(), "{id:#x}");
        assert!(store.check().iter().any(|finding| finding.is_damage() && finding.detail.contains("id")));
    }
}

#[test]
fn check_sees_two_objects_with_one_id() {
    let media = Media::anonymous(MAX, &Options::default()).unwrap();
    let store = format(media.clone());
    ["a", "b"].iter().for_each(|name| make(&store, name));
    let id = store.stat("a").unwrap().id;
    change_id(&media, 1, id.get());
    let findings: Vec<String> = store.check().iter().map(ToString::to_string).collect();
    assert!(findings.len() == 1 && findings[0].contains("is that of `a`, too"), "{findings:?}");
}

/// Another program appended bytes to the file. The process that opens it next dies while it notes
/// that: of the words beside the superblock any may survive, as far as no fence orders them.
fn dirty_objects() -> usize {
    let blank = vec![0; 1 << 20];
    let base = record(MAX, &blank, |media| format(media).close().unwrap());
    let mut image = after(&blank, &base);
    image.extend(vec![0xaa; 256 << 10]);
    let opening = crate::common::record_with_fences(MAX, &image, |media| drop(Store::attach(media).unwrap()));
    let counts = SUPERBLOCKS.map(|page| page + WORDS + words::ACCOUNTED);
    let first = opening.iter().find(|(at, ..)| counts.contains(at)).expect("the count is written").2;
    // The count survives, with all that was fenced before it and nothing else.
    let torn: Vec<_> = opening
        .into_iter()
        .filter(|(at, _, before)| *before < first || counts.contains(at))
        .map(|(at, bytes, _)| (at, bytes))
        .collect();
    let image = after(&image, &torn);
    let mut dirty = 0;
    record(MAX, &image, |media| {
        let store = Store::attach(media.clone()).unwrap();
        for number in 0..18 {
            let options = ObjectOptions { span: Some(CLUSTER), ..ObjectOptions::default() };
            let object = store.create_object(&format!("o{number}"), options, |_| Ok::<(), Error>(())).unwrap();
            dirty += usize::from(media.read_vec(object.prime() + 4096, 60 << 10).iter().any(|&byte| byte != 0));
        }
    });
    dirty
}

#[test]
fn what_came_from_outside_stays_suspect_whatever_word_survives() {
    assert_eq!(dirty_objects(), 0);
    assert!(with("store-suspect-unordered", dirty_objects) > 0, "the test notices words that are not ordered");
}
