//! Keys and values of typed tables: shown as Rust's `Debug` would, and verified before they are
//! stored.

use crate::failure::Failure;
use everbyte_kv::{Encoding, Error, TableTypes};
use serde_json::{Map, Value};

/// A stored key or value in readable form.
///
/// # Errors
/// The bytes are no encoding of the type.
pub(super) fn shown(part: &'static str, of: &Encoding, bytes: &[u8]) -> Result<String, Failure> {
    Ok(of.show(bytes).map_err(|error| Error::Undecodable { part, error })?)
}

/// Adds to a line of JSON the readable forms of its key and its value, as `key_shown` and
/// `value_shown`; the bytes stay beside them.
///
/// # Errors
/// As [`shown`].
pub(super) fn add_shown(
    object: &mut Map<String, Value>,
    types: &TableTypes,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<(), Failure> {
    object.insert("key_shown".into(), shown("key", &types.key, key)?.into());
    if let Some(value) = value {
        object.insert("value_shown".into(), shown("value", &types.value, value)?.into());
    }
    Ok(())
}

/// Requires that the table can hold the entry; a table without types holds each one.
///
/// # Errors
/// Names the type that the bytes do not encode.
pub(super) fn require(types: Option<&TableTypes>, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
    let Some(types) = types else { return Ok(()) };
    let parts = [("key", &types.key, Some(key)), ("value", &types.value, value)];
    for (part, of, bytes) in parts {
        if let Some(Err(error)) = bytes.map(|bytes| of.show(bytes)) {
            return Err(format!("the {part} is no encoding of `{of}`: {error}"));
        }
    }
    Ok(())
}
