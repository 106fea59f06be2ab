//! The one store of this process, and its mapped objects by name.
//!
//! The table of mapped objects is HEAPO's local cache: each call that names an object searches only
//! this table.
//!
//! Threads: any.

use crate::domain;
use crate::fault::{Fault, Result};
use crate::heapo::mapped::Mapped;
use everbyte_heap::Heap;
use everbyte_media::{FlushKind, Media, Options, chosen};
use everbyte_store::{CreateOptions, Engine, Exclusive, ObjectOpen, ObjectOptions, Store, Want};
use everbyte_tx::Undo;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Declared maximum of stores created here: small beside the address space, so that two of them
/// rarely overlap.
const MAX: u64 = 256 << 30;
/// The lower bound of an object's size limit.
const SPAN_MIN: u64 = 1 << 20;
/// Transactions on one object at a time, and the bytes of each one's log before it spills into the
/// heap.
const LANES: u32 = 8;
const LANE_LEN: u64 = 4096;

/// The store, once it is open.
pub(crate) struct Process {
    store: Store,
    path: PathBuf,
    /// The address of offset 0.
    base: u64,
    /// The store is bound to that address.
    bound: bool,
    mapped: RwLock<HashMap<String, Arc<Mapped>>>,
    /// The process that opened it: a child of fork must not close it.
    pid: u32,
}

static PROCESS: RwLock<Option<Arc<Process>>> = RwLock::new(None);

/// Work at the end of the process, see [`at_close`].
static AT_CLOSE: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Lets `step` run when the process ends in good order, before the store is closed and before the
/// steps that were added earlier. Another thread may be in a transaction on an object of `heapo.h`,
/// and stay in it: `step` must not wait for one.
pub(crate) fn at_close(step: fn()) {
    let mut steps = AT_CLOSE.lock();
    if !steps.iter().any(|&known| std::ptr::fn_addr_eq(known, step)) {
        steps.push(step);
    }
}

/// How the environment wants stores opened: `EVERBYTE_BACKEND` and `EVERBYTE_DURABILITY`, as for
/// the command line, and `EVERBYTE_FLUSH`, the instruction: for tools that do not know the CPU's
/// best.
fn options() -> Result<Options> {
    let default = Options::default();
    let backend = chosen("", "EVERBYTE_BACKEND").map_err(Fault::invalid)?;
    let durability = chosen("", "EVERBYTE_DURABILITY").map_err(Fault::invalid)?;
    let flush = std::env::var("EVERBYTE_FLUSH").ok().map(|name| {
        FlushKind::of_name(&name)
            .ok_or_else(|| Fault::invalid(format!("EVERBYTE_FLUSH: `{name}` is no such instruction")))
    });
    Ok(Options {
        flush: flush.transpose()?,
        backend: backend.unwrap_or(default.backend),
        durability: durability.unwrap_or(default.durability),
        ..default
    })
}

/// The file that `EVERBYTE_STORE` names; or `everbyte.store` in the directory that
/// `MNEMOSYNE_REGION_PATH` names, or in the current one.
fn path_of_store() -> PathBuf {
    // An empty variable counts as unset.
    let set = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let directory = || set("MNEMOSYNE_REGION_PATH").unwrap_or_default();
    set("EVERBYTE_STORE").unwrap_or_else(|| directory().join("everbyte.store"))
}

/// The span of an object that may grow to `size_max` bytes, or to `usual` if that is 0. Unused
/// addresses cost nothing.
pub(crate) fn span(size_max: usize, usual: u64) -> Result<Option<u64>> {
    let size = if size_max == 0 { usual } else { size_max as u64 };
    let span = size.max(SPAN_MIN).checked_next_power_of_two();
    span.map(Some).ok_or_else(|| Fault::new(libc::ENOSPC, "an object of more bytes than there are"))
}

impl Process {
    /// The store of this process, for writing.
    pub(crate) fn get() -> Result<Arc<Process>> {
        let process = Process::look()?;
        if process.store.is_read_only() {
            let path = process.path.display();
            return Err(Fault::new(libc::EACCES, format!("{path}: this process may read it, and change nothing")));
        }
        Ok(process)
    }

    /// The store of this process, opened on demand: see [`path_of_store`].
    pub(crate) fn look() -> Result<Arc<Process>> {
        Process::on_demand(true)
    }

    /// [`Process::look`] for callers that keep no addresses: the store need not be bound to one.
    pub(crate) fn look_unbound() -> Result<Arc<Process>> {
        Process::on_demand(false)
    }

