//! The bytes in memory of files, names and extents that are loaded, counted and not timed.

use everbyte_fs::{Allocate, FileKind, Indexed, Ino, NewFile, OpenVolume, Volume, VolumeOptions};
use everbyte_media::{Media, Options};
use everbyte_store::{FormatOptions, Store};

/// Bytes of a file that is loaded, its name among them.
const FILE: usize = 200;
/// Bytes of an extent that is loaded.
const EXTENT: usize = 32;

fn store() -> Store {
    let media = Media::anonymous(512 << 20, &Options::default()).unwrap();
    Store::format(media, &FormatOptions::default()).unwrap()
}

fn open(store: &Store, files: usize) -> Volume {
    Volume::open_with(store.object("volume").unwrap(), &OpenVolume { files, ..OpenVolume::default() }).unwrap()
}

/// Looks at all files of the root.
fn look(volume: &Volume) -> Vec<Ino> {
    let mut found = Vec::new();
    let mut cookie = 0;
    loop {
        let entries = volume.entries(Ino::ROOT, cookie, 1000).unwrap();
        let Some(last) = entries.last() else { return found };
        cookie = last.next;
        for entry in entries {
            volume.attributes(entry.ino).unwrap();
            found.push(entry.ino);
        }
    }
}

fn require_small(indexed: Indexed, what: &str) {
    println!("{what}: {indexed:?}, {} bytes a file", indexed.bytes / indexed.files);
    assert!(indexed.bytes <= FILE * indexed.files + EXTENT * indexed.extents, "{what}: {indexed:?}");
}

/// Numbers of files around those at which the tables double.
#[test]
fn a_file_takes_200_bytes_and_an_extent_32() {
    let store = store();
    let options = VolumeOptions { span: Some(256 << 20), ..VolumeOptions::default() };
    let volume = Volume::create(&store, "volume", &options).unwrap();
    let file = NewFile::new(FileKind::Regular, 0o644);
    let mut made = 0;
    for files in [3000, 12_200, 12_400, 24_500, 24_700, 30_000] {
        for number in made..files {
            let ino = volume.make(Ino::ROOT, format!("message-{number:06}").as_bytes(), &file).unwrap();
            volume.attributes(ino).unwrap();
            if number % 3 > 0 {
                volume.allocate(ino, 0, 4096, Allocate::Grow).unwrap();
            }
            if number % 12 == 1 {
                (1..9).for_each(|hole| volume.allocate(ino, hole * 16384, 4096, Allocate::Grow).unwrap());
            }
        }
        made = files;
        require_small(volume.indexed(), "made");
    }
    volume.close().unwrap();
    let volume = open(&store, OpenVolume::FILES);
    assert_eq!(volume.indexed().files, 0, "nothing is loaded before it is used");
    assert_eq!(look(&volume).len(), made);
    assert_eq!(volume.indexed().files, made + 1);
    require_small(volume.indexed(), "loaded");
}

#[test]
fn a_large_file_takes_32_bytes_an_extent() {
    let store = store();
    let options = VolumeOptions { span: Some(256 << 20), ..VolumeOptions::default() };
    let volume = Volume::create(&store, "volume", &options).unwrap();
    let file = volume.make(Ino::ROOT, b"sparse", &NewFile::new(FileKind::Regular, 0o644)).unwrap();
    (0..20_000).for_each(|page| volume.allocate(file, page * 8192, 4096, Allocate::Grow).unwrap());
    require_small(volume.indexed(), "made in order");
    // Extents in the middle, each between two others.
    (0..5000).for_each(|page| volume.allocate(file, (4 * page + 1) * 4096, 100, Allocate::Grow).unwrap());
    println!("made out of order: {:?}", volume.indexed());
    volume.close().unwrap();
    let volume = open(&store, OpenVolume::FILES);
    volume.attributes(file).unwrap();
    require_small(volume.indexed(), "loaded");
}

/// Indexes above the limit are dropped and loaded again; those of files that are held stay.
#[test]
fn indexes_stay_below_their_limit() {
    let store = store();
    let options = VolumeOptions { span: Some(64 << 20), ..VolumeOptions::default() };
    let volume = Volume::create(&store, "volume", &options).unwrap();
    let file = NewFile::new(FileKind::Regular, 0o644);
    for number in 0..3000_u64 {
        let ino = volume.make(Ino::ROOT, format!("message-{number:06}").as_bytes(), &file).unwrap();
        volume.append(ino, &number.to_le_bytes()).unwrap();
    }
    volume.close().unwrap();
    let limit = 160;
    let volume = open(&store, limit);
    let all = look(&volume);
    assert_eq!(all.len(), 3000);
    assert!((limit / 2..=limit).contains(&volume.indexed().files), "{:?}", volume.indexed());
    let held: Vec<_> = all.iter().step_by(10).map(|&ino| volume.hold(ino).unwrap()).collect();
    volume.unlink(Ino::ROOT, b"message-000000").unwrap();
    look(&volume);
    let indexed = volume.indexed().files;
    assert!((held.len()..=held.len() + limit).contains(&indexed), "{indexed} files, {} of them held", held.len());
    for held in &held {
        let mut bytes = [0; 8];
        volume.read(held.ino(), 0, &mut bytes).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), held.ino().0 - all[0].0);
    }
    drop(held);
    look(&volume);
    look(&volume);
    assert!(volume.indexed().files <= limit, "{:?}", volume.indexed());
    assert_eq!(volume.check(), []);
}
