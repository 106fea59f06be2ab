//! [`Log`]: a word log in an object of its own, under a name.
//!
//! Threads: one appends and flushes while another truncates; they share only the ring's two
//! positions. Further threads wait for a lock.

use crate::Result;
use everbyte_log::ring::{Position, RING_BYTES_MIN};
use everbyte_log::{Consumer, Form, Full, Producer, WordLog};
use everbyte_media::Media;
use everbyte_store::{CLUSTER, Claim, Engine, Object, ObjectOptions, PRIME_LEN, Store};
use parking_lot::Mutex;
use std::ops::Range;

/// The object's fingerprint: `b"EVRBLOGS"`.
const FINGERPRINT: u64 = u64::from_le_bytes(*b"EVRBLOGS");

/// The properties of a log at its creation.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Bytes, rounded up to lines.
    pub size: u64,
    /// How records are made recoverable.
    pub form: Form,
    /// The action of an append that finds no space. Not stored: each opening gives it.
    pub full: Full,
}

/// An open log.
pub struct Log {
    producer: Mutex<Producer>,
    consumer: Mutex<Consumer>,
    flushed: Mutex<Position>,
    media: Media,
    _claim: Claim,
}

impl Log {
    /// Opens the log of that name, or creates it, settled on return. `consume` gets each record
    /// that was flushed whole and not truncated, oldest first.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store): no space, an invalid name, not a log, open already.
    /// [`Error::Log`](crate::Error::Log) if it is damaged.
    pub fn open(store: &Store, name: &str, options: LogOptions, consume: impl FnMut(&[u64])) -> Result<Log> {
        let object = match store.object(name) {
            Err(everbyte_store::Error::NotFound { .. }) => make(store, name, options)?,
            // The object is open in another way; that it is no log is the better answer.
            Err(error @ everbyte_store::Error::Open { .. }) => {
                let found = store.stat(name)?.engine;
                let wanted = Engine::None;
                return Err(match found == wanted {
                    true => error,
                    false => everbyte_store::Error::WrongEngine { object: name.into(), found, wanted },
                }
                .into());
            }
            object => object?,
        };
        object.require_engine(Engine::None)?;
        object.require_fingerprint(FINGERPRINT)?;
        let claim = object.claim()?;
        let recovered = WordLog::recover(object.media(), range(&object, object.root()), options.full, consume)?;
        let (producer, consumer) = recovered.log.split();
        let flushed = Mutex::new(producer.flushed());
        let media = object.media().clone();
        Ok(Log { producer: Mutex::new(producer), consumer: Mutex::new(consumer), flushed, media, _claim: claim })
    }

    /// Appends one record; a crash may lose it until it is flushed.
    ///
    /// # Errors
    /// [`Error::Log`](crate::Error::Log): no space, and nothing was appended.
    /// [`Error::Media`](crate::Error::Media) in a child of fork.
    pub fn append(&self, words: &[u64]) -> Result<()> {
        self.media.require_here()?;
        Ok(self.producer.lock().append(words)?)
    }

    /// Settles every record appended so far.
    ///
    /// # Errors
    /// The media's: the outcome is unknown until the store is opened again.
    pub fn flush(&self) -> Result<()> {
        self.media.require_here()?;
        let mut producer = self.producer.lock(); // held, so that the position only grows
        let position = producer.barrier()?;
        *self.flushed.lock() = position;
        Ok(())
    }

    /// Drops the flushed records. Settled on return.
    ///
    /// # Errors
    /// The media's.
    pub fn truncate(&self) -> Result<()> {
        self.media.require_here()?;
        // locked before the position is read: another thread may truncate further meanwhile
        let mut consumer = self.consumer.lock();
        let flushed = *self.flushed.lock();
        consumer.truncate(flushed);
        drop(consumer);
        Ok(self.media.barrier()?)
    }
}

/// The range of a ring of `len` bytes. `len` is the root word, which comes from media: the ring
/// checks that the range is backed.
fn range(object: &Object, len: u64) -> Range<u64> {
    let start = object.prime() + PRIME_LEN;
    start.get()..start.saturating_add(len).get().min(object.span().end)
}

fn make(store: &Store, name: &str, options: LogOptions) -> Result<Object> {
    let size = options.size.clamp(RING_BYTES_MIN, 1 << 40).next_multiple_of(64);
    let span = (PRIME_LEN + size).next_power_of_two().max(CLUSTER);
    let wanted = ObjectOptions { engine: Engine::None, fingerprint: FINGERPRINT, span: Some(span) };
    store.create_object(name, wanted, |object| {
        object.grow((PRIME_LEN + size).saturating_sub(CLUSTER))?;
        let identity = u64::from_le_bytes(store.identity()[..8].try_into().expect("eight of sixteen bytes"));
        let salt = (identity ^ object.id().get().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        WordLog::format(object.media(), range(object, size), options.form, salt)?;
        object.set_root(size);
        Ok(())
    })
}
