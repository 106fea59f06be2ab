//! The arguments of `everbyte top`.

use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::time::Duration;

/// `everbyte top`.
#[derive(Clone, ClapArgs)]
pub(crate) struct TopArgs {
    /// The server: HOST:PORT or redis://HOST:PORT, rediss://HOST:PORT for TLS, or the path of its
    /// Unix socket
    #[arg(default_value = "127.0.0.1:6380")]
    pub address: String,
    /// Prints one frame and ends, as where the output is no terminal
    #[arg(long)]
    pub once: bool,
    /// The time that a frame covers, such as 1s or 500ms
    #[arg(long, value_parser = interval, default_value = "1s", value_name = "TIME")]
    pub interval: Duration,
    /// The user [default: default]
    #[arg(long, env = "EVERBYTE_TOP_USER")]
    pub user: Option<String>,
    /// The password of the user. Other users of the machine can read the arguments of a process:
    /// better set the environment
    #[arg(long, env = "EVERBYTE_TOP_PASSWORD", hide_env_values = true, value_name = "PASSWORD")]
    pub password: Option<String>,
    /// The roots of the server's certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub tls_ca_cert_file: Option<PathBuf>,
    /// The certificate that the server is shown, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// The private key of this certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_key_file: Option<PathBuf>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = crate::text::parse_duration(text)?;
    let bounds = Duration::from_millis(100)..=Duration::from_secs(3600);
    if bounds.contains(&time) { Ok(time) } else { Err("from 100ms to 1h".into()) }
}
