//! `everbyte store ..`: commands on whole stores.

mod clone;
mod merge;
mod rebase;

use crate::args::{StoreCommand, StoreCommands};
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(args: &StoreCommands, output: &Output) -> Result<(), Failure> {
    match &args.command {
        StoreCommand::Clone(args) => clone::run(args, output),
        StoreCommand::Merge(args) => merge::run(args, output),
        StoreCommand::Rebase(args) => rebase::run(args, output),
    }
}
