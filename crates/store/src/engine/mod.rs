//! Engines: their numbers, and [`EngineTools`], their interface for tools.

mod error;
pub(crate) mod id;
mod token;
mod tools;

pub use error::EngineError;
pub use token::Token;
pub use tools::{Deep, EngineTools, Fact, NoTools, PlainTools, Repair, RepairStep, Sums, Total, Walk, require_whole};
