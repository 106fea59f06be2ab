//! The workload on plain objects: what the store promises by itself, without a heap or a tree above
//! it.
//!
//! Batch n, a fence between the steps:
//!   1. every [`EVERY`] batches an object is made, grown or removed
//!   2. record n is written into its slot of the ring object and flushed
//!   3. the count, in the ring's root word, becomes n; a barrier; the batch is acknowledged

use super::{Setup, text};
use everbyte_store::{Engine, Error, Object, ObjectOptions, Store};

const RING: &str = "suite/ring";
/// Records in the ring; a record is one line.
const SLOTS: u64 = 1024;
const LINE: u64 = 64;
/// Batches between changes to objects.
const EVERY: u64 = 5;
/// Objects that come and go.
const GUESTS: u64 = 7;

fn options(span: u64) -> ObjectOptions {
    ObjectOptions { engine: Engine::None, fingerprint: 0x5017e, span: Some(span) }
}

/// The ring, which is made if it is absent.
pub(super) fn open(store: &Store) -> Result<Object, String> {
    match store.object(RING) {
        Err(Error::NotFound { .. }) => {
            store.create_object(RING, options(1 << 20), |object| object.grow(SLOTS * LINE).map(drop)).map_err(text)
        }
        other => other.map_err(text),
    }
}

/// Settles one batch.
pub(super) fn write(setup: &Setup, store: &Store, ring: &Object, number: u64) -> Result<(), String> {
    if number.is_multiple_of(EVERY) {
        change(store, number / EVERY - 1).map_err(text)?;
    }
    let media = ring.media();
    {
        let _section = media.section();
        let at = slot(ring, number);
        media.write(at, &record(setup.seed, number));
        media.flush(at, LINE);
        media.fence();
        ring.set_root(number);
    }
    media.barrier().map_err(text)
}

/// The change of objects at step `step`: one guest after another comes, grows, or goes.
fn change(store: &Store, step: u64) -> Result<(), Error> {
    let name = guest(step);
    match step / GUESTS % 3 {
        0 => match store.create_object(&name, options(512 << 10), |object| object.grow(1).map(drop)) {
            // it exists if a kill came before the count
            Ok(_) | Err(Error::Exists { .. }) => Ok(()),
            Err(error) => Err(error),
        },
        1 => match store.object(&name)?.grow(128 << 10) {
            // a kill before the count, and it grows once more
            Ok(_) | Err(Error::SpanFull { .. }) => Ok(()),
            Err(error) => Err(error),
        },
        _ => match store.remove_object(&name) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        },
    }
}

fn guest(step: u64) -> String {
    format!("suite/guest-{}", step % GUESTS)
}

/// Compares what a kill left; see [`super::verify`].
pub(super) fn verify(setup: &Setup, store: &Store) -> Result<u64, String> {
    let ring = match store.object(RING) {
        Err(Error::NotFound { .. }) => return Ok(0),
        other => other.map_err(text)?,
    };
    let count = ring.root();
    // The slot after the newest may hold anything: its batch was under way.
    for number in (count + 2).saturating_sub(SLOTS).max(1)..=count {
        let mut found = [0; LINE as usize];
        ring.media().read(slot(&ring, number), &mut found);
        if found != record(setup.seed, number) {
            return Err(format!(
                "SUITE-2: {count} batches are there, and record {number} is not what batch {number} wrote"
            ));
        }
    }
    for which in 0..GUESTS {
        // The last step of this guest that is certain, and the one that may have been under way.
        let steps = |count: u64| (0..count / EVERY).rev().find(|step| step % GUESTS == which);
        let there = |step: Option<u64>| step.is_some_and(|step| step / GUESTS % 3 != 2);
        let found = match store.object(&guest(which)) {
            Ok(_) => true,
            Err(Error::NotFound { .. }) => false,
            Err(error) => return Err(text(error)), // damage is not absence
        };
        if found != there(steps(count)) && found != there(steps(count + 1)) {
            return Err(format!("SUITE-2: after {count} batches object `{}` is {found}", guest(which)));
        }
    }
    Ok(count)
}

fn slot(ring: &Object, number: u64) -> u64 {
    (ring.prime() + everbyte_store::PRIME_LEN + number % SLOTS * LINE).get()
}

fn record(seed: u64, number: u64) -> [u8; LINE as usize] {
    let mut record = [0; LINE as usize];
    for (word, bytes) in record.chunks_exact_mut(8).enumerate() {
        let value = (seed ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(word as u32 * 7) ^ number;
        bytes.copy_from_slice(&value.to_le_bytes());
    }
    record
}
