//! `everbyte top`: what a running server does, once a second, by the Redis protocol.
//!
//! A frame is the difference of two samples (`sample.rs`): rates are those of the time between
//! them. Without a terminal, or with `--once`, one frame is printed.
//!
//! Threads: one. Signals set a flag.

mod client;
mod frame;
mod sample;
mod terminal;
mod wire;

use crate::args::TopArgs;
use crate::failure::Failure;
use crate::output::Output;
use client::Client;
use frame::Frame;
use sample::Sample;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use terminal::Terminal;

/// Columns of a frame that no terminal shows, and its lines of commands.
const PLAIN: (usize, usize) = (160, 200);

pub(crate) fn run(args: &TopArgs, output: &Output) -> Result<(), Failure> {
    let mut client = Client::connect(args)?;
    let stop = Arc::new(AtomicBool::new(false));
    let once = args.once || !std::io::stdout().is_terminal();
    let mut before = Sample::take(&mut client)?;
    if once {
        std::thread::sleep(args.interval);
        let frame = Frame::between(&args.address, &before, &Sample::take(&mut client)?);
        return print(&frame, output);
    }
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::System(format!("cannot wait for signals: {error}")))?;
    }
    let mut terminal = Terminal::enter(stop, !output.is_json());
    if !output.is_json() {
        terminal.show(output, &["measuring; q ends".into()])?;
    }
    let mut next = Instant::now() + args.interval;
    while !terminal.wait(next) {
        next = Instant::now() + args.interval;
        let sample = Sample::take(&mut client)?;
        let frame = Frame::between(&args.address, &before, &sample);
        before = sample;
        match output.is_json() {
            true => print(&frame, output)?,
            false => terminal.show(output, &frame.lines(terminal.size()))?,
        }
    }
    Ok(())
}

/// Prints a frame as text or as one JSON object.
fn print(frame: &Frame, output: &Output) -> Result<(), Failure> {
    let value = serde_json::to_value(frame).map_err(|error| Failure::Words(error.to_string()))?;
    output.say(frame.lines(PLAIN).join("\n"), value)?;
    output.finish()
}
