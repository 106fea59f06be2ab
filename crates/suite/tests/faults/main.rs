//! Stores whose memory or disk loses bytes.

mod memory_errors;
mod rot;
