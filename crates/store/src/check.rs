//! `check`: walks superblock, words, table, headers and bitmaps, and reports contradictions.
//! Changes nothing. For a store that was opened read-only it also reports what opening had to
//! repair in memory: the file still needs that repair.

use crate::catalogue::record::{Entry, Slot};
use crate::finding::{Finding, FindingKind};
use crate::layout::SUPERBLOCKS;
use crate::object::header;
use crate::superblock::copies::{self, Copy};
use crate::superblock::words::Words;
use crate::{CLUSTER, Result, Store};
use everbyte_media::Offset;
use everbyte_names::{Fault, FaultKind};
use std::collections::HashMap;
use std::ops::Range;

impl Store {
    /// Checks all structures of the store. An empty list means no finding. Engines check their own
    /// structures. No thread may change objects meanwhile. Cost: one bit for each 64 KiB up to the
    /// file's end.
    pub fn check(&self) -> Vec<Finding> {
        let mut findings = Findings::default();
        self.check_opening(&mut findings);
        self.check_superblock(&mut findings);
        // Read again from media: the check is of the media, not of this process's volatile state.
        let slots = self.check_records(&mut findings);
        let owned = self.check_headers(&slots, &mut findings);
        self.check_bitmap(&owned, &mut findings);
        self.check_pages(&slots, &mut findings);
        findings.all
    }

    /// Pages that this process found unreadable, in any crate.
    fn check_pages(&self, slots: &[(u64, Slot)], findings: &mut Findings) {
        for (at, name) in self.media().unreadable_pages() {
            let entries = slots.iter().filter_map(|(_, slot)| slot.entry());
            let owner = || entries.into_iter().find(|entry| entry.span.holds(at, 1)).map(|entry| entry.name.clone());
            let detail = "the memory of this page cannot be read; what it held is lost".to_string();
            findings.add(FindingKind::Damage, at, name.or_else(owner).as_deref(), detail);
        }
    }

    /// Repairs of opening in this process alone, because the file was opened read-only.
    fn check_opening(&self, findings: &mut Findings) {
        let opened = self.media().opened();
        if !opened.read_only {
            return;
        }
        let recovery = self.recovery();
        for &at in &recovery.superblocks {
            let detail =
                "this copy of the superblock is torn, or older than the other; opening the store writes it again";
            findings.add(FindingKind::Damage, at, None, detail.into());
        }
        for &at in &recovery.words {
            let detail = "a word beside the superblock fails its check bits, and its copy is good; opening the store writes it again";
            findings.add(FindingKind::Damage, at, None, detail.into());
        }
        for &at in &opened.torn_heads {
            let detail =
                "this copy of the media head is torn, and the other is good; opening the store writes it again";
            findings.add(FindingKind::Damage, at, None, detail.into());
        }
        let names = |names: &[String], what: &str| -> Vec<(String, String)> {
            names.iter().map(|name| (name.clone(), format!("{what}; opening the store finishes that"))).collect()
        };
        let half_done = [
            names(&recovery.creations, "its creation was interrupted, and nothing of it is left"),
            names(&recovery.removals, "its removal was interrupted"),
            names(&recovery.growths, "it was growing, which is taken back"),
        ];
        for (name, detail) in half_done.into_iter().flatten() {
            findings.add(FindingKind::Note, SUPERBLOCKS[0], Some(&name), detail);
        }
        if !recovery.clean {
            let detail = format!(
                "the last process did not close the store; {} records of its log wait for an opening that recovers",
                opened.log_records
            );
            findings.add(FindingKind::Note, SUPERBLOCKS[0], None, detail);
        }
    }

    fn check_superblock(&self, findings: &mut Findings) {
        let current = self.parts().head().superblock();
        for (at, copy) in SUPERBLOCKS.into_iter().zip(copies::copies(self.media())) {
            let detail = match copy {
                Copy::Whole(found) if found == current => continue,
                Copy::Whole(_) => "this copy of the superblock differs from the one in use",
                Copy::Torn => "this copy of the superblock fails its checksum; opening the store repairs it",
                Copy::Blank | Copy::Foreign => "this copy of the superblock is gone; opening the store repairs it",
            };
            findings.add(FindingKind::Damage, at, None, detail.into());
        }
        for at in Words::bad(self.media()) {
            let detail = "a word beside the superblock fails its check bits; opening the store repairs it";
            findings.add(FindingKind::Damage, at, None, detail.into());
        }
    }

