//! Walks the cold tables and the backing files: every word leads to a slot of its own, which holds
//! what was put there.

use super::backing::Backing;
use super::table::{Place, Table};
use crate::FindingKind;
use crate::catalogue::record::Entry;
use crate::object::Extent;
use crate::store::Inner;
use everbyte_space::CLUSTER;
use std::collections::HashMap;

impl Inner {
    /// What is wrong with the cold clusters of an object. Costs a look at each of them.
    pub(crate) fn check_cold(&self, entry: &Entry, extent: &Extent) -> Vec<(FindingKind, u64, String)> {
        if extent.resident == 0 {
            return Vec::new();
        }
        let prime = entry.span.at();
        let Some(table) = Table::of(&self.media, entry) else { return Vec::new() };
        let (pair, path) = match table.named() {
            Ok(named) => named,
            Err((at, detail)) => return vec![(FindingKind::Damage, at, detail)],
        };
        let mut found = Vec::new();
        let (mut backing, mut owners) = (None, HashMap::new());
        let mut buffer = vec![0; CLUSTER as usize];
        for cluster in 0..((extent.backed - prime) / CLUSTER) as u32 {
            let at = prime + u64::from(cluster) * CLUSTER;
            let Place::Slot { slot, checksum } = table.get(cluster) else { continue };
            if cluster == 0 || !self.space.is_backed(at) {
                found.push((FindingKind::Note, at, "a cluster that nobody has is said to be cold".into()));
                continue;
            }
            if let Some(other) = owners.insert(slot, at) {
                found.push((
                    FindingKind::DoubleUse,
                    at,
                    format!("its bytes and those of {other:#x} lie in slot {slot}"),
                ));
            }
            let opened = backing.get_or_insert_with(|| {
                let owner = self.owner(entry, pair, path.clone())?;
                Backing::open(self.files(), owner, true)
            });
            match opened {
                Ok(backing) => {
                    if let Err(error) = backing.read(slot, checksum, at, &mut buffer) {
                        found.push((FindingKind::Damage, at, error.to_string()));
                    }
                }
                Err(error) => {
                    found.push((FindingKind::Damage, prime, error.to_string()));
                    break; // once is enough
                }
            }
        }
        found
    }
}
