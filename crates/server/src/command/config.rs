//! CONFIG: the options of this server, under Redis's names where there are such.
//!
//! Some can be changed while the server runs; all of one CONFIG SET or none. CONFIG REWRITE writes
//! those that the file of settings may have.

use super::{Call, Fail, Outcome};
use crate::eviction_policy::{EvictionPolicy, parse_size};
use crate::glob::{LetterCase, matches};
use crate::keyspace::DATABASES;
use crate::notify::Events;
use crate::options::ClientDurability;
use crate::password::Password;
use crate::resp::number::parse_integer;
use crate::saves::Saves;
use crate::server_state::ServerState;
use crate::tls::{TlsOptions, configure};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a parameter is changed.
enum Change {
    /// Not while the server runs.
    No,
    /// It has one value, which may be set again.
    Fixed,
    /// A number between two others.
    Number(i64, i64, fn(&mut ServerState, i64)),
    /// Bytes, with or without a unit.
    Size(fn(&mut ServerState, u64)),
    /// A text that is checked.
    Text(fn(&[u8]) -> Result<(), &'static str>, fn(&mut ServerState, &[u8])),
    /// A file of TLS; all of them are read and checked together.
    Tls(fn(&mut TlsOptions, PathBuf)),
}

/// A parameter.
struct Parameter {
    name: &'static str,
    value: fn(&ServerState) -> String,
    change: Change,
}

const fn fixed(name: &'static str, value: fn(&ServerState) -> String) -> Parameter {
    Parameter { name, value, change: Change::Fixed }
}

const fn constant(name: &'static str, value: fn(&ServerState) -> String) -> Parameter {
    Parameter { name, value, change: Change::No }
}

const fn tls_file(
    name: &'static str,
    value: fn(&ServerState) -> String,
    set: fn(&mut TlsOptions, PathBuf),
) -> Parameter {
    Parameter { name, value, change: Change::Tls(set) }
}

const fn number(
    name: &'static str,
    least: i64,
    most: i64,
    value: fn(&ServerState) -> String,
    set: fn(&mut ServerState, i64),
) -> Parameter {
    Parameter { name, value, change: Change::Number(least, most, set) }
}

/// A count or a size of the options, of so many at least.
macro_rules! count {
    ($name:literal, $least:expr, $option:ident) => {
        number(
            $name,
            $least,
            i64::MAX,
            |shared| shared.options.$option.to_string(),
            |shared, count| shared.options.$option = count as usize,
        )
    };
}

/// A duration of the options, of so many seconds at least.
macro_rules! seconds {
    ($name:literal, $least:expr, $option:ident) => {
        number(
            $name,
            $least,
            i64::MAX,
            |shared| shared.options.$option.as_secs().to_string(),
            |shared, time| shared.options.$option = Duration::from_secs(time.unsigned_abs()),
        )
    };
}

/// The time of a script, under one of its two names.
const fn script_time(name: &'static str) -> Parameter {
    number(
        name,
        0,
        i64::MAX,
        |shared| shared.options.script_time_max.as_millis().to_string(),
        |shared, time| shared.options.script_time_max = Duration::from_millis(time.unsigned_abs()),
    )
}

/// Every parameter. Those of Redis that have one fixed answer here are given it, because tools ask
/// for them.
const PARAMETERS: &[Parameter] = &[
    constant("appendfsync", |shared| shared.append_fsync().into()),
    fixed("appendonly", |_| "yes".into()),
    constant("bind", |shared| shared.address.ip().to_string()),
    Parameter {
        name: "client-durability",
        value: |shared| shared.options.client_durability.name().into(),
        change: Change::Text(check_durability, |shared, name| {
            shared.options.client_durability = ClientDurability::named(name).unwrap_or_default();
        }),
    },
    count!("client-query-buffer-limit", 1 << 20, input_size_max),
    constant("databases", |_| DATABASES.to_string()),
    script_time("busy-reply-threshold"),
    script_time("lua-time-limit"),
    number(
        "latency-monitor-threshold",
        0,
        i64::MAX,
        |shared| shared.options.latency_threshold.to_string(),
        |shared, time| shared.options.latency_threshold = time.unsigned_abs(),
    ),
    Parameter {
        name: "latency-tracking",
        value: |shared| if shared.options.latency_tracking { "yes" } else { "no" }.into(),
        change: Change::Text(check_switch, |shared, text| {
            shared.options.latency_tracking = text.eq_ignore_ascii_case(b"yes");
        }),
    },
    Parameter {
        name: "latency-tracking-info-percentiles",
        value: |shared| {
            let words: Vec<String> = shared.options.latency_percentiles.iter().map(f64::to_string).collect();
            words.join(" ")
        },
        change: Change::Text(
            |text| percentiles(text).map(drop),
            |shared, text| shared.options.latency_percentiles = percentiles(text).unwrap_or_default(),
        ),
    },
    number(
        "maxclients",
        1,
        u32::MAX as i64,
        |shared| shared.options.clients_max.to_string(),
        |shared, count| shared.options.clients_max = count as usize,
    ),
    constant("dir", |shared| shared.saves.directory().map_or(String::new(), |path| path.display().to_string())),
    Parameter {
        name: "dbfilename",
        value: |shared| shared.saves.name.clone(),
        change: Change::Text(check_file, |shared, name| {
            shared.saves.name = String::from_utf8_lossy(name).into_owned();
        }),
    },
    Parameter {
        name: "maxmemory",
        value: |shared| shared.options.data_max.to_string(),
        change: Change::Size(|shared, size| shared.options.data_max = size),
    },
    Parameter {
        name: "maxmemory-policy",
        value: |shared| shared.options.eviction_policy.name().into(),
        change: Change::Text(check_policy, |shared, name| {
            shared.options.eviction_policy = EvictionPolicy::named(name).unwrap_or_default();
        }),
    },
    number(
        "maxmemory-samples",
        1,
        i32::MAX as i64,
        |shared| shared.options.eviction_samples.to_string(),
        |shared, count| shared.options.eviction_samples = count as usize,
    ),
    Parameter {
        name: "notify-keyspace-events",
        value: |shared| shared.events.text(),
        change: Change::Text(check_events, set_events),
    },
    count!("output-size-max", 1 << 10, output_size_max),
    count!("output-size-soft", 1 << 10, output_size_soft),
    seconds!("output-stall-seconds", 1, output_stall),
    constant("port", |shared| shared.address.port().to_string()),
    constant("proto-max-bulk-len", |shared| shared.options.bulk_size_max.to_string()),
    count!("push-size-max", 1 << 10, push_size_max),
    constant("masteruser", |shared| shared.options.primary_user.clone().unwrap_or_default()),
    constant("masterauth", |shared| {
        let bytes = shared.options.primary_password.as_ref().map_or(&[][..], Password::shown);
        String::from_utf8_lossy(bytes).into_owned()
    }),
    count!("min-replicas-to-write", 0, replicas_min),
    count!("min-slaves-to-write", 0, replicas_min),
    seconds!("min-replicas-max-lag", 0, replica_lag_max),
    seconds!("min-slaves-max-lag", 0, replica_lag_max),
    seconds!("repl-backlog-ttl", 0, replica_keep),
    seconds!("repl-timeout", 1, replication_timeout),
    fixed("replica-read-only", |_| "yes".into()),
    fixed("slave-read-only", |_| "yes".into()),
    fixed("replica-serve-stale-data", |_| "yes".into()),
    constant("replicaof", |shared| {
        let primary = shared.replication.primary.as_ref();
        primary.map_or_else(String::new, |primary| format!("{} {}", primary.host, primary.port))
    }),
    constant("requirepass", |shared| {
        let bytes = shared.options.password.as_ref().map_or(&[][..], Password::shown);
        String::from_utf8_lossy(bytes).into_owned()
    }),
    fixed("save", |_| String::new()),
    number(
        "slowlog-log-slower-than",
        -1,
        i64::MAX,
        |shared| shared.options.slowlog_threshold.to_string(),
        |shared, time| shared.options.slowlog_threshold = time,
    ),
    count!("slowlog-max-len", 0, slowlog_len),
    seconds!("timeout", 0, idle_max),
    constant("aclfile", |shared| path(shared.options.acl_file.as_ref())),
    constant("unixsocket", |shared| path(shared.options.unix_socket.as_ref())),
    constant("unixsocketperm", |shared| format!("{:o}", shared.options.unix_mode)),
    constant("io-threads", |shared| shared.options.loops.to_string()),
    constant("tcp-keepalive", |shared| shared.options.keepalive.to_string()),
    constant("tracking-table-max-keys", |shared| shared.options.tracking_keys_max.to_string()),
    constant("client-output-buffer-limit", output_limits),
    tls_file(
        "tls-cert-file",
        |shared| path(shared.options.tls.as_ref().map(|tls| &tls.certificate)),
        |tls, path| tls.certificate = path,
    ),
    tls_file(
        "tls-key-file",
        |shared| path(shared.options.tls.as_ref().map(|tls| &tls.key)),
        |tls, path| tls.key = path,
    ),
    tls_file(
        "tls-ca-cert-file",
        |shared| path(shared.options.tls.as_ref().and_then(|tls| tls.roots.as_ref())),
        |tls, path| tls.roots = (!path.as_os_str().is_empty()).then_some(path),
    ),
    count!("iteration-commands-max", 1, iteration_commands_max),
    count!("iteration-size-max", 1, iteration_size_max),
];

fn path(path: Option<&PathBuf>) -> String {
    path.map_or_else(String::new, |path| path.display().to_string())
}

fn output_limits(shared: &ServerState) -> String {
    let (options, unlimited) = (&shared.options, |size| if size == usize::MAX { 0 } else { size });
    let (normal, pubsub) = (options.reply_soft, options.push_soft);
    format!(
        "normal {} {} {} slave 0 0 0 pubsub {} {} {}",
        options.reply_size_max,
        normal.size,
        normal.time.as_secs(),
        unlimited(options.push_size_max),
        pubsub.size,
        pubsub.time.as_secs()
    )
}

/// Parameters that a file of settings may have.
const IN_FILE: [&str; 10] = [
    "busy-reply-threshold",
    "client-durability",
    "latency-monitor-threshold",
    "maxclients",
    "maxmemory",
    "maxmemory-policy",
    "maxmemory-samples",
    "notify-keyspace-events",
    "slowlog-log-slower-than",
    "slowlog-max-len",
];

fn check_switch(text: &[u8]) -> Result<(), &'static str> {
    let is_switch = [&b"yes"[..], b"no"].iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_switch { Ok(()) } else { Err("argument must be 'yes' or 'no'") }
}

