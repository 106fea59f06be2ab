//! One frame: the difference of two samples, as JSON and as lines of text.

use super::sample::{Sample, Slow};
use crate::text;
use serde::Serialize;

/// A command that was executed between the samples.
#[derive(Serialize)]
pub(super) struct CommandRate {
    name: String,
    calls_per_second: f64,
    /// The mean time between the samples.
    usec_mean: f64,
    /// Percentiles since the server started, or its counters were reset; none if it keeps none.
    usec_p50: Option<f64>,
    usec_p99: Option<f64>,
}

/// A replica of the server.
#[derive(Serialize)]
pub(super) struct ReplicaRow {
    address: String,
    /// Seconds since it was heard last.
    lag_seconds: u64,
    /// Versions that it has not settled.
    versions_behind: u64,
}

/// A slow command.
#[derive(Serialize)]
pub(super) struct SlowRow {
    id: i64,
    seconds_ago: i64,
    usec: i64,
    command: String,
    client: String,
}

/// See the head of this file. Rates are of a second.
#[derive(Serialize)]
pub(super) struct Frame {
    address: String,
    version: String,
    role: String,
    uptime_seconds: u64,
    interval_seconds: f64,
    operations_per_second: f64,
    errors_per_second: f64,
    /// Of reads between the samples, how many in a hundred found their key; none without reads.
    hits_percent: Option<f64>,
    input_bytes_per_second: f64,
    output_bytes_per_second: f64,
    clients: u64,
    clients_max: u64,
    clients_blocked: u64,
    memory_bytes: u64,
    memory_bytes_max: u64,
    keys: u64,
    keys_with_deadline: u64,
    store_backend: String,
    store_used_bytes: u64,
    store_max_bytes: u64,
    syncs_per_second: f64,
    settled_per_second: f64,
    /// The mean time of an iteration to commit and settle, between the samples.
    settle_usec_mean: f64,
    /// Of a replica: whether its primary is connected, and how long it has been silent.
    primary_link: Option<String>,
    primary_silence_seconds: Option<i64>,
    replicas: Vec<ReplicaRow>,
    /// The busiest commands, the busiest first.
    commands: Vec<CommandRate>,
    /// The newest of the slow log.
    slow: Vec<SlowRow>,
}

/// The growth of a counter; from zero where it was reset meanwhile.
fn growth(before: u64, after: u64) -> f64 {
    after.checked_sub(before).unwrap_or(after) as f64
}

fn commands(before: &Sample, after: &Sample, seconds: f64) -> Vec<CommandRate> {
    let rate = |(name, now): (&str, super::sample::Parts<'_>)| {
        let then = before.parts(&format!("cmdstat_{name}"));
        let calls = growth(then.number("calls"), now.number("calls"));
        let times = after.parts(&format!("latency_percentiles_usec_{name}"));
        let percentile = |name| times.text(name).and_then(|text| text.parse().ok());
        (calls > 0.0).then(|| CommandRate {
            name: name.into(),
            calls_per_second: calls / seconds,
            usec_mean: growth(then.number("usec"), now.number("usec")) / calls,
            usec_p50: percentile("p50"),
            usec_p99: percentile("p99"),
        })
    };
    let mut list: Vec<CommandRate> = after.group("cmdstat_").into_iter().filter_map(rate).collect();
    list.sort_by(|one, other| other.calls_per_second.total_cmp(&one.calls_per_second));
    list
}

fn replicas(sample: &Sample) -> Vec<ReplicaRow> {
    let newest = sample.number("master_repl_offset");
    let rows = sample.group("slave").into_iter().filter_map(|(_, parts)| {
        let (host, port) = (parts.text("ip")?, parts.text("port")?);
        let (lag_seconds, settled) = (parts.number("lag"), parts.number("offset"));
        Some(ReplicaRow {
            address: format!("{host}:{port}"),
            lag_seconds,
            versions_behind: newest.saturating_sub(settled),
        })
    });
    rows.collect()
}

