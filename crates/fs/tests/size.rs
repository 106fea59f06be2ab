//! The size of a volume: it holds in every call, and changes while the volume is in use.

use everbyte_fs::{Error, FileKind, Ino, NewFile, PageSize, Volume, VolumeOptions, layout};
use everbyte_media::{ErrorInfo, ErrorKind, Media, Options};
use everbyte_store::{FormatOptions, Store};

const ROOT: Ino = Ino::ROOT;
const PAGE: u64 = 4096;

fn store(len: usize) -> Store {
    Store::format(Media::anonymous(len as u64, &Options::default()).unwrap(), &FormatOptions::default()).unwrap()
}

fn create(store: &Store, span: u64, size: u64) -> everbyte_fs::Result<Volume> {
    Volume::create(store, "volume", &VolumeOptions { span: Some(span), lanes: 2, size, ..VolumeOptions::default() })
}

fn file(volume: &Volume, name: &str) -> Ino {
    volume.make(ROOT, name.as_bytes(), &NewFile::new(FileKind::Regular, 0o644)).unwrap()
}

/// Pages in use.
fn used(volume: &Volume) -> u64 {
    volume.usage().pages_max - volume.available_pages()
}

/// Appends pages until none is left; their number.
fn fill(volume: &Volume, ino: Ino) -> (u64, Error) {
    let mut count = 0;
    loop {
        match volume.append(ino, &[7; 4096]) {
            Ok(_) => count += 1,
            Err(error) => return (count, error),
        }
    }
}

/// A volume is full at its size exactly, wherever its clusters end, and goes on when that is
/// raised.
#[test]
fn a_volume_is_full_at_its_size() {
    for pages in [51, 64, 100, 257] {
        let store = store(64 << 20);
        let volume = create(&store, 4 << 20, pages * PAGE).unwrap();
        assert_eq!((volume.size(), volume.usage().pages_max), (Some(pages * PAGE), pages));
        let ino = file(&volume, "file");
        let available = volume.available_pages();
        let (count, error) = fill(&volume, ino);
        assert!(matches!(error, Error::SizeReached { size, .. } if size == pages * PAGE), "{error}");
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert!(error.to_string().contains("fs grow"));
        assert_eq!((count, volume.available_pages(), used(&volume)), (available, 0, pages));
        assert!(volume.check().is_empty());
        volume.set_size((pages + 3) * PAGE).unwrap();
        assert_eq!(fill(&volume, ino).0, 3);
        // A run of adjacent pages, too.
        volume.set_xattr(ino, b"user.a", &[1; 5000], everbyte_fs::SetXattr::Any).unwrap_err();
        volume.set_size((pages + 5) * PAGE).unwrap();
        volume.set_xattr(ino, b"user.a", &[1; 5000], everbyte_fs::SetXattr::Any).unwrap();
        assert_eq!(volume.available_pages(), 0);
        volume.resize(ino, 10 * PAGE).unwrap();
        let least = used(&volume);
        let error = volume.set_size((least - 1) * PAGE).unwrap_err();
        assert!(matches!(error, Error::BadOption { .. }) && error.to_string().contains(&(least * PAGE).to_string()));
        volume.set_size(least * PAGE).unwrap();
        volume.append(ino, &[8; 4096]).unwrap_err();
        volume.write(ino, 100, &[8; 100]).unwrap(); // needs no page
        volume.close().unwrap();
        let volume = Volume::open(store.object("volume").unwrap()).unwrap();
        assert_eq!(volume.size(), Some(least * PAGE), "the size stays");
        assert!(matches!(fill(&volume, ino), (0, Error::SizeReached { .. })));
        volume.set_size(0).unwrap();
        let (_, error) = fill(&volume, ino);
        assert!(matches!(error, Error::NoSpace { .. }) && error.to_string().contains("span"), "{error}");
        assert_eq!((volume.size(), volume.usage().pages_max), (None, 1024));
        assert!(volume.check().is_empty());
    }
}

