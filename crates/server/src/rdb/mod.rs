//! Values in the format of Redis's RDB files: the payloads of DUMP and RESTORE.
//!
//! A payload is a type (1 byte), a value, the version of the format (2 bytes), and a CRC-64 of all
//! before it (8 bytes); numbers are little-endian. Payloads have version 10, that of Redis 7.0.
//! Every form that Redis 7.0 and its forerunners write is read; one form of each type is written.
//!
//! Modules: primitives `input`, compressed strings `lzf`, packed elements `packed`, values `read`,
//! streams `stream`, the way back `write`, the checksum `crc64`.
//!
//! Invariants
//!   RDB-1  Any bytes are read or refused: no panic, and memory grows with bytes read, not with
//!          lengths declared.

pub(crate) mod crc64;
mod input;
mod lzf;
mod packed;
mod read;
mod stream;
mod write;

pub(crate) use input::Input;
pub(crate) use read::{Part, read_value};
pub(crate) use write::{Output, StreamOutput};

use std::fmt;

/// The version of the format that is written, and the newest of payloads that is read.
pub(crate) const VERSION: u16 = 10;
/// Bytes of version and checksum.
const FOOTER: usize = 10;

/// The reason why bytes are no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// The fault.
    pub detail: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.detail)
    }
}

/// The result of reading.
pub(crate) type Result<T> = std::result::Result<T, Malformed>;

fn malformed<T>(detail: &'static str) -> Result<T> {
    Err(Malformed { detail })
}

/// The types of values, by their numbers in the format.
pub(crate) mod kind {
    pub(crate) const STRING: u8 = 0;
    pub(crate) const LIST: u8 = 1;
    pub(crate) const SET: u8 = 2;
    pub(crate) const SORTED_SET_TEXT: u8 = 3;
    pub(crate) const HASH: u8 = 4;
    pub(crate) const SORTED_SET: u8 = 5;
    pub(crate) const MODULE: u8 = 6;
    pub(crate) const MODULE_2: u8 = 7;
    pub(crate) const HASH_ZIPMAP: u8 = 9;
    pub(crate) const LIST_ZIPLIST: u8 = 10;
    pub(crate) const SET_INTSET: u8 = 11;
    pub(crate) const SORTED_SET_ZIPLIST: u8 = 12;
    pub(crate) const HASH_ZIPLIST: u8 = 13;
    pub(crate) const LIST_QUICKLIST: u8 = 14;
    pub(crate) const STREAM: u8 = 15;
    pub(crate) const HASH_LISTPACK: u8 = 16;
    pub(crate) const SORTED_SET_LISTPACK: u8 = 17;
    pub(crate) const LIST_QUICKLIST_2: u8 = 18;
    pub(crate) const STREAM_2: u8 = 19;
    pub(crate) const SET_LISTPACK: u8 = 20;
    pub(crate) const STREAM_3: u8 = 21;
    /// The newest type of payloads; files have newer ones, too.
    pub(crate) const PAYLOAD_MAX: u8 = STREAM_2;
    /// A library of functions.
    pub(crate) const LIBRARY: u8 = 245;
}

/// The type and the value of a payload, if version and checksum are right.
pub(crate) fn unwrap_payload(payload: &[u8]) -> Option<&[u8]> {
    let size = payload.len().checked_sub(FOOTER)?;
    let (value, footer) = payload.split_at(size);
    let (version, checksum) = footer.split_first_chunk::<2>()?;
    let covered = payload.get(..payload.len() - checksum.len())?;
    let right = u16::from_le_bytes(*version) <= VERSION && crc64::of(covered).to_le_bytes() == checksum;
    right.then_some(value)
}

/// The payload of a type and its value.
pub(crate) fn wrap_payload(mut value: Vec<u8>) -> Vec<u8> {
    value.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = crc64::of(&value);
    value.extend_from_slice(&checksum.to_le_bytes());
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_unwrapped_or_refused() {
        let payload = wrap_payload(b"\x00\x01x".to_vec());
        assert_eq!(unwrap_payload(&payload), Some(&b"\x00\x01x"[..]));
        for place in 0..payload.len() {
            let mut other = payload.clone();
            other[place] ^= 1;
            assert_eq!(unwrap_payload(&other), None, "{place}");
        }
        assert_eq!(unwrap_payload(b""), None);
        assert_eq!(unwrap_payload(&payload[..9]), None);
    }
}