impl Frame {
    /// Of a server, from two samples.
    pub(super) fn between(address: &str, before: &Sample, after: &Sample) -> Frame {
        let seconds = after.at.saturating_duration_since(before.at).as_secs_f64().max(1e-3);
        let grown = |name: &str| growth(before.number(name), after.number(name));
        let keys = |name| after.group("db").iter().map(|(_, parts)| parts.number(name)).sum::<u64>();
        let (hits, misses) = (grown("keyspace_hits"), grown("keyspace_misses"));
        let is_replica = after.text("role") == "slave";
        let settled = grown("settled_iterations");
        let now = (after.number("server_time_usec") / 1_000_000) as i64;
        let slow = |one: &Slow| SlowRow {
            id: one.id,
            seconds_ago: now.saturating_sub(one.time).max(0),
            usec: one.microseconds,
            command: one.command.clone(),
            client: one.client.clone(),
        };
        let version = [after.text("everbyte_version"), after.text("redis_version")];
        Frame {
            address: address.into(),
            version: version.into_iter().find(|text| !text.is_empty()).unwrap_or_default().into(),
            role: if is_replica { "replica" } else { "primary" }.into(),
            uptime_seconds: after.number("uptime_in_seconds"),
            interval_seconds: seconds,
            operations_per_second: grown("total_commands_processed") / seconds,
            errors_per_second: grown("total_error_replies") / seconds,
            hits_percent: (hits + misses > 0.0).then(|| 100.0 * hits / (hits + misses)),
            input_bytes_per_second: grown("total_net_input_bytes") / seconds,
            output_bytes_per_second: grown("total_net_output_bytes") / seconds,
            clients: after.number("connected_clients"),
            clients_max: after.number("maxclients"),
            clients_blocked: after.number("blocked_clients"),
            memory_bytes: after.number("used_memory"),
            memory_bytes_max: after.number("used_memory_peak"),
            keys: keys("keys"),
            keys_with_deadline: keys("expires"),
            store_backend: after.text("store_backend").into(),
            store_used_bytes: after.number("store_backed_bytes"),
            store_max_bytes: after.number("store_max_bytes"),
            syncs_per_second: grown("store_syncs") / seconds,
            settled_per_second: settled / seconds,
            settle_usec_mean: if settled > 0.0 { grown("settle_usec") / settled } else { 0.0 },
            primary_link: is_replica.then(|| after.text("master_link_status").into()),
            primary_silence_seconds: after.text("master_last_io_seconds_ago").parse().ok().filter(|_| is_replica),
            replicas: replicas(after),
            commands: commands(before, after, seconds),
            slow: after.slow.iter().map(slow).collect(),
        }
    }

