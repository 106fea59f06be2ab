//! Replication of a server. The same words are flags, and keys of the section `[replication]` of
//! the settings.

use crate::config::Secret;
use clap::Args as ClapArgs;
use everbyte_server::Options;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// See the head of this file. An absent option keeps the server's default.
#[derive(ClapArgs, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ReplicationArgs {
    /// The primary of which this server is a replica. Without it a server that was one goes on as
    /// one
    #[arg(long, value_name = "HOST:PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicaof: Option<String>,
    /// The user whose password the primary is given [default: default]
    #[arg(long, value_name = "USER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masteruser: Option<String>,
    /// The password that the primary is given. Other users of the machine can read the arguments of
    /// a process: better set the environment or the file
    #[arg(long, env = "EVERBYTE_MASTERAUTH", hide_env_values = true, value_name = "PASSWORD")]
    #[serde(skip_serializing)]
    pub masterauth: Option<Secret>,
    /// Writes are refused while fewer replicas than these are connected [default: 0]
    #[arg(long, value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas_to_write: Option<usize>,
    /// Seconds after which a silent replica does not count among these [default: 10]
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas_max_lag: Option<u64>,
    /// Seconds after which a silent primary is connected to again [default: 60]
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repl_timeout: Option<u64>,
    /// Seconds for which a version is kept for a replica that is away [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repl_backlog_ttl: Option<u64>,
}

impl ReplicationArgs {
    /// Whether none is given.
    pub(crate) fn is_default(&self) -> bool {
        *self == ReplicationArgs::default()
    }

    /// These options, and others where they are absent.
    pub(crate) fn or(self, base: ReplicationArgs) -> ReplicationArgs {
        ReplicationArgs {
            replicaof: self.replicaof.or(base.replicaof),
            masteruser: self.masteruser.or(base.masteruser),
            masterauth: self.masterauth.or(base.masterauth),
            min_replicas_to_write: self.min_replicas_to_write.or(base.min_replicas_to_write),
            min_replicas_max_lag: self.min_replicas_max_lag.or(base.min_replicas_max_lag),
            repl_timeout: self.repl_timeout.or(base.repl_timeout),
            repl_backlog_ttl: self.repl_backlog_ttl.or(base.repl_backlog_ttl),
        }
    }

    /// Writes them into the server's options; an error names the option.
    pub(crate) fn apply(&self, options: &mut Options) -> Result<(), String> {
        if let Some(text) = &self.replicaof {
            // As in redis.conf, a space may stand between the two.
            let parts = text.trim().rsplit_once([':', ' ']);
            let parts = parts.and_then(|(host, port)| Some((host.trim(), port.trim().parse::<u16>().ok()?)));
            let (host, port) = parts.filter(|(host, _)| !host.is_empty()).ok_or("replicaof: HOST:PORT")?;
            options.replica_of = Some((host.trim_start_matches('[').trim_end_matches(']').into(), port));
        }
        options.primary_user.clone_from(&self.masteruser);
        options.primary_password = self.masterauth.clone().map(|secret| secret.0);
        let seconds = |given: Option<u64>, default| given.map_or(default, Duration::from_secs);
        options.replicas_min = self.min_replicas_to_write.unwrap_or(options.replicas_min);
        options.replica_lag_max = seconds(self.min_replicas_max_lag, options.replica_lag_max);
        options.replication_timeout =
            seconds(self.repl_timeout, options.replication_timeout).max(Duration::from_secs(1));
        options.replica_keep = seconds(self.repl_backlog_ttl, options.replica_keep);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_is_named_by_host_and_port() {
        let of = |text: &str| {
            let mut options = Options::default();
            let args = ReplicationArgs { replicaof: Some(text.into()), ..ReplicationArgs::default() };
            args.apply(&mut options).map(|()| options.replica_of.unwrap())
        };
        assert_eq!(of("db.example:6380"), Ok(("db.example".into(), 6380)));
        assert_eq!(of("10.0.0.1 6380"), Ok(("10.0.0.1".into(), 6380)));
        assert_eq!(of("[::1]:6380"), Ok(("::1".into(), 6380)));
        for odd in ["", "host", ":6380", "host:", "host:70000"] {
            assert!(of(odd).unwrap_err().contains("replicaof"), "{odd}");
        }
    }

    #[test]
    fn settings_have_a_section_and_hide_the_password() {
        let args: ReplicationArgs = toml::from_str("replicaof = 'h:1'\nmasterauth = 'sesame'").unwrap();
        assert!(!toml::to_string(&args).unwrap().contains("sesame"));
        let other = ReplicationArgs { repl_timeout: Some(5), ..ReplicationArgs::default() }.or(args);
        assert_eq!((other.replicaof.as_deref(), other.repl_timeout), (Some("h:1"), Some(5)));
    }
}
