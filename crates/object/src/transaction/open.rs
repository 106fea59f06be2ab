//! Making and opening pools.
//!
//! Making, inside `Store::create_object`, so that a crash leaves the pool whole or absent:
//!   1. heap and lanes; the header's first line
//!   2. one transaction: the root, the description, the header's second line
//!   3. the store publishes the name
//!
//! Opening:
//!   1. the engine recovers
//!   2. the header is read, the description compared; `migrate` says what to do if it differs
//!   3. the generation is raised and ordered: volatile state of earlier openings is void from then
//!      on

use crate::description::schema::Schema;
use crate::layout::{FIXED, FORMAT, GENERATION, HEADER, Header, MAGIC, SCHEMA_MAX, fingerprint};
use crate::transaction::counts::SharedCounts;
use crate::transaction::locks::LockTable;
use crate::transaction::open_pool::OpenPool;
use crate::transaction::pool::{In, Out};
use crate::transaction::running::{self, Running};
use crate::transaction::sync::{AtomicBool, Mutex, RwLockWriteGuard};
use crate::{Error, Journal, PSafe, PoolTag, Result, Root, migrate};
use everbyte_media::{Checked, Damage, Format, Length, Offset, seeded, sums_agree};
use everbyte_store::{Engine, Object, ObjectOptions, Store};
use everbyte_tx::{Tx, Undo};
use std::marker::PhantomData;
use std::sync::Arc;
use zerocopy::{FromZeros, IntoBytes};

/// How a pool is made.
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    /// Bytes of addresses that the pool may ever use: a power of two. By default the store chooses.
    /// They cost nothing until they are used.
    pub span: Option<Length>,
    /// Transactions that may run at once, 1 to 1024. By default 32, 4 in a span below 16
    /// MiB.
    pub lanes: Option<u32>,
}

/// Makes a pool with the value of type `R` that `init` returns as its root.
pub(crate) fn create<R: PSafe<Out<G>>, G: PoolTag>(
    store: &Store,
    name: &str,
    options: &PoolOptions,
    init: impl for<'tx> FnOnce(&'tx Journal<In<'tx, G>>) -> R::At<'tx>,
) -> Result<Root<R, Out<G>>> {
    let slot = G::slot();
    let mut bound = lock::<G>()?;
    let text = Schema::of::<R, Out<G>>().text(FORMAT);
    let object_options =
        ObjectOptions { engine: Engine::Undo, fingerprint: fingerprint(&text), span: options.span.map(Length::get) };
    let mut made = None;
    let object = store.create_object::<Error>(name, object_options, |object| {
        format(object, options, FORMAT)?;
        let inner = Arc::new(attach(object.clone(), 1)?);
        slot.bind(&mut bound, &inner);
        let root = running::rooted::<G, _, std::convert::Infallible>(&inner, |running| {
            let root = running.allocate(init(&Journal::new(running)));
            describe(running, &text, root, Length::of::<R>());
            Ok(root)
        });
        match root {
            Ok(root) => made = Some((inner, root)),
            Err(error) => {
                slot.unbind(&mut bound);
                return Err(error.failed());
            }
        }
        Ok(())
    });
    if let Err(error) = object {
        if bound.is_some() {
            slot.unbind(&mut bound);
        }
        return Err(error);
    }
    let (inner, offset) = made.expect("`init` has run");
    Ok(Root { inner, offset, migrated: None, marker: PhantomData })
}

pub(crate) fn open<R: PSafe<Out<G>>, G: PoolTag>(store: &Store, name: &str) -> Result<Root<R, Out<G>>> {
    let mut bound = lock::<G>()?;
    let found = FoundPool::of(store, name)?;
    let wanted = Schema::of::<R, Out<G>>().text(found.header.format);
    if !found.is_of(&wanted) {
        return Err(migrate::mismatch::<R, Out<G>>(&found.stored(), &wanted));
    }
    found.into_root::<R, G>(&mut bound)
}

/// The contents of a tag's slot.
pub(crate) type Bound = Option<Arc<OpenPool>>;

/// A pool that was found by its name and recovered; its root is not looked at yet.
pub(crate) struct FoundPool {
    inner: OpenPool,
    pub header: Header,
    pub description: String,
}

