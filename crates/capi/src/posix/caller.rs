//! Callers: a user, a mask and a working directory for the calls of a thread, as a process has
//! them; and the start of every path.
//!
//! A process of the system has one caller for all threads, and makes more where it serves several
//! users. A caller uses several volumes: it has one [`Process`] in each.
//!
//! Threads: any. Locks are taken in the order table, registry, state of a caller, place.

use super::table::{self, OpenVolume};
use super::{bad_address, done};
use crate::fault::{Fault, Result, answer};
use everbyte_posix::{At, Process, User};
use parking_lot::{Mutex, RwLock};
use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;
use std::sync::{Arc, LazyLock, Weak};

/// A caller, `eb_process` in C.
pub(crate) struct Caller {
    state: RwLock<CallerState>,
}

struct CallerState {
    user: User,
    mask: u16,
    /// The volume of the working directory.
    working: Option<u64>,
    places: Vec<Arc<Place>>,
}

/// A caller in a volume.
pub(super) struct Place {
    pub volume: Arc<OpenVolume>,
    pub process: RwLock<Process>,
}

static REGISTRY: Mutex<Vec<Weak<Caller>>> = Mutex::new(Vec::new());

/// The caller of threads that have chosen none.
static MAIN: LazyLock<Arc<Caller>> = LazyLock::new(|| {
    let groups = groups().unwrap_or_default();
    // SAFETY: the call has no conditions and cannot fail.
    let uid = unsafe { libc::geteuid() };
    // SAFETY: as above.
    let gid = unsafe { libc::getegid() };
    let user = User { uid, gid, groups };
    Caller::new(CallerState { user, mask: 0o022, working: None, places: Vec::new() })
});

thread_local! {
    static CHOSEN: RefCell<Option<Arc<Caller>>> = const { RefCell::new(None) };
}