/// Numbers from 0 to 100 with spaces between them.
fn percentiles(text: &[u8]) -> Result<Vec<f64>, &'static str> {
    let text = std::str::from_utf8(text).unwrap_or("x");
    let numbers: Result<Vec<f64>, _> = text.split_ascii_whitespace().map(str::parse).collect();
    let numbers = numbers.map_err(|_| "Invalid latency-tracking-info-percentiles parameters")?;
    match numbers.iter().all(|number| (0.0..=100.0).contains(number)) {
        true => Ok(numbers),
        false => Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"),
    }
}

fn check_events(text: &[u8]) -> Result<(), &'static str> {
    const WRONG: &str = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
    Events::parse(text).map(drop).ok_or(WRONG)
}

fn set_events(shared: &mut ServerState, text: &[u8]) {
    shared.events = Events::parse(text).unwrap_or_default();
}

/// `CONFIG GET pattern [pattern ...]`: a name that is no pattern is answered as it was written.
pub(super) fn get(call: &mut Call<'_, '_>) -> Outcome {
    let mut wanted: Vec<(&[u8], &Parameter)> = Vec::new();
    for asked in call.args.from(2) {
        let exact = !asked.iter().any(|byte| b"*?[".contains(byte));
        for parameter in PARAMETERS {
            let name = parameter.name.as_bytes();
            let fits = if exact { asked.eq_ignore_ascii_case(name) } else { matches(asked, name, LetterCase::Folded) };
            let shown = if exact { asked } else { name };
            if fits && wanted.iter().all(|(known, _)| *known != shown) {
                wanted.push((shown, parameter));
            }
        }
    }
    call.room()?;
    call.out.map(wanted.len());
    for (name, parameter) in wanted {
        call.out.bulk(name);
        call.out.bulk((parameter.value)(call.shared).as_bytes());
    }
    Ok(())
}

