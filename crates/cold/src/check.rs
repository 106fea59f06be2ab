//! The check of cold clusters: every word of a cold table names a slot of its own, and the slot
//! holds the bytes that were written to it.

use crate::table::{ColdTable, Location};
use crate::tier::Tier;
use everbyte_space::CLUSTER;
use std::collections::HashMap;
use std::fmt::Display;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Bytes are lost or contradict each other.
    Damage,
    /// Two clusters have one slot.
    DoubleUse,
    /// A leftover of an interrupted change.
    Note,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// Its offset in the store.
    pub at: u64,
    /// Its description.
    pub detail: String,
}

/// Checks the words of the first `clusters` clusters of an object that starts at `prime`, and reads
/// every slot. `is_backed` tells whether the cluster at an offset is backed; `open` opens the tier,
/// once it is needed.
pub fn check<T: Tier, E: Display>(
    table: &ColdTable,
    prime: u64,
    clusters: u32,
    is_backed: impl Fn(u64) -> bool,
    open: impl FnOnce() -> Result<T, E>,
) -> Vec<Fault> {
    let mut found = Vec::new();
    let mut fault = |kind, at, detail| found.push(Fault { kind, at, detail });
    let (mut open, mut tier, mut owners) = (Some(open), None, HashMap::new());
    let mut buffer = vec![0; CLUSTER as usize];
    for cluster in 0..clusters {
        let at = prime + u64::from(cluster) * CLUSTER;
        let Location::Slot { slot, checksum } = table.get(cluster) else { continue };
        if cluster == 0 || !is_backed(at) {
            fault(FaultKind::Note, at, "a cluster that no object has is said to be cold".into());
            continue;
        }
        if let Some(other) = owners.insert(slot, at) {
            fault(FaultKind::DoubleUse, at, format!("its bytes and those of {other:#x} lie in slot {slot}"));
        }
        if let Some(open) = open.take() {
            match open() {
                Ok(opened) => tier = Some(opened),
                Err(error) => fault(FaultKind::Damage, prime, error.to_string()),
            }
        }
        let Some(tier) = &tier else { break }; // one fault for the whole tier
        if let Err(error) = tier.read(slot, checksum, at, &mut buffer) {
            fault(FaultKind::Damage, at, error.to_string());
        }
    }
    found
}
