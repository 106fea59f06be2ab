//! Stores that a broker passes. If `EVERBYTE_BROKER` names the broker's socket, the path of the
//! store is the name of a domain, which is created if it is absent.
//!
//! The process requests a domain for writing, and if its rights do not allow that, for reading: the
//! descriptor from the broker permits the granted access only.

use crate::fault::{Fault, Result};
use everbyte_broker::raw::Raw as _;
use everbyte_broker::{Client, Error, Want};
use everbyte_media::Options;
use everbyte_store::Store;
use std::path::{Path, PathBuf};

/// The rights of a domain that is created here, as of an object.
const MODE: u16 = 0o660;
/// The maximum size of a domain that is created here; part of the user's quota.
const MAX: u64 = 16 << 30;

/// The socket of the broker that passes stores to this process; `None`: the process opens files.
pub(crate) fn socket() -> Option<PathBuf> {
    std::env::var_os("EVERBYTE_BROKER").filter(|socket| !socket.is_empty()).map(PathBuf::from)
}

/// The store of a domain.
pub(crate) fn open(socket: &Path, name: &Path, media: &Options) -> Result<Store> {
    let name = name.to_str().ok_or_else(|| Fault::invalid("the name of a domain is UTF-8"))?;
    let client = Client::on_demand(socket, Path::new("everbyte"));
    let attached = match client.attach(name, Want::Write) {
        Err(Error::Refused { errno: libc::EACCES, .. }) => client.attach(name, Want::Read),
        Err(Error::Refused { errno: libc::ENOENT, .. }) => match client.create(name, MODE, MAX) {
            Ok(()) | Err(Error::Refused { errno: libc::EEXIST, .. }) => client.attach(name, Want::Write),
            Err(error) => Err(error),
        },
        other => other,
    };
    Ok(attached?.open(media)?)
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let message = error.to_string();
        let errno = match error {
            Error::Store(error) => return Fault::from(error),
            Error::Media(error) => return Fault::from(error),
            Error::Refused { errno, .. } => errno,
            Error::Io { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            Error::NoBroker { .. } => libc::ECONNREFUSED,
            _ => libc::EPROTO,
        };
        Fault::new(errno, message)
    }
}