fn failed(name: &[u8], why: &str) -> Fail {
    let parts: [&[u8]; 4] = [b"ERR CONFIG SET failed (possibly related to argument '", name, b"') - ", why.as_bytes()];
    Fail::made(parts.concat())
}

/// `CONFIG SET name value [name value ...]`: all are checked before one is changed.
pub(super) fn set(call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() % 2 == 1 {
        return Err(super::fail::SYNTAX);
    }
    let mut chosen: Vec<(&Parameter, &[u8])> = Vec::new();
    let args = call.args;
    for at in (2..args.len()).step_by(2) {
        let (name, value) = (args.get(at), args.get(at + 1));
        let Some(parameter) = PARAMETERS.iter().find(|known| name.eq_ignore_ascii_case(known.name.as_bytes())) else {
            let text: [&[u8]; 3] = [b"ERR Unknown option or number of arguments for CONFIG SET - '", name, b"'"];
            return Err(Fail::made(text.concat()));
        };
        if chosen.iter().any(|(other, _)| other.name == parameter.name) {
            return Err(failed(name, "duplicate parameter"));
        }
        check(call.shared, parameter, value).map_err(|why| failed(name, &why))?;
        chosen.push((parameter, value));
    }
    set_tls(call, &chosen)?;
    for (parameter, value) in chosen {
        match parameter.change {
            Change::Number(_, _, set) => set(call.shared, parse_integer(value).unwrap_or_default()),
            Change::Size(set) => set(call.shared, parse_size(value).unwrap_or_default()),
            Change::Text(_, set) => set(call.shared, value),
            Change::No | Change::Fixed | Change::Tls(_) => continue,
        }
        call.shared.reconfigured.insert(parameter.name);
    }
    call.out.ok();
    Ok(())
}

