//! Access to a server: users, sockets, TLS, limits of clients. The same words are flags, and keys
//! of the section `[access]` of the settings.

use clap::Args as ClapArgs;
use everbyte_server::{ClientCertificates, Options, PrimaryTls, SoftLimit, TlsOptions};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// See the head of this file. An absent option keeps the server's default.
#[derive(ClapArgs, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct AccessArgs {
    /// The file of users, which ACL LOAD reads and ACL SAVE writes
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aclfile: Option<PathBuf>,
    /// A Unix socket to listen on, beside TCP
    #[arg(long, value_name = "PATH")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unixsocket: Option<PathBuf>,
    /// Permissions of the Unix socket, in octal digits [default: 700]
    #[arg(long, value_name = "MODE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unixsocketperm: Option<String>,
    /// Seconds after which a silent client is disconnected; 0: never [default: 0]
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Seconds after which an idle TCP connection is probed; 0: never [default: 300]
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_keepalive: Option<u32>,
    /// Event loops; those behind the first one answer plain reads [default: 1]
    #[arg(long, alias = "loops", value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=128))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_threads: Option<u16>,
    /// Keys that clients keep copies of (CLIENT TRACKING), at most [default: 1000000]
    #[arg(long, value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracking_table_max_keys: Option<usize>,
    /// Bytes that may wait for clients: `CLASS HARD SOFT SECONDS`, once or more, of the classes
    /// normal and pubsub, as in `pubsub 32mb 8mb 60`; 0: no limit
    #[arg(long, value_name = "LIMITS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_output_buffer_limit: Option<String>,
    /// A port, or an address and a port, to speak TLS on, beside TCP
    #[arg(long, value_name = "PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_port: Option<String>,
    /// The server's certificate, and those between it and its root, in PEM
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert_file: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key_file: Option<PathBuf>,
    /// The roots of clients' certificates, in PEM
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ca_cert_file: Option<PathBuf>,
    /// Whether clients of TLS have to show a certificate: yes, no, or optional [default: yes]
    #[arg(long, value_name = "WHETHER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_auth_clients: Option<String>,
    /// Whether a replica speaks TLS to its primary, whose certificate is checked by
    /// tls-ca-cert-file: yes or no [default: no]
    #[arg(long, value_name = "WHETHER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_replication: Option<String>,
    /// The certificate that the primary is shown, in PEM [default: that of tls-cert-file]
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_client_cert_file: Option<PathBuf>,
    /// The private key of this certificate, in PEM
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_client_key_file: Option<PathBuf>,
}

impl AccessArgs {
    /// Whether none is given.
    pub(crate) fn is_default(&self) -> bool {
        *self == AccessArgs::default()
    }

    /// These options, and others where they are absent.
    pub(crate) fn or(self, base: AccessArgs) -> AccessArgs {
        AccessArgs {
            aclfile: self.aclfile.or(base.aclfile),
            unixsocket: self.unixsocket.or(base.unixsocket),
            unixsocketperm: self.unixsocketperm.or(base.unixsocketperm),
            timeout: self.timeout.or(base.timeout),
            tcp_keepalive: self.tcp_keepalive.or(base.tcp_keepalive),
            io_threads: self.io_threads.or(base.io_threads),
            tracking_table_max_keys: self.tracking_table_max_keys.or(base.tracking_table_max_keys),
            client_output_buffer_limit: self.client_output_buffer_limit.or(base.client_output_buffer_limit),
            tls_port: self.tls_port.or(base.tls_port),
            tls_cert_file: self.tls_cert_file.or(base.tls_cert_file),
            tls_key_file: self.tls_key_file.or(base.tls_key_file),
            tls_ca_cert_file: self.tls_ca_cert_file.or(base.tls_ca_cert_file),
            tls_auth_clients: self.tls_auth_clients.or(base.tls_auth_clients),
            tls_replication: self.tls_replication.or(base.tls_replication),
            tls_client_cert_file: self.tls_client_cert_file.or(base.tls_client_cert_file),
            tls_client_key_file: self.tls_client_key_file.or(base.tls_client_key_file),
        }
    }

    /// Writes them into the server's options; an error names the option.
    pub(crate) fn apply(&self, options: &mut Options) -> Result<(), String> {
        options.acl_file.clone_from(&self.aclfile);
        options.unix_socket.clone_from(&self.unixsocket);
        if let Some(text) = &self.unixsocketperm {
            let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
            options.unix_mode = mode.ok_or("unixsocketperm: three octal digits, as in 770")?;
        }
        options.idle_max = self.timeout.map_or(options.idle_max, Duration::from_secs);
        options.keepalive = self.tcp_keepalive.unwrap_or(options.keepalive);
        if let Some(count) = self.io_threads {
            let count = Some(usize::from(count)).filter(|count| (1..=128).contains(count));
            options.loops = count.ok_or("io-threads: a number from 1 to 128")?;
        }
        options.tracking_keys_max = self.tracking_table_max_keys.unwrap_or(options.tracking_keys_max);
        if let Some(text) = &self.client_output_buffer_limit {
            limits(text, options).ok_or("client-output-buffer-limit: as in `normal 0 0 0 pubsub 32mb 8mb 60`")?;
        }
        options.tls = self.tls(&options.address)?;
        options.primary_tls = self.primary_tls()?;
        Ok(())
    }

