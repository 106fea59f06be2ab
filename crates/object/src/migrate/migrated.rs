//! [`Migrated`]: the result of a migration.

use std::fmt;

/// The result of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migrated {
    /// The versions of types that were migrated.
    pub steps: Vec<MigratedType>,
    /// New blocks, also for values that hold such types.
    pub blocks: u64,
    /// Bytes of those blocks.
    pub made: u64,
    /// Bytes of the blocks that they replace.
    pub freed: u64,
}

/// One version of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigratedType {
    /// The type.
    pub name: String,
    /// The version found.
    pub from: u32,
    /// The version made.
    pub to: u32,
    /// The number of values.
    pub values: u64,
}

impl fmt::Display for Migrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for MigratedType { name, from, to, values } in &self.steps {
            write!(f, "{name} {from} -> {to}: {values} values; ")?;
        }
        write!(f, "{} blocks made anew: {} bytes for {} bytes", self.blocks, self.made, self.freed)
    }
}
