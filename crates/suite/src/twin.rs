//! Data that may be found after a kill.
//!
//! Each client has its own keys and a list of writes. Writes that were acknowledged have happened.
//! Those sent after them may have happened, but only in the order sent: what is found is the state
//! after some number of them, each whole.

use std::collections::{BTreeMap, BTreeSet};

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// `SET key value`
    Set(Vec<u8>, Vec<u8>),
    /// `DEL key`
    Del(Vec<u8>),
}

impl Write {
    /// The key it changes.
    pub fn key(&self) -> &[u8] {
        match self {
            Write::Set(key, _) | Write::Del(key) => key,
        }
    }

    /// The command.
    pub fn command(&self) -> Vec<u8> {
        match self {
            Write::Set(key, value) => crate::process::command(&[b"SET", key, value]),
            Write::Del(key) => crate::process::command(&[b"DEL", key]),
        }
    }
}

/// One client's writes, and how far they have come.
pub struct Twin {
    /// All of them, in order.
    pub writes: Vec<Write>,
    /// How many have been acknowledged, or found after a kill.
    pub done: usize,
    /// How many have been sent.
    pub sent: usize,
    /// The keys after `done` writes; values by the index of their write.
    state: BTreeMap<Vec<u8>, usize>,
}

impl Twin {
    /// Nothing sent yet.
    pub fn new(writes: Vec<Write>) -> Twin {
        Twin { writes, done: 0, sent: 0, state: BTreeMap::new() }
    }

    /// The next write has been acknowledged.
    pub fn acknowledge(&mut self) {
        match &self.writes[self.done] {
            Write::Set(key, _) => drop(self.state.insert(key.clone(), self.done)),
            Write::Del(key) => drop(self.state.remove(key)),
        }
        self.done += 1;
    }

    fn expected(&self, key: &[u8]) -> Option<&[u8]> {
        match &self.writes[*self.state.get(key)?] {
            Write::Set(_, value) => Some(value),
            Write::Del(_) => None,
        }
    }

    /// Compares with the data found under this client's keys, and goes on from there. Returns how
    /// many writes were found that had not been acknowledged.
    pub fn compare(&mut self, found: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<usize, String> {
        let doubtful: BTreeSet<Vec<u8>> =
            self.writes[self.done..self.sent].iter().map(|write| write.key().to_vec()).collect();
        // First the keys on which nothing was under way: they are settled.
        let settled = self.state.keys().chain(found.keys()).filter(|key| !doubtful.contains(*key));
        for key in settled {
            if self.expected(key) != found.get(key).map(Vec::as_slice) {
                return Err(format!(
                    "{}: an acknowledged write is lost: expected {:?} bytes, found {:?}",
                    String::from_utf8_lossy(key),
                    self.expected(key).map(<[u8]>::len),
                    found.get(key).map(Vec::len)
                ));
            }
        }
        // Then some number of the writes under way must explain the rest.
        let before = self.done;
        loop {
            if doubtful.iter().all(|key| self.expected(key) == found.get(key).map(Vec::as_slice)) {
                self.sent = self.done;
                return Ok(self.done - before);
            }
            if self.done == self.sent {
                return Err(format!(
                    "none of the {} prefixes of the writes under way explains what was found: {:?}",
                    self.sent - before + 1,
                    doubtful.iter().take(5).map(|key| String::from_utf8_lossy(key)).collect::<Vec<_>>()
                ));
            }
            self.acknowledge();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twin() -> Twin {
        let set = |key: &str, value: &str| Write::Set(key.into(), value.into());
        let mut twin = Twin::new(vec![set("a", "1"), set("b", "1"), set("a", "2"), Write::Del("b".into())]);
        twin.acknowledge();
        twin.sent = 4;
        twin
    }

    fn found(pairs: &[(&str, &str)]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        pairs.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    }

    /// The twin passes what may be, and what may not be it finds: a comparison that never fails
    /// proves nothing.
    #[test]
    fn prefixes_are_accepted_and_nothing_else() {
        assert_eq!(twin().compare(&found(&[("a", "1")])), Ok(0));
        assert_eq!(twin().compare(&found(&[("a", "1"), ("b", "1")])), Ok(1));
        assert_eq!(twin().compare(&found(&[("a", "2"), ("b", "1")])), Ok(2));
        assert_eq!(twin().compare(&found(&[("a", "2")])), Ok(3));
        assert!(twin().compare(&found(&[])).is_err(), "an acknowledged write is lost");
        assert!(twin().compare(&found(&[("a", "torn")])).is_err(), "a torn value");
        assert!(twin().compare(&found(&[("a", "1"), ("c", "1")])).is_err(), "a key that no client wrote");
    }
}
