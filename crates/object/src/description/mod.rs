//! Descriptions of types: the trait of persistent types, the derived layout of a type, and the
//! description that a pool stores.

pub(crate) mod derived;
mod describe;
pub(crate) mod described;
pub(crate) mod forms;
pub(crate) mod niche;
pub(crate) mod node_shape;
mod plain;
mod plain_std;
pub(crate) mod psafe;
pub(crate) mod schema;
pub(crate) mod trace;
mod visit;