    fn primary_tls(&self) -> Result<Option<PrimaryTls>, String> {
        match self.tls_replication.as_deref() {
            None | Some("no") => return Ok(None),
            Some("yes") => {}
            Some(_) => return Err("tls-replication: yes or no".into()),
        }
        let roots = self.tls_ca_cert_file.clone();
        let roots = roots.ok_or("tls-replication: the primary is checked by tls-ca-cert-file")?;
        let (certificate, key) = match (&self.tls_client_cert_file, &self.tls_client_key_file) {
            (None, None) => (&self.tls_cert_file, &self.tls_key_file),
            given => given,
        };
        let shown = match (certificate.clone(), key.clone()) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => return Err("tls-replication: a certificate needs its key, and a key its certificate".into()),
        };
        Ok(Some(PrimaryTls { roots, shown }))
    }

    fn tls(&self, address: &str) -> Result<Option<TlsOptions>, String> {
        let (Some(port), certificate, key) = (&self.tls_port, &self.tls_cert_file, &self.tls_key_file) else {
            return Ok(None);
        };
        let (Some(certificate), Some(key)) = (certificate, key) else {
            return Err("tls-port: TLS needs tls-cert-file and tls-key-file".into());
        };
        let address = match address.rsplit_once(':') {
            Some((host, _)) if !port.contains(':') => format!("{host}:{port}"),
            _ => port.clone(),
        };
        let clients = match self.tls_auth_clients.as_deref() {
            None | Some("yes") => ClientCertificates::Required,
            Some("optional") => ClientCertificates::Optional,
            Some("no") => ClientCertificates::None,
            Some(_) => return Err("tls-auth-clients: yes, no, or optional".into()),
        };
        let (certificate, key) = (certificate.clone(), key.clone());
        Ok(Some(TlsOptions { address, certificate, key, roots: self.tls_ca_cert_file.clone(), clients }))
    }
}

fn limits(text: &str, options: &mut Options) -> Option<()> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return None;
    }
    for class in words.chunks(4) {
        let bytes = |text: &str| usize::try_from(everbyte_server::parse_size(text.as_bytes())?).ok();
        let (hard, size) = (bytes(class[1])?, bytes(class[2])?);
        let soft = SoftLimit { size, time: Duration::from_secs(class[3].parse().ok()?) };
        match class[0] {
            "normal" => (options.reply_size_max, options.reply_soft) = (hard, soft),
            "pubsub" => {
                options.push_size_max = if hard == 0 { usize::MAX } else { hard };
                options.push_soft = soft;
            }
            // There are no replicas.
            "replica" | "slave" => {}
            _ => return None,
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_understood_or_named() {
        let mut options = Options::default();
        let text = "normal 64mb 1k 5 replica 1 1 1 pubsub 0 0 0".to_string();
        let args = AccessArgs {
            client_output_buffer_limit: Some(text),
            unixsocketperm: Some("770".into()),
            ..AccessArgs::default()
        };
        args.apply(&mut options).unwrap();
        assert_eq!((options.reply_size_max, options.reply_soft.size, options.unix_mode), (64 << 20, 1000, 0o770));
        assert_eq!((options.reply_soft.time, options.push_size_max), (Duration::from_secs(5), usize::MAX));
        for (args, name) in [
            (AccessArgs { unixsocketperm: Some("8".into()), ..AccessArgs::default() }, "unixsocketperm"),
            (
                AccessArgs { client_output_buffer_limit: Some("normal 1 1".into()), ..AccessArgs::default() },
                "client-output",
            ),
            (AccessArgs { tls_port: Some("1".into()), ..AccessArgs::default() }, "tls-port"),
            (AccessArgs { tls_replication: Some("on".into()), ..AccessArgs::default() }, "tls-replication"),
            (AccessArgs { tls_replication: Some("yes".into()), ..AccessArgs::default() }, "tls-ca-cert-file"),
        ] {
            assert!(args.apply(&mut Options::default()).unwrap_err().contains(name));
        }
        let tls = |port: &str, listen: &str| {
            let args = AccessArgs {
                tls_port: Some(port.into()),
                tls_cert_file: Some("c".into()),
                tls_key_file: Some("k".into()),
                ..AccessArgs::default()
            };
            args.tls(listen).unwrap().unwrap().address
        };
        assert_eq!(tls("6390", "[::1]:6380"), "[::1]:6390");
        assert_eq!(tls("0.0.0.0:1", "127.0.0.1:6380"), "0.0.0.0:1");
    }

    #[test]
    fn settings_have_a_section() {
        let args: AccessArgs = toml::from_str("tls-port = '6390'\ntimeout = 3").unwrap();
        assert_eq!((args.tls_port.as_deref(), args.timeout), (Some("6390"), Some(3)));
        assert!(toml::from_str::<AccessArgs>("nosuch = 1").is_err());
        let other = AccessArgs { timeout: Some(5), ..AccessArgs::default() }.or(args);
        assert_eq!((other.tls_port.as_deref(), other.timeout), (Some("6390"), Some(5)));
    }
}
