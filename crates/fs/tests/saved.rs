//! The state that a volume saves when it is closed: when it is used, and when the volume is scanned
//! in its place.

use everbyte_fs::{Error, FileKind, Ino, NewFile, Usage, Volume, VolumeOptions, layout, model};
use everbyte_media::{ErrorInfo, ErrorKind, Media, Options};
use everbyte_sim::Image;
use everbyte_store::{CLUSTER, FormatOptions, Store};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn file() -> NewFile<'static> {
    NewFile::new(FileKind::Regular, 0o644)
}

fn store(max: u64) -> Store {
    Store::format(Media::anonymous(max, &Options::default()).unwrap(), &FormatOptions::default()).unwrap()
}

fn create(store: &Store) -> Volume {
    let options = VolumeOptions { lanes: 2, span: Some(16 << 20), ..VolumeOptions::default() };
    Volume::create(store, "volume", &options).unwrap()
}

fn open(store: &Store) -> Volume {
    Volume::open(store.object("volume").unwrap()).unwrap()
}

/// Whether the next opening uses a saved state; its figures.
fn opened(store: &Store) -> (bool, Usage) {
    let volume = open(store);
    assert_eq!(volume.check(), []);
    (volume.recovery().saved, volume.usage())
}

fn fill(volume: &Volume, files: u64) {
    for number in 0..files {
        let ino = volume.make(Ino::ROOT, format!("file-{number}").as_bytes(), &file()).unwrap();
        volume.append(ino, &model::bytes(10 * number, number as u8)).unwrap();
    }
    for number in (0..files).step_by(3) {
        volume.unlink(Ino::ROOT, format!("file-{number}").as_bytes()).unwrap();
    }
}

#[test]
fn a_closed_volume_is_not_scanned_and_a_dropped_one_is() {
    let store = store(64 << 20);
    let volume = create(&store);
    fill(&volume, 700); // three groups of inodes
    let usage = volume.usage();
    volume.close().unwrap();
    assert_eq!(opened(&store), (true, usage), "the state was saved");
    assert_eq!(opened(&store), (false, usage), "the opening before has ended its validity");
    let volume = open(&store);
    let ino = volume.make(Ino::ROOT, b"one more", &file()).unwrap();
    volume.append(ino, &[1; 5000]).unwrap();
    let usage = volume.usage();
    volume.close().unwrap();
    assert_eq!(opened(&store), (true, usage), "the state is that of the second closing");
}

#[test]
fn a_volume_in_use_is_not_closed() {
    let store = store(64 << 20);
    let volume = create(&store);
    let clone = volume.clone();
    let error = volume.close().unwrap_err();
    assert!(matches!(error, Error::InUse { .. }) && error.kind() == ErrorKind::Busy, "{error}");
    let held = clone.make_unnamed(&file()).unwrap();
    clone.write(held.ino(), 0, &[7; 9000]).unwrap();
    assert!(matches!(clone.clone().close(), Err(Error::InUse { .. })));
    assert!(matches!(clone.close(), Err(Error::InUse { .. })), "a file is held");
    drop(held); // the last use of the volume
    assert!(!opened(&store).0);
    let volume = open(&store);
    volume.clone().close().unwrap_err();
    volume.close().unwrap();
    assert!(opened(&store).0);
}

/// A panic inside of a call may leave pages that count as free and are in use.
#[test]
fn a_volume_whose_call_panicked_is_scanned() {
    let store = store(64 << 20);
    let volume = create(&store);
    let ino = volume.make(Ino::ROOT, b"file", &file()).unwrap();
    volume.close().unwrap();
    let volume = Volume::open_with(
        store.object("volume").unwrap(),
        &everbyte_fs::OpenVolume { clock: || panic!("no time"), ..Default::default() },
    );
    let volume = volume.unwrap();
    assert!(volume.recovery().saved);
    catch_unwind(AssertUnwindSafe(|| volume.append(ino, &[1; 5000]))).unwrap_err();
    volume.close().unwrap();
    assert!(!opened(&store).0);
}