    /// Every record that is not free, checked against the others and the trie.
    fn check_records(&self, findings: &mut Findings) -> Vec<(u64, Slot)> {
        let mut names = self.parts().catalogue().lock();
        let slots = names.all_slots().unwrap_or_else(|error| {
            findings.add(FindingKind::Damage, SUPERBLOCKS[0], None, error.to_string());
            Vec::new()
        });
        for (at, slot) in &slots {
            match slot {
                Slot::Damaged(detail) => {
                    let detail = format!("a record of the object table: {detail}");
                    findings.add(FindingKind::Damage, *at, None, detail);
                }
                Slot::Creating(entry) | Slot::Removing(entry) => {
                    let detail = "is being created or removed; opening the store finishes that";
                    findings.add(FindingKind::Note, *at, Some(&entry.name), detail.into());
                }
                Slot::Replacing(entry) => {
                    let detail = "is being renamed; opening the store finishes that";
                    findings.add(FindingKind::Note, *at, Some(&entry.name), detail.into());
                }
                Slot::Live(_) | Slot::Free => {}
            }
        }
        let mut ids = HashMap::new();
        for entry in slots.iter().filter_map(|(_, slot)| if let Slot::Live(entry) = slot { Some(entry) } else { None })
        {
            if let Some(other) = ids.insert(entry.id, &entry.name) {
                let detail = format!("its id {:#x} is that of `{other}`, too", entry.id);
                findings.add(FindingKind::Damage, entry.at, Some(&entry.name), detail);
            }
        }
        let live = slots.iter().filter_map(|(at, slot)| match slot {
            Slot::Live(entry) if !entry.name.is_empty() => Some((*at, &*entry.name)),
            _ => None,
        });
        for Fault { kind, at, detail } in names.table().trie().iter().flat_map(|trie| trie.check(live.clone())) {
            let kind = match kind {
                FaultKind::Damage => FindingKind::Damage,
                FaultKind::Leak => FindingKind::Leak,
                FaultKind::DoubleUse => FindingKind::DoubleUse,
            };
            findings.add(kind, at, None, detail);
        }
        slots
    }

    /// Checks every header; returns the ranges that each object owns, `None` for an unknown range.
    fn check_headers(&self, slots: &[(u64, Slot)], findings: &mut Findings) -> Vec<(Entry, Option<Range<u64>>)> {
        let media = self.media();
        let mut owned = Vec::new();
        for (_, slot) in slots {
            let Some(entry) = slot.entry() else { continue };
            if !matches!(slot, Slot::Live(_)) {
                owned.push((entry.clone(), None));
                continue;
            }
            match header::find(media, entry) {
                Err((at, detail)) => {
                    findings.add(FindingKind::Damage, at, Some(&entry.name), detail);
                    owned.push((entry.clone(), None));
                }
                Ok(extent) => {
                    if extent.needed(entry) > media.len() {
                        let detail = format!("backed to {:#x} in a file of {:#x} bytes", extent.backed, media.len());
                        findings.add(FindingKind::Damage, entry.span.at(), Some(&entry.name), detail);
                    }
                    if !self.space().is_backed(entry.span.at()) {
                        let detail = "its first cluster is not marked in the bitmap".to_string();
                        findings.add(FindingKind::Damage, entry.span.at(), Some(&entry.name), detail);
                    }
                    owned.push((entry.clone(), Some(entry.span.at()..extent.backed)));
                    if extent.tail > 0 {
                        owned.push((entry.clone(), Some(entry.span.end() - extent.tail..entry.span.end())));
                    }
                    for (kind, at, detail) in self.parts().backing().check(entry, &extent) {
                        findings.add(kind, at, Some(&entry.name), detail);
                    }
                }
            }
        }
        owned
    }

