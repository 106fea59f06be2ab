//! INFO: figures by section, all of them real. Names are Redis's where the meaning is.

use super::{Call, CommandTable, Outcome, is_word, pubsub, replication};
use crate::keyspace::DATABASES;
use crate::version::REDIS_VERSION;
use everbyte_kv::raw::Raw as _;
use std::fmt::Write;
use std::time::UNIX_EPOCH;

/// A section: its name, whether it is shown by default, and what writes its lines.
type Section = (&'static str, bool, fn(&mut String, &mut Call<'_, '_>) -> Outcome);

const SECTIONS: &[Section] = &[
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Commandstats", false, command_stats),
    ("Errorstats", true, error_stats),
    ("Latencystats", false, latency_stats),
    ("Cluster", true, cluster),
    ("Keyspace", true, keyspace),
];

/// `INFO [section ...]`
pub(super) fn info(call: &mut Call<'_, '_>) -> Outcome {
    let asked: Vec<&[u8]> = call.args.from(1).collect();
    let all = asked.iter().any(|word| is_word(word, "all") || is_word(word, "everything"));
    let default = asked.is_empty() || asked.iter().any(|word| is_word(word, "default"));
    let mut text = String::new();
    for (name, shown, section) in SECTIONS {
        let named = asked.iter().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        if all || named || (default && *shown) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            text.push_str(&format!("# {name}\r\n"));
            section(&mut text, call)?;
        }
    }
    call.room()?;
    call.out.text(&text);
    Ok(())
}

/// Appends `name:value`.
fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = write!(text, "{name}:{value}\r\n");
}

