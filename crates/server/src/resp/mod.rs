//! The protocol: bytes to requests, replies to bytes. RESP2 and RESP3, and inline lines.

pub(crate) mod inline;
pub(crate) mod number;
pub(crate) mod parse;
pub(crate) mod prefetch;
pub(crate) mod reply;