    fn on_demand(bound: bool) -> Result<Arc<Process>> {
        if let Some(process) = &*PROCESS.read() {
            process.store.require_here()?;
            require_bound(process.bound || !bound, &process.path)?;
            return Ok(Arc::clone(process));
        }
        Process::open_as(&path_of_store(), bound)
    }

    /// Opens a bound store, or creates one, until the process ends. Opening the same store again
    /// does nothing. On backends that processes can share, others may have it open, too.
    pub(crate) fn open(path: &Path) -> Result<Arc<Process>> {
        Process::open_as(path, true)
    }

    /// [`Process::open`]; `bound`: a store without an address is refused.
    fn open_as(path: &Path, bound: bool) -> Result<Arc<Process>> {
        let mut slot = PROCESS.write();
        if let Some(process) = &*slot {
            process.store.require_here()?;
            if process.path == path {
                require_bound(process.bound || !bound, path)?;
                return Ok(Arc::clone(process));
            }
            let open = process.path.display();
            return Err(Fault::new(libc::EBUSY, format!("this process has {open} open; a process uses one store")));
        }
        let media = options()?;
        let store = match (everbyte_recorded::open::<Fault>(path)?, domain::socket()) {
            (Some(media), _) => Store::attach(media)?,
            (None, Some(socket)) => domain::open(&socket, path, &media)?,
            (None, None) => {
                if !path.exists() {
                    make(path, &media)?;
                }
                Store::options(path).shared().open(&media)?
            }
        };
        let address = store.media().address().addr().get() as u64;
        let binding = store.info().binding;
        require_bound(binding.is_some() || !bound, path)?;
        let base = binding.unwrap_or(address);
        if address != base {
            let path = path.display();
            return Err(Fault::new(libc::EADDRINUSE, format!("{path}: this process has something at {base:#x}")));
        }
        let (bound, mapped, pid) = (binding.is_some(), RwLock::default(), std::process::id());
        let process = Arc::new(Process { store, path: path.into(), base, bound, mapped, pid });
        if slot.replace(Arc::clone(&process)).is_none() {
            // SAFETY: a function without arguments that may run at any time, and does not unwind.
            unsafe { libc::atexit(close) };
        }
        Ok(process)
    }

    /// Creates an object and maps it.
    pub(crate) fn create(&self, name: &str, span: Option<u64>) -> Result<()> {
        let mut mapped = self.mapped.write();
        let options = ObjectOptions { engine: Engine::Undo, fingerprint: 0, span };
        let format = |object: &_| Undo::format_with(object, LANES, LANE_LEN).map_err(Fault::from);
        let object = self.store.at_once(|| {
            let object = self.store.create_object(name, options, format)?;
            object.share()?;
            Ok::<_, Fault>(object)
        })??;
        mapped.insert(name.into(), Mapped::new(object, self.base, Want::Write)?);
        Ok(())
    }

    /// Maps an object, which recovers it; a mapped object keeps its mode. Objects of a store that
    /// this process may only read are mapped for reading.
    pub(crate) fn map(&self, name: &str, want: Want) -> Result<()> {
        let mut mapped = self.mapped.write();
        if !mapped.contains_key(name) {
            mapped.insert(name.into(), self.mapping(name, want)?);
        }
        Ok(())
    }

    fn mapping(&self, name: &str, want: Want) -> Result<Arc<Mapped>> {
        let (engine, fingerprint) = (Engine::Undo, 0); // not the pool of a Rust program
        let want = if self.store.is_read_only() { Want::Read } else { want };
        let object = match self.store.open_object(name, &ObjectOpen { want, ..ObjectOpen::shared(engine, fingerprint) })
        {
            Err(everbyte_store::Error::Unshared { .. }) if want == Want::Write => {
                let object = self.store.object(name)?;
                object.require_engine(engine)?;
                object.require_fingerprint(fingerprint)?;
                object
            }
            opened => opened?,
        };
        Mapped::new(object, self.base, want)
    }

    /// Unmaps an object: its pointers must not be used until it is mapped again.
    pub(crate) fn unmap(&self, name: &str) -> Result<()> {
        let mut mapped = self.mapped.write();
        let object = mapped.get(name).ok_or_else(|| not_mapped(name))?;
        object.require_idle()?;
        mapped.remove(name);
        Ok(())
    }