fn server(text: &mut String, call: &mut Call<'_, '_>) -> Outcome {
    let shared = &call.shared;
    let uptime = shared.now.saturating_duration_since(shared.started).as_secs();
    line(text, "redis_version", REDIS_VERSION);
    line(text, "everbyte_version", env!("CARGO_PKG_VERSION"));
    line(text, "redis_mode", "standalone");
    line(text, "os", format_args!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    line(text, "arch_bits", usize::BITS);
    line(text, "multiplexing_api", "epoll");
    line(text, "process_id", std::process::id());
    line(text, "tcp_port", shared.address.port());
    line(text, "server_time_usec", UNIX_EPOCH.elapsed().unwrap_or_default().as_micros());
    line(text, "uptime_in_seconds", uptime);
    line(text, "uptime_in_days", uptime / 86_400);
    Ok(())
}

fn clients(text: &mut String, call: &mut Call<'_, '_>) -> Outcome {
    let waiting: usize = call.others.iter().map(|other| other.out.pending()).sum();
    let received: usize = call.others.iter().map(|other| other.input_size()).sum();
    line(text, "connected_clients", call.others.count());
    line(text, "maxclients", call.shared.options.clients_max);
    line(text, "clients_input_bytes", received);
    line(text, "clients_output_bytes", waiting);
    line(text, "clients_input_memory", call.shared.input_memory);
    line(text, "blocked_clients", call.shared.waiters.count() + call.shared.postponed);
    line(text, "tracking_clients", call.shared.tracking.figures()[0]);
    line(text, "scan_cursors", call.shared.cursors.count());
    line(text, "pinned_cursors", call.shared.pinned.count());
    Ok(())
}

fn memory(text: &mut String, call: &mut Call<'_, '_>) -> Outcome {
    let (resident, peak) = process_memory();
    let clients: usize = call.others.iter().map(|other| other.memory()).sum();
    line(text, "used_memory", resident);
    line(text, "used_memory_human", human(resident));
    line(text, "used_memory_rss", resident);
    line(text, "used_memory_rss_human", human(resident));
    line(text, "used_memory_peak", peak);
    line(text, "used_memory_peak_human", human(peak));
    line(text, "used_memory_peak_perc", format_args!("{:.2}%", resident as f64 * 100.0 / peak.max(1) as f64));
    line(text, "mem_clients_normal", clients);
    let ([scripts, vm_eval], [vm_functions, libraries, functions]) =
        (call.shared.scripts.figures(), call.shared.scripts.function_figures());
    line(text, "used_memory_vm_eval", vm_eval);
    line(text, "used_memory_lua", vm_eval);
    line(text, "used_memory_vm_functions", vm_functions);
    line(text, "used_memory_vm_total", vm_eval + vm_functions);
    line(text, "number_of_cached_scripts", scripts);
    line(text, "number_of_functions", functions);
    line(text, "number_of_libraries", libraries);
    line(text, "used_memory_dataset", call.keys.used().0);
    line(text, "maxmemory", call.shared.options.data_max);
    line(text, "maxmemory_human", human(call.shared.options.data_max));
    line(text, "maxmemory_policy", call.shared.options.eviction_policy.name());
    Ok(())
}

/// A number of bytes as Redis shortens it: `512B`, `1.50K`, `2.00G`.
fn human(bytes: u64) -> String {
    let unit = (bytes.max(1).ilog2() / 10).min(5);
    let letter = ["B", "K", "M", "G", "T", "P"][unit as usize];
    if unit == 0 { format!("{bytes}B") } else { format!("{:.2}{letter}", bytes as f64 / (1_u64 << (10 * unit)) as f64) }
}

/// Resident bytes now and at most, as the system counts them; zeros where it does not say.
pub(crate) fn process_memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
        kilobytes.unwrap_or(0) * 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

fn persistence(text: &mut String, call: &mut Call<'_, '_>) -> Outcome {
    let shared = &call.shared;
    line(text, "loading", 0);
    let saves = shared.saves.state();
    let version = shared.kv.stats().version.get();
    line(text, "rdb_changes_since_last_save", version.saturating_sub(saves.version));
    line(text, "rdb_bgsave_in_progress", u8::from(shared.saves.is_running()));
    line(text, "current_save_keys_processed", if shared.saves.is_running() { saves.keys } else { 0 });
    line(text, "rdb_last_save_time", saves.last);
    line(text, "rdb_last_bgsave_status", if saves.error.is_some() { "err" } else { "ok" });
    let seconds = |time: Option<std::time::Duration>| time.map_or(-1, |time| time.as_secs() as i64);
    line(text, "rdb_last_bgsave_time_sec", seconds(saves.took));
    line(text, "rdb_current_bgsave_time_sec", seconds(saves.started.map(|start| start.elapsed())));
    line(text, "rdb_saves", saves.count);
    if let Some(error) = &saves.error {
        line(text, "rdb_last_save_error", error.replace(['\r', '\n'], " "));
    }
    line(text, "aof_enabled", 1);
    line(text, "appendfsync", shared.append_fsync());
    line(text, "durability", format_args!("{:?}", shared.kv.store().media().durability()));
    let (store, counts, tree) = (shared.kv.store().info(), shared.kv.store().media().counts(), shared.kv.stats());
    line(text, "store_backend", store.backend.name());
    line(text, "store_path", shared.kv.store().media().path().display());
    line(text, "store_table", shared.kv.name());
    line(text, "store_max_bytes", store.max);
    line(text, "store_file_bytes", store.len);
    line(text, "store_backed_bytes", store.backed);
    line(text, "store_lines_flushed", counts.lines);
    line(text, "store_fences", counts.fences);
    line(text, "store_barriers", counts.barriers);
    line(text, "store_log_bytes", counts.log_bytes);
    line(text, "store_syncs", counts.syncs);
    line(text, "tree_version", tree.version);
    line(text, "tree_oldest_version", tree.oldest);
    line(text, "tree_oldest_age_seconds", tree.oldest_age.as_secs());
    line(text, "tree_commits", tree.commits);
    line(text, "tree_fetched_bytes", everbyte_kv::fetched());
    let metrics = &shared.metrics;
    line(text, "settled_iterations", metrics.settled);
    line(text, "settle_usec", metrics.settle_time.as_micros());
    line(text, "settle_usec_max", metrics.settle_time_max.as_micros());
    let mean = metrics.settle_time.as_micros().checked_div(u128::from(metrics.settled)).unwrap_or(0);
    line(text, "settle_usec_mean", mean);
    line(text, "pending_syncs_max", metrics.pending_syncs_max);
    line(text, "gather_iterations_max", metrics.gather_iterations_max);
    Ok(())
}

fn stats(text: &mut String, call: &mut Call<'_, '_>) -> Outcome {
    let metrics = &call.shared.metrics;
    line(text, "total_connections_received", metrics.connections);
    line(text, "total_commands_processed", metrics.commands);
    line(text, "instantaneous_ops_per_sec", metrics.commands_per_second);
    line(text, "total_net_input_bytes", metrics.input_bytes);
    line(text, "total_net_output_bytes", metrics.output_bytes);
    line(text, "rejected_connections", metrics.connections_rejected);
    line(text, "malformed_connections", metrics.connections_malformed);
    line(text, "over_limit_connections", metrics.connections_over_limit);
    line(text, "acl_access_denied_auth", metrics.passwords_refused);
    line(text, "acl_access_denied_cmd", metrics.denied[0]);
    line(text, "acl_access_denied_key", metrics.denied[1]);
    line(text, "acl_access_denied_channel", metrics.denied[2]);
    line(text, "back_pressure_pauses", metrics.back_pressure);
    line(text, "total_error_replies", metrics.errors);
    line(text, "keyspace_hits", metrics.hits);
    line(text, "keyspace_misses", metrics.misses);
    line(text, "expired_keys", metrics.expired);
    let [channels, patterns, shards] = pubsub::figures(call.shared);
    line(text, "pubsub_channels", channels);
    line(text, "pubsub_patterns", patterns);
    line(text, "pubsubshard_channels", shards);
    line(text, "evicted_keys", metrics.evicted);
    let [_, keys, items, prefixes] = call.shared.tracking.figures();
    line(text, "tracking_total_keys", keys);
    line(text, "tracking_total_items", items);
    line(text, "tracking_total_prefixes", prefixes);
    line(text, "total_iterations", metrics.iterations);
    line(text, "iteration_commands_max", metrics.iteration_commands_max);
    line(text, "event_loops", call.shared.options.loops);
    line(text, "connections_lent", metrics.lent);
    line(text, "loop_commands_processed", metrics.loop_commands);
    line(text, "loop_shared_writes", metrics.loop_shared_writes);
    Ok(())
}

fn replication(text: &mut String, call: &mut Call<'_, '_>) -> Outcome {
    replication::info(&mut |name, value| line(text, name, value), call.shared);
    Ok(())
}

/// Seconds of processor time of the process, in the system and in itself, by /proc; the unit of the
/// fields is a hundredth of a second on every Linux we run on.
pub(crate) fn process_times() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
    let seconds = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0) / 100.0;
    (seconds(12), seconds(11))
}

