//! `everbyte top`: what a running server does, once a second, by the Redis protocol.
//!
//! A frame is the difference of two samples (`sample.rs`): rates are those of the time between
//! them. Without a terminal, or with `--once`, one frame is printed.
//!
//! A server that goes away is asked again after a second, then after longer times up to 16 seconds.
//!
//! Threads: the terminal's, and one that talks to the server (`source.rs`), so that keys and
//! signals end the command while the server does not answer. Signals set a flag.

mod client;
mod frame;
mod sample;
mod source;
mod terminal;
mod wire;

use crate::args::TopArgs;
use crate::failure::Failure;
use crate::output::Output;
use client::Client;
use frame::Frame;
use sample::Sample;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use source::Source;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use terminal::Terminal;

/// Columns of a frame that no terminal shows, and its lines of commands.
const PLAIN: (usize, usize) = (160, 200);

/// How often it is looked whether the server has answered.
const ANSWERS_EVERY: Duration = Duration::from_millis(10);

pub(crate) fn run(args: &TopArgs, output: &Output) -> Result<(), Failure> {
    let mut client = Client::connect(args)?;
    let stop = Arc::new(AtomicBool::new(false));
    let once = args.once || !std::io::stdout().is_terminal();
    let before = Sample::take(&mut client)?;
    if once {
        std::thread::sleep(args.interval);
        let frame = Frame::between(&args.address, &before, &Sample::take(&mut client)?);
        return print(&frame, output);
    }
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::System(format!("cannot wait for signals: {error}")))?;
    }
    let mut source = Source::start(args.clone(), client)?;
    let mut terminal = Terminal::enter(stop, !output.is_json());
    if !output.is_json() {
        terminal.show(output, &["measuring; q ends".into()])?;
    }
    let mut before = Some(before);
    let mut next = Instant::now() + args.interval;
    while !terminal.wait(next) {
        next = Instant::now() + args.interval;
        source.ask();
        let sample = loop {
            match source.answer() {
                Some(sample) => break sample,
                None if terminal.wait(Instant::now() + ANSWERS_EVERY) => return Ok(()),
                None => {}
            }
        };
        let sample = match sample {
            Ok(sample) => sample,
            Err(Failure::System(why)) => {
                let wait = source.retry_after();
                (before, next) = (None, Instant::now() + wait);
                lost(&terminal, output, &why, wait)?;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        // Rates of a server that has started again begin with it.
        let Some(earlier) = before.replace(sample) else { continue };
        let Some(sample) = &before else { continue };
        let frame = Frame::between(&args.address, &earlier, sample);
        match output.is_json() {
            true => print(&frame, output)?,
            false => terminal.show(output, &frame.lines(terminal.size()))?,
        }
    }
    Ok(())
}

/// Says that the server is not there, and when it is asked again.
fn lost(terminal: &Terminal, output: &Output, why: &str, wait: Duration) -> Result<(), Failure> {
    let lines = [why.to_string(), format!("trying again in {} s; q ends", wait.as_secs())];
    if output.is_json() {
        eprintln!("{}", lines.join("; "));
        return Ok(());
    }
    terminal.show(output, &frame::fitting(lines, terminal.size()))
}

/// Prints a frame as text or as one JSON object.
fn print(frame: &Frame, output: &Output) -> Result<(), Failure> {
    let value = serde_json::to_value(frame).map_err(|error| Failure::Words(error.to_string()))?;
    output.say(frame.lines(PLAIN).join("\n"), value)?;
    output.finish()
}
