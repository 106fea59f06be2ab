//! Trees of files between a volume and the machine's own file systems.

mod get;
mod put;
mod tree;

pub(crate) use get::get;
pub(crate) use put::put;
pub(crate) use tree::{Place, all_paths, paths, resolve};

/// The work that a copy has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copied {
    pub files: u64,
    pub directories: u64,
    pub links: u64,
    pub bytes: u64,
}
