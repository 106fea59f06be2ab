//! Backing files: files that are none of the object's are refused and stay as they are (COLD-5),
//! and no user may do more with one than with the store (COLD-6).

use everbyte_cold::layout::{SWAP_SLOTS, SwapHeader};
use everbyte_cold::{Backing, Candidate, ColdTable, FileRights, Files, OpenMode, Owner, RealFiles, Result, Tier};
use everbyte_media::{Checked, Disk, Media, Options};
use everbyte_space::{CLUSTER, Span};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use zerocopy::{FromBytes, IntoBytes};

/// A directory with the file of a store, which its owner alone may read.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        std::fs::write(&store, b"store").unwrap();
        std::fs::set_permissions(&store, PermissionsExt::from_mode(0o600)).unwrap();
        Place { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Object 7 of the store, with its backing file in another directory, say.
    fn owner(&self) -> Owner {
        let store = self.path("store");
        Owner {
            rights: Some(FileRights::of(&store.metadata().unwrap())),
            home: Some(store.clone()),
            store,
            identity: [1; 16],
            object: "object".into(),
            id: 7,
            pair: [2; 16],
            path: self.path("swap"),
        }
    }

    fn made(&self) -> Backing {
        let candidate = Candidate::find(&RealFiles, &self.owner(), None).unwrap();
        Backing::make(candidate, self.owner(), &RealFiles).unwrap()
    }

    fn header(&self) -> SwapHeader {
        let bytes = std::fs::read(self.path("swap")).unwrap();
        SwapHeader::read_from_bytes(&bytes[..SWAP_SLOTS as usize]).unwrap()
    }
}

fn open(owner: Owner) -> Result<Backing> {
    Backing::open(&RealFiles, owner, OpenMode::ReadWrite)
}

#[test]
fn every_slot_is_verified_when_it_is_read() {
    let place = Place::new();
    let backing = place.made();
    let bytes = |slot: u32| vec![slot as u8 + 1; CLUSTER as usize];
    for slot in 0..4 {
        backing.write(slot, &bytes(slot)).unwrap();
    }
    backing.sync().unwrap();
    let mut found = bytes(9);
    for slot in 0..4 {
        for at in [1 << 20, (1 << 20) + CLUSTER] {
            let sum = crc32c::crc32c(&bytes(slot));
            backing.read(slot, sum, at, &mut found).unwrap();
            assert_eq!(found, bytes(slot));
            for bit in 0..32 {
                let error = backing.read(slot, sum ^ 1 << bit, at, &mut found).unwrap_err().to_string();
                assert!(error.contains("not what was written"), "{error}");
            }
        }
    }
    let ends = backing.read(4, 0, 1 << 20, &mut found).unwrap_err().to_string();
    assert!(ends.contains("the file ends before"), "{ends}");
}

/// Each field by which a file belongs to another owner.
#[test]
fn a_file_of_another_owner_is_refused_and_stays_as_it_is() {
    let place = Place::new();
    drop(place.made());
    let own = place.owner();
    let copy = place.path("copy");
    std::fs::write(&copy, b"another store").unwrap();
    let others = [
        Owner { id: 8, ..own.clone() },
        Owner { pair: [3; 16], ..own.clone() },
        Owner { home: None, ..own.clone() },
        Owner { home: Some(copy), ..own.clone() },
    ];
    let before = std::fs::read(place.path("swap")).unwrap();
    for (index, other) in others.iter().enumerate() {
        assert!(open(other.clone()).is_err(), "owner {index}");
        assert!(Candidate::find(&RealFiles, other, Some(other.pair)).is_err(), "owner {index}");
        assert!(Backing::open_or_make(&RealFiles, other.clone()).is_err(), "owner {index}");
        assert!(Backing::bring_home(&RealFiles, other.clone()).is_err(), "owner {index}");
    }
    assert_eq!(std::fs::read(place.path("swap")).unwrap(), before);
    assert!(open(own.clone()).is_ok());

    // The store was moved: its file names the place before, where no store lies any more.
    let moved = place.path("moved");
    std::fs::rename(place.path("store"), &moved).unwrap();
    let home = Some(moved.clone());
    let owner = Owner { home, ..own };
    assert!(open(owner.clone()).is_err());
    Backing::bring_home(&RealFiles, owner.clone()).unwrap();
    assert!(open(owner).is_ok());
    assert!(place.header().checksum_agrees());
}

/// A file that a user has put at the path is no backing file, however short it is.
#[test]
fn a_document_is_not_taken_for_an_empty_file() {
    let place = Place::new();
    let refused = |bytes: &[u8]| {
        std::fs::write(place.path("swap"), bytes).unwrap();
        let refused = Candidate::find(&RealFiles, &place.owner(), None).is_err();
        assert_eq!(std::fs::read(place.path("swap")).unwrap(), bytes);
        refused
    };
    let len = SWAP_SLOTS as usize;
    let mut text = vec![0; len];
    text[100..104].copy_from_slice(b"text");
    assert!(refused(b"text") && refused(&vec![0; len - 1]) && refused(&vec![0; len + 1]) && refused(&text));
    assert!(!refused(&[]) && !refused(&vec![0; len]));
    std::fs::remove_file(place.path("swap")).unwrap();
    drop(place.made());
    let header = place.header();
    assert!(refused(header.as_bytes()), "a whole header of another limit");
    let mut torn = header.as_bytes().to_vec();
    torn[40] ^= 1;
    assert!(!refused(&torn), "its creation was interrupted before the first slot");
    torn[12] ^= 8; // the format
    assert!(refused(&torn), "a header of another format may have another checksum");
}