fn cpu(text: &mut String, _: &mut Call<'_, '_>) -> Outcome {
    let (system, user) = process_times();
    line(text, "used_cpu_sys", format_args!("{system:.6}"));
    line(text, "used_cpu_user", format_args!("{user:.6}"));
    Ok(())
}

fn command_stats(text: &mut String, call: &mut Call<'_, '_>) -> Outcome {
    for (command, counts) in CommandTable::get().rows.iter().zip(&call.shared.metrics.by_command) {
        let (calls, rejected, failed) = (counts.calls, counts.rejected, counts.failed);
        if calls + rejected > 0 {
            let (name, time) = (format!("cmdstat_{}", command.name), counts.nanoseconds / 1000);
            let each = if calls > 0 { time as f64 / calls as f64 } else { 0.0 };
            let said = format!(
                "calls={calls},usec={time},usec_per_call={each:.2},rejected_calls={rejected},failed_calls={failed}"
            );
            line(text, &name, said);
        }
    }
    Ok(())
}

fn error_stats(text: &mut String, call: &mut Call<'_, '_>) -> Outcome {
    for (word, count) in &call.shared.metrics.errors_by_word {
        line(text, &format!("errorstat_{word}"), format_args!("count={count}"));
    }
    Ok(())
}

fn latency_stats(text: &mut String, call: &mut Call<'_, '_>) -> Outcome {
    let (options, counts) = (&call.shared.options, &call.shared.metrics.by_command);
    for (command, counts) in CommandTable::get().rows.iter().zip(counts) {
        let Some(times) = counts.times.as_ref().filter(|_| options.latency_tracking) else { continue };
        let percentile = |percent: &f64| format!("p{percent}={:.3}", times.percentile(*percent) as f64 / 1000.0);
        let percentiles: Vec<String> = options.latency_percentiles.iter().map(percentile).collect();
        line(text, &format!("latency_percentiles_usec_{}", command.name), percentiles.join(","));
    }
    Ok(())
}

fn cluster(text: &mut String, _: &mut Call<'_, '_>) -> Outcome {
    line(text, "cluster_enabled", 0);
    Ok(())
}

fn keyspace(text: &mut String, call: &mut Call<'_, '_>) -> Outcome {
    let here = call.keys.database();
    for space in 0..DATABASES as u8 {
        call.keys.select(space);
        let figures = call.keys.len().and_then(|count| Ok((count, call.keys.deadlines()?)));
        call.keys.select(here);
        let (count, expires) = figures?;
        if count > 0 {
            line(text, &format!("db{space}"), format_args!("keys={count},expires={expires},avg_ttl=0"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_of_bytes_are_shortened_as_by_redis() {
        for (bytes, text) in
            [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (1536, "1.50K"), (100 << 20, "100.00M"), (3 << 30, "3.00G")]
        {
            assert_eq!(super::human(bytes), text);
        }
        assert!(super::human(u64::MAX).ends_with('P'));
    }
}