impl FoundPool {
    pub(crate) fn of(store: &Store, name: &str) -> Result<FoundPool> {
        let inner = attach_untyped(store, name)?;
        let header = read_header(&inner.object)?;
        let description = description(&inner, &header)?;
        Ok(FoundPool { inner, header, description })
    }

    pub(crate) fn name(&self) -> &str {
        self.inner.object.name()
    }

    /// Whether its description is this one. Earlier programs wrote line feeds of arguments as they
    /// are.
    pub(crate) fn is_of(&self, text: &str) -> bool {
        self.description == text || self.description == text.replace("\\n", "\n")
    }

    /// The store offset of the description.
    pub(crate) fn description_at(&self) -> Offset {
        Offset::new((self.inner.object.prime() + self.header.schema).get())
    }

    /// The description of the pool and its place.
    fn stored(&self) -> migrate::Stored<'_> {
        let (object, description_at) = (self.name(), self.description_at());
        migrate::Stored { object, description: &self.description, description_at, format: self.header.format }
    }

    /// Opens the pool, whose root has the bytes of an `R`.
    pub(crate) fn into_root<R: PSafe<Out<G>>, G: PoolTag>(self, bound: &mut Bound) -> Result<Root<R, Out<G>>> {
        self.require_root(size_of::<R>())?;
        let offset = self.header.root;
        Ok(Root { inner: self.bind::<G>(bound), offset: offset.get(), migrated: None, marker: PhantomData })
    }

    /// Refuses a root of another size than `len`, or where no block is.
    pub(crate) fn require_root(&self, len: usize) -> Result<()> {
        let (inner, at) = (&self.inner, self.inner.object.prime().wrapping_add(self.header.root));
        let fits = inner.undo.heap().size_of(at.get()).is_ok_and(|size| size >= len as u64);
        match fits && self.header.root_len == Length::new(len as u64) {
            true => Ok(()),
            false => Err(damaged(&inner.object, at.get(), "the root is no block of its size")),
        }
    }

    /// Raises the generation, and lets the slot of the tag hold the pool.
    pub(crate) fn bind<G: PoolTag>(self, bound: &mut Bound) -> Arc<OpenPool> {
        let generation = raise_generation(&self.inner, self.header.generation);
        let inner = Arc::new(OpenPool { generation, ..self.inner });
        G::slot().bind(bound, &inner);
        inner
    }
}

/// The slot, to be bound; refused while a pool is, or if this thread runs a transaction under the
/// tag.
pub(crate) fn lock<G: PoolTag>() -> Result<RwLockWriteGuard<'static, Bound>> {
    let bound = |inner: &OpenPool| Error::Bound { pool: G::NAME, open: inner.object.name().into() };
    let running = running::with_current::<G, _>(|current| current.map(|running| bound(running.inner())));
    if let Some(error) = running {
        return Err(error); // it may hold the slot's lock
    }
    let slot = G::slot().open.write();
    match &*slot {
        Some(inner) => Err(bound(inner)),
        None => Ok(slot),
    }
}

fn damaged(object: &Object, at: u64, detail: impl Into<String>) -> Error {
    Error::from(Damage::at(at, detail).of_object(object.name()))
}

/// Makes the heap, the lanes and the first line of the header of a pool.
pub(crate) fn format(object: &Object, options: &PoolOptions, format: u32) -> Result<()> {
    match options.lanes {
        Some(lanes) => Undo::format_with(object, lanes, 4096)?,
        None => Undo::format(object)?,
    }
    let mut header = Header { magic: MAGIC, format, generation: 1, ..Header::new_zeroed() };
    header = header.sealed();
    let (media, at) = (object.media(), object.prime() + HEADER);
    let _section = media.section();
    media.write(at, header.as_bytes());
    media.flush_unless("object-header-unflushed", at, size_of::<Header>() as u64);
    media.fence();
    Ok(())
}

/// [`attach`] for callers that do not know the root's type.
pub(crate) fn attach_untyped(store: &Store, name: &str) -> Result<OpenPool> {
    let object = store.object(name)?;
    object.require_engine(Engine::Undo)?;
    attach(object, 0)
}

