//! Checks of a pool by its types or by its description, repair, and the engine's tools.

pub(crate) mod check;
pub(crate) mod deep;
pub(crate) mod repair;
pub(crate) mod tools;
pub(crate) mod untyped;
