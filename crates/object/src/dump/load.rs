//! [`load`]: a pool made of a dump.

use super::maps::MapParts;
use super::value::ValueSeed;
use super::{Entries, VERSION};
use crate::description::described::Described;
use crate::layout::{FORMAT, SCHEMA_MAX, fingerprint};
use crate::transaction::open;
use crate::transaction::open_pool::OpenPool;
use crate::types::hash_map;
use crate::verify::deep::types::{Id, Types};
use crate::{Error, PoolOptions, Result};
use everbyte_media::{Format, Length};
use everbyte_store::raw::AsStore;
use everbyte_store::{Engine, ObjectOptions};
use everbyte_tx::Tx;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io::BufRead;

/// The largest value, without what its pointers lead to, that is built in memory.
const MOST: u64 = 64 << 20;
/// Lines between two calls for progress.
const STRIDE: u64 = 1024;

/// The loaded values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Lines.
    pub lines: u64,
    /// Blocks that were made for values.
    pub blocks: u64,
}

/// Makes the pool `name` of lines that [`UntypedPool::dump`](crate::UntypedPool::dump) has written:
/// a program opens it as it opens the pool that was dumped. One transaction, settled on return; a
/// crash leaves the pool whole or absent. Each value is built in memory, together with the elements
/// of the vectors and maps that it lies in. Ordered maps and heaps keep the order of the dump;
/// maps are checked for it where keys are numbers or text. `progress` is called now and then with
/// the number of lines read.
///
/// # Errors
/// [`Error::Dump`] with the line, if it is no dump or contradicts itself; [`Error::NewerFormat`] if
/// a newer Everbyte has written it; [`Error::Input`] if it cannot be read; otherwise as
/// [`Pool::create`](crate::Pool::create). Nothing is stored then.
pub fn load(
    store: &impl AsStore,
    name: &str,
    options: &PoolOptions,
    input: &mut dyn BufRead,
    progress: &dyn Fn(u64),
) -> Result<Loaded> {
    let mut lines = Lines { input, object: name, number: 0, line: Vec::new() };
    let head = lines.next()?.map(str::to_owned).ok_or_else(|| lines.bad("it is empty"))?;
    let head = Head::of(&head, &lines)?;
    let described = Described::parse(&head.description).ok_or_else(|| lines.bad("the description cannot be read"))?;
    let (types, root) = Types::new(&described);
    let span = options.span.map(Length::get);
    let object_options = ObjectOptions { engine: Engine::Undo, fingerprint: fingerprint(&head.description), span };
    let mut blocks = 0;
    store.as_store().create_object::<Error>(name, object_options, |object| {
        open::format(object, options, head.format)?;
        let inner = open::attach(object.clone(), 1)?;
        let started = inner.undo.start();
        let loader = Loader::new(&inner, started.tx(), &types);
        let (at, len) = loader.read(&mut lines, root, progress)?;
        open::describe_in(&inner, &started.tx(), &head.description, at, Length::new(len))?;
        blocks = loader.count.into_inner();
        let _ordered = started.commit(|| ())?; // the barrier of the name settles it
        Ok(())
    })?;
    Ok(Loaded { lines: lines.number, blocks })
}

/// The lines of a dump.
struct Lines<'i> {
    input: &'i mut dyn BufRead,
    object: &'i str,
    number: u64,
    line: Vec<u8>,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Option<&str>> {
        self.line.clear();
        let object = || self.object.to_string();
        let read = self.input.read_until(b'\n', &mut self.line);
        if read.map_err(|source| Error::Input { object: object(), source })? == 0 {
            return Ok(None);
        }
        self.number += 1;
        match std::str::from_utf8(&self.line) {
            Ok(line) => Ok(Some(line)),
            Err(_) => Err(Error::Dump { object: object(), line: self.number, detail: "it is not UTF-8".into() }),
        }
    }

    fn bad(&self, detail: impl fmt::Display) -> Error {
        Error::Dump { object: self.object.into(), line: self.number, detail: detail.to_string() }
    }
}

/// The first line.
struct Head {
    description: String,
    /// The format of the description.
    format: u32,
}

