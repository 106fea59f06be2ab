//! The one store of this process, and the objects of it that the process has mapped, by name.
//!
//! The table of mapped objects is HEAPO's local cache: each call that names an object looks there and nowhere else.
//!
//! Invariants
//!   CAPI-1  An object is opened once and stays open while it is mapped: pointers into it stay good.
//!   CAPI-2  An object is neither unmapped nor deleted while a transaction on it runs.
//!
//! Threads: any.

use crate::fault::{Fault, Result};
use crate::mnemosyne;
use crate::recorded;
use everbyte_heap::Heap;
use everbyte_media::{FlushKind, Media, Options};
use everbyte_store::{Claim, CreateOptions, Engine, Object, ObjectOptions, Store, Turn};
use everbyte_tx::Undo;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Declared maximum of stores made here: small beside the addresses there are, so that two of them seldom meet.
const MAX: u64 = 256 << 30;
/// The span of an object: what it can ever hold. Addresses cost nothing.
const SPAN: u64 = 64 << 20;
/// Transactions on one object at a time, and the bytes of the notes of each before they spill into the heap.
const LANES: u32 = 8;
const LANE_LEN: u64 = 4096;

/// The store, once it is open.
pub struct Process {
    store: Store,
    path: PathBuf,
    /// The address of offset 0.
    base: u64,
    mapped: RwLock<HashMap<String, Arc<Mapped>>>,
    /// Who opened it: a child of fork must not close it.
    pid: u32,
}

static PROCESS: RwLock<Option<Arc<Process>>> = RwLock::new(None);

/// An object that is mapped.
pub struct Mapped {
    pub undo: Undo,
    base: u64,
    /// Transactions under way (CAPI-2).
    pub running: AtomicUsize,
    _claim: Claim,
}

