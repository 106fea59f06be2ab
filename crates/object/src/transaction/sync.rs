//! The locks of this crate. In its own unit tests they are shuttle's, so that a test can run
//! threads in every order (`schedules`): the code under test is this code.

#[cfg(not(test))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockWriteGuard};
#[cfg(not(test))]
pub(crate) use std::sync::atomic::AtomicBool;

#[cfg(test)]
pub(crate) use scheduled::{Condvar, Mutex, MutexGuard, RwLock, RwLockWriteGuard};
#[cfg(test)]
pub(crate) use shuttle::sync::atomic::AtomicBool;

/// Calls into lower crates take time: a schedule may let other threads run meanwhile.
#[inline(always)]
pub(crate) fn meanwhile() {
    #[cfg(test)]
    shuttle::thread::yield_now();
}

/// Shuttle's locks with the interface of `parking_lot`.
#[cfg(test)]
mod scheduled {
    use shuttle::rand::Rng;
    pub(crate) use shuttle::sync::RwLockWriteGuard;
    use shuttle::sync::{self, RwLockReadGuard};
    use std::ops::{Deref, DerefMut};
    use std::sync::PoisonError;
    use std::time::Duration;

    #[derive(Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    /// Holds nothing while its condition is waited for.
    pub(crate) struct MutexGuard<'a, T>(&'a Mutex<T>, Option<sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(self, Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.1.as_ref().expect("not waiting")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.1.as_mut().expect("not waiting")
        }
    }

    #[derive(Default)]
    pub(crate) struct Condvar(sync::Condvar);

    pub(crate) struct TimedOut(bool);

    impl TimedOut {
        pub(crate) fn timed_out(&self) -> bool {
            self.0
        }
    }

    impl Condvar {
        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.1.take().expect("not waiting");
            guard.1 = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }

        /// Time is up whenever chance says so.
        pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> TimedOut {
            guard.1 = None;
            shuttle::thread::yield_now();
            *guard = guard.0.lock();
            TimedOut(shuttle::rand::thread_rng().gen_bool(0.2))
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    pub(crate) struct RwLock<T>(sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) const fn new(value: T) -> RwLock<T> {
            RwLock(sync::RwLock::new(value))
        }

        pub(crate) fn read_recursive(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
