//! The file of a backup, patched and read: refused, or read whole.
//!
//! With checksums put right, those of the bodies too, the search gets to sizes, places, the table
//! and the numbers of pages.

use crate::class;
use crate::patch::{Image, RESEAL, store};
use everbyte::backup::{BackupFile, Options};
use std::path::Path;
use std::sync::OnceLock;

const HEAD: usize = 512;
const CHUNK: usize = 64;

struct Good {
    image: Image,
    /// Start and length of the body of each chunk.
    bodies: Vec<(usize, usize)>,
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn good() -> &'static Good {
    static GOOD: OnceLock<Good> = OnceLock::new();
    GOOD.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("backup");
        let store = everbyte::Store::from(store(1 << 20));
        store.backup(&path, &Options::default(), &mut |_| {}).expect("a backup");
        let bytes = std::fs::read(&path).expect("the backup");
        let (mut bodies, mut at) = (Vec::new(), HEAD);
        while at < bytes.len() {
            let len = number(&bytes[at + 40..at + 48]) as usize;
            bodies.push((at + CHUNK, len));
            at += CHUNK + len;
        }
        Good { image: Image::new(bytes, Vec::new()), bodies }
    })
}

fn seal(bytes: &mut [u8]) {
    bytes[8..12].fill(0);
    let sum = crc32c::crc32c(bytes);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
}

pub(crate) fn run(input: &[u8]) -> String {
    let Good { image, bodies } = good();
    let mut bytes = image.patched(input);
    if input.first().is_some_and(|flags| flags & RESEAL != 0) {
        seal(&mut bytes[..HEAD]);
        for &(body, len) in bodies {
            let sum = crc32c::crc32c(&bytes[body..body + len]);
            bytes[body - 16..body - 12].copy_from_slice(&sum.to_le_bytes());
            seal(&mut bytes[body - CHUNK..body]);
        }
    }
    let read = BackupFile::of(&bytes[..], Path::new("backup")).and_then(|file| {
        let mut pages = 0;
        file.walk(&mut |_, _| pages += 1)?;
        Ok(format!("{pages} pages"))
    });
    class(&read.unwrap_or_else(|error| error.to_string()))
}
