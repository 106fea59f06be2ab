//! [`Latch`]: a lock for short sections around a fence.
//!
//! Its release is a plain store. Other locks end with an atomic exchange, which would wait until
//! everything that was flushed before the fence is on the medium. A store lets the thread continue
//! meanwhile, and becomes visible after the fence all the same.
//!
//! The price: no thread is woken. A thread that finds the latch taken spins, then yields, then
//! sleeps for 50 µs at a time. Use it for sections that rarely overlap.

use parking_lot::lock_api::{GuardSend, Mutex, MutexGuard, RawMutex};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{sleep, yield_now};
use std::time::Duration;

/// A value that one thread at a time may change.
pub type Latch<T> = Mutex<RawLatch, T>;
/// The guard of a [`Latch`].
pub type LatchGuard<'t, T> = MutexGuard<'t, RawLatch, T>;

/// Whether the latch is taken.
#[derive(Debug)]
pub struct RawLatch(AtomicBool);

/// Attempts before the thread yields, and before it sleeps.
const SPINS: u32 = 100;
const YIELDS: u32 = 200;

// SAFETY: one thread succeeds in the exchange of `false` for `true` (Acquire), and only that thread
// stores `false` (Release).
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
