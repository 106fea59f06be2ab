//! `everbyte`: the command line, one small file per command.
//!
//! A command returns a [`failure::Failure`] or nothing; `main` alone prints failures and turns them
//! into exit codes: 0 done, 1 the answer is no (key absent, `check` has findings), 2 invalid
//! arguments, 3 not a store or damaged, 4 in use by another process, 5 refused by the system.
//! docs/manual/cli.md lists them for users.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod config;
mod control;
mod failure;
mod files;
mod kv;
mod mount_helper;
mod mount_table;
mod open;
mod output;
mod progress;
mod text;
mod top;
mod volume;

use args::{Args, Command};
use clap::Parser;
use failure::Failure;
use output::Output;
use std::process::ExitCode;

fn main() -> ExitCode {
    if mount_helper::is_called() {
        return mount_helper::main();
    }
    let args = Args::parse();
    let output = Output::new(args.json);
    match run(args.command, &output).and_then(|()| output.finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Closed) => ExitCode::SUCCESS, // the reader of the output has closed it
        Err(failure) => {
            output.failure(&failure);
            ExitCode::from(failure.code())
        }
    }
}

fn run(command: Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::Create(args) => commands::create::run(&args, output),
        Command::Info(args) => commands::info::run(&args, output),
        Command::Check(args) => commands::check::run(&args, output),
        Command::Grow(args) => commands::grow::run(&args, output),
        Command::Ls(args) => commands::names::ls(&args, output),
        Command::Stat(args) => commands::names::stat(&args, output),
        Command::Rm(args) => commands::names::rm(&args, output),
        Command::Chmod(args) => commands::names::chmod(&args, output),
        Command::Limit(args) => commands::names::limit(&args, output),
        Command::Chown(args) => commands::names::chown(&args, output),
        Command::Mv(args) => commands::names::mv(&args, output),
        Command::Store(args) => commands::store::run(&args, output),
        Command::Backup(args) => commands::backup::run(&args, output),
        Command::Restore(args) => commands::restore::run(&args, output),
        Command::Bridge(args) => commands::bridge::run(&args, output),
        Command::Object(args) => commands::object::run(&args, output),
        Command::Fs(args) => commands::fs::run(&args, output),
        Command::Kv(args) => kv::run(args, output),
        Command::Serve(args) => commands::serve::run(&args, output),
        Command::Top(args) => top::run(&args, output),
        Command::Import(args) => commands::redis::import(&args, output),
        Command::Export(args) => commands::redis::export(&args, output),
        Command::Broker(args) => commands::domain::serve(&args, output),
        Command::Domain(args) => commands::domain::run(&args, output),
        Command::Media(args) => commands::media::run(&args, output),
        #[cfg(feature = "crash")]
        Command::Crash(args) => commands::crash::run(&args, output),
        #[cfg(feature = "crash")]
        Command::Inspect(args) => commands::inspect::run(&args, output),
        Command::Completion(args) => commands::completion::run(&args),
    }
}
