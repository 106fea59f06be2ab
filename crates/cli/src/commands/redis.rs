//! `everbyte import SOURCE STORE` and `everbyte export STORE FILE`: keys from Redis, and to Redis.

use crate::args::{RedisExportArgs, RedisImportArgs, Shape};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::{self, Form};
use crate::{files, open};
use everbyte_kv::Kv;
use everbyte_server::{ImportOptions, ImportPhase, ImportProgress, ImportSource, RedisServer};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The word before the host and port of a running server.
const SCHEME: &str = "redis://";
const SCHEME_TLS: &str = "rediss://";

pub(crate) fn import(args: &RedisImportArgs, output: &Output) -> Result<(), Failure> {
    let source = source(args)?;
    if args.create && !args.store.exists() {
        open::create(&args.store, &args.open, &Shape::default())?.close()?;
    }
    let store = open::store(&args.store, &args.open)?;
    let kv = Kv::open_or_create(&store, &args.table)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::System(format!("cannot wait for signals: {error}")))?;
    }
    let options =
        ImportOptions { replace: args.replace, clear: args.clear, once: args.once, ..ImportOptions::default() };
    let bars = [ImportPhase::Keys, ImportPhase::Commands, ImportPhase::Following].map(|phase| {
        let (name, form) = match phase {
            ImportPhase::Keys => ("importing keys", Form::Bytes),
            ImportPhase::Commands => ("executing commands", Form::Bytes),
            ImportPhase::Following => ("following: commands", Form::Items),
        };
        (phase, output.progress(name, form))
    });
    let mut gone = None;
    let done = everbyte_server::import(&kv, &source, &options, &mut |state: &ImportProgress| {
        for (phase, bar) in &bars {
            if *phase != state.phase {
                bar.finish();
                continue;
            }
            let done = if *phase == ImportPhase::Following { state.commands } else { state.bytes };
            gone = bar.set(done, state.total).err().or(gone.take());
        }
        gone.is_none() && !stop.load(Ordering::Acquire)
    });
    bars.iter().for_each(|(_, bar)| bar.finish());
    let done = done?;
    drop(kv);
    store.close()?;
    let mut text = format!("imported {} keys", done.keys);
    let mut add = |count: u64, said: &str| {
        if count > 0 {
            text.push_str(&format!(", {count} {said}"));
        }
    };
    add(done.commands, "commands executed");
    add(done.replaced, "keys replaced");
    add(done.expired, "expired keys left out");
    add(done.functions, "libraries of functions");
    if let Some(offset) = done.offset {
        text.push_str(&format!("; as of replication offset {offset}"));
    }
    if let Some((offset, bytes)) = done.cut {
        text.push_str(&format!(
            "\nthe AOF was cut: its last {bytes} bytes, from offset {offset} on, are no whole command or transaction and were \
             left out"
        ));
    }
    output.say(
        text,
        json!({
            "source": args.source,
            "store": args.store,
            "keys": done.keys,
            "replaced": done.replaced,
            "expired": done.expired,
            "commands": done.commands,
            "functions": done.functions,
            "bytes": done.bytes,
            "replication_offset": done.offset,
            "cut_at": done.cut.map(|(offset, _)| offset),
            "cut_bytes": done.cut.map(|(_, bytes)| bytes),
        }),
    )
}

/// The source that the arguments name.
fn source(args: &RedisImportArgs) -> Result<ImportSource, Failure> {
    if args.source.starts_with(SCHEME_TLS) {
        let text = "TLS to the running Redis is not supported: import through a tunnel, such as `ssh -L` or stunnel";
        return Err(Failure::Words(text.into()));
    }
    let Some(place) = args.source.strip_prefix(SCHEME) else {
        if args.once {
            return Err(Failure::Words("--once is for a running Redis: name it as redis://HOST:PORT".into()));
        }
        return Ok(ImportSource::File(args.source.clone().into()));
    };
    if place.contains('@') {
        let text = "give user and password by --user and EVERBYTE_IMPORT_PASSWORD, and not in the address";
        return Err(Failure::Words(text.into()));
    }
    let place = place.trim_end_matches('/');
    let address = if place.contains(':') { place.to_string() } else { format!("{place}:6379") };
    Ok(ImportSource::Server(RedisServer { address, user: args.user.clone(), password: args.password.clone() }))
}

pub(crate) fn export(args: &RedisExportArgs, output: &Output) -> Result<(), Failure> {
    let store = open::store(&args.store, &args.open)?;
    let kv = Kv::open(&store, &args.table)?;
    let bar = progress::counted_bytes("exporting");
    let standard = files::is_standard(&args.file);
    let done = match standard {
        true => everbyte_server::export(&kv, &mut *output.writer(), &mut |done| bar.set_position(done.bytes))?,
        false => files::write_new(&args.file, |mut file| {
            Ok(everbyte_server::export(&kv, &mut file, &mut |done| bar.set_position(done.bytes))?)
        })?,
    };
    bar.finish_and_clear();
    drop(kv);
    store.close()?;
    if standard {
        return Ok(());
    }
    output.say(
        format!("exported {} keys to {}, {} bytes", done.keys, args.file.display(), done.bytes),
        json!({ "store": args.store, "file": args.file, "keys": done.keys, "bytes": done.bytes }),
    )
}
