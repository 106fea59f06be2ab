//! [`Finding`]: one result of a check.

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingKind {
    /// Bytes contradict themselves or each other.
    Damage,
    /// Space is taken and has no owner.
    Leak,
    /// Space has two owners.
    DoubleUse,
    /// Worth knowing, and no fault.
    Note,
}

/// One finding of `check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The crate that found it.
    pub room: &'static str,
    /// Its kind.
    pub kind: FindingKind,
    /// Its offset in the store.
    pub at: u64,
    /// The object.
    pub object: Option<String>,
    /// Its description.
    pub detail: String,
}

impl Finding {
    /// Whether the bytes must not be built on, or passed on to copies.
    pub fn is_damage(&self) -> bool {
        matches!(self.kind, FindingKind::Damage | FindingKind::DoubleUse)
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            FindingKind::Damage => "damage",
            FindingKind::Leak => "leak",
            FindingKind::DoubleUse => "double use",
            FindingKind::Note => "note",
        };
        write!(f, "{}: {kind} at {:#x}", self.room, self.at)?;
        if let Some(object) = &self.object {
            write!(f, " in `{object}`")?;
        }
        write!(f, ": {}", self.detail)
    }
}
