//! The protocol: bytes to requests, replies to bytes. RESP2 and RESP3, and inline lines.

pub mod ahead;
pub mod inline;
pub mod number;
pub mod parse;
pub mod reply;
