//! The figures as text: format 0.0.4 of Prometheus.
//!
//! Each family has its HELP and TYPE, then its samples. Values of labels are escaped. Figures of
//! the system and of the store are asked for here, in the thread: the store's take its locks of
//! growth, which no read takes.

use super::families::{FAMILIES, FamilyKind};
use super::figures::{CommandFigures, Figures};
use crate::command::{process_memory, process_times};
use crate::times::range_end_seconds;
use everbyte_kv::Kv;
use everbyte_kv::raw::Raw as _;
use std::fmt::Write;

/// Ranges of times that are told one by one, up to 8.6 seconds; longer times count in `+Inf`.
const RANGES_TOLD: usize = 24;

/// A text under way.
struct Text(String);

impl Text {
    /// Begins a family.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            self.0.push(if at == 0 { '{' } else { ',' });
            self.0.push_str(label);
            self.0.push_str("=\"");
            for letter in text.chars() {
                match letter {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    fn single(&mut self, name: &str, kind: FamilyKind, help: &str, value: f64) {
        self.family(name, kind.name(), help);
        self.sample(name, &[], value);
    }
}

/// The text of figures, and of what the store and the system say now.
pub(super) fn text(figures: &Figures, kv: &Kv) -> String {
    let mut text = Text(String::with_capacity(64 << 10));
    info(&mut text, figures, kv);
    for (family, value) in FAMILIES.iter().zip(&figures.values) {
        text.single(&format!("everbyte_{}", family.name), family.kind, family.help, *value);
    }
    denials(&mut text, figures);
    databases(&mut text, figures);
    replication(&mut text, figures);
    commands(&mut text, &figures.commands);
    store(&mut text, kv);
    process(&mut text);
    text.0
}

fn info(text: &mut Text, figures: &Figures, kv: &Kv) {
    let name = "everbyte_build_info";
    text.family(name, "gauge", "1, with the version and how the store is kept.");
    let backend = kv.store().media().kind().name();
    let labels = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("redis_version", crate::version::REDIS_VERSION),
        ("backend", backend),
        ("appendfsync", figures.append_fsync),
    ];
    text.sample(name, &labels, 1.0);
}

fn denials(text: &mut Text, figures: &Figures) {
    let name = "everbyte_acl_denied_total";
    text.family(name, "counter", "Requests refused for want of a right, by what the right is about.");
    for (reason, count) in ["command", "key", "channel"].into_iter().zip(figures.denied) {
        text.sample(name, &[("reason", reason)], count as f64);
    }
    let name = "everbyte_errors_total";
    text.family(name, "counter", "Error replies by their first word; at most 128 words.");
    for (word, count) in &figures.errors {
        text.sample(name, &[("error", word)], *count as f64);
    }
}

fn databases(text: &mut Text, figures: &Figures) {
    let name = "everbyte_keys";
    text.family(name, "gauge", "Keys of a database, expired ones included that are not removed yet.");
    for one in &figures.databases {
        text.sample(name, &[("db", &one.database.to_string())], one.keys as f64);
    }
    let name = "everbyte_keys_with_deadline";
    text.family(name, "gauge", "Keys of a database that have a deadline.");
    for one in &figures.databases {
        text.sample(name, &[("db", &one.database.to_string())], one.deadlines as f64);
    }
}

fn replication(text: &mut Text, figures: &Figures) {
    let name = "everbyte_replica_lag_seconds";
    text.family(name, "gauge", "Time since a replica was heard last; each tells what it has settled once a second.");
    for replica in &figures.replicas {
        text.sample(name, &[("replica", &replica.address)], replica.lag);
    }
    let name = "everbyte_replica_settled_version";
    text.family(name, "gauge", "The version that a replica has settled.");
    for replica in &figures.replicas {
        text.sample(name, &[("replica", &replica.address)], replica.settled as f64);
    }
    let Some(link) = &figures.link else { return };
    let (gauge, counter) = (FamilyKind::Gauge, FamilyKind::Counter);
    let up = f64::from(u8::from(link.up));
    text.single("everbyte_primary_link_up", gauge, "1 if the primary is connected, else 0.", up);
    if let Some(silence) = link.silence {
        text.single("everbyte_primary_silence_seconds", gauge, "Time since the primary was heard last.", silence);
    }
    let help = "Bytes of the primary's stream that were received.";
    text.single("everbyte_replication_input_bytes_total", counter, help, link.bytes as f64);
    let name = "everbyte_replica_syncs_total";
    text.family(name, "counter", "Streams from the primary that began with a whole copy, or went on.");
    for (kind, count) in ["whole", "partial"].into_iter().zip(link.syncs) {
        text.sample(name, &[("kind", kind)], count as f64);
    }
}

/// Counts of one kind of all commands.
type Counts<'t> = (&'t str, &'t str, fn(&CommandFigures) -> u64);

fn commands(text: &mut Text, commands: &[CommandFigures]) {
    let counts: [Counts<'_>; 3] = [
        ("everbyte_command_calls_total", "Executions of a command.", |one| one.calls),
        ("everbyte_command_failed_total", "Executions of a command that were answered with an error.", |one| {
            one.failed
        }),
        ("everbyte_command_rejected_total", "Requests of a command that were refused unexecuted.", |one| one.rejected),
    ];
    for (name, help, read) in counts {
        text.family(name, "counter", help);
        for command in commands {
            text.sample(name, &[("command", command.name)], read(command) as f64);
        }
    }
    let name = "everbyte_command_duration_seconds";
    text.family(name, "histogram", "Time of a command in the event loop, without that of settling.");
    let (bucket, sum, count) = (format!("{name}_bucket"), format!("{name}_sum"), format!("{name}_count"));
    let ends: Vec<String> = (0..RANGES_TOLD).map(|range| range_end_seconds(range).to_string()).collect();
    for command in commands {
        let label = ("command", command.name);
        let mut below = 0;
        for (end, within) in ends.iter().zip(command.ranges) {
            below += within;
            text.sample(&bucket, &[label, ("le", end)], below as f64);
        }
        let all: u64 = command.ranges.iter().sum();
        text.sample(&bucket, &[label, ("le", "+Inf")], all as f64);
        text.sample(&sum, &[label], command.nanoseconds as f64 / 1e9);
        text.sample(&count, &[label], all as f64);
    }
}

fn store(text: &mut Text, kv: &Kv) {
    let (info, media, tree) = (kv.store().info(), kv.store().media().counts(), kv.stats());
    let (gauge, counter) = (FamilyKind::Gauge, FamilyKind::Counter);
    let rows: [(&str, FamilyKind, &str, u64); 15] = [
        ("store_max_bytes", gauge, "Declared maximum of the store.", info.max),
        ("store_used_bytes", gauge, "Bytes of clusters that objects of the store have.", info.backed),
        ("store_free_bytes", gauge, "The rest of the declared maximum.", info.max.saturating_sub(info.backed)),
        ("store_file_bytes", gauge, "Bytes of the store's file.", info.len),
        ("store_objects", gauge, "Objects of the store.", info.objects),
        ("media_lines_flushed_total", counter, "Cache lines flushed to the medium.", media.lines),
        ("media_fences_total", counter, "Fences.", media.fences),
        ("media_barriers_total", counter, "Barriers: a barrier settles what its thread has flushed.", media.barriers),
        ("media_syncs_total", counter, "Syncs of the store's file.", media.syncs),
        ("media_log_bytes_total", counter, "Bytes appended to the log of the backend `file`.", media.log_bytes),
        ("tree_version", gauge, "The newest settled version.", tree.version.get()),
        ("tree_oldest_version", gauge, "The oldest version that a reader holds.", tree.oldest),
        ("tree_oldest_age_seconds", gauge, "For how long that version has held space back.", tree.oldest_age.as_secs()),
        ("tree_commits_total", counter, "Versions committed.", tree.commits),
        (
            "tree_fetched_bytes_total",
            counter,
            "Bytes copied out of blocks of long keys and values to answer commands.",
            everbyte_kv::fetched(),
        ),
    ];
    for (name, kind, help, value) in rows {
        text.single(&format!("everbyte_{name}"), kind, help, value as f64);
    }
}

fn process(text: &mut Text) {
    let ((resident, peak), (system, user)) = (process_memory(), process_times());
    let help = "Processor time of the process.";
    text.single("process_cpu_seconds_total", FamilyKind::Counter, help, system + user);
    text.single("process_resident_memory_bytes", FamilyKind::Gauge, "Resident memory of the process.", resident as f64);
    let help = "Resident memory of the process, at most so far.";
    text.single("everbyte_resident_memory_max_bytes", FamilyKind::Gauge, help, peak as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Text(String::new());
        text.sample("a", &[("b", "x\"y\\z\n"), ("c", "")], 1.5);
        text.sample("d", &[], 3.0);
        assert_eq!(text.0, "a{b=\"x\\\"y\\\\z\\n\",c=\"\"} 1.5\nd 3\n");
    }

    #[test]
    fn families_have_names_of_their_own_that_tell_their_kind() {
        let mut names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        for family in FAMILIES {
            assert!(family.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", family.name);
            assert_eq!(family.name.ends_with("_total"), family.kind == FamilyKind::Counter, "{}", family.name);
            assert!(family.help.ends_with('.') && !family.help.contains(['\n', '\\']), "{}", family.name);
        }
    }
}
