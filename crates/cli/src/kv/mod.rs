//! `everbyte kv ..`: the ordered key-value store inside a store, without a server.

mod exchange;
mod export;
mod import;
mod one;
mod scan;
mod tables;
mod versions;

use crate::args::{KvArgs, KvCommand, OpenArgs};
use crate::failure::Failure;
use crate::open;
use crate::output::Output;
use crate::text;
use everbyte_kv::{Kv, KvTable, Range, Snapshot, TableSnapshot};
use everbyte_store::Store;
use std::ops::Bound;

pub(crate) fn run(args: KvArgs, output: &Output) -> Result<(), Failure> {
    let place = TablePath {
        open: OpenArgs { backend: args.backend, durability: args.durability },
        store: args.store,
        table: args.table,
        within: args.within,
    };
    match args.command {
        KvCommand::Get { key } => one::get(&place, &key, output),
        KvCommand::Put { key, value } => one::put(&place, &key, value.as_deref(), output),
        KvCommand::Del { keys } => one::del(&place, &keys, output),
        KvCommand::Scan(args) => scan::run(&place, &args, output),
        KvCommand::Import(args) => import::run(&place, &args, output),
        KvCommand::Export(args) => export::run(&place, &args, output),
        KvCommand::Tables => tables::list(&place, output),
        KvCommand::DropTable { name } => tables::drop_table(&place, &name, output),
        KvCommand::Versions => versions::list(&place, output),
        KvCommand::Name { name } => versions::name(&place, &name, output),
        KvCommand::Forget { name } => versions::forget(&place, &name, output),
        KvCommand::Restore { name } => versions::restore(&place, &name, output),
        KvCommand::Changes { name } => versions::changes(&place, &name, output),
    }
}

/// Selects a store, and a key-value store inside it.
struct TablePath {
    store: std::path::PathBuf,
    table: String,
    /// A table with a name; the main one if absent.
    within: Option<String>,
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

impl TablePath {
    /// The table with a name, if one is asked for.
    fn named(&self, kv: &Kv) -> Result<Option<KvTable>, Failure> {
        Ok(self.within.as_deref().map(|name| kv.open_table(name)).transpose()?)
    }

    /// As [`TablePath::named`]; makes the table if it is absent.
    fn named_or_made(&self, kv: &Kv) -> Result<Option<KvTable>, Failure> {
        Ok(self.within.as_deref().map(|name| kv.open_or_create_table(name)).transpose()?)
    }

    /// The newest version of the table.
    fn snapshot(&self, kv: &Kv) -> Result<View, Failure> {
        Ok(match self.named(kv)? {
            Some(table) => View::Table(table.snapshot()?),
            None => View::Main(kv.snapshot()),
        })
    }
}

/// One table at one version.
enum View {
    Main(Snapshot),
    Table(TableSnapshot),
}

impl View {
    fn len(&self) -> Result<u64, Failure> {
        match self {
            View::Main(main) => Ok(main.len()),
            View::Table(table) => Ok(table.len()?),
        }
    }

    fn range(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Range<'static> {
        match self {
            View::Main(main) => main.range::<[u8]>(bounds),
            View::Table(table) => table.range::<[u8]>(bounds),
        }
    }

    fn prefix(&self, prefix: &[u8]) -> Range<'static> {
        match self {
            View::Main(main) => main.prefix(prefix),
            View::Table(table) => table.prefix(prefix),
        }
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