/// Reads the files of TLS that are chosen, and those that stay. Connections to come have them; if
/// one is wrong, nothing changes.
fn set_tls(call: &mut Call<'_, '_>, chosen: &[(&Parameter, &[u8])]) -> Outcome {
    let mut changed = None;
    for (parameter, value) in chosen {
        let Change::Tls(set) = parameter.change else { continue };
        let tls = changed.get_or_insert_with(|| (parameter.name.as_bytes(), call.shared.options.tls.clone()));
        let Some(tls) = &mut tls.1 else {
            return Err(failed(tls.0, "the server does not speak TLS: start it with tls-port"));
        };
        set(tls, OsStr::from_bytes(value).into());
    }
    if let Some((name, Some(tls))) = changed {
        call.shared.tls = Some(configure(&tls).map_err(|why| failed(name, &why))?);
        call.shared.options.tls = Some(tls);
    }
    Ok(())
}

/// Why a parameter cannot have a value.
fn check(shared: &ServerState, parameter: &Parameter, value: &[u8]) -> Result<(), String> {
    const IMMUTABLE: &str = "can't set immutable config";
    match &parameter.change {
        Change::Fixed if (parameter.value)(shared).as_bytes() == value => Ok(()),
        Change::No | Change::Fixed => Err(IMMUTABLE.into()),
        Change::Text(check, _) => check(value).map_err(str::to_string),
        Change::Tls(_) => Ok(()), // in `set_tls`
        Change::Size(_) if parse_size(value).is_none() => Err("argument must be a memory value".into()),
        Change::Size(_) => Ok(()),
        Change::Number(least, most, _) => match parse_integer(value) {
            None => Err("argument couldn't be parsed into an integer".into()),
            Some(number) if !(*least..=*most).contains(&number) => {
                Err(format!("argument must be between {least} and {most} inclusive"))
            }
            Some(_) => Ok(()),
        },
    }
}

/// `CONFIG RESETSTAT`
pub(super) fn reset_stat(call: &mut Call<'_, '_>) -> Outcome {
    call.shared.metrics.reset();
    call.out.ok();
    Ok(())
}