/// A large page is not taken beyond the size, although the object has it: small ones fill the rest.
#[test]
fn large_pages_keep_the_size() {
    let store = store(64 << 20);
    let size = (7 << 20) + 5 * PAGE;
    let options = VolumeOptions { span: Some(32 << 20), size, page_size: PageSize::Large, ..Default::default() };
    let volume = Volume::create(&store, "volume", &options).unwrap();
    let (before, ino) = (used(&volume), file(&volume, "file"));
    let allocated = |volume: &Volume| volume.all_pages().allocated / PAGE;
    let (_, error) = fill(&volume, ino);
    assert!(matches!(error, Error::SizeReached { .. }), "{error}");
    let most = size / PAGE - before;
    assert!((most - 8..=most).contains(&allocated(&volume)), "{} pages of {most}", allocated(&volume));
    assert_eq!(volume.all_pages().aligned, 6 << 20);
    // Nor where the object has more pages for another reason.
    volume.set_size(0).unwrap();
    assert!(fill(&volume, ino).0 > 0);
    volume.resize(ino, 0).unwrap();
    volume.set_size(size).unwrap();
    fill(&volume, ino);
    assert!((most - 8..=most).contains(&allocated(&volume)), "{} pages of {most}", allocated(&volume));
    assert!(volume.check().is_empty());
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let store = store(64 << 20);
    for size in [5, 4096, 20 * PAGE] {
        assert!(matches!(create(&store, 4 << 20, size).map(drop), Err(Error::BadOption { .. })), "{size}");
    }
    let volume = create(&store, 4 << 20, 0).unwrap();
    for size in [4095, 4 * PAGE, (4 << 20) + PAGE] {
        assert!(matches!(volume.set_size(size), Err(Error::BadOption { .. })), "{size}");
    }
    volume.set_size(4 << 20).unwrap();
    // A word that fails its check is told; the volume has no size then, and can be given one.
    let media = store.media().clone();
    let at = volume.object().prime().get() + layout::SIZE_AT;
    drop(volume);
    media.store(at, media.load(at) ^ 1 << 20);
    let volume = Volume::open(store.object("volume").unwrap()).unwrap();
    assert_eq!(volume.size(), None);
    assert!(volume.check().iter().any(|finding| finding.at == at));
    volume.set_size(2 << 20).unwrap();
    assert!(volume.check().is_empty());
}

/// Threads take pages while another one changes the size: they pass no size, and lose no page.
#[test]
fn the_size_changes_under_threads() {
    let volume = create(&store(64 << 20), 16 << 20, 2 << 20).unwrap();
    let files: Vec<Ino> = (0..3).map(|thread| file(&volume, &thread.to_string())).collect();
    std::thread::scope(|scope| {
        for &ino in &files {
            let volume = &volume;
            scope.spawn(move || {
                for round in 0..600 {
                    match volume.append(ino, &[round as u8; 8192]) {
                        Ok(_) | Err(Error::SizeReached { .. }) => (),
                        Err(error) => panic!("{error}"),
                    }
                    if round % 97 == 96 {
                        volume.resize(ino, 5000).unwrap();
                    }
                }
            });
        }
        scope.spawn(|| {
            for round in 0..200_u64 {
                match volume.set_size((1 + round % 7) << 20) {
                    Ok(()) | Err(Error::BadOption { .. }) => (),
                    Err(error) => panic!("{error}"),
                }
                let (size, usage) = (volume.size().unwrap() / PAGE, volume.usage());
                assert!(usage.pages_max <= 7 << 8 && size <= 7 << 8);
            }
        });
    });
    volume.set_size(8 << 20).unwrap();
    let (count, error) = fill(&volume, files[0]);
    assert!(count > 0 && matches!(error, Error::SizeReached { .. }), "{count} {error}");
    assert_eq!(used(&volume), 2048);
    assert!(volume.check().is_empty());
}

/// The pages that are said to be available are those that the volume gets, up to its span and up to
/// the quota of its object.
#[test]
fn a_quota_of_the_object_bounds_what_is_available() {
    let store = store(64 << 20);
    let volume = create(&store, 4 << 20, 0).unwrap();
    let ino = file(&volume, "file");
    assert_eq!(volume.available_pages() + 23, 1024, "the head, lanes and inodes are in use");
    store.set_quota("volume", Some(20)).unwrap(); // clusters of 16 pages
    let available = volume.available_pages();
    let (count, error) = fill(&volume, ino);
    assert!(matches!(error, Error::NoSpace { .. }) && error.kind() == ErrorKind::Quota, "{error}");
    assert_eq!((count, available, volume.available_pages()), (297, 297, 0));
    store.set_quota("volume", None).unwrap();
    let available = volume.available_pages();
    assert_eq!((available, fill(&volume, ino).0), (704, 704));
}
