//! Typed tables: keys and values are Rust types, whose encodings are in their order.
//!
//! Format: docs/formats/typed.md. Elsewhere: the derive (`everbyte-kv-derive`), the record of a
//! table (`catalogue`).

mod codec;
mod description;
mod table;
mod types;

pub use codec::{DecodeError, Decoder, Typed, decode, encode};
pub use description::{Encoding, OtherTypeDetail, TableTypes};
pub use table::{TypedBatchTable, TypedRange, TypedSnapshot, TypedTable};
pub use types::KeyPrefix;