/// How the environment wants stores opened: `EVERBYTE_BACKEND` and `EVERBYTE_DURABILITY`, as for the command line, and
/// `EVERBYTE_FLUSH`, the instruction: for tools that do not know the CPU's best.
fn options() -> Result<Options> {
    let word = |variable: &str| std::env::var(variable).ok();
    let (default, bad) =
        (Options::default(), |variable: &'static str| move |why| Fault::invalid(format!("{variable}: {why}")));
    let backend = word("EVERBYTE_BACKEND").map_or(Ok(default.backend), |text| text.parse());
    let durability = word("EVERBYTE_DURABILITY").map_or(Ok(default.durability), |text| text.parse());
    let flush = word("EVERBYTE_FLUSH").map(|name| {
        FlushKind::of_name(&name)
            .ok_or_else(|| Fault::invalid(format!("EVERBYTE_FLUSH: `{name}` is no such instruction")))
    });
    Ok(Options {
        flush: flush.transpose()?,
        backend: backend.map_err(bad("EVERBYTE_BACKEND"))?,
        durability: durability.map_err(bad("EVERBYTE_DURABILITY"))?,
        ..default
    })
}

/// The file that `EVERBYTE_STORE` names; or `everbyte.store` in the directory that `MNEMOSYNE_REGION_PATH` names, or in the
/// current one.
fn path_of_store() -> PathBuf {
    let directory = || std::env::var_os("MNEMOSYNE_REGION_PATH").map(PathBuf::from).unwrap_or_default();
    std::env::var_os("EVERBYTE_STORE").map_or_else(|| directory().join("everbyte.store"), PathBuf::from)
}

impl Process {
    /// The store of this process, opened now if need be: see [`path_of_store`].
    pub fn get() -> Result<Arc<Process>> {
        if let Some(process) = &*PROCESS.read() {
            process.store.require_here()?;
            return Ok(Arc::clone(process));
        }
        Process::open(&path_of_store())
    }

    /// Opens a bound store, or makes one; until the process ends. Opening the same one again does nothing. Where processes
    /// see each other's stores, others may have it open, too.
    pub fn open(path: &Path) -> Result<Arc<Process>> {
        let mut slot = PROCESS.write();
        if let Some(process) = &*slot {
            process.store.require_here()?;
            if process.path == path {
                return Ok(Arc::clone(process));
            }
            let open = process.path.display();
            return Err(Fault::new(libc::EBUSY, format!("this process has {open} open; a process uses one store")));
        }
        let media = options()?;
        let store = match recorded::open(path)? {
            Some(store) => store,
            None => {
                if !path.exists() {
                    make(path, &media)?;
                }
                Store::open_shared(path, &media)?
            }
        };
        let base = store.info().binding.ok_or_else(|| {
            let path = path.display();
            Fault::new(
                libc::ENOTSUP,
                format!("{path}: not bound to an address, so plain pointers into it would not stay true; make one with `everbyte create --bound`"),
            )
        })?;
        let process =
            Arc::new(Process { store, path: path.into(), base, mapped: RwLock::default(), pid: std::process::id() });
        if slot.replace(Arc::clone(&process)).is_none() {
            // SAFETY: a function without arguments that may run at any time, and does not unwind.
            unsafe { libc::atexit(close) };
        }
        Ok(process)
    }

    /// Makes an object and maps it.
    pub fn create(&self, name: &str) -> Result<()> {
        let mut mapped = self.mapped.write();
        let options = ObjectOptions { engine: Engine::Undo, fingerprint: 0, span: Some(SPAN) };
        let object = self
            .store
            .create_object(name, options, |object| Undo::format_with(object, LANES, LANE_LEN).map_err(Fault::from))?;
        object.share()?;
        mapped.insert(name.into(), self.mapping(object)?);
        Ok(())
    }

    /// Maps an object, which recovers it; one that is mapped stays so.
    pub fn map(&self, name: &str) -> Result<()> {
        let mut mapped = self.mapped.write();
        if !mapped.contains_key(name) {
            mapped.insert(name.into(), self.mapping(self.object(name)?)?);
        }
        Ok(())
    }

    fn object(&self, name: &str) -> Result<Object> {
        let (engine, fingerprint) = (Engine::Undo, 0); // not the pool of a Rust program
        match self.store.object_shared(name, engine, fingerprint) {
            Err(everbyte_store::Error::Unshared { .. }) => {
                let object = self.store.object(name)?;
                object.require_engine(engine)?;
                object.require_fingerprint(fingerprint)?;
                Ok(object)
            }
            opened => Ok(opened?),
        }
    }

    fn mapping(&self, object: Object) -> Result<Arc<Mapped>> {
        let claim = object.claim()?; // CAPI-1
        Ok(Arc::new(Mapped { undo: Undo::open(object)?, base: self.base, running: AtomicUsize::new(0), _claim: claim }))
    }

    /// Unmaps an object: its pointers are not to be used until it is mapped again.
    pub fn unmap(&self, name: &str) -> Result<()> {
        let mut mapped = self.mapped.write();
        let object = mapped.get(name).ok_or_else(|| not_mapped(name))?;
        object.require_idle()?;
        mapped.remove(name);
        Ok(())
    }

    /// Deletes an object, which this process may have mapped.
    pub fn delete(&self, name: &str) -> Result<()> {
        let mut mapped = self.mapped.write();
        if let Some(object) = mapped.get(name) {
            object.require_idle()?;
        }
        let was_mapped = mapped.remove(name).is_some();
        let removed = self.store.remove_object(name);
        if removed.is_err() && was_mapped {
            mapped.insert(name.into(), self.mapping(self.object(name)?)?);
        }
        Ok(removed?)
    }

    /// The mapped object of this name.
    pub fn find(&self, name: &str) -> Result<Arc<Mapped>> {
        self.mapped.read().get(name).cloned().ok_or_else(|| not_mapped(name))
    }

    pub fn is_mapped(&self, name: &str) -> bool {
        self.mapped.read().contains_key(name)
    }

    /// The names of all objects that begin with `prefix`, in order.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(self.store.names(prefix)?)
    }

    /// The heap of the mapped object in which `at`, which may be anything, lies, and the turn to change it. Words that it
    /// stores blocks to hold addresses.
    pub fn heap_at(&self, at: u64) -> Result<(Heap, Option<Turn>)> {
        let here = |object: &&Arc<Mapped>| object.undo.heap().object().span().contains(&at);
        let object = self.mapped.read().values().find(here).cloned();
        let object = object.ok_or_else(|| {
            Fault::invalid(format!("{:#x} is not in an object that this process has mapped", self.base + at))
        })?;
        let turn = object.undo.enter()?;
        turn.iter().for_each(Turn::changed);
        Ok((object.undo.heap().based_at(self.base), turn))
    }

    /// Whether so many bytes are there; other processes may have let the store grow.
    fn holds(&self, at: u64, len: u64) -> bool {
        let holds = || self.media().holds(at, len);
        holds() || self.media().refresh().is_ok() && holds()
    }

    /// The addresses that the store may ever have.
    pub fn window(&self) -> Range<usize> {
        self.base as usize..(self.base + self.media().max()) as usize
    }

    /// The store, if it is open.
    pub fn opened() -> Option<Arc<Process>> {
        PROCESS.read().clone()
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn media(&self) -> &Media {
        self.store.media()
    }

    /// The offset of `address..address+len`, which may be anything.
    pub fn offset(&self, address: usize, len: usize) -> Result<u64> {
        let at = (address as u64).checked_sub(self.base).filter(|&at| self.holds(at, len as u64));
        at.ok_or_else(|| Fault::invalid(format!("{address:#x} + {len} does not lie in {}", self.path.display())))
    }
}

impl Mapped {
    /// The address of an offset.
    pub fn address(&self, at: u64) -> usize {
        (self.base + at) as usize
    }

    /// The offset of an address, which may be anything: whether something is there is for others to say.
    pub fn offset(&self, address: usize) -> Result<u64> {
        let span = self.undo.heap().object().span();
        let at = (address as u64).checked_sub(self.base).filter(|at| span.contains(at));
        at.ok_or_else(|| {
            let name = self.undo.heap().object().name();
            Fault::invalid(format!("{address:#x} is no pointer into object `{name}`"))
        })
    }

    /// Whether this is a child of fork, whose parent has the object.
    pub fn is_inherited(&self) -> bool {
        self.undo.heap().object().store().require_here().is_err()
    }

    /// CAPI-2.
    fn require_idle(&self) -> Result<()> {
        match self.running.load(Ordering::Acquire) {
            0 => Ok(()),
            count => {
                let name = self.undo.heap().object().name();
                Err(Fault::new(libc::EBUSY, format!("object `{name}` has {count} transaction(s) under way; end them")))
            }
        }
    }
}

fn not_mapped(name: &str) -> Fault {
    Fault::new(libc::ENOENT, format!("object `{name}` is not mapped in this process; create or map it first"))
}

/// Makes a bound store, whole under its name or not there: others may be about to open it, or to make it, too.
fn make(path: &Path, media: &Options) -> Result<()> {
    let io = |source| Fault::from(everbyte_media::Error::Io { action: "create", path: path.into(), source });
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".new.{}", std::process::id()));
    let draft = Path::new(&draft);
    let options = CreateOptions { max: MAX, bound: true, media: media.clone() };
    let made = Store::create(draft, &options).and_then(|store| store.close()).map_err(Fault::from);
    let named = made.and_then(|()| match std::fs::hard_link(draft, path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(io(error)),
        _ => Ok(()), // by us, or by somebody else at the same moment
    });
    let _ = std::fs::remove_file(draft); // ours, and under its name by now, or of no use
    named
}

/// Closes the store in good order when the process that opened it ends. Not if a transaction runs: opening then rolls it back.
extern "C" fn close() {
    if let Some(process) = PROCESS.write().take_if(|process| process.pid == std::process::id()) {
        let busy = process.mapped.read().values().any(|object| object.running.load(Ordering::Acquire) > 0);
        if !busy {
            #[cfg(target_arch = "x86_64")]
            crate::itm::truncate(); // what is stored from now on must not be stored over by the next recovery
            mnemosyne::write_back();
            let _ = process.store.close(); // nobody is left to be told; opening recovers
        }
    }
}
