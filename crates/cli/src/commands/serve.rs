//! `everbyte serve`: serves one key-value store to Redis clients, and mounts volumes of the same
//! store. Prints its whole configuration and a client command to try.
//!
//! Order: the address is bound, so that signals are caught and clients wait in the system's queue;
//! the volumes are mounted; clients are served. At the end clients are dismissed, the volumes are
//! unmounted, and the store is closed.

use super::fs;
use super::serve_mounts::{self, Mounts};
use crate::args::{OpenArgs, ServeArgs, Shape};
use crate::config::Config;
use crate::control::Control;
use crate::failure::Failure;
use crate::open;
use crate::output::Output;
use everbyte_kv::Kv;
use everbyte_server::{Options, Server};
use serde_json::json;
use std::time::Duration;

pub(crate) fn run(args: &ServeArgs, output: &Output) -> Result<(), Failure> {
    let config = Config::of(args)?;
    let (address, backups) = (config.listen.clone(), config.backups.clone());
    let password = config.requirepass.clone().map(|secret| secret.0);
    let secured = password.is_some();
    let mut options = Options {
        address,
        metrics: config.metrics.clone(),
        open: config.open,
        password,
        backups,
        clients_max: config.clients_max,
        notify_keyspace_events: config.events.clone(),
        slowlog_threshold: config.slowlog_threshold,
        slowlog_len: config.slowlog_len,
        latency_threshold: config.latency_threshold,
        script_time_max: Duration::from_millis(config.script_time_max),
        client_durability: config.client_durability.0,
        data_max: config.data_max.0,
        eviction_policy: config.eviction_policy.0,
        eviction_samples: config.eviction_samples,
        settings: args.config.clone(),
        signals: true,
        ends_at_hangup: !everbyte_fuse::ignores_hangups(),
        ..Options::default()
    };
    config.access.apply(&mut options).map_err(Failure::Words)?;
    config.replication.apply(&mut options).map_err(Failure::Words)?;
    options.addresses()?; // before a store is created
    let places = serve_mounts::parse(&config)?;
    let words = OpenArgs { backend: Some(config.backend), durability: Some(config.durability) };
    let created = config.create && !config.store.exists();
    let store = if created {
        open::create(&config.store, &words, &Shape { max: Some(config.max), ..Shape::default() })?
    } else {
        open::store(&config.store, &words)?
    };
    let kv = Kv::open_or_create(&store, &config.table)?;
    let server = Server::bind(kv.clone(), options)?;
    let address = server.address();
    let secure = server.tls_address().map(|address| address.to_string());
    let metrics = server.metrics_address().map(|address| address.to_string());
    let mounts = Mounts::start(&store, &config, &places)?;
    let control = Control::start(&config.store, &store, mounts.volumes(), fs::run_served);
    let backend = store.media().kind().name();
    if !address.ip().to_canonical().is_loopback() {
        let danger = match secured {
            true => "nothing is encrypted there: the password and all keys can be read on the way",
            false => "no password is set: every client may read, change and delete every key, and stop the server",
        };
        eprintln!("warning: {address} can be reached by other machines, and {danger}");
    }
    if let Some(address) = server.metrics_address().filter(|address| !address.ip().to_canonical().is_loopback()) {
        eprintln!("warning: other machines can read the figures at {address}, and no password is asked for them");
    }
    if output.is_json() {
        let config = serde_json::to_value(&config).map_err(|error| Failure::Words(error.to_string()))?;
        let address = address.to_string();
        output.say(
            "",
            json!({ "address": address, "backend": backend, "created": created, "keys": kv.len(), "mounts": mounts.paths(), "requirepass": secured, "tls": secure, "metrics": metrics, "config": config }),
        )?;
    } else {
        let mut settings = toml::to_string(&config).map_err(|error| Failure::Words(error.to_string()))?;
        if secured {
            settings.push_str("# requirepass is set, and not shown\n");
        }
        if let Some(address) = secure {
            settings.push_str(&format!("# TLS on {address}\n"));
        }
        if let Some(address) = metrics {
            settings.push_str(&format!("# figures for Prometheus at http://{address}/metrics\n"));
        }
        let (verb, keys, port) = (if created { "created" } else { "opened" }, kv.len(), address.port());
        let files = match mounts.paths().join(", ") {
            none if none.is_empty() => format!(
                "For files too: {} serve {} --create --mount home=DIR mounts the volume `home` on DIR.\n",
                std::env::args_os().next().unwrap_or_else(|| "everbyte".into()).display(),
                config.store.display()
            ),
            paths => format!("Volumes are mounted on {paths}.\n"),
        };
        output.say(
            format!(
                "everbyte {}: {verb} {} on `{backend}`, {keys} keys; serving it on {address}\n\n{settings}\n\
                 Type in another terminal (redis-cli is in the package redis-tools):\n\n\
                 \x20   redis-cli -p {port} set greeting hello\n\
                 \x20   redis-cli -p {port} get greeting\n\n\
                 {files}\
                 Then kill this server in any way you like, start it again, and ask again. Ctrl-C stops it in good order.",
                env!("CARGO_PKG_VERSION"),
                config.store.display(),
            ),
            json!(null),
        )?;
    }
    output.finish()?;
    let served = server.run();
    drop((kv, control));
    let closed = mounts.stop();
    served?;
    // With files of a mount open its volume cannot be closed: all of it is durable, and the next
    // opening recovers it.
    if closed? { Ok(store.close()?) } else { Ok(()) }
}