impl Head {
    fn of(line: &str, lines: &Lines<'_>) -> Result<Head> {
        let value: serde_json::Value =
            serde_json::from_str(line).map_err(|_| lines.bad("it is no dump of a pool: its first line is not JSON"))?;
        if value["everbyte"] != "object dump" {
            return Err(lines.bad("it is no dump of a pool"));
        }
        let number = |key: &str| {
            let number = value[key].as_u64().and_then(|number| u32::try_from(number).ok());
            number.ok_or_else(|| lines.bad(format_args!("`{key}` is no number")))
        };
        let newer =
            |found, known| Error::NewerFormat { object: lines.object.into(), format: Format::new(found, known) };
        let (version, format) = (number("version")?, number("format")?);
        if version > VERSION {
            return Err(newer(version, VERSION));
        }
        if format > FORMAT {
            return Err(newer(format, FORMAT));
        }
        if version == 0 || format == 0 {
            return Err(lines.bad("there is no version 0"));
        }
        let text = value["description"]
            .as_array()
            .and_then(|all| all.iter().map(|line| line.as_str()).collect::<Option<Vec<_>>>());
        let text = text.ok_or_else(|| lines.bad("`description` is no list of lines"))?;
        let description: String = text.iter().flat_map(|line| [*line, "\n"]).collect();
        if Length::new(description.len() as u64) > SCHEMA_MAX {
            return Err(lines.bad("the description is too long"));
        }
        Ok(Head { description, format })
    }
}

/// A value that counted pointers lead to.
struct SharedValue {
    offset: u64,
    of: Id,
    strong: u64,
    weak: u64,
    state: SharedState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SharedState {
    /// Its line is to come.
    Named,
    Read,
    Dropped,
}

/// A pool that is being made.
pub(super) struct Loader<'l> {
    pub types: &'l Types<'l>,
    inner: &'l OpenPool,
    tx: Tx<'l>,
    /// What is owned by a place that is to come, by number (DUMP-1).
    owned: RefCell<HashMap<u64, (Id, Vec<u8>)>>,
    shared: RefCell<HashMap<u64, SharedValue>>,
    /// Blocks made.
    count: RefCell<u64>,
    /// Why the transaction cannot go on.
    failure: RefCell<Option<everbyte_tx::Error>>,
}

