//! The protocol: bytes to requests, replies to bytes. RESP2 and RESP3, and inline lines.

pub(crate) mod double;
pub(crate) mod extended;
pub(crate) mod inline;
mod natural;
pub(crate) mod number;
pub(crate) mod parse;
pub(crate) mod prefetch;
pub(crate) mod reply;