/// A volume without a free page grows for its state; where it cannot, it is scanned.
#[test]
fn a_full_volume_is_closed_too() {
    let store = store(64 << 20);
    let volume = create(&store);
    let ino = volume.make(Ino::ROOT, b"file", &file()).unwrap();
    volume.append(ino, &[1; 4096]).unwrap(); // the file has left its inode
    volume.append(ino, &vec![1; volume.usage().free_pages as usize * 4096]).unwrap();
    let usage = volume.usage();
    assert_eq!(usage.free_pages, 0);
    volume.close().unwrap();
    let (is_saved, grown) = opened(&store);
    assert!(is_saved && grown.pages > usage.pages && grown.free_pages == grown.pages - usage.pages);
    let store = crate::store(64 << 20);
    let options = VolumeOptions { span: Some(4 << 20), ..VolumeOptions::default() };
    let volume = Volume::create(&store, "volume", &options).unwrap();
    let ino = volume.make(Ino::ROOT, b"file", &file()).unwrap();
    while volume.append(ino, &[1; 4096]).is_ok() {}
    let usage = volume.usage();
    assert_eq!(usage.free_pages, 0);
    volume.close().unwrap();
    assert_eq!(opened(&store), (false, usage));
}

fn image() -> (Image, u64, Usage) {
    let mut usage = None;
    let image = Image::zeroed(CLUSTER).with_max(8 << 20).then(|media| {
        let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([7; 16]) }).unwrap();
        let options = VolumeOptions { lanes: 1, span: Some(4 << 20), uuid: Some([1; 16]), ..Default::default() };
        let volume = Volume::create(&store, "volume", &options).unwrap();
        fill(&volume, 60);
        let [a, b, c] = ["one", "two", "three"].map(|name| volume.make(Ino::ROOT, name.as_bytes(), &file()).unwrap());
        volume.append(a, &[3; 20_000]).unwrap();
        volume.clone_range(a, 0, b, 0, 0).unwrap();
        volume.clone_range(a, 4096, c, 0, 8192).unwrap();
        let limit = everbyte_fs::QuotaLimit { hard: 1 << 20, ..Default::default() };
        let limits = everbyte_fs::QuotaLimits { bytes: limit, ..Default::default() };
        volume.set_quota(everbyte_fs::QuotaKind::User, 0, &limits).unwrap();
        usage = Some(volume.usage());
        volume.close().unwrap();
        store.close().unwrap();
    });
    let start = Store::attach(image.media()).unwrap().object("volume").unwrap().prime().get();
    (image, start, usage.unwrap())
}

/// Each byte of the saved state, and of the words that lead to it, flipped: the volume is scanned
/// and is what it was.
#[test]
fn a_damaged_state_means_a_scan() {
    let (image, start, usage) = image();
    let media = image.media();
    let word = layout::Place::of(media.load(start + layout::SAVED_AT)).unwrap();
    let state = start + word.page * layout::PAGE + layout::LIST_HEAD;
    let head: layout::SavedHead = media.get(state);
    let len = size_of::<layout::SavedHead>() as u64 + head.len;
    let words = start + layout::SAVED_AT..start + layout::OPENED_AT + 8;
    for at in words.chain(state..state + len) {
        let media = image.media();
        let mut byte = media.read_vec(at, 1);
        byte[0] ^= 1 << (at % 8);
        media.write(at, &byte);
        let store = Store::attach(media).unwrap();
        let volume = open(&store);
        assert_eq!((volume.recovery().saved, volume.usage()), (false, usage), "byte {at:#x}");
        assert_eq!(volume.recovery().damaged, []);
        if at % 16 == 0 {
            assert_eq!(volume.check(), [], "byte {at:#x}");
        }
    }
    assert_eq!(opened(&Store::attach(image.media()).unwrap()), (true, usage), "the image itself is whole");
}

