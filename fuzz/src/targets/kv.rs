//! A store with a key-value store in it, its heap and tree patched: opened, read, checked, and
//! written to.

use crate::class;
use crate::patch::{Image, store};
use everbyte_kv::{Error, Kv};
use everbyte_store::Store;
use std::sync::OnceLock;

const LEN: u64 = 8 << 20;

/// Two hundred entries, some deleted, one large.
fn good() -> &'static Image {
    static GOOD: OnceLock<Image> = OnceLock::new();
    GOOD.get_or_init(|| {
        let store = store(LEN);
        let kv = Kv::create(&store, "kv").expect("a table");
        for number in 0..200u32 {
            kv.put(format!("key/{number:04}").as_bytes(), &vec![number as u8; number as usize]).expect("a put");
        }
        for number in (0..200u32).step_by(3) {
            kv.delete(format!("key/{number:04}").as_bytes()).expect("a deletion");
        }
        kv.put(b"large", &[9; 20_000]).expect("a large value");
        store.media().barrier().expect("a barrier");
        Image::new(store.media().read_vec(0, LEN as usize), Vec::new())
    })
}

pub(crate) fn run(input: &[u8]) -> String {
    let store = match Store::attach(good().media(input)) {
        Ok(store) => store,
        Err(error) => return format!("store: {}", class(&error.to_string())),
    };
    match used(&store) {
        Ok(said) => said,
        Err(error) => class(&error.to_string()),
    }
}

/// Everything a user does; the first error ends it.
fn used(store: &Store) -> Result<String, Error> {
    let kv = Kv::open(store, "kv")?;
    let found = kv.check();
    let mut said = found.first().map(|finding| class(&finding.detail)).unwrap_or_default();
    kv.get(b"key/0001")?;
    kv.get(b"large")?;
    // Bounded: a damaged tree may not lead in circles, which this would show as a hang.
    for entry in kv.range::<[u8]>(..) {
        entry?;
    }
    for entry in kv.range::<[u8]>(..).rev() {
        entry?;
    }
    for number in 0..20u32 {
        kv.put(format!("key/{:04}", number * 7).as_bytes(), &[1; 100])?;
        kv.delete(format!("key/{:04}", number * 11).as_bytes())?;
    }
    said.push_str("used");
    Ok(said)
}