impl<'l> Loader<'l> {
    fn new(inner: &'l OpenPool, tx: Tx<'l>, types: &'l Types<'l>) -> Loader<'l> {
        let (owned, shared, count, failure) = Default::default();
        Loader { types, inner, tx, owned, shared, count, failure }
    }

    /// Reads all lines behind the first; answers the offset of the root and its size.
    fn read(&self, lines: &mut Lines<'_>, root: Id, progress: &dyn Fn(u64)) -> Result<(u64, u64)> {
        let size = self.types.get(root).size.filter(|size| *size <= MOST);
        let mut bytes = vec![0; size.ok_or_else(|| lines.bad("the root's type is opaque or too large"))? as usize];
        let mut is_whole = false;
        while let Some(line) = lines.next()? {
            let mut deserializer = serde_json::Deserializer::from_str(line);
            let seed = LineSeed { loader: self, root: if is_whole { None } else { Some((root, &mut bytes)) } };
            let read = seed.deserialize(&mut deserializer).and_then(|is_root| deserializer.end().map(|()| is_root));
            match (read, self.failure.take()) {
                (_, Some(error)) => return Err(error.into()),
                (Ok(is_root), None) => is_whole |= is_root,
                (Err(error), None) => return Err(lines.bad(error)),
            }
            if lines.number.is_multiple_of(STRIDE) {
                progress(lines.number);
            }
        }
        if !is_whole {
            return Err(lines.bad("the root is missing: the dump is not whole"));
        }
        if let Some(number) = self.owned.borrow().keys().min() {
            return Err(lines.bad(format_args!("nothing owns block {number}")));
        }
        self.settle_counts(lines)?;
        let stored = self.store_block::<serde::de::value::Error>(&bytes);
        match stored {
            Ok((offset, _)) => Ok((offset, bytes.len() as u64)),
            Err(_) => Err(self.failure.take().map_or_else(|| lines.bad("the root cannot be stored"), Error::from)),
        }
    }

    /// Stores the counts of shared values: those of the pointers that were read (DUMP-1).
    fn settle_counts(&self, lines: &Lines<'_>) -> Result<()> {
        for (number, shared) in &*self.shared.borrow() {
            let why = match (shared.state, shared.strong) {
                (SharedState::Named, _) => "is named and missing",
                (SharedState::Dropped, 1..) => "is dropped, and strong pointers lead to it",
                (SharedState::Read, 0) => "is kept by no strong pointer",
                _ => "",
            };
            if !why.is_empty() {
                return Err(lines.bad(format_args!("block {number} {why}")));
            }
            let at = self.inner.object.prime().get() + shared.offset;
            self.tx.store(at, shared.strong)?;
            self.tx.store(at + 8, shared.weak)?;
        }
        Ok(())
    }

    /// The error of a type that is not described.
    pub(super) fn opaque<E: serde::de::Error>(&self, of: Id) -> E {
        E::custom(format_args!("type `{}` is opaque or too large", self.types.get(of).name))
    }

    /// The bytes of a value that is to be read.
    pub(super) fn zeros<E: serde::de::Error>(&self, of: Id) -> Result<Vec<u8>, E> {
        let mut bytes = Vec::new();
        self.add(of, &mut bytes)?;
        Ok(bytes)
    }

    /// Adds the bytes of a value that is to be read, zeros; answers where they begin.
    pub(super) fn add<E: serde::de::Error>(&self, of: Id, bytes: &mut Vec<u8>) -> Result<usize, E> {
        let size = self.types.get(of).size.filter(|size| *size <= MOST).ok_or_else(|| self.opaque::<E>(of))?;
        let from = bytes.len();
        if bytes.try_reserve(size as usize).is_err() {
            return Err(E::custom("a value larger than the memory"));
        }
        bytes.resize(from + size as usize, 0);
        Ok(from)
    }

    fn made<T, E: serde::de::Error>(&self, made: everbyte_tx::Result<T>) -> Result<T, E> {
        made.map_err(|error| {
            let told = E::custom(&error);
            *self.failure.borrow_mut() = Some(error);
            told
        })
    }

    fn allocate<E: serde::de::Error>(&self, len: u64) -> Result<(u64, u64), E> {
        let block = self.made(self.tx.allocate(len.max(1)))?;
        *self.count.borrow_mut() += 1;
        Ok(((block.at - self.inner.object.prime()).get(), block.size.get()))
    }

    /// Stores bytes in a new block; answers its offset and size.
    pub(super) fn store_block<E: serde::de::Error>(&self, bytes: &[u8]) -> Result<(u64, u64), E> {
        let (offset, size) = self.allocate(bytes.len() as u64)?;
        self.made(self.tx.write(self.inner.object.prime().get() + offset, bytes))?;
        Ok((offset, size))
    }

    /// [`Loader::store_block`] that makes none for no bytes.
    pub(super) fn store<E: serde::de::Error>(&self, bytes: &[u8]) -> Result<(u64, u64), E> {
        if bytes.is_empty() { Ok((0, 0)) } else { self.store_block(bytes) }
    }

    /// The parts of a map with these entries.
    pub(super) fn map_of<E: serde::de::Error>(&'l self, entry: Id) -> Result<MapParts<'l>, E> {
        let entries = Entries::of(self.types, entry).filter(|entries| entries.size > 0);
        Ok(MapParts::new(self, entry, entries.ok_or_else(|| self.opaque::<E>(entry))?))
    }

    /// A key for the hash of a new map.
    pub(super) fn hash_seed(&self) -> [u64; 2] {
        hash_map::seed_of(self.inner, *self.count.borrow())
    }

    /// A pointer to the shared value of this number: its offset.
    pub(super) fn count<E: serde::de::Error>(&self, number: u64, of: Id, is_strong: bool) -> Result<u64, E> {
        let shared = &mut *self.shared.borrow_mut();
        let found = self.shared_of(shared, number, of)?;
        *(if is_strong { &mut found.strong } else { &mut found.weak }) += 1;
        Ok(found.offset)
    }

    fn shared_of<'s, E: serde::de::Error>(
        &self,
        shared: &'s mut HashMap<u64, SharedValue>,
        number: u64,
        of: Id,
    ) -> Result<&'s mut SharedValue, E> {
        let found = match shared.entry(number) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(place) => {
                let size = self.types.get(of).size.filter(|size| *size <= MOST).ok_or_else(|| self.opaque::<E>(of))?;
                let (offset, _) = self.allocate(size + 16)?;
                place.insert(SharedValue { offset, of, strong: 0, weak: 0, state: SharedState::Named })
            }
        };
        if found.of != of {
            let (is, wanted) = (self.types.get(found.of).name, self.types.get(of).name);
            return Err(E::custom(format_args!("block {number} is of type `{is}`, where a `{wanted}` belongs")));
        }
        Ok(found)
    }

    /// The value that was read under this number, to be owned.
    pub(super) fn take<E: serde::de::Error>(&self, number: u64, of: Id) -> Result<Vec<u8>, E> {
        let Some((is, bytes)) = self.owned.borrow_mut().remove(&number) else {
            return Err(E::custom(format_args!("block {number} was not there before, or is owned already")));
        };
        if is != of {
            let (is, wanted) = (self.types.get(is).name, self.types.get(of).name);
            return Err(E::custom(format_args!("block {number} is of type `{is}`, where a `{wanted}` belongs")));
        }
        Ok(bytes)
    }
}