    fn head(&self) -> Vec<String> {
        let (days, seconds) = (self.uptime_seconds / 86_400, self.uptime_seconds % 86_400);
        let up = format!("{days}d {:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        let rate = |bytes: f64| format!("{}/s", text::bytes(bytes as u64));
        let hits = self.hits_percent.map_or("-".into(), |percent| format!("{percent:.1} %"));
        let mut lines = vec![
            format!("everbyte top  {}  version {}  {}  up {up}", self.address, self.version, self.role),
            format!(
                "operations {:.0}/s   errors {:.0}/s   hits {hits}   in {}   out {}",
                self.operations_per_second,
                self.errors_per_second,
                rate(self.input_bytes_per_second),
                rate(self.output_bytes_per_second)
            ),
            format!(
                "clients {} of {}, {} blocked   memory {}, most {}   keys {}, {} with a deadline",
                self.clients,
                self.clients_max,
                self.clients_blocked,
                text::bytes(self.memory_bytes),
                text::bytes(self.memory_bytes_max),
                self.keys,
                self.keys_with_deadline
            ),
            format!(
                "store `{}` {} of {}   syncs {:.0}/s   settled {:.0}/s, mean {:.0} us",
                self.store_backend,
                text::bytes(self.store_used_bytes),
                text::bytes(self.store_max_bytes),
                self.syncs_per_second,
                self.settled_per_second,
                self.settle_usec_mean
            ),
        ];
        if let Some(link) = &self.primary_link {
            let silence = self.primary_silence_seconds.unwrap_or(-1);
            lines.push(format!("primary {link}, heard {silence} s ago"));
        }
        for replica in &self.replicas {
            let ReplicaRow { address, lag_seconds, versions_behind } = replica;
            lines.push(format!("replica {address}   heard {lag_seconds} s ago   {versions_behind} versions behind"));
        }
        lines
    }

    /// The frame as lines, for so many columns and rows. Control characters of keys and names are
    /// shown as `?`.
    pub(super) fn lines(&self, (columns, rows): (usize, usize)) -> Vec<String> {
        let mut lines = self.head();
        lines.push(String::new());
        lines.push(format!("{:<24}{:>12}{:>12}{:>12}{:>12}", "command", "calls/s", "mean us", "p50 us", "p99 us"));
        let percentile = |time: Option<f64>| time.map_or("-".into(), |time| format!("{time:.1}"));
        let slow_rows = if self.slow.is_empty() { 0 } else { self.slow.len() + 2 };
        let room = rows.saturating_sub(lines.len() + slow_rows).max(1);
        for one in self.commands.iter().take(room) {
            let (p50, p99) = (percentile(one.usec_p50), percentile(one.usec_p99));
            let (name, calls, mean) = (&one.name, one.calls_per_second, one.usec_mean);
            lines.push(format!("{name:<24}{calls:>12.1}{mean:>12.1}{p50:>12}{p99:>12}"));
        }
        if !self.slow.is_empty() {
            lines.push(String::new());
            lines.push(format!("{:<12}{:>12}  slow command", "ago", "us"));
        }
        for one in &self.slow {
            let ago = format!("{} s", one.seconds_ago);
            lines.push(format!("{ago:<12}{:>12}  {}  {}", one.usec, one.command, one.client));
        }
        fitting(lines, (columns, rows))
    }
}

/// Lines as a terminal of this size shows them, without control characters.
pub(super) fn fitting(lines: impl IntoIterator<Item = String>, (columns, rows): (usize, usize)) -> Vec<String> {
    let shown = |line: String| -> String {
        line.chars().map(|letter| if letter.is_control() { '?' } else { letter }).take(columns).collect()
    };
    lines.into_iter().take(rows).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const BEFORE: &str = "total_commands_processed:100\r\nsettled_iterations:10\r\nsettle_usec:1000\r\nstore_syncs:4\r\n\
        cmdstat_get:calls=90,usec=900,usec_per_call=10.00\r\ncmdstat_set:calls=10,usec=50\r\n";
    const AFTER: &str = "redis_version:7.0.15\r\neverbyte_version:0.1.0\r\nrole:master\r\nuptime_in_seconds:90061\r\n\
        server_time_usec:5000000\r\ntotal_commands_processed:300\r\nkeyspace_hits:3\r\nkeyspace_misses:1\r\n\
        settled_iterations:30\r\nsettle_usec:5000\r\nstore_syncs:24\r\ndb0:keys=7,expires=2,avg_ttl=0\r\n\
        db3:keys=1,expires=0\r\nmaster_repl_offset:50\r\nslave0:ip=10.0.0.2,port=6380,state=online,offset=48,lag=1\r\n\
        cmdstat_get:calls=100,usec=1000\r\ncmdstat_set:calls=200,usec=4800\r\ncmdstat_ping:calls=0,usec=0\r\n\
        latency_percentiles_usec_set:p50=20.5,p99=40.0,p99.9=90.0\r\n";

    fn frame() -> Frame {
        let before = Sample::of(BEFORE, Vec::new());
        let command = "SET k \x1b[2Jx\u{9b}".into();
        let slow = Slow { id: 3, time: 2, microseconds: 12_345, command, client: "10.0.0.9:1".into() };
        let mut after = Sample::of(AFTER, vec![slow]);
        after.at = before.at + Duration::from_secs(2);
        Frame::between("here", &before, &after)
    }

    #[test]
    fn rates_are_those_between_two_samples() {
        let value = serde_json::to_value(frame()).unwrap();
        for (name, expect) in [
            ("operations_per_second", 100.0),
            ("syncs_per_second", 10.0),
            ("settled_per_second", 10.0),
            ("settle_usec_mean", 200.0),
            ("hits_percent", 75.0),
        ] {
            assert_eq!(value[name].as_f64(), Some(expect), "{name}");
        }
        assert_eq!((value["keys"].as_u64(), value["keys_with_deadline"].as_u64()), (Some(8), Some(2)));
        let busiest = &value["commands"][0];
        assert_eq!((busiest["name"].as_str(), busiest["calls_per_second"].as_f64()), (Some("set"), Some(95.0)));
        assert_eq!((busiest["usec_mean"].as_f64(), busiest["usec_p99"].as_f64()), (Some(25.0), Some(40.0)));
        assert!(value["commands"][1]["usec_p50"].is_null());
        assert_eq!(value["replicas"][0]["versions_behind"].as_u64(), Some(2));
        assert_eq!(value["slow"][0]["seconds_ago"].as_i64(), Some(3));
    }

    /// Keys of clients do not reach the terminal as commands to it.
    #[test]
    fn lines_fit_and_hold_no_control_characters() {
        let lines = frame().lines((40, 9));
        assert_eq!(lines.len(), 9);
        assert!(
            lines.iter().all(|line| line.chars().count() <= 40 && !line.chars().any(char::is_control)),
            "{lines:?}"
        );
        let lines = frame().lines((200, 50));
        assert!(lines.iter().any(|line| line.contains("SET k ?[2Jx?")), "{lines:?}");
        assert!(lines[0].contains("up 1d 01:01:01") && lines[0].contains("primary"), "{lines:?}");
    }

    #[test]
    fn counters_that_were_reset_begin_at_zero() {
        assert_eq!((growth(5, 7), growth(5, 3)), (2.0, 3.0));
    }
}
