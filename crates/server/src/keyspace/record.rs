//! Records: what the table of keys holds for a key that is more than a plain string.
//!
//! | bytes | content |
//! |---|---|
//! | 0 | the type: 1 string, 2 list, 3 set, 4 sorted set, 5 hash, 6 stream |
//! | 1..8 | zeros |
//! | 8..16 | the deadline: milliseconds since 1970 at which the key expires; 0: it does not |
//! | 16.. | of a string its bytes; of a collection the next three |
//! | 16..24 | the collection's id, under which its elements lie |
//! | 24..32 | the count of its elements; of a sorted set that of its members |
//! | 32..40 | of a list the place of its first element |
//!
//! Numbers are little-endian. Format: `docs/formats/server.md`.

use everbyte_kv::{Error, Result};
use everbyte_media::Damage;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueType {
    /// Bytes.
    String = 1,
    /// Elements by place.
    List = 2,
    /// Members.
    Set = 3,
    /// Members by score.
    SortedSet = 4,
    /// Values by field.
    Hash = 5,
    /// Entries by id.
    Stream = 6,
}

impl ValueType {
    /// The word of TYPE.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ValueType::String => "string",
            ValueType::List => "list",
            ValueType::Set => "set",
            ValueType::SortedSet => "zset",
            ValueType::Hash => "hash",
            ValueType::Stream => "stream",
        }
    }

    fn of(code: u8) -> Option<ValueType> {
        [ValueType::String, ValueType::List, ValueType::Set, ValueType::SortedSet, ValueType::Hash, ValueType::Stream]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }
}

/// A list, set, sorted set, hash or stream: where its elements are, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Collection {
    /// Its type.
    pub kind: ValueType,
    /// Milliseconds since 1970; 0: none.
    pub deadline: u64,
    /// Never given twice in one store.
    pub id: u64,
    /// The number of elements, of a sorted set that of members. A collection without any does not
    /// exist.
    pub count: u64,
    /// Of a list, the place of its first element.
    pub first: u64,
}

/// A record without the bytes of a string: see the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyRecord {
    /// A string that expires, or one of another database than 0.
    String {
        /// Milliseconds since 1970; 0: none.
        deadline: u64,
    },
    /// Any other type.
    Collection(Collection),
}

/// Bytes before a string's value.
pub(crate) const HEADER: usize = 16;
/// Bytes of a collection's record; as many of any record are enough for [`KeyRecord::parse`].
pub(crate) const COLLECTION: usize = 40;
/// Elements of a collection at most: no store has room for so many, and sums of counts stay far
/// from their end.
const COUNT_MAX: u64 = 1 << 48;

/// The record of a string.
pub(crate) fn string(deadline: u64, value: &[u8]) -> Vec<u8> {
    [&header(ValueType::String, deadline)[..], value].concat()
}

fn header(kind: ValueType, deadline: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[0] = kind as u8;
    header[8..].copy_from_slice(&deadline.to_le_bytes());
    header
}

impl KeyRecord {
    /// Reads a record; of a string the first bytes are enough.
    pub(crate) fn parse(bytes: &[u8]) -> Result<KeyRecord> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let parsed = || {
            let (kind, deadline) = (ValueType::of(*bytes.first()?)?, word(8)?);
            if bytes[1..8].iter().any(|byte| *byte != 0) {
                return None;
            }
            if kind == ValueType::String {
                return Some(KeyRecord::String { deadline });
            }
            let collection = Collection { kind, deadline, id: word(16)?, count: word(24)?, first: word(32)? };
            let is_whole = bytes.len() == COLLECTION && (1..=COUNT_MAX).contains(&collection.count);
            is_whole.then_some(KeyRecord::Collection(collection))
        };
        parsed().ok_or_else(damaged)
    }

    /// The type.
    pub(crate) fn kind(&self) -> ValueType {
        match self {
            KeyRecord::String { .. } => ValueType::String,
            KeyRecord::Collection(collection) => collection.kind,
        }
    }

    /// Milliseconds since 1970; 0: none.
    pub(crate) fn deadline(&self) -> u64 {
        match self {
            KeyRecord::String { deadline } => *deadline,
            KeyRecord::Collection(collection) => collection.deadline,
        }
    }
}

impl Collection {
    /// The bytes of the record.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = header(self.kind, self.deadline).to_vec();
        for word in [self.id, self.count, self.first] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// A record that no server has written.
pub(crate) fn damaged() -> Error {
    damaged_by("a record of the server's table of keys is malformed")
}

/// Something else that no server has written.
pub(super) fn damaged_by(detail: &str) -> Error {
    Error::from(Damage { detail: detail.into(), ..Damage::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_others_are_damage() {
        let list = Collection { kind: ValueType::List, deadline: 7, id: 1 << 40, count: 3, first: 1 << 63 };
        for collection in [list, Collection { kind: ValueType::Hash, deadline: 0, ..list }] {
            let bytes = collection.bytes();
            assert_eq!(KeyRecord::parse(&bytes).unwrap(), KeyRecord::Collection(collection));
            for len in 0..COLLECTION {
                assert!(KeyRecord::parse(&bytes[..len]).is_err());
            }
            assert!(KeyRecord::parse(&[&bytes[..], b"x"].concat()).is_err());
            for count in [0, COUNT_MAX + 1, u64::MAX] {
                assert!(KeyRecord::parse(&Collection { count, ..collection }.bytes()).is_err());
            }
        }
        for (deadline, value) in [(0, &b""[..]), (u64::MAX, b"value"), (5, &[b'v'; 100])] {
            let bytes = string(deadline, value);
            assert_eq!(KeyRecord::parse(&bytes).unwrap(), KeyRecord::String { deadline });
            assert_eq!(KeyRecord::parse(&bytes[..HEADER]).unwrap(), KeyRecord::String { deadline });
            assert_eq!(&bytes[HEADER..], value);
            for len in 0..HEADER {
                assert!(KeyRecord::parse(&bytes[..len]).is_err());
            }
            for at in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 0x80;
                assert!(KeyRecord::parse(&other).is_err(), "byte {at}");
            }
        }
    }
}