/// Reads a line; answers whether it was the root's.
struct LineSeed<'l, 'r> {
    loader: &'l Loader<'l>,
    root: Option<(Id, &'r mut Vec<u8>)>,
}

impl<'de> DeserializeSeed<'de> for LineSeed<'_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_map(self)
    }
}

/// The piece that a line is about.
#[derive(Clone, Copy)]
enum LineOf {
    Owned(Id),
    Shared(Id),
}

impl<'de> Visitor<'de> for LineSeed<'_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line of a dump")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<bool, A::Error> {
        let (mut number, mut of, mut is_done) = (None, None, false);
        let mut root = self.root.take();
        while let Some(key) = map.next_key::<String>()? {
            match (&*key, number, of) {
                _ if is_done => return Err(A::Error::custom(format_args!("`{key}` behind the value"))),
                ("root", None, None) => {
                    let (of, to) = root.take().ok_or_else(|| A::Error::custom("a second root"))?;
                    map.next_value_seed(ValueSeed::new(self.loader, of, to))?;
                    return match map.next_key::<String>()? {
                        Some(key) => Err(A::Error::custom(format_args!("`{key}` behind the root"))),
                        None => Ok(true),
                    };
                }
                ("block", None, None) => number = Some(map.next_value::<u64>()?),
                ("owned" | "shared", Some(_), None) => {
                    let name: String = map.next_value()?;
                    let id = self.loader.types.find(&name);
                    let id = id.ok_or_else(|| A::Error::custom(format_args!("type `{name}` is not described")))?;
                    of = Some(if key == "owned" { LineOf::Owned(id) } else { LineOf::Shared(id) });
                }
                ("value", Some(number), Some(of)) => {
                    is_done = true;
                    self.value(number, of, &mut map)?;
                }
                ("dropped", Some(number), Some(LineOf::Shared(of))) => {
                    is_done = true;
                    if !map.next_value::<bool>()? {
                        return Err(A::Error::custom("`dropped` is true where it is there"));
                    }
                    self.define(number, of, SharedState::Dropped)?;
                }
                _ => return Err(A::Error::custom(format_args!("`{key}` does not belong here"))),
            }
        }
        if is_done { Ok(false) } else { Err(A::Error::custom("neither a root nor a block with a value")) }
    }
}

impl LineSeed<'_, '_> {
    /// The line of a shared value: its offset.
    fn define<E: serde::de::Error>(&self, number: u64, of: Id, state: SharedState) -> Result<u64, E> {
        let shared = &mut *self.loader.shared.borrow_mut();
        let found = self.loader.shared_of(shared, number, of)?;
        if found.state != SharedState::Named {
            return Err(E::custom(format_args!("block {number} is there twice")));
        }
        found.state = state;
        Ok(found.offset)
    }

    fn value<'de, A: MapAccess<'de>>(&self, number: u64, of: LineOf, map: &mut A) -> Result<(), A::Error> {
        let loader = self.loader;
        match of {
            LineOf::Owned(of) => {
                if loader.owned.borrow().contains_key(&number) {
                    return Err(A::Error::custom(format_args!("block {number} is there twice")));
                }
                let mut bytes = loader.zeros(of)?;
                map.next_value_seed(ValueSeed::new(loader, of, &mut bytes))?;
                loader.owned.borrow_mut().insert(number, (of, bytes));
            }
            LineOf::Shared(of) => {
                let offset = self.define::<A::Error>(number, of, SharedState::Read)?;
                let mut bytes = loader.zeros(of)?;
                map.next_value_seed(ValueSeed::new(loader, of, &mut bytes))?;
                loader.made(loader.tx.write(loader.inner.object.prime().get() + offset + 16, &bytes))?;
            }
        }
        Ok(())
    }
}
