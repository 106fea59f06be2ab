//! `everbyte kv ..`: the ordered key-value store inside a store, without a server.

mod exchange;
mod export;
mod import;
mod one;
mod scan;

use crate::args::{KvArgs, KvCommand, OpenArgs};
use crate::failure::Failure;
use crate::open;
use crate::output::Output;
use crate::text;
use everbyte_kv::Kv;
use everbyte_store::Store;

pub(crate) fn run(args: KvArgs, output: &Output) -> Result<(), Failure> {
    let place = TablePath {
        open: OpenArgs { backend: args.backend, durability: args.durability },
        store: args.store,
        table: args.table,
    };
    match args.command {
        KvCommand::Get { key } => one::get(&place, &key, output),
        KvCommand::Put { key, value } => one::put(&place, &key, value.as_deref(), output),
        KvCommand::Del { keys } => one::del(&place, &keys, output),
        KvCommand::Scan(args) => scan::run(&place, &args, output),
        KvCommand::Import(args) => import::run(&place, &args, output),
        KvCommand::Export(args) => export::run(&place, &args, output),
    }
}

/// Selects a store, and a key-value store inside it.
struct TablePath {
    store: std::path::PathBuf,
    table: String,
    open: OpenArgs,
}

impl TablePath {
    /// Opens both for reading: the table must exist.
    fn read(&self) -> Result<(Store, Kv), Failure> {
        let store = open::store(&self.store, &self.open)?;
        let kv = Kv::open(&store, &self.table)?;
        Ok((store, kv))
    }

    /// Opens both; creates the table if it is absent.
    fn write(&self) -> Result<(Store, Kv), Failure> {
        let store = open::store(&self.store, &self.open)?;
        let kv = Kv::open_or_create(&store, &self.table)?;
        Ok((store, kv))
    }
}

/// The bytes of an argument.
fn word(text: &str) -> Result<Vec<u8>, Failure> {
    text::unescape(text).map_err(Failure::Words)
}

/// Closes the store cleanly.
fn close(store: Store, kv: Kv) -> Result<(), Failure> {
    drop(kv);
    Ok(store.close()?)
}
