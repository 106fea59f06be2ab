//! The rule as a model: the words that may, and those that must, be found after a crash.
//!
//! One thread stores ever larger values. After a crash each word holds one of its values, and the
//! newest store that survived requires everything that was flushed before the last fence before it.

use std::collections::BTreeMap;

/// A program's stores, flushes and fences, in order.
#[derive(Clone, Default)]
pub(crate) struct Model {
    /// The stores of each word: time and value.
    stores: BTreeMap<u64, Vec<(u64, u64)>>,
    /// The time of the store that flushes have copied, word by word.
    flushed: BTreeMap<u64, u64>,
    /// At each fence: its time, and the words flushed by then.
    fences: Vec<(u64, BTreeMap<u64, u64>)>,
    now: u64,
}

impl Model {
    pub(crate) fn store(&mut self, at: u64, value: u64) {
        self.now += 1;
        self.stores.entry(at).or_default().push((self.now, value));
    }

    /// The lines of `at..at+len` were flushed.
    pub(crate) fn flush(&mut self, at: u64, len: u64) {
        self.now += 1;
        for (&word, stores) in self.stores.range(at & !63..(at + len).next_multiple_of(64)) {
            self.flushed.insert(word, stores.last().unwrap().0);
        }
    }

    /// As `flush`, for the words of one line that `mask` names.
    pub(crate) fn flush_words(&mut self, line: u64, mask: u8) {
        self.now += 1;
        for (&word, stores) in self.stores.range(line..line + 64) {
            if mask & 1 << (word % 64 / 8) != 0 {
                self.flushed.insert(word, stores.last().unwrap().0);
            }
        }
    }

    /// Orders; a barrier acknowledges the number of the fence.
    pub(crate) fn fence(&mut self) -> u64 {
        self.now += 1;
        self.fences.push((self.now, self.flushed.clone()));
        self.fences.len() as u64 - 1
    }

    /// A restart showed these values: from now on they are settled, and no other value counts.
    pub(crate) fn restart(&mut self, read: impl Fn(u64) -> u64) -> u64 {
        for (&at, stores) in &mut self.stores {
            let shown = read(at);
            stores.retain(|&(_, value)| value == shown);
        }
        self.stores.retain(|_, stores| !stores.is_empty());
        self.flushed = self.stores.iter().map(|(&at, stores)| (at, stores[0].0)).collect();
        self.fence()
    }

    /// Checks the image of a crash, of which fence `acked` had been acknowledged.
    pub(crate) fn check(&self, acked: Option<u64>, read: impl Fn(u64) -> u64) -> Result<(), String> {
        let mut found = BTreeMap::new();
        for (&at, stores) in &self.stores {
            let value = read(at);
            let stored = stores.iter().find(|store| store.1 == value).map(|store| store.0);
            let stored = stored.or((value == 0).then_some(0));
            found.insert(at, stored.ok_or(format!("{at:#x} holds {value}, which was never stored there"))?);
        }
        let newest = found.values().copied().max().unwrap_or(0);
        let before = self.fences.iter().rev().find(|fence| fence.0 < newest);
        let acked = acked.map(|fence| &self.fences[fence as usize]);
        for (why, fence) in [("before a store that survived", before), ("and acknowledged", acked)] {
            for (&at, &needed) in fence.iter().flat_map(|fence| &fence.1) {
                // A restart may have dropped the word: then no other value is required.
                if let Some(&has) = found.get(&at)
                    && has < needed
                {
                    let value = read(at);
                    return Err(format!("{at:#x} holds {value} of time {has}; that of {needed} was flushed {why}"));
                }
            }
        }
        Ok(())
    }
}