/// `CONFIG REWRITE`: the parameters that were changed replace those of the file of settings, whose
/// other lines stay.
pub(super) fn rewrite(call: &mut Call<'_, '_>) -> Outcome {
    let Some(path) = &call.shared.options.settings else {
        return Err(Fail::text("ERR The server is running without a config file"));
    };
    let parameters = PARAMETERS
        .iter()
        .filter(|parameter| IN_FILE.contains(&parameter.name) && call.shared.reconfigured.contains(parameter.name));
    let lines: Vec<(&str, String)> =
        parameters.map(|parameter| (parameter.name, setting(parameter, (parameter.value)(call.shared)))).collect();
    let rewritten = std::fs::read_to_string(path).and_then(|text| replace(path, &merged(&text, &lines)));
    rewritten.map_err(|error| Fail::made(format!("ERR Rewriting config file: {error}")))?;
    call.out.ok();
    Ok(())
}

/// A value as a file of settings has it.
fn setting(parameter: &Parameter, value: String) -> String {
    match parameter.change {
        Change::Number(..) | Change::Size(_) => value,
        _ => format!("\"{value}\""), // letters alone
    }
}

/// A file of settings with other values. New lines come first, before any table.
fn merged(text: &str, settings: &[(&str, String)]) -> String {
    let mut out = String::new();
    let name_of = |line: &str| line.split_once('=').map(|(name, _)| name.trim().trim_matches('"').to_string());
    let is_there = |name: &str| text.lines().any(|line| name_of(line).as_deref() == Some(name));
    for (name, value) in settings.iter().filter(|(name, _)| !is_there(name)) {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{name} = {value}");
    }
    for line in text.lines() {
        let known = settings.iter().find(|(name, _)| name_of(line).as_deref() == Some(*name));
        let _ = match known {
            Some((name, value)) => writeln!(out, "{name} = {value}"),
            None => writeln!(out, "{line}"),
        };
    }
    out
}

fn check_durability(text: &[u8]) -> Result<(), &'static str> {
    ClientDurability::named(text).map(drop).ok_or("argument(s) must be one of the following: store, always")
}

fn check_policy(text: &[u8]) -> Result<(), &'static str> {
    const WRONG: &str = "argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, \
                         volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction";
    EvictionPolicy::named(text).map(drop).ok_or(WRONG)
}

fn check_file(name: &[u8]) -> Result<(), &'static str> {
    match Saves::is_name(name) {
        true => Ok(()),
        false => Err("dbfilename can't be a path, just a filename"),
    }
}

/// Replaces a file whole or not at all: where a link leads, with the rights that it has. Until then
/// the new one has a name that no other process can foresee, and is its owner's alone.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = path.canonicalize()?;
    let rights = path.metadata()?.permissions();
    everbyte_backup::publish(&path, b"", |file| file.write_all(text.as_bytes())).map_err(io::Error::other)?;
    std::fs::set_permissions(&path, rights)
}

/// `CONFIG HELP`
pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    super::describe::help_of(call, "config")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_settings_replace_their_lines_alone() {
        let text = "# mine\nmaxclients = 5\nstore = \"x\"\n";
        let settings = [("maxclients", "7".to_string()), ("notify-keyspace-events", "\"KEA\"".to_string())];
        let expect = "notify-keyspace-events = \"KEA\"\n# mine\nmaxclients = 7\nstore = \"x\"\n";
        assert_eq!(merged(text, &settings), expect);
        assert_eq!(merged(expect, &settings), expect);
    }

    #[test]
    fn a_file_is_replaced_where_a_link_leads_and_keeps_its_rights() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let [file, link, other] = ["real", "link", "other"].map(|name| folder.path().join(name));
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        // A link that another user planted under a name that could be foreseen leads nowhere.
        std::fs::write(&other, "theirs").unwrap();
        symlink(&other, folder.path().join("real.new")).unwrap();
        replace(&link, "new").unwrap();
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!((read(&file), read(&link), read(&other)), ("new".into(), "new".into(), "theirs".into()));
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert!(replace(&folder.path().join("none"), "new").is_err(), "a file that is gone stays gone");
    }

    #[test]
    fn every_name_of_the_file_is_a_parameter() {
        assert!(IN_FILE.iter().all(|name| PARAMETERS.iter().any(|parameter| parameter.name == *name)));
    }
}