    /// Deletes an object, which this process may have mapped.
    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        let mut mapped = self.mapped.write();
        if let Some(object) = mapped.get(name) {
            object.require_idle()?;
        }
        let was_mapped = mapped.remove(name).map(|object| object.want());
        let removed = self.store.remove_object(name);
        if let (Err(_), Some(want)) = (&removed, was_mapped) {
            mapped.insert(name.into(), self.mapping(name, want)?);
        }
        Ok(removed?)
    }

    /// The mapped object of this name.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Mapped>> {
        self.mapped.read().get(name).cloned().ok_or_else(|| not_mapped(name))
    }

    pub(crate) fn is_mapped(&self, name: &str) -> bool {
        self.mapped.read().contains_key(name)
    }

    /// The names of all objects that begin with `prefix`, in order.
    pub(crate) fn names(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(self.store.names(prefix)?)
    }

    /// The heap of the mapped object that contains the offset `at`, with its exclusive lock. Any
    /// `at` may be passed. The words that receive blocks hold addresses.
    pub(crate) fn heap_at(&self, at: u64) -> Result<(Heap, Option<Exclusive>)> {
        let here = |object: &&Arc<Mapped>| object.undo.heap().object().span().contains(&at);
        let object = self.mapped.read().values().find(here).cloned();
        let object = object.ok_or_else(|| {
            Fault::invalid(format!("{:#x} is not in an object that this process has mapped", self.base + at))
        })?;
        object.require_writable()?;
        let exclusive = object.enter()?;
        exclusive.iter().for_each(Exclusive::changed);
        Ok((object.undo.heap().based_at(self.base), exclusive))
    }

    /// Whether the store has this many bytes; other processes may have grown it.
    fn holds(&self, at: u64, len: u64) -> bool {
        let holds = || self.media().holds(at, len);
        holds() || self.media().refresh().is_ok() && holds()
    }

    /// The addresses reserved for the store.
    pub(crate) fn window(&self) -> Range<usize> {
        self.base as usize..(self.base + self.media().max()) as usize
    }

    /// The store, if it is open.
    pub(crate) fn opened() -> Option<Arc<Process>> {
        PROCESS.read().clone()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn media(&self) -> &Media {
        self.store.media()
    }

    /// The offset of `address..address+len`, if it lies in the store. Any address may be passed.
    pub(crate) fn offset(&self, address: usize, len: usize) -> Result<u64> {
        let at = (address as u64).checked_sub(self.base).filter(|&at| self.holds(at, len as u64));
        at.ok_or_else(|| Fault::invalid(format!("{address:#x} + {len} does not lie in {}", self.path.display())))
    }
}

/// Refuses a store that is not bound to an address.
fn require_bound(is_bound: bool, path: &Path) -> Result<()> {
    if is_bound {
        return Ok(());
    }
    let path = path.display();
    Err(Fault::new(
        libc::ENOTSUP,
        format!(
            "{path}: not bound to an address, so plain pointers into it would not stay true; make one with `everbyte create --bound`"
        ),
    ))
}

fn not_mapped(name: &str) -> Fault {
    Fault::new(libc::ENOENT, format!("object `{name}` is not mapped in this process; create or map it first"))
}

/// Creates a bound store, whole under its name or absent: other processes may be opening it, or
/// creating it, too.
fn make(path: &Path, media: &Options) -> Result<()> {
    let io = |source| Fault::from(everbyte_media::Error::Io { action: "create", path: path.into(), source });
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".new.{}", std::process::id()));
    let draft = Path::new(&draft);
    let options = CreateOptions { max: MAX, bound: true, media: media.clone() };
    let made = Store::create(draft, &options).and_then(|store| store.close()).map_err(Fault::from);
    let named = made.and_then(|()| match std::fs::hard_link(draft, path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(io(error)),
        _ => Ok(()), // by this process, or by another at the same moment
    });
    let _ = std::fs::remove_file(draft); // linked under its name by now, or not needed
    named
}

/// Runs the steps of [`at_close`], and closes the store cleanly, when the process that opened it
/// ends. It is not closed while a transaction runs: the next opening rolls that back.
extern "C" fn close() {
    if let Some(process) = PROCESS.write().take_if(|process| process.pid == std::process::id()) {
        let steps = std::mem::take(&mut *AT_CLOSE.lock());
        steps.iter().rev().for_each(|step| step());
        let busy = process.mapped.read().values().any(|object| object.running.load(Ordering::Acquire) > 0);
        if !busy {
            let _ = process.store.close(); // no caller is left for an error; opening recovers
        }
    }
}
