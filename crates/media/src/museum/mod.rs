//! Seeded bugs: the switch by which a test breaks a crate on purpose, to prove that the crash
//! explorer finds the bug.
//!
//! A crate places a bug with `media.fence_unless("log-no-fence")`, with [`unless`] and
//! [`misplaced`] or with a value that [`seeded`] chooses, never with a second algorithm. Without
//! the crate feature `museum`, [`seeded`] is a constant `false` and only the right code is
//! compiled; release binaries never enable it. With the feature, a bug is on only inside
//! [`museum::with`](with) and only for the thread that called it (a child process forked there
//! inherits it, a spawned thread does not unless it runs a [`carried`] body).

mod calls;
mod media_calls;
pub mod sites;

pub use calls::{Omitted, misplaced, once, unless};

/// Whether the seeded bug of that name is switched on for this thread. Always `false` without the
/// feature `museum`.
#[cfg(not(feature = "museum"))]
#[inline(always)]
pub const fn seeded(_bug: &'static str) -> bool {
    false
}

/// Whether the seeded bug of that name is switched on for this thread.
#[cfg(feature = "museum")]
pub fn seeded(bug: &'static str) -> bool {
    switch::SEEDED.with(|seeded| seeded.get() == Some(bug))
}

#[cfg(feature = "museum")]
pub use switch::with;

/// `body`, to be run by another thread with the seeded bug that is on for this one.
#[cfg(not(feature = "museum"))]
pub fn carried<T>(body: impl FnOnce() -> T + Send) -> impl FnOnce() -> T + Send {
    body
}

/// `body`, to be run by another thread with the seeded bug that is on for this one.
#[cfg(feature = "museum")]
pub fn carried<T>(body: impl FnOnce() -> T + Send) -> impl FnOnce() -> T + Send {
    let bug = switch::SEEDED.with(std::cell::Cell::get);
    move || {
        switch::SEEDED.with(|seeded| seeded.set(bug));
        body()
    }
}

#[cfg(feature = "museum")]
mod switch {
    use std::cell::Cell;

    thread_local! {
        pub(super) static SEEDED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Runs `body` with one seeded bug switched on for this thread; off again afterwards, a panic
    /// included.
    pub fn with<T>(bug: &'static str, body: impl FnOnce() -> T) -> T {
        struct Restore(Option<&'static str>);
        impl Drop for Restore {
            fn drop(&mut self) {
                SEEDED.with(|seeded| seeded.set(self.0));
            }
        }
        let _restore = Restore(SEEDED.with(|seeded| seeded.replace(Some(bug))));
        body()
    }
}

#[cfg(all(test, feature = "museum"))]
mod tests {
    use super::*;

    #[test]
    fn a_bug_is_on_inside_with_and_nowhere_else() {
        assert!(!seeded("a"));
        with("a", || {
            assert!(seeded("a") && !seeded("b"));
            assert!(!std::thread::spawn(|| seeded("a")).join().unwrap());
            assert!(std::thread::spawn(carried(|| seeded("a"))).join().unwrap());
        });
        let _ = std::panic::catch_unwind(|| with("a", || panic!("on purpose")));
        assert!(!seeded("a"));
    }
}
