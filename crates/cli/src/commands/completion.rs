//! `everbyte completion SHELL`: prints a completion script; the user installs it for the shell.

use crate::args::{Args, CompletionArgs};
use crate::failure::Failure;
use clap::CommandFactory;
use std::io::Write;

pub(crate) fn run(args: &CompletionArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "everbyte", &mut script);
    std::io::stdout().write_all(&script).map_err(Failure::output)
}
