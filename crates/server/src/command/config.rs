//! CONFIG: the options this server was started with, under Redis's names where there are such.

use super::{Call, Fail, Outcome};
use crate::glob::{LetterCase, matches};
use crate::keyspace::DATABASES;
use crate::password::Password;
use crate::server_state::ServerState;
use std::path::PathBuf;

/// A name and how to say its value.
type Parameter = (&'static str, fn(&ServerState) -> String);

/// Every parameter. Those of Redis that have one fixed answer here are given it, because tools ask
/// for them.
const PARAMETERS: &[Parameter] = &[
    ("appendfsync", |shared| shared.append_fsync().into()),
    ("appendonly", |_| "yes".into()),
    ("bind", |shared| shared.address.ip().to_string()),
    ("client-query-buffer-limit", |shared| shared.options.input_size_max.to_string()),
    ("databases", |_| DATABASES.to_string()),
    ("maxclients", |shared| shared.options.clients_max.to_string()),
    ("maxmemory", |_| "0".into()),
    ("maxmemory-policy", |_| "noeviction".into()),
    ("output-size-max", |shared| shared.options.output_size_max.to_string()),
    ("output-size-soft", |shared| shared.options.output_size_soft.to_string()),
    ("output-stall-seconds", |shared| shared.options.output_stall.as_secs().to_string()),
    ("port", |shared| shared.address.port().to_string()),
    ("proto-max-bulk-len", |shared| shared.options.bulk_size_max.to_string()),
    ("push-size-max", |shared| shared.options.push_size_max.to_string()),
    ("requirepass", |shared| {
        let bytes = shared.options.password.as_ref().map_or(&[][..], Password::shown);
        String::from_utf8_lossy(bytes).into_owned()
    }),
    ("save", |_| String::new()),
    ("timeout", |shared| shared.options.idle_max.as_secs().to_string()),
    ("aclfile", |shared| path(shared.options.acl_file.as_ref())),
    ("unixsocket", |shared| path(shared.options.unix_socket.as_ref())),
    ("unixsocketperm", |shared| format!("{:o}", shared.options.unix_mode)),
    ("tcp-keepalive", |shared| shared.options.keepalive.to_string()),
    ("tracking-table-max-keys", |shared| shared.options.tracking_keys_max.to_string()),
    ("client-output-buffer-limit", output_limits),
    ("tls-cert-file", |shared| path(shared.options.tls.as_ref().map(|tls| &tls.certificate))),
    ("tls-key-file", |shared| path(shared.options.tls.as_ref().map(|tls| &tls.key))),
    ("tls-ca-cert-file", |shared| path(shared.options.tls.as_ref().and_then(|tls| tls.roots.as_ref()))),
    ("iteration-commands-max", |shared| shared.options.iteration_commands_max.to_string()),
    ("iteration-size-max", |shared| shared.options.iteration_size_max.to_string()),
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

/// `CONFIG GET pattern [pattern ...]`: a name that is no pattern is answered as it was written.
pub(super) fn get(call: &mut Call<'_, '_>) -> Outcome {
    let mut wanted: Vec<(&[u8], &Parameter)> = Vec::new();
    for asked in call.args.from(2) {
        let exact = !asked.iter().any(|byte| b"*?[".contains(byte));
        for parameter in PARAMETERS {
            let name = parameter.0.as_bytes();
            let fits = if exact { asked.eq_ignore_ascii_case(name) } else { matches(asked, name, LetterCase::Folded) };
            let shown = if exact { asked } else { name };
            if fits && wanted.iter().all(|(known, _)| *known != shown) {
                wanted.push((shown, parameter));
            }
        }
    }
    call.out.map(wanted.len());
    for (name, (_, value)) in wanted {
        call.out.bulk(name);
        call.out.bulk(value(call.shared).as_bytes());
    }
    Ok(())
}

/// `CONFIG SET name value ...`
pub(super) fn set(call: &mut Call<'_, '_>) -> Outcome {
    let name = call.args.get(2);
    let known = PARAMETERS.iter().any(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
    Err(match known {
        true => Fail::made(
            [b"ERR CONFIG SET failed (possibly related to argument '", name, b"') - can't set immutable config"]
                .concat(),
        ),
        false => Fail::made([b"ERR Unknown option or number of arguments for CONFIG SET - '", name, b"'"].concat()),
    })
}

/// `CONFIG RESETSTAT`
pub(super) fn reset_stat(call: &mut Call<'_, '_>) -> Outcome {
    call.shared.metrics.reset();
    call.out.ok();
    Ok(())
}

/// `CONFIG REWRITE`
pub(super) fn rewrite(_: &mut Call<'_, '_>) -> Outcome {
    Err(Fail::text("ERR The server is running without a config file"))
}

/// `CONFIG HELP`
pub(super) fn help(call: &mut Call<'_, '_>) -> Outcome {
    super::describe::help_of(call, "config")
}
