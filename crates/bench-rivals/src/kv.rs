//! The interface of every key-value rival.

use std::fmt;

/// A rival's error, in its own words.
#[derive(Debug)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// An opened rival.
pub type Opened = Result<Box<dyn KvRival>, Failure>;

/// Buffer for the values of a scan, one behind the other; `None`: it passes over them, as far as
/// the store lets one.
pub type Values<'v> = Option<&'v mut Vec<u8>>;

/// A rival as the benches use it. Any number of threads may call at once.
pub trait KvRival: Send + Sync {
    /// One durable write, acknowledged: a transaction of its own.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure>;
    /// Copies the value out; `false` if there is none.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure>;
    /// Goes through up to `count` pairs from `key` on; how many there were and the bytes of their
    /// values.
    fn scan(&self, key: &[u8], count: usize, values: Values<'_>) -> Result<(usize, usize), Failure>;
    /// Many writes at once, the fastest durable way the rival has.
    fn load(&self, pairs: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<(), Failure>;
}