#[test]
fn a_file_with_another_name_or_another_owner_is_refused() {
    let place = Place::new();
    std::fs::write(place.path("swap"), b"").unwrap();
    std::fs::hard_link(place.path("swap"), place.path("other")).unwrap();
    assert!(Candidate::find(&RealFiles, &place.owner(), None).is_err());
    std::fs::remove_file(place.path("other")).unwrap();
    assert!(Candidate::find(&RealFiles, &place.owner(), None).is_ok());
    if std::os::unix::fs::chown(place.path("swap"), Some(12345), None).is_ok() {
        assert!(Candidate::find(&RealFiles, &place.owner(), None).is_err());
    }
    std::fs::remove_file(place.path("swap")).unwrap();
    std::fs::write(place.path("target"), b"").unwrap();
    std::os::unix::fs::symlink(place.path("target"), place.path("swap")).unwrap();
    assert!(Candidate::find(&RealFiles, &place.owner(), None).is_err());
}

#[test]
fn opening_takes_access_away_that_the_store_does_not_give() {
    let place = Place::new();
    drop(place.made());
    let mode = || place.path("swap").metadata().unwrap().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(place.path("swap"), PermissionsExt::from_mode(0o644)).unwrap();
    drop(Backing::open(&RealFiles, place.owner(), OpenMode::ReadOnly).unwrap());
    assert_eq!(mode(), 0o644, "a reader changes nothing");
    drop(open(place.owner()).unwrap());
    assert_eq!(mode(), 0o600);
}

/// The slots of an earlier limit are free, and take no space any more.
#[test]
fn an_earlier_file_is_taken_without_its_slots() {
    let place = Place::new();
    let backing = place.made();
    backing.reserve(3).unwrap();
    (0..3).for_each(|slot| backing.write(slot, &vec![5; CLUSTER as usize]).unwrap());
    drop(backing);
    let candidate = Candidate::find(&RealFiles, &place.owner(), Some(place.owner().pair)).unwrap();
    assert_eq!(candidate.earlier, Some(place.owner().pair));
    drop(Backing::make(candidate, place.owner(), &RealFiles).unwrap());
    let bytes = std::fs::read(place.path("swap")).unwrap();
    assert!(bytes[SWAP_SLOTS as usize..].iter().all(|&byte| byte == 0));
    assert!(place.header().checksum_agrees());
}

/// The path of a table comes from media: a relative one would lead elsewhere in each directory.
#[test]
fn a_table_names_its_file_by_an_absolute_path() {
    let media = Media::anonymous(8 << 20, &Options::default()).unwrap();
    let table = ColdTable::of(&media, Span::new(1 << 20, 16 * CLUSTER).unwrap()).unwrap();
    table.name([4; 16], None).unwrap();
    assert_eq!(table.named().unwrap(), ([4; 16], None));
    let path = PathBuf::from("/a/file");
    table.name([5; 16], Some(&path)).unwrap();
    assert_eq!(table.named().unwrap(), ([5; 16], Some(path)));
    table.name([5; 16], Some(Path::new("a/file"))).unwrap();
    assert!(table.named().unwrap_err().1.contains("not absolute"));
    assert!(table.name([5; 16], Some(&PathBuf::from(format!("/{}", "x".repeat(4064))))).is_err());
}

/// A disk with room for a part of what is asked for.
struct Full {
    file: File,
    punched: Mutex<Vec<(u64, u64)>>,
}

impl Disk for Full {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }
    fn write_sync_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        Disk::write_at(self, at, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
    fn allocate(&self, at: u64, len: u64) -> io::Result<()> {
        let end = at + len;
        let room = SWAP_SLOTS + 2 * CLUSTER;
        self.file.set_len(Disk::len(self)?.max(end.min(room)))?;
        if end > room { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
    fn punch(&self, at: u64, len: u64) {
        self.punched.lock().unwrap().push((at, len));
    }
    fn mappable(&self) -> BorrowedFd<'_> {
        Disk::mappable(&self.file)
    }
}

struct OneFile(Arc<Full>);

impl Files for OneFile {
    fn create(&self, _path: &Path) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::clone(&self.0) as _)
    }
    fn open(&self, _path: &Path, _mode: OpenMode) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::clone(&self.0) as _)
    }
    fn remove(&self, _path: &Path, _disk: &dyn Disk) {}
}

#[test]
fn room_that_a_refused_reservation_got_in_part_is_given_back() {
    let place = Place::new();
    let disk = Arc::new(Full { file: tempfile::tempfile().unwrap(), punched: Mutex::default() });
    let files = OneFile(Arc::clone(&disk));
    let candidate = Candidate::find(&files, &place.owner(), None).unwrap();
    let backing = Backing::make(candidate, place.owner(), &files).unwrap();
    backing.reserve(1).unwrap();
    assert_eq!(*disk.punched.lock().unwrap(), []);
    backing.reserve(4).unwrap_err();
    let slots = |slots: Range<u64>| (SWAP_SLOTS + slots.start * CLUSTER, (slots.end - slots.start) * CLUSTER);
    assert_eq!(*disk.punched.lock().unwrap(), [slots(1..4)], "slot 0 may be in use");
}
