//! Counters of the server. Every figure is exact, and INFO shows it.
//!
//! Counters belong to the event loop and are plain integers; INFO is a command, so it reads them in
//! the same thread.

use crate::command::CommandTable;
use crate::slowlog::RANGES;
use std::time::{Duration, Instant};

/// Counts of one command.
#[derive(Clone, Copy, Default)]
pub(crate) struct CommandCounts {
    /// Executed.
    pub calls: u64,
    /// Executed and answered with an error.
    pub failed: u64,
    /// How many took how long (`slowlog.rs`).
    pub ranges: [u32; RANGES],
}

impl CommandCounts {
    /// Those whose time was taken.
    pub(crate) fn timed(&self) -> u64 {
        self.ranges.iter().map(|count| u64::from(*count)).sum()
    }
}

/// All counters since the start or the last CONFIG RESETSTAT.
#[derive(Default)]
pub(crate) struct Metrics {
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused because there were too many.
    pub connections_rejected: u64,
    /// Connections ended because their input was malformed.
    pub connections_malformed: u64,
    /// Connections ended because their input or output was over a limit, or took nothing for too
    /// long.
    pub connections_over_limit: u64,
    /// Commands executed.
    pub commands: u64,
    /// Error replies.
    pub errors: u64,
    /// Passwords refused.
    pub passwords_refused: u64,
    /// Requests refused for want of a right: to a command, a key, a channel.
    pub denied: [u64; 4],
    /// Bytes read from sockets.
    pub input_bytes: u64,
    /// Bytes written to sockets.
    pub output_bytes: u64,
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Iterations that executed something.
    pub iterations: u64,
    /// Iterations that changed something, each settled once.
    pub settled: u64,
    /// Time spent committing and settling.
    pub settle_time: Duration,
    /// The longest of them.
    pub settle_time_max: Duration,
    /// Commands of the largest iteration.
    pub iteration_commands_max: u64,
    /// The most syncs that had to end before an iteration's replies could leave: the one under way
    /// and its own.
    pub pending_syncs_max: u64,
    /// The most whole iterations that a commit waited for more writers while the settler was idle.
    pub gather_iterations_max: u64,
    /// Times a client was not read because its replies waited.
    pub back_pressure: u64,
    /// By row of the table of commands.
    pub by_command: Vec<CommandCounts>,
    sample: Option<(Instant, u64)>,
    /// Commands a second, over the last second or so.
    pub commands_per_second: u64,
}

impl Metrics {
    /// All zero.
    pub(crate) fn new() -> Metrics {
        Metrics { by_command: vec![CommandCounts::default(); CommandTable::get().rows.len()], ..Metrics::default() }
    }

    /// Back to zero.
    pub(crate) fn reset(&mut self) {
        *self = Metrics::new();
    }

    /// Counts a read of one key.
    pub(crate) fn look_up(&mut self, found: bool) {
        if found {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
    }

    /// Called about once a second.
    pub(crate) fn tick(&mut self, now: Instant) {
        if let Some((then, commands)) = self.sample {
            let elapsed = now.saturating_duration_since(then).as_secs_f64();
            if elapsed < 0.5 {
                return;
            }
            self.commands_per_second = (self.commands.saturating_sub(commands) as f64 / elapsed) as u64;
        }
        self.sample = Some((now, self.commands));
    }
}
