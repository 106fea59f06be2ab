//! With any bytes in the log and the heads, opening answers with a store or a typed error, never a
//! panic.

use everbyte_media::{BackendChoice, Durability, Geometry, Media, OpenOptions, Options};
use everbyte_sim::RecordedDisk;
use everbyte_workload::Random;
use std::sync::Arc;

const LOG_AT: usize = 16 << 10;
const LOG_LEN: usize = 16 << 10;
const HEADS: [usize; 2] = [8 << 10, 12 << 10];

fn options() -> Options {
    let durability = Durability::Always;
    Options { backend: BackendChoice::File, durability, background: false, ..Options::default() }
}

/// A store whose log holds records, and whose process died.
fn image() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let geometry = Geometry { max: 256 << 10, len: 64 << 10, log_at: LOG_AT as u64, log_len: LOG_LEN as u64 };
    let media = OpenOptions::new(&path).create(geometry, &options()).unwrap();
    for at in (0x8000..0xc000).step_by(832) {
        media.write(at, &[at as u8; 200]);
        media.flush(at, 200);
        media.barrier().unwrap();
    }
    media.extend(64 << 10, 4096).unwrap();
    media.barrier().unwrap();
    media.abandon();
    std::fs::read(&path).unwrap()
}

fn open(image: &[u8]) -> Option<Media> {
    let disk: Arc<RecordedDisk> = RecordedDisk::new(image).unwrap();
    match OpenOptions::new("fuzzed").on_disk(disk).open(&options()) {
        Ok(media) => Some(media),
        Err(error) => {
            assert!(error.to_string().starts_with("fuzzed: "), "{error}");
            None
        }
    }
}

fn finish(media: Media) {
    // A store that opens must work.
    media.store(0x9000, 1);
    media.flush(0x9000, 8);
    media.barrier().unwrap();
    media.abandon();
}

/// Corrects the checksum of a head, so that its fields are read.
fn seal_head(image: &mut [u8], at: usize) {
    image[at + 8..at + 12].fill(0);
    let sum = crc32c::crc32c(&image[at..at + 512]);
    image[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
}

fn mutate(bytes: &mut [u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(4) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
            2 => {
                let word = at & !7;
                let value = [0, 1, u64::MAX, 1 << 63, 1 << 61, 4096, random.next()][random.below(7) as usize];
                bytes[word..word + 8].copy_from_slice(&value.to_le_bytes());
            }
            _ => {
                let len = random.below((bytes.len() - at) as u64) as usize;
                bytes[at..at + len].fill(random.next() as u8);
            }
        }
    }
}

#[test]
fn mutated_logs_never_panic() {
    let image = image();
    let mut opened = 0;
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let mut image = image.clone();
        mutate(&mut image[LOG_AT..LOG_AT + 8192], &mut random);
        if let Some(media) = open(&image) {
            finish(media);
            opened += 1;
        }
    }
    assert!(opened > 100, "damage below a synced mark is refused, a torn end is not: {opened} of 2000 opened");
}

/// As above, with right checksums: the content of records and heads is wrong all the same.
#[test]
fn well_sealed_lies_never_panic() {
    let image = image();
    for seed in 0..2000 {
        let mut random = Random::new(seed ^ 0x5ea1);
        let mut image = image.clone();
        if random.below(2) == 0 {
            for at in HEADS {
                mutate(&mut image[at + 16..at + 128], &mut random);
                seal_head(&mut image, at);
            }
        } else {
            // The first record, its payload and its length.
            let record = &mut image[LOG_AT..LOG_AT + 8192];
            let from = if random.below(2) == 0 { 64 } else { 40 };
            mutate(&mut record[from..200], &mut random);
            let len = u64::from_le_bytes(record[40..48].try_into().unwrap());
            let end = 64_u64.saturating_add(len).min(8192) as usize;
            let sum = crc32c::crc32c(&record[4..end]);
            record[..4].copy_from_slice(&sum.to_le_bytes());
        }
        if let Some(media) = open(&image) {
            media.abandon();
        }
    }
}

#[test]
fn noise_never_panics() {
    let image = image();
    for seed in 0..300 {
        let mut random = Random::new(seed ^ 0x0015e);
        let mut image = image.clone();
        image[LOG_AT..LOG_AT + LOG_LEN].fill_with(|| random.next() as u8);
        open(&image).into_iter().for_each(finish);
        let len = random.below(image.len() as u64) as usize;
        open(&image[..len]).into_iter().for_each(Media::abandon);
    }
}
