//! A class of C++ with a destructor: it pushes its value to the list, and destroys the next one.

use super::*;
use crate::destructors::register;
use everbyte_object::raw::running_number;
use std::cell::Cell;

/// Its class: a value, and the offset of the next one.
#[repr(C)]
struct GuardClass {
    value: u64,
    next: u64,
}

const GUARD: &str = "root guard\nguard 16 8 { value: u64 @0; next: pointer_t<guard> @8 }\n";

thread_local! {
    /// The list that destructors push to: C++ finds it by a root.
    static PUSHED_TO: Cell<Option<List>> = const { Cell::new(None) };
}

unsafe extern "C" fn destruct(at: *mut c_void) -> u32 {
    let (list, at) = (PUSHED_TO.get().expect("set by `destroy_guard`"), at.cast::<u64>());
    let [value, next] = read(at);
    let ended = txn(|number| {
        list.push(number, value);
        if next != 0 {
            // SAFETY: an open pool.
            assert_done(unsafe { destroy::<Named<Explored>, ExploredTag>(list.handle, number, next) });
        }
        true
    });
    // SAFETY: its own bytes, as a destructor may.
    unsafe { at.write(u64::MAX) };
    ended
}

/// This program has the destructor, or not. The caller holds [`alone`].
pub(super) fn registered(is_there: bool) {
    static WAS_THERE: Mutex<bool> = Mutex::new(false);
    if std::mem::replace(&mut *WAS_THERE.lock(), is_there) != is_there {
        // SAFETY: texts and a function of this program.
        assert_done(unsafe { register(RawText::of("guard"), RawText::of(GUARD), Some(destruct), is_there.into()) });
    }
}

impl List {
    pub(super) fn make_guard(self, number: u64, value: u64, next: u64) -> u64 {
        let (object, mut at) = (GuardClass { value, next }, std::ptr::null());
        let raw = RawObject { has_destructor: 1, ..raw("guard", GUARD, &object) };
        // SAFETY: an open pool, an object that lives during the call.
        assert_done(unsafe { make::<Named<Explored>, ExploredTag>(self.handle, number, &raw, &mut at) });
        at as u64 - self.base as u64
    }

    pub(super) fn destroy_guard(self, number: u64, offset: u64) -> u32 {
        assert_eq!(number, running_number::<ExploredTag>());
        PUSHED_TO.set(Some(self));
        // SAFETY: an open pool.
        unsafe { destroy::<Named<Explored>, ExploredTag>(self.handle, number, offset) }
    }
}
