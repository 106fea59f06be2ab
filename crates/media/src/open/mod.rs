//! Creating and opening media: options, heads, chunks of the file, probes and copies.

pub(crate) mod chunks;
pub(crate) mod copy;
pub(crate) mod examine;
pub(crate) mod filled;
pub(crate) mod head;
pub(crate) mod join;
pub(crate) mod layout;
pub(crate) mod map_file;
pub(crate) mod open_options;
pub(crate) mod opened;
pub(crate) mod options;
pub(crate) mod probe;
