//! [`Latch`]: a lock for what one thread at a time does around a fence.
//!
//! Giving it back is a plain store. An atomic exchange, as other locks end with, would wait until
//! everything that was flushed before the fence is on the media; a store lets the thread go on
//! meanwhile, and is seen after it all the same.
//!
//! The price: nobody is woken. Who finds it taken looks again, then lets others run, then sleeps
//! for moments. It is for sections that rarely meet.

use parking_lot::lock_api::{GuardSend, Mutex, MutexGuard, RawMutex};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{sleep, yield_now};
use std::time::Duration;

/// A value that one thread at a time may change.
pub type Latch<T> = Mutex<RawLatch, T>;
/// Keeps others away from the value of a [`Latch`].
pub type LatchGuard<'t, T> = MutexGuard<'t, RawLatch, T>;

/// Whether it is taken.
#[derive(Debug)]
pub struct RawLatch(AtomicBool);

/// Looks before others are let run, and before the thread sleeps.
const SPINS: u32 = 100;
const YIELDS: u32 = 200;

// SAFETY: of those who exchange `false` for `true` one succeeds (Acquire), and only that one stores
// `false` (Release).
unsafe impl RawMutex for RawLatch {
    const INIT: RawLatch = RawLatch(AtomicBool::new(false));
    type GuardMarker = GuardSend;

    #[inline]
    fn lock(&self) {
        let mut looks = 0;
        while !self.try_lock() {
            match looks {
                0..SPINS => spin_loop(),
                SPINS..YIELDS => yield_now(),
                _ => sleep(Duration::from_micros(50)),
            }
            looks += 1;
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        !self.0.load(Ordering::Relaxed) && !self.0.swap(true, Ordering::Acquire)
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time() {
        let latch = Latch::new(0u64);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..10_000 {
                        let mut sum = latch.lock();
                        let before = *sum;
                        spin_loop();
                        *sum = before + 1;
                    }
                });
            }
        });
        assert_eq!(latch.into_inner(), 40_000);
    }

    #[test]
    fn a_latch_that_is_taken_is_not_taken_again() {
        let latch = Latch::new(());
        let taken = latch.lock();
        assert!(latch.try_lock().is_none());
        drop(taken);
        assert!(latch.try_lock().is_some());
    }
}
