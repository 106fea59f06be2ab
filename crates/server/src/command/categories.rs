//! The categories of commands, which follow from their flags: for COMMAND INFO and for the rights
//! of users.

use super::Flags;

/// A category: its name, and whether a command with these flags belongs to it.
type Category = (&'static str, fn(Flags) -> bool);

/// Every category, in the order that clients know.
pub(crate) const CATEGORIES: [Category; 21] = [
    ("keyspace", |flags| flags.contains(Flags::KEYSPACE)),
    ("read", |flags| flags.contains(Flags::READONLY) && !flags.contains(Flags::SCRIPTING)),
    ("write", |flags| flags.contains(Flags::WRITE)),
    ("set", |flags| flags.contains(Flags::SET)),
    ("sortedset", |flags| flags.contains(Flags::SORTED_SET)),
    ("list", |flags| flags.contains(Flags::LIST)),
    ("hash", |flags| flags.contains(Flags::HASH)),
    ("string", |flags| flags.contains(Flags::STRING)),
    ("bitmap", |flags| flags.contains(Flags::BITMAP)),
    ("hyperloglog", |flags| flags.contains(Flags::HYPERLOGLOG)),
    ("geo", |flags| flags.contains(Flags::GEO)),
    ("stream", |flags| flags.contains(Flags::STREAM)),
    ("pubsub", |flags| flags.contains(Flags::PUBSUB)),
    // Dangerous commands that are fast and allowed while loading only tell something: to operators.
    ("admin", |flags| {
        let tells = Flags::LOADING.union(Flags::FAST).union(Flags::DANGEROUS);
        flags.intersects(Flags::ADMIN.union(Flags::ADMIN_KIND)) || flags.contains(tells)
    }),
    ("fast", |flags| flags.contains(Flags::FAST)),
    ("slow", |flags| !flags.contains(Flags::FAST)),
    ("blocking", |flags| flags.contains(Flags::BLOCKING)),
    ("dangerous", |flags| flags.intersects(Flags::ADMIN.union(Flags::DANGEROUS))),
    ("connection", |flags| flags.contains(Flags::CONNECTION)),
    ("transaction", |flags| flags.contains(Flags::TRANSACTION)),
    ("scripting", |flags| flags.contains(Flags::SCRIPTING)),
];

/// The category called `name`, in any case.
pub(crate) fn category(name: &[u8]) -> Option<fn(Flags) -> bool> {
    let found = CATEGORIES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
    found.map(|(_, belongs)| *belongs)
}
