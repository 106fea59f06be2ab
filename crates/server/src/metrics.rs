//! Counters of the server. Every figure is exact, and INFO shows it.
//!
//! Counters belong to the event loop and are plain integers; INFO is a command, so it reads them in
//! the same thread. Another loop has its own, and reports them (`loops`).

use crate::command::CommandTable;
use crate::resp::parse::Args;
use crate::times::Times;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Counts of one command.
#[derive(Clone, Default)]
pub(crate) struct CommandCounts {
    /// Executed.
    pub calls: u64,
    /// Executed and answered with an error.
    pub failed: u64,
    /// Refused before they were executed.
    pub rejected: u64,
    /// Nanoseconds of all executions.
    pub nanoseconds: u64,
    /// How many took how long; none before the first, so that a command that is not used costs
    /// little.
    pub times: Option<Box<Times>>,
}

impl CommandCounts {
    /// Counts the time of an execution; in the histogram, too, if it `tracks`.
    pub(crate) fn timed(&mut self, time: Duration, tracks: bool) {
        self.nanoseconds = self.nanoseconds.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        if tracks {
            self.times.get_or_insert_default().add(time);
        }
    }
}

/// First words of errors that are counted one by one, at most: scripts may make any number.
const ERROR_WORDS_MAX: usize = 128;

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
    /// By their first word.
    pub errors_by_word: BTreeMap<String, u64>,
    /// Keys that were removed because their deadlines had passed.
    pub expired: u64,
    /// Keys that were removed to make room.
    pub evicted: u64,
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
    /// Commands that other loops than the first have executed.
    pub loop_commands: u64,
    /// Writes of theirs to memory that loops share: snapshots that they took.
    pub loop_shared_writes: u64,
    /// Times a connection was lent to another loop.
    pub lent: u64,
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

    /// Adds the counters of another loop.
    pub(crate) fn absorb(&mut self, other: Metrics) {
        self.commands += other.commands;
        self.loop_commands += other.loop_commands;
        self.loop_shared_writes += other.loop_shared_writes;
        self.input_bytes += other.input_bytes;
        self.output_bytes += other.output_bytes;
        self.hits += other.hits;
        self.misses += other.misses;
        for (mine, theirs) in self.by_command.iter_mut().zip(other.by_command) {
            mine.calls += theirs.calls;
            mine.nanoseconds = mine.nanoseconds.saturating_add(theirs.nanoseconds);
            if let Some(times) = theirs.times {
                mine.times.get_or_insert_default().absorb(&times);
            }
        }
    }

    /// Counts a read of one key.
    pub(crate) fn look_up(&mut self, found: bool) {
        if found {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
    }

    /// Counts an error reply, without its mark.
    pub(crate) fn count_error(&mut self, text: &[u8]) {
        self.errors += 1;
        let word = text.iter().position(|byte| *byte == b' ').map_or(&b"ERR"[..], |end| &text[..end]);
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
        let word = if (1..=32).contains(&word.len()) && word.iter().all(is_plain) { word } else { b"ERR" };
        let word = String::from_utf8_lossy(word);
        let has_room = self.errors_by_word.len() < ERROR_WORDS_MAX;
        match self.errors_by_word.get_mut(&*word) {
            Some(count) => *count += 1,
            None if has_room => drop(self.errors_by_word.insert(word.into_owned(), 1)),
            None => {}
        }
    }

    /// Counts a request that was refused before it was executed, if it names a command.
    pub(crate) fn reject(&mut self, args: &Args<'_>) {
        if let Ok(row) = CommandTable::get().named(args) {
            self.by_command[row].rejected += 1;
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
