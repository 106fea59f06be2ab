//! `everbyte kv ..`: the ordered key-value store inside a store, without a server.

mod beside;
mod compact;
mod dump;
mod exchange;
mod expiring;
mod export;
mod import;
mod one;
mod repair;
mod scan;
mod stat;
mod tables;
mod types;
mod update;
mod versions;

use crate::args::{KvArgs, KvCommand, OpenArgs};
use crate::failure::Failure;
use crate::open;
use crate::output::Output;
use crate::text;
use everbyte_kv::{ExpiringSnapshot, Kv, KvTable, Snapshot, TableSnapshot, TableTypes};
use everbyte_store::Store;
use std::ops::Bound;

pub(crate) fn run(args: KvArgs, output: &Output) -> Result<(), Failure> {
    let place = TablePath {
        open: OpenArgs { backend: args.backend, durability: args.durability },
        store: args.store,
        table: args.table,
        within: args.within,
        read_only: args.read_only,
    };
    if args.beside {
        return beside::run(&place, args.command, output);
    }
    match args.command {
        KvCommand::Get { key } => one::get(&place, &key, output),
        KvCommand::Put { key, value, ttl } => one::put(&place, &key, value.as_deref(), ttl, output),
        KvCommand::Expire => expiring::expire(&place, output),
        KvCommand::Del { keys } => one::del(&place, &keys, output),
        KvCommand::Cas { key, expected, new } => update::cas(&place, &key, expected.as_deref(), new.as_deref(), output),
        KvCommand::Incr { key, by } => update::incr(&place, &key, by, output),
        KvCommand::Scan(args) => scan::run(&place, &args, output),
        KvCommand::Import(args) => import::run(&place, &args, output),
        KvCommand::Export(args) => export::run(&place, &args, output),
        KvCommand::Dump(args) => dump::dump(&place, &args, output),
        KvCommand::Load(args) => dump::load(&place, &args, output),
        KvCommand::Repair(args) => repair::run(&place, &args, output),
        KvCommand::Compact => compact::compact(&place, output),
        KvCommand::Stat { entries } => stat::stat(&place, entries, output),
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
    /// The store is opened read-only, and writes are refused.
    read_only: bool,
}

impl TablePath {
    /// Opens both for reading: the table must exist.
    fn read(&self) -> Result<(Store, Kv), Failure> {
        let open = if self.read_only { open::to_read } else { open::store };
        let store = open(&self.store, &self.open)?;
        let kv = Kv::open(&store, &self.table)?;
        Ok((store, kv))
    }

    /// Opens both; creates the table if it is absent.
    fn write(&self) -> Result<(Store, Kv), Failure> {
        if self.read_only {
            return Err(Failure::Words("this command writes: leave out `--read-only`".into()));
        }
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

    /// The types of its keys and values, if it is a table that has them.
    fn types(&self, kv: &Kv) -> Result<Option<TableTypes>, Failure> {
        Ok(self.within.as_deref().map(|name| kv.table_types(name)).transpose()?.flatten())
    }

    /// The newest version of the table.
    fn snapshot(&self, kv: &Kv) -> Result<View, Failure> {
        if let Some(table) = self.expiring(kv)? {
            return Ok(View::Expiring(table.snapshot()?));
        }
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
    /// Entries that have not expired now, without their deadlines.
    Expiring(ExpiringSnapshot),
}

/// Entries from both ends.
type Entries = Box<dyn DoubleEndedIterator<Item = everbyte_kv::Result<(Vec<u8>, Vec<u8>)>>>;

impl View {
    fn len(&self) -> Result<u64, Failure> {
        match self {
            View::Main(main) => Ok(main.len()),
            View::Table(table) => Ok(table.len()?),
            View::Expiring(table) => Ok(table.len()?),
        }
    }

    fn range(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Entries {
        match self {
            View::Main(main) => Box::new(main.range::<[u8]>(bounds)),
            View::Table(table) => Box::new(table.range::<[u8]>(bounds)),
            View::Expiring(table) => Box::new(table.range::<[u8]>(bounds)),
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        Ok(match self {
            View::Main(main) => main.get(key)?,
            View::Table(table) => table.get(key)?,
            View::Expiring(table) => table.get(key)?,
        })
    }

    fn prefix(&self, prefix: &[u8]) -> Entries {
        match self {
            View::Main(main) => Box::new(main.prefix(prefix)),
            View::Table(table) => Box::new(table.prefix(prefix)),
            View::Expiring(table) => Box::new(table.prefix(prefix)),
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
