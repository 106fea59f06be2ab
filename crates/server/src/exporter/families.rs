//! The figures without labels: what each is called and means, and how the event loop reads it. A
//! new figure is a row.

use super::figures::Seen;

/// A counter only grows, but for CONFIG RESETSTAT; a gauge goes up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FamilyKind {
    /// See above.
    Counter,
    /// See above.
    Gauge,
}

impl FamilyKind {
    /// The word of the format.
    pub(super) fn name(self) -> &'static str {
        match self {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
        }
    }
}

/// A figure.
pub(super) struct Family {
    /// Its name behind `everbyte_`.
    pub name: &'static str,
    /// Its kind.
    pub kind: FamilyKind,
    /// Its meaning.
    pub help: &'static str,
    /// Its value.
    pub read: fn(&Seen<'_>) -> f64,
}

const fn counter(name: &'static str, help: &'static str, read: fn(&Seen<'_>) -> f64) -> Family {
    Family { name, kind: FamilyKind::Counter, help, read }
}

const fn gauge(name: &'static str, help: &'static str, read: fn(&Seen<'_>) -> f64) -> Family {
    Family { name, kind: FamilyKind::Gauge, help, read }
}

/// A counter of `Metrics`.
macro_rules! counted {
    ($name:literal, $help:literal, $field:ident) => {
        counter($name, $help, |seen| seen.shared.metrics.$field as f64)
    };
}

/// The largest of `Metrics`.
macro_rules! largest {
    ($name:literal, $help:literal, $field:ident) => {
        gauge($name, $help, |seen| seen.shared.metrics.$field as f64)
    };
}

/// All of them.
pub(super) static FAMILIES: &[Family] = &[
    gauge("uptime_seconds", "Time since the server started.", |seen| {
        seen.shared.now.saturating_duration_since(seen.shared.started).as_secs_f64()
    }),
    gauge("connected_clients", "Connections now.", |seen| seen.clients.count() as f64),
    gauge("max_clients", "Connections at a time (maxclients).", |seen| seen.shared.options.clients_max as f64),
    gauge("blocked_clients", "Clients that wait for an element, for replicas, or for the end of a pause.", |seen| {
        (seen.shared.waiters.count() + seen.shared.postponed) as f64
    }),
    gauge("tracking_clients", "Clients that keep copies of keys (CLIENT TRACKING).", |seen| {
        seen.shared.tracking.figures()[0] as f64
    }),
    gauge("client_input_bytes", "Bytes received from clients and not executed.", |seen| seen.sums.input),
    gauge("client_output_bytes", "Bytes of replies that wait for clients to read them.", |seen| seen.sums.output),
    gauge("client_memory_bytes", "Bytes of memory that connections hold.", |seen| seen.sums.memory),
    gauge("request_memory_bytes", "Bytes of memory that requests of all clients hold.", |seen| {
        seen.shared.input_memory as f64
    }),
    counted!("connections_accepted_total", "Connections accepted.", connections),
    counted!("connections_rejected_total", "Connections refused because there were too many.", connections_rejected),
    counted!(
        "connections_malformed_total",
        "Connections ended because their input was malformed.",
        connections_malformed
    ),
    counted!(
        "connections_over_limit_total",
        "Connections ended because they were over a limit.",
        connections_over_limit
    ),
    counted!("commands_processed_total", "Commands executed.", commands),
    counted!("error_replies_total", "Error replies.", errors),
    counted!("passwords_refused_total", "Passwords refused.", passwords_refused),
    counted!("network_input_bytes_total", "Bytes read from sockets of clients.", input_bytes),
    counted!("network_output_bytes_total", "Bytes written to sockets of clients.", output_bytes),
    counted!("keyspace_hits_total", "Reads that found their key.", hits),
    counted!("keyspace_misses_total", "Reads that did not find their key.", misses),
    counted!("expired_keys_total", "Keys removed because their deadlines had passed.", expired),
    counted!("evicted_keys_total", "Keys removed to make room (maxmemory-policy).", evicted),
    counted!("iterations_total", "Iterations of the event loop that executed something.", iterations),
    counted!("settled_iterations_total", "Iterations that changed something; each was settled once.", settled),
    counter("settle_seconds_total", "Time spent committing and settling iterations.", |seen| {
        seen.shared.metrics.settle_time.as_secs_f64()
    }),
    gauge("settle_seconds_max", "The longest time of one iteration to commit and settle.", |seen| {
        seen.shared.metrics.settle_time_max.as_secs_f64()
    }),
    gauge("pending_iterations", "Iterations whose replies wait for the medium.", |seen| seen.pending as f64),
    largest!(
        "pending_syncs_max",
        "Syncs that had to end before the replies of one iteration could leave, at most.",
        pending_syncs_max
    ),
    largest!(
        "gather_iterations_max",
        "Iterations that a commit waited for more writers while no sync ran, at most.",
        gather_iterations_max
    ),
    largest!("iteration_commands_max", "Commands of the largest iteration.", iteration_commands_max),
    counted!("back_pressure_pauses_total", "Times a client was not read because its replies waited.", back_pressure),
    counter("slow_commands_total", "Commands that SLOWLOG has kept.", |seen| seen.shared.slowlog.count() as f64),
    gauge("pubsub_channels", "Channels with subscribers.", |seen| seen.channels[0] as f64),
    gauge("pubsub_patterns", "Patterns with subscribers.", |seen| seen.channels[1] as f64),
    gauge("pubsub_shard_channels", "Channels of shards with subscribers.", |seen| seen.channels[2] as f64),
    gauge("tracked_keys", "Keys that clients keep copies of.", |seen| seen.shared.tracking.figures()[1] as f64),
    gauge("scan_cursors", "Places of SCAN that are kept.", |seen| seen.shared.cursors.count() as f64),
    gauge("cached_scripts", "Scripts that are known.", |seen| seen.shared.scripts.figures()[0] as f64),
    gauge("functions", "Functions that are compiled.", |seen| seen.shared.scripts.function_figures()[2] as f64),
    gauge("script_memory_bytes", "Bytes of the interpreters of scripts and functions.", |seen| {
        (seen.shared.scripts.figures()[1] + seen.shared.scripts.function_figures()[0]) as f64
    }),
    gauge("last_save_timestamp_seconds", "Seconds since 1970 at the last save that succeeded, or the start.", |seen| {
        seen.saves.last as f64
    }),
    gauge("last_save_failed", "1 if the last save failed, else 0.", |seen| {
        f64::from(u8::from(seen.saves.error.is_some()))
    }),
    gauge("save_in_progress", "1 while BGSAVE writes, else 0.", |seen| {
        f64::from(u8::from(seen.shared.saves.is_running()))
    }),
    gauge("replica", "1 if the server is a replica, 0 if it is a primary.", |seen| {
        f64::from(u8::from(seen.shared.replication.is_replica()))
    }),
    gauge("connected_replicas", "Replicas of this server that are connected.", |seen| {
        seen.shared.replication.replicas.len() as f64
    }),
    gauge("replica_versions_kept", "Versions that are kept for replicas that are away.", |seen| {
        seen.shared.replication.away_count() as f64
    }),
];