/// The further groups of this process.
fn groups() -> Option<Vec<u32>> {
    // SAFETY: asks for the number alone, without room.
    let count = unsafe { libc::getgroups(0, null_mut()) };
    let mut groups = vec![0; usize::try_from(count).ok()?];
    // SAFETY: room for as many as are told.
    let count = unsafe { libc::getgroups(count, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(count).ok()?);
    Some(groups)
}

/// The caller of this thread.
pub(super) fn current() -> Arc<Caller> {
    let chosen = CHOSEN.try_with(|chosen| chosen.borrow().clone()).ok().flatten();
    chosen.unwrap_or_else(|| Arc::clone(&MAIN))
}

impl Caller {
    fn new(state: CallerState) -> Arc<Caller> {
        let caller = Arc::new(Caller { state: RwLock::new(state) });
        let mut registry = REGISTRY.lock();
        registry.retain(|known| known.strong_count() > 0);
        registry.push(Arc::downgrade(&caller));
        caller
    }

    /// The user.
    pub(super) fn user(&self) -> User {
        self.state.read().user.clone()
    }

    /// The place of this caller in a volume, made at the first use.
    pub(super) fn place(&self, volume: &Arc<OpenVolume>) -> Result<Arc<Place>> {
        let known = |state: &CallerState| state.places.iter().find(|place| place.volume.id == volume.id).cloned();
        if let Some(place) = known(&self.state.read()) {
            return Ok(place);
        }
        let mut state = self.state.write();
        if let Some(place) = known(&state) {
            return Ok(place);
        }
        let mut process = volume.files.process(state.user.clone())?;
        process.set_mask(state.mask);
        let place = Arc::new(Place { volume: Arc::clone(volume), process: RwLock::new(process) });
        state.places.push(Arc::clone(&place));
        Ok(place)
    }

    /// The place of the working directory.
    pub(super) fn working(&self) -> Result<Arc<Place>> {
        let state = self.state.read();
        let place = state.places.iter().find(|place| Some(place.volume.id) == state.working).cloned();
        drop(state);
        let place = place.ok_or_else(|| {
            Fault::new(libc::ENOENT, "there is no working directory: open a volume, or change to one")
        })?;
        place.volume.require_here()?;
        Ok(place)
    }

    /// Makes the root of a volume the working directory, if there is none.
    pub(super) fn begin(&self, place: &Place) {
        self.state.write().working.get_or_insert(place.volume.id);
    }
}

/// Runs a call on a path: that of a descriptor of a directory and a relative path, or of the
/// working directory.
pub(super) fn at<T>(
    fd: c_int,
    path: &[u8],
    call: impl FnOnce(&Process, At<'_>) -> everbyte_posix::Result<T>,
) -> Result<T> {
    with_place(fd, path, |place, at| Ok(call(&place.process.read(), at)?))
}

/// [`at`], with the caller's place in the volume.
pub(super) fn with_place<T>(fd: c_int, path: &[u8], call: impl FnOnce(&Arc<Place>, At<'_>) -> Result<T>) -> Result<T> {
    let caller = current();
    if fd == libc::AT_FDCWD || path.first() == Some(&b'/') {
        return call(&caller.working()?, path.into());
    }
    let directory = table::get(fd)?;
    call(&caller.place(&directory.volume)?, (&directory.file, path).into())
}

/// Lets all callers leave a volume, if `may` of the number of places that they had in it is true.
/// `None` for that number: a call runs in one of them.
pub(super) fn leave(id: u64, may: impl FnOnce(Option<usize>) -> bool) -> bool {
    let registry = REGISTRY.lock();
    let callers: Vec<Arc<Caller>> = registry.iter().filter_map(Weak::upgrade).collect();
    let mut states: Vec<_> = callers.iter().map(|caller| caller.state.write()).collect();
    let uses = || states.iter().flat_map(|state| &state.places).filter(|place| place.volume.id == id);
    let is_idle = uses().all(|place| Arc::strong_count(place) == 1);
    if !may(is_idle.then(|| uses().count())) {
        return false;
    }
    for state in &mut states {
        state.places.retain(|place| place.volume.id != id);
        state.working = state.working.filter(|&working| working != id);
    }
    true
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_process_new() -> *mut Caller {
    let from = current();
    let state = from.state.read();
    let fork = |place: &Arc<Place>| {
        let process = RwLock::new(place.process.read().fork());
        Arc::new(Place { volume: Arc::clone(&place.volume), process })
    };
    let places = state.places.iter().map(fork).collect();
    let new = CallerState { user: state.user.clone(), mask: state.mask, working: state.working, places };
    drop(state);
    Arc::into_raw(Caller::new(new)).cast_mut()
}

/// # Safety
/// `process` is null, or came from `eb_process_new` and was not freed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_process_use(process: *mut Caller) -> c_int {
    let chosen = (!process.is_null()).then(|| {
        // SAFETY: the caller's promise: it holds one count, and gets another one here.
        unsafe { Arc::increment_strong_count(process) };
        // SAFETY: as above.
        unsafe { Arc::from_raw(process) }
    });
    let is_choice = chosen.is_some();
    let before = CHOSEN.try_with(|mine| mine.replace(chosen));
    match before {
        // A thread that is ending has the first caller from then on.
        Err(_) if is_choice => done(Err(Fault::ending())),
        before => {
            drop(before);
            0
        }
    }
}

/// # Safety
/// As [`eb_process_use`]; the program does not use it any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_process_free(process: *mut Caller) {
    if !process.is_null() {
        // SAFETY: the caller's promise. Threads that have chosen it keep it.
        drop(unsafe { Arc::from_raw(process) });
    }
}

/// # Safety
/// `groups` is null, or good for `count` numbers to be read.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_set_user(uid: u32, gid: u32, groups: *const u32, count: usize) -> c_int {
    let groups = match (groups.is_null(), count) {
        (_, 0) => Ok(Vec::new()),
        (true, _) => Err(bad_address("groups")),
        _ if count > 65_536 => Err(Fault::invalid("more groups than a user can have")),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(groups, count) }.to_vec()),
    };
    done(groups.map(|groups| {
        let caller = current();
        let mut state = caller.state.write();
        state.user = User { uid, gid, groups };
        for place in &state.places {
            place.process.write().set_user(state.user.clone());
        }
    }))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_umask(mask: libc::mode_t) -> libc::mode_t {
    let caller = current();
    let mut state = caller.state.write();
    let old = std::mem::replace(&mut state.mask, (mask & 0o777) as u16);
    for place in &state.places {
        place.process.write().set_mask(state.mask);
    }
    old.into()
}

fn change_directory(fd: c_int, path: &[u8]) -> Result<()> {
    with_place(fd, path, |place, at| {
        place.process.write().change_directory(at)?;
        current().state.write().working = Some(place.volume.id);
        Ok(())
    })
}

/// # Safety
/// As said in `posix/mod.rs`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_chdir(path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    done(unsafe { super::path(path) }.and_then(|path| change_directory(libc::AT_FDCWD, path)))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn eb_fchdir(fd: c_int) -> c_int {
    done(table::get(fd).and_then(|_| change_directory(fd, b".")))
}

/// # Safety
/// `into` is null, or good for `room` bytes to be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn eb_getcwd(into: *mut c_char, room: usize) -> *mut c_char {
    let found = current().working().and_then(|place| {
        let mut path = place.process.read().working_directory()?;
        path.push(0);
        // SAFETY: the caller's promise.
        unsafe { super::copy_out(&path, into.cast(), room) }
    });
    answer(found, null_mut(), |()| into)
}
