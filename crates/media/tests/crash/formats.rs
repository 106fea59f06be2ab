//! Stores of an older format: opened, read, and raised to our format before the first write that
//! the older format does not know.
//!
//! `testdata/format-1-*.hex` are the bytes that the program of format 1 wrote, sixteen a line,
//! lines of zeros left out: a store whose process died, and one that was closed.

use crate::program::{DATA, LOG_AT, LOG_LEN, open};
use everbyte_media::{Durability, Error, FORMAT, Format, Media, OpenOptions, Words, museum};
use everbyte_sim::{PowerCut, PowerFailure, PowerReport, RecordedDisk};

const HEADS: [usize; 2] = [8 << 10, 12 << 10];
const DIED: &str = include_str!("../../testdata/format-1-died.hex");
const CLOSED: &str = include_str!("../../testdata/format-1-closed.hex");

/// The image of a dump, whose first number is the file's length.
fn image(dump: &str) -> Vec<u8> {
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let mut lines = dump.lines();
    let mut image = vec![0; number(lines.next().unwrap())];
    for line in lines {
        let (at, bytes) = line.split_once("  ").unwrap();
        let hex = bytes.replace(' ', "");
        for byte in 0..16 {
            image[number(at) + byte] = number(&hex[byte * 2..byte * 2 + 2]) as u8;
        }
    }
    image
}

/// The format in the head that counts: the whole copy with the larger sequence.
fn format(image: &[u8]) -> u32 {
    let whole = HEADS.map(|at| &image[at..at + 512]).into_iter().filter(|head| {
        let mut plain = head.to_vec();
        plain[8..12].fill(0);
        crc32c::crc32c(&plain).to_le_bytes() == head[8..12]
    });
    let newest = whole.max_by_key(|head| u64::from_le_bytes(head[16..24].try_into().unwrap())).unwrap();
    u32::from_le_bytes(newest[12..16].try_into().unwrap())
}

/// The content of both stores.
fn holds(media: &Media) -> [u64; 4] {
    [0, 8, 4096, 0x8000].map(|at| media.load(DATA + at))
}

/// Every word acknowledged under format 1 is there. A read-only opening changes nothing, and the
/// first record raises the format.
#[test]
fn a_store_of_format_1_is_read_and_brought_to_ours() {
    for dump in [DIED, CLOSED] {
        let image = image(dump);
        assert_eq!(format(&image), 1);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        std::fs::write(&path, &image).unwrap();
        let media = OpenOptions::new(&path).read_only().open(&crate::program::options(Durability::Always)).unwrap();
        assert_eq!(holds(&media), [1, 3, 4, 5]);
        drop(media);
        assert!(std::fs::read(&path).unwrap() == image);
        let media = OpenOptions::new(&path).open(&crate::program::options(Durability::Always)).unwrap();
        assert_eq!(holds(&media), [1, 3, 4, 5]);
        media.store(DATA + 16, 6);
        media.flush(DATA + 16, 8);
        media.close().unwrap();
        drop(media);
        assert_eq!(format(&std::fs::read(&path).unwrap()), FORMAT);
        assert_eq!(
            holds(&OpenOptions::new(&path).open(&crate::program::options(Durability::Always)).unwrap()),
            [1, 3, 4, 5]
        );
    }
}

/// Opens a store of format 1, logs a word of a line, dies, and is cut anywhere: the log never holds
/// a record that the older program takes for damage under a head that it reads.
fn explore(dump: &str) -> Result<PowerReport, PowerFailure> {
    let image = image(dump);
    let log = LOG_AT as usize..(LOG_AT + LOG_LEN) as usize;
    let disk = RecordedDisk::new(&image).unwrap();
    let media = open(&disk, Durability::Always).unwrap();
    media.store(DATA + 16, 6);
    media.flush_words(&[Words::new(DATA, 0b100)]);
    media.barrier().unwrap();
    disk.note(6);
    media.abandon();
    PowerCut::new("no_new_record_lies_under_an_old_head").images_per_point(64).explore(&disk.tape(), |cut, cut_disk| {
        let found = cut_disk.content();
        if found[log.clone()] != image[log.clone()] && format(&found) < 2 {
            return Err("a record that format 1 does not know, and a head that says format 1".into());
        }
        let media = open(&cut_disk, Durability::Always).map_err(|error| error.to_string())?;
        let (old, new) = (holds(&media), media.load(DATA + 16));
        media.abandon();
        match (old, cut.notes, new) {
            ([1, 3, 4, 5], [], 0 | 6) | ([1, 3, 4, 5], [6], 6) => Ok(()),
            lost => Err(format!("{lost:?}")),
        }
    })
}

#[test]
fn no_new_record_lies_under_an_old_head() {
    for dump in [DIED, CLOSED] {
        explore(dump).unwrap_or_else(|failure| panic!("{failure}"));
    }
    // No record is written to a closed log before a head of our format. The test is about a log
    // that continues.
    let found = museum::with("media-format-late", || explore(DIED));
    println!("media-format-late: {}", found.expect_err("the seeded bug was not found").detail);
}

/// A store of a later format is refused by its number, and not changed.
#[test]
fn a_newer_format_is_refused_with_both_numbers() {
    let mut image = image(CLOSED);
    for at in HEADS {
        image[at + 12] = 4;
        image[at + 8..at + 12].fill(0);
        let sum = crc32c::crc32c(&image[at..at + 512]);
        image[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
    }
    let disk = RecordedDisk::new(&image).unwrap();
    let refused = open(&disk, Durability::Always).unwrap_err();
    let newer = Format::new(4_u32, FORMAT);
    assert!(matches!(refused, Error::NewerFormat { format, .. } if format == newer), "{refused}");
    assert_eq!(
        refused.to_string(),
        "recorded: the media has format 4, newer than 3, the newest this program knows; use a newer Everbyte"
    );
    assert!(disk.tape().events.is_empty());
}