/// A whole state that is of another volume, another opening or another size, or has a section that
/// this program does not know, is not used.
#[test]
fn a_state_of_another_volume_is_not_used() {
    use everbyte_media::Checked;
    let (image, start, usage) = image();
    let media = image.media();
    let place = layout::Place::of(media.load(start + layout::SAVED_AT)).unwrap();
    let state = start + place.page * layout::PAGE + layout::LIST_HEAD;
    let head: layout::SavedHead = media.get(state);
    let others = [
        layout::SavedHead { uuid: [2; 16], ..head },
        layout::SavedHead { opened: head.opened + 1, ..head },
        layout::SavedHead { pages: head.pages - 1, ..head },
        layout::SavedHead { sections: 1, ..head },
        layout::SavedHead { sections: 3, ..head },
        layout::SavedHead { sections: 5, ..head },
        layout::SavedHead { len: u64::MAX, ..head },
        layout::SavedHead { free_pages: head.free_pages - 1, ..head },
        layout::SavedHead { free_inodes: head.free_inodes + 1, ..head },
    ];
    for other in others {
        let media = image.media();
        media.put(state, &other.sealed());
        assert_eq!(opened(&Store::attach(media).unwrap()), (false, usage), "{other:?}");
    }
    let media = image.media();
    let mut content = media.read_vec(state + 96, head.len as usize);
    content[0] = 9;
    media.write(state + 96, &content);
    media.put(state, &layout::SavedHead { content: crc32c::crc32c(&content), ..head }.sealed());
    assert_eq!(opened(&Store::attach(media).unwrap()), (false, usage), "a section of another kind");
    // Whole sections that contradict the volume.
    let find = |kind: u32| {
        let content = image.media().read_vec(state + 96, head.len as usize);
        let (mut at, mut found) = (0, None);
        while found.is_none() {
            let word = |at: usize| u64::from_le_bytes(content[at..at + 8].try_into().unwrap());
            found = (word(at) == u64::from(kind)).then_some((at, word(at + 8)));
            at += 16 + word(at + 8) as usize;
        }
        found.unwrap()
    };
    let (shared, len) = find(layout::SAVED_SHARED);
    let (owners, _) = find(layout::SAVED_USAGE);
    let last = shared + 16 + len as usize - 24;
    let old = u64::from_le_bytes(image.media().read_vec(state + 96 + shared as u64 + 16, 8).try_into().unwrap());
    let wrong = [
        (shared, u64::from(layout::SAVED_USAGE)), // twice
        (owners, u64::from(layout::SAVED_SHARED)),
        (shared + 16, old + 100), // not in order
        (last, usage.pages - 2),  // behind the end, or free
        (last, u64::MAX),
        (shared + 24, 0),
        (shared + 24, u64::MAX),
        (shared + 32, 0),
        (shared + 32, 1 << 32),
        (owners + 16, 3 << 32),
    ];
    for (at, word) in wrong {
        let media = image.media();
        let mut content = media.read_vec(state + 96, head.len as usize);
        content[at..at + 8].copy_from_slice(&word.to_le_bytes());
        media.write(state + 96, &content);
        media.put(state, &layout::SavedHead { content: crc32c::crc32c(&content), ..head }.sealed());
        assert_eq!(opened(&Store::attach(media).unwrap()), (false, usage), "{word:#x} at {at}");
    }
    let media = image.media();
    media.put(state, &layout::SavedHead { len: 1 << 20, ..head }.sealed());
    media.store(state - layout::LIST_HEAD, place.word());
    assert_eq!(opened(&Store::attach(media).unwrap()), (false, usage), "a circle");
}

/// An empty table of inodes, and a whole state that has none: the volume is scanned.
#[test]
fn a_state_without_inodes_is_not_used() {
    use everbyte_media::Checked;
    let (image, start, _) = image();
    let media = image.media();
    let page = |at: u64| start + layout::Place::of(media.load(start + at)).unwrap().page * layout::PAGE;
    let (state, table) = (page(layout::SAVED_AT) + layout::LIST_HEAD, page(layout::TABLE_AT));
    let head: layout::SavedHead = media.get(state);
    let content = media.read_vec(state + 96, head.len as usize);
    let (mut at, mut emptied) = (0, Vec::new());
    while at < content.len() {
        let word = |at: usize| u64::from_le_bytes(content[at..at + 8].try_into().unwrap());
        let end = at + 16 + word(at + 8) as usize;
        match word(at) == u64::from(layout::SAVED_INODES) {
            true => emptied.extend([word(at).to_le_bytes(), [0; 8]].concat()),
            false => emptied.extend(&content[at..end]),
        }
        at = end;
    }
    let (len, sum) = (emptied.len() as u64, crc32c::crc32c(&emptied));
    media.write(state + 96, &emptied);
    media.put(state, &layout::SavedHead { len, content: sum, free_inodes: 0, ..head }.sealed());
    media.store(table, 0);
    let store = Store::attach(media).unwrap();
    let volume = open(&store);
    assert!(!volume.recovery().saved && volume.attributes(Ino::ROOT).is_err());
}