    /// Every set bit must belong to an object, and every bit of a bitmap that is set must have been
    /// used.
    fn check_bitmap(&self, owned: &[(Entry, Option<Range<u64>>)], findings: &mut Findings) {
        let media = self.media();
        let bitmap = self.space().bitmap();
        let end = self.bitmap_end();
        for (which, name) in [(bitmap, "backed clusters"), (self.space().used(), "used clusters")] {
            for at in which.damaged(media, 0..end) {
                findings.add(
                    FindingKind::Damage,
                    at,
                    None,
                    format!("a word of the bitmap of {name} fails its check bits"),
                );
            }
        }
        for part in self.loose(owned) {
            let owner = owned.iter().find(|(entry, _)| entry.span.holds(part.start, CLUSTER));
            let detail = format!("{} clusters are marked and no object has them", (part.end - part.start) / CLUSTER);
            findings.add(FindingKind::Leak, part.start, owner.map(|(entry, _)| &*entry.name), detail);
        }
        let (spans_at, cluster_end) =
            (self.parts().head().superblock().spans_at, media.len().min(end) / CLUSTER * CLUSTER);
        for data in self.space().stray_data(&(spans_at.min(Offset::new(cluster_end)).get()..cluster_end)) {
            let detail =
                format!("{} bytes have room on the disk and no object; `trim` gives it back", data.end - data.start);
            findings.add(FindingKind::Note, data.start, None, detail);
        }
        for run in bitmap.set_runs(media, 0..end) {
            for part in self.space().used().clear_runs(media, run) {
                let detail = format!("{} clusters are marked and not noted as used", (part.end - part.start) / CLUSTER);
                findings.add(FindingKind::Damage, part.start, None, detail);
            }
        }
    }

    /// The end of the bits that can be set: no cluster beyond the file's end is backed, and a look
    /// at further bits would make the bitmap less sparse.
    fn bitmap_end(&self) -> u64 {
        self.media().len().next_multiple_of(CLUSTER).min(self.space().bitmap().capacity())
    }

    /// Clusters that are marked and belong to no object.
    fn loose(&self, owned: &[(Entry, Option<Range<u64>>)]) -> Vec<Range<u64>> {
        // The ranges of an unreadable object are unknown: any cluster of its span may be its.
        let mine = owned.iter().map(|(entry, extent)| extent.clone().unwrap_or(entry.span.range()));
        let mut mine: Vec<Range<u64>> = mine.collect();
        mine.sort_by_key(|range| range.start);
        let mut all = Vec::new();
        for run in self.space().bitmap().set_runs(self.media(), 0..self.bitmap_end()) {
            let first = mine.partition_point(|range| range.end <= run.start);
            let mut at = run.start;
            for range in mine[first..].iter().take_while(|range| range.start < run.end) {
                if at < range.start {
                    all.push(at..range.start);
                }
                at = at.max(range.end);
            }
            if at < run.end {
                all.push(at..run.end);
            }
        }
        all
    }

    /// Gives clusters back that are marked and belong to no object, and settles that. Returns the
    /// repairs. Opening has already repaired structures with a good copy: see [`Store::recovery`].
    /// No thread may change objects meanwhile.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] if a record of the object table is: the clusters could be its
    /// object's; or if the bitmap there is. [`crate::Error::Media`].
    pub fn repair(&self) -> Result<Vec<Finding>> {
        self.media().require_opener()?;
        let slots = {
            let mut names = self.parts().catalogue().lock();
            names.index()?;
            names.all_slots()?
        };
        let owned = self.check_headers(&slots, &mut Findings::default());
        let mut done = Findings::default();
        for part in self.loose(&owned) {
            self.space().require_good(&part)?;
            self.space().release(&part);
            let detail = format!("{} clusters that no object has are given back", (part.end - part.start) / CLUSTER);
            done.add(FindingKind::Note, part.start, None, detail);
        }
        self.trim()?;
        Ok(done.all)
    }
}

#[derive(Default)]
struct Findings {
    all: Vec<Finding>,
}

impl Findings {
    fn add(&mut self, kind: FindingKind, at: u64, object: Option<&str>, detail: String) {
        self.all.push(Finding { room: "store", kind, at, object: object.map(str::to_owned), detail });
    }
}