/// Recovers the object and finds where it is mapped.
pub(crate) fn attach(object: Object, generation: u64) -> Result<OpenPool> {
    let claim = object.claim()?;
    let undo = Undo::open(object.clone())?;
    let base = object.media().address().as_ptr().wrapping_add(object.prime().get() as usize);
    let span = object.span();
    Ok(OpenPool {
        undo,
        claim,
        base,
        len: (span.end - span.start) as usize,
        generation,
        counts: SharedCounts::default(),
        locks: LockTable::default(),
        newest: Mutex::default(),
        buffered: Mutex::default(),
        is_buffered: AtomicBool::new(false),
        object,
    })
}

/// Stores the offset and the description of the root, in the transaction that makes the root.
pub(crate) fn describe(running: &Running, text: &str, root: u64, root_len: Length) {
    if let Err(error) = describe_in(running.inner(), &running.tx(), text, root, root_len) {
        running.stop(error.into());
    }
}

/// [`describe`] in a transaction of the engine.
pub(crate) fn describe_in(
    inner: &OpenPool,
    tx: &Tx<'_>,
    text: &str,
    root: u64,
    root_len: Length,
) -> everbyte_tx::Result<()> {
    let prime = inner.object.prime();
    let schema = (tx.allocate(text.len().max(1) as u64)?.at - prime).get();
    let mut header = Header::new_zeroed();
    (header.root, header.root_len, header.fingerprint) = (Length::new(root), root_len, fingerprint(text));
    (header.schema, header.schema_len) = (Length::new(schema), Length::new(text.len() as u64));
    header.root_checksum = header.root_sum();
    let second = &header.as_bytes()[FIXED + 8..FIXED + 56];
    let at = prime + GENERATION + 8;
    let log = if seeded("object-description-unnoted") { Tx::overwrite } else { Tx::log_range };
    tx.write((prime + schema).get(), text.as_bytes())?;
    log(tx, at.get(), second.len() as u64)?;
    inner.media().write(at, second);
    tx.store(inner.object.root_at().get(), (prime + root).get())
}

/// Generations that are believed: no checksum covers the word.
const GENERATIONS: std::ops::Range<u64> = 1..1 << 63;

/// The header of a pool, which may be open or not.
pub(crate) fn read_header(object: &Object) -> Result<Header> {
    let at = object.prime() + HEADER;
    let header: Header = object.media().get(at);
    let name = || object.name().to_string();
    if header.magic != MAGIC {
        return Err(Error::NotTyped { object: name(), detail: "it has no header of a pool" });
    }
    if !header.checksum_agrees() {
        return Err(damaged(object, at.get(), "the pool's header fails its checksum"));
    }
    if header.format > FORMAT {
        return Err(Error::NewerFormat { object: name(), format: Format::new(header.format, FORMAT) });
    }
    if !GENERATIONS.contains(&header.generation) {
        return Err(damaged(object, (object.prime() + GENERATION).get(), "the pool cannot have been opened so often"));
    }
    if !sums_agree(header.root_checksum, header.root_sum()) {
        return Err(damaged(
            object,
            (at + FIXED as u64).get(),
            "what the pool's header says of the root fails its checksum",
        ));
    }
    Ok(header)
}

/// The description of the root's type, as the pool has it.
pub(crate) fn description(inner: &OpenPool, header: &Header) -> Result<String> {
    let at = inner.object.prime().saturating_add(header.schema);
    let size = Length::new(inner.undo.heap().size_of(at.get()).unwrap_or(0));
    if header.schema_len > size.min(SCHEMA_MAX) {
        return Err(damaged(&inner.object, at.get(), "the description of the root's type is no block of its size"));
    }
    let bytes = inner.media().read_vec(at, header.schema_len.to_usize());
    let text = String::from_utf8(bytes)
        .map_err(|_| damaged(&inner.object, at.get(), "the root type's description is no text"))?;
    if fingerprint(&text) != header.fingerprint {
        return Err(damaged(&inner.object, at.get(), "the root type's description does not fit its fingerprint"));
    }
    Ok(text)
}

fn raise_generation(inner: &OpenPool, found: u64) -> u64 {
    let (media, at) = (inner.media(), inner.object.prime() + GENERATION);
    let generation = found + 1;
    {
        let _section = media.section();
        media.store(at, generation);
        media.flush_unless("object-generation-unflushed", at, 8);
    }
    media.fence(); // orders the generation before any value that carries it
    generation
}
