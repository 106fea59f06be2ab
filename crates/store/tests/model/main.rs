//! Random programs beside a model in memory.

mod general;
mod names_model;
