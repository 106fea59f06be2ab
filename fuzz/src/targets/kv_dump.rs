//! The dump of a key-value store, patched and loaded: refused, and no object is left, or loaded,
//! and the store is whole and gives a dump that is loaded again.
//!
//! With checksums put right, those of the bodies too, the search gets to places, sizes, names and
//! the order of keys.

use crate::class;
use crate::patch::{Image, RESEAL, store};
use everbyte_kv::{Error, Kv};
use everbyte_store::Store;
use std::sync::OnceLock;

const LEN: u64 = 8 << 20;
const HEAD: usize = 64;
/// The kind of a chunk that names a version.
const VERSION: u64 = 4;

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
        let store = store(LEN);
        let kv = Kv::create(&store, "kv").expect("a table");
        for key in 0..6_u8 {
            kv.put(&[b'k', key], &vec![key; usize::from(key) * 40]).expect("room");
        }
        for name in ["a", "stock"] {
            kv.create_table(name).expect("room").put(b"apples", b"97").expect("room");
        }
        // The chunks of a named version lie behind its contents.
        kv.name_version("one").expect("room");
        kv.drop_table("a").expect("room");
        kv.put(b"k\x02", b"").expect("room");
        kv.delete(b"k\x03").expect("room");
        let mut bytes = dump(&kv);
        // The number of a dump is random: it is made the same in each run.
        let (mut bodies, mut at) = (Vec::new(), 0);
        bytes[16..24].fill(7);
        seal(&mut bytes[..HEAD]);
        at += HEAD;
        while at < bytes.len() {
            let len = number(&bytes[at + 40..at + 48]) as usize;
            bytes[at + 24..at + 32].fill(7);
            if number(&bytes[at + 12..at + 16]) == VERSION {
                // When it got its name.
                bytes[at + HEAD + 8..at + HEAD + 16].fill(7);
                let sum = crc32c::crc32c(&bytes[at + HEAD..at + HEAD + len]);
                bytes[at + 48..at + 52].copy_from_slice(&sum.to_le_bytes());
            }
            seal(&mut bytes[at..at + HEAD]);
            bodies.push((at + HEAD, len));
            at += HEAD + len;
        }
        Good { image: Image::new(bytes, Vec::new()), bodies }
    })
}

fn dump(kv: &Kv) -> Vec<u8> {
    let mut bytes = Vec::new();
    kv.dump(&mut bytes, &mut |_| {}).expect("a store that is whole");
    bytes
}

fn seal(bytes: &mut [u8]) {
    bytes[8..12].fill(0);
    let sum = crc32c::crc32c(bytes);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
}

/// An input that does not begin as a list of patches is a dump itself.
fn bytes(input: &[u8]) -> Vec<u8> {
    if input.starts_with(b"EVRBKVDP") {
        return input.to_vec();
    }
    let Good { image, bodies } = good();
    let mut bytes = image.patched(input);
    if input.first().is_some_and(|flags| flags & RESEAL != 0) {
        seal(&mut bytes[..HEAD]);
        for &(body, len) in bodies {
            let sum = crc32c::crc32c(&bytes[body..body + len]);
            bytes[body - 16..body - 12].copy_from_slice(&sum.to_le_bytes());
            seal(&mut bytes[body - HEAD..body]);
        }
    }
    bytes
}

fn load(store: &Store, bytes: &[u8]) -> Result<Kv, Error> {
    Ok(Kv::load(store, "one", &mut &*bytes, &mut |_| {})?.0)
}

pub(crate) fn run(input: &[u8]) -> String {
    let store = store(LEN);
    match load(&store, &bytes(input)) {
        Err(error) => {
            assert!(store.object("one").is_err(), "an object of a dump that was refused");
            class(&error.to_string())
        }
        Ok(kv) => {
            assert!(kv.check().is_empty(), "a store that was loaded is whole");
            let tables = kv.tables().expect("a store that is whole").len();
            load(&self::store(LEN), &dump(&kv)).expect("a dump");
            format!("{tables} tables")
        }
    }
}
