//! [`Report`]: the findings of a deep check, for programs and for tools.

use everbyte_heap::Block;
use everbyte_media::{Length, Offset};
use everbyte_store::{Finding, FindingKind, Total};
use std::collections::BTreeMap;

/// Damage of an object that the root can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A pointer that leads to no block of its size.
    Pointer,
    /// Bytes that are no value of their type.
    Value,
    /// A block with owners that cannot be beside each other.
    Owners,
    /// A counted object whose counts are not those of the pointers to it: strong and weak each.
    Counts {
        /// As they stand.
        stored: (u64, u64),
        /// As pointers were found.
        found: (u64, u64),
    },
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of damage.
    pub kind: FaultKind,
    /// The place of the pointer or the value itself, else of the block.
    pub at: Offset,
    /// How to get there from the root; several where a block is reached in several ways.
    pub paths: Vec<String>,
    /// In words.
    pub detail: String,
}

impl Fault {
    /// Whether the walk knew where to go on all the same.
    pub(crate) fn is_followed(&self) -> bool {
        matches!(self.kind, FaultKind::Counts { stored: (strong, _), found } if strong > 0 || found.0 == 0)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.paths.join(", "), self.detail)
    }
}

/// The result of a deep check of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The pool.
    pub object: String,
    /// Blocks that the root can reach, and the pool's own blocks.
    pub reached: Total,
    /// Blocks that are allocated and that no pointer leads to.
    pub leaked: Total,
    /// Allocated, not reached, and perhaps in use all the same: by something that could not be
    /// followed.
    pub unsure: Total,
    /// Damage of objects that the root can reach.
    pub faults: Vec<Fault>,
    /// Faults beyond those.
    pub faults_left_out: u64,
    /// Types whose values could not be taken apart, and how many were met.
    pub unread: Vec<(String, u64)>,
    /// Findings of the heap's own check.
    pub heap: Vec<Finding>,
    /// Values that only weak pointers lead to, and those that would be so without them, as offsets
    /// of the pool.
    pub(crate) lost: Vec<u64>,
    /// A hash of every block, whether it was met, and of every count.
    pub(crate) state: u64,
    /// The blocks of `leaked` and `unsure`, in the order of addresses; `true`: leaked.
    pub(crate) unreached: Vec<(Block, bool)>,
    /// Guessed types of leaked blocks.
    pub(crate) likes: BTreeMap<u64, Vec<String>>,
}

/// A block that no pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak<'r> {
    /// Its place.
    pub at: Offset,
    /// Usable bytes.
    pub bytes: Length,
    /// The types of this pool that it could hold, if they are few.
    pub looks_like: &'r [String],
}

impl std::fmt::Display for Leak<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes are allocated and no pointer leads to them", self.bytes)?;
        if self.looks_like.is_empty() {
            Ok(())
        } else {
            write!(f, "; they could be a {}", self.looks_like.join(" or a "))
        }
    }
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings().iter().all(|finding| finding.kind == FindingKind::Note)
    }

    /// The blocks of `leaked`.
    pub fn leaks(&self) -> impl Iterator<Item = Leak<'_>> {
        self.unreached.iter().filter(|(_, is_leaked)| *is_leaked).map(|(block, _)| self.leak(block))
    }

    fn leak(&self, block: &Block) -> Leak<'_> {
        let looks_like = self.likes.get(&block.at.get()).map_or(&[][..], Vec::as_slice);
        Leak { at: block.at, bytes: block.size, looks_like }
    }

    /// Everything, in the form of every crate's check.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut add = |kind, at, detail: String| {
            findings.push(Finding { room: "object", kind, at, object: Some(self.object.clone()), detail });
        };
        for fault in &self.faults {
            let kind = if fault.kind == FaultKind::Owners { FindingKind::DoubleUse } else { FindingKind::Damage };
            add(kind, fault.at.get(), fault.to_string());
        }
        if self.faults_left_out > 0 {
            add(FindingKind::Damage, 0, format!("and {} faults more", self.faults_left_out));
        }
        for (block, is_leaked) in &self.unreached {
            let Block { at, size } = *block;
            if *is_leaked {
                add(FindingKind::Leak, at.get(), self.leak(block).to_string());
            } else {
                let detail =
                    "bytes are allocated; they have leaked, unless something that cannot be followed leads there";
                add(FindingKind::Note, at.get(), format!("{size} {detail}"));
            }
        }
        for (of, count) in &self.unread {
            let detail =
                format!("{count} values of type `{of}` cannot be taken apart: what they may point to counts as in use");
            add(FindingKind::Note, 0, detail);
        }
        findings.extend(self.heap.iter().cloned());
        findings
    }
}
