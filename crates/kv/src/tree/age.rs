//! For how long the oldest version in use has held space back.
//!
//! Readers note no time. The writer asks for the oldest version as it gives space back; if that has
//! not moved since it asked last, and a newer one is published, it notes the time, once for each
//! such version. So does a look at the figures.

use crate::ttl::{Clock, SystemClock};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The oldest version, if it holds space back, and since when.
pub(crate) struct Held(Mutex<Noted>);

struct Noted {
    clock: Arc<dyn Clock>,
    oldest: Option<(u64, SystemTime)>,
}

impl Default for Held {
    fn default() -> Held {
        Held(Mutex::new(Noted { clock: Arc::new(SystemClock), oldest: None }))
    }
}

impl Held {
    /// Times noted until now do not count: they are another clock's.
    pub(crate) fn set_clock(&self, clock: Arc<dyn Clock>) {
        *self.0.lock() = Noted { clock, oldest: None };
    }

    /// Notes that `oldest` is the oldest version in use; returns since how long, 0 if it is the
    /// newest one too, or the clock has gone back.
    pub(crate) fn note(&self, oldest: u64, newest: u64) -> Duration {
        let mut noted = self.0.lock();
        if oldest >= newest {
            noted.oldest = None;
            return Duration::ZERO;
        }
        match noted.oldest {
            Some((version, since)) if version == oldest => noted.clock.now().duration_since(since).unwrap_or_default(),
            _ => {
                noted.oldest = Some((oldest, noted.clock.now()));
                Duration::ZERO
            }
        }
    }

    /// As [`Held::note`], without the time now.
    pub(crate) fn note_once(&self, oldest: u64, newest: u64) {
        let is_noted = self.0.lock().oldest.is_some_and(|(version, _)| version == oldest);
        if !is_noted {
            self.note(oldest, newest);
        }
    }
}
