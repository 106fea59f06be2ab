//! Large bound stores beside each other. In a process of its own: where these lie nothing else can
//! be opened again.

use everbyte_media::{BackendChoice, Options};
use everbyte_store::{CreateOptions, Store};

const MAX: u64 = 1 << 40;

/// A new store takes another address if something lies at the first: of six by chance two would
/// meet more often than not.
#[test]
fn large_stores_find_room_beside_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let media = Options { backend: BackendChoice::File, log_bytes: 256 << 10, ..Options::default() };
    let options = CreateOptions { media, max: MAX, bound: true };
    let make = |number: u64| Store::create(&dir.path().join(number.to_string()), &options).unwrap();
    let stores: Vec<Store> = (0..6).map(make).collect();
    let mut homes: Vec<u64> = stores.iter().map(|store| store.info().binding.unwrap()).collect();
    homes.sort_unstable();
    assert!(homes.windows(2).all(|two| two[1] - two[0] >= MAX), "{homes:x?}");
}
