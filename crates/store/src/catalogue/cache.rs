//! The cache of names, each with its record: a hit costs one line of memory.
//!
//! A short name stands in its line itself, with the offset of its record and, after the first
//! lookup by id, the id of its object. The hash table keeps a byte for each line beside the lines.
//! Longer names are few and lie in a table of their own.
//!
//! Invariants
//!   CACHE-1  The cache has an id only while the record is live: a thread that takes a record out
//!            of that state removes the name first, or enters it without an id.
//!
//! Threads: under the lock of the object table.

use everbyte_space::ObjectId;
use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Bytes of the names that fit into a line.
const SHORT: usize = 47;

/// The record and the object of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The record.
    pub at: u64,
    /// The object; 0: the record was not read yet, or was not live.
    pub id: ObjectId,
}

/// A short name with its record; two lines are equal if their names are.
#[repr(align(64))]
struct Line {
    name: [u8; SHORT],
    len: u8,
    known: Known,
}
const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    /// `None`: the name is too long for one.
    fn new(name: &[u8], known: Known) -> Option<Line> {
        let mut line = Line { name: [0; SHORT], len: name.len() as u8, known };
        line.name.get_mut(..name.len())?.copy_from_slice(name);
        Some(line)
    }
}

impl Borrow<[u8]> for Line {
    fn borrow(&self) -> &[u8] {
        &self.name[..self.len.into()]
    }
}

impl Hash for Line {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Borrow::<[u8]>::borrow(self).hash(state);
    }
}

impl PartialEq for Line {
    fn eq(&self, other: &Line) -> bool {
        Borrow::<[u8]>::borrow(self) == Borrow::<[u8]>::borrow(other)
    }
}

impl Eq for Line {}

/// A hash by CRC-32C, which processors have an instruction for, spread over all bits.
#[derive(Default)]
struct NameHasher(u32);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, bytes);
    }

    fn write_usize(&mut self, len: usize) {
        self.0 ^= len as u32; // before the bytes of a slice
    }

    fn finish(&self) -> u64 {
        u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// The names.
#[derive(Default)]
pub(crate) struct Cache {
    short: HashSet<Line, BuildHasherDefault<NameHasher>>,
    long: HashMap<Box<[u8]>, Known, BuildHasherDefault<NameHasher>>,
}

impl Cache {
    /// The record of a name, if the cache has it.
    #[inline]
    pub(crate) fn get(&self, name: &str) -> Option<Known> {
        match name.len() {
            ..=SHORT => self.short.get(name.as_bytes()).map(|line| line.known),
            _ => self.long.get(name.as_bytes()).copied(),
        }
    }

    /// Enters a name, in place of its earlier entry.
    pub(crate) fn insert(&mut self, name: &str, known: Known) {
        match Line::new(name.as_bytes(), known) {
            Some(line) => drop(self.short.replace(line)),
            None => drop(self.long.insert(name.as_bytes().into(), known)),
        }
    }

    /// Removes a name.
    pub(crate) fn remove(&mut self, name: &str) {
        self.short.remove(name.as_bytes());
        self.long.remove(name.as_bytes());
    }

    /// Removes all names.
    pub(crate) fn clear(&mut self) {
        self.short.clear();
        self.long.clear();
    }

    /// The number of names.
    pub(crate) fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_length_are_remembered_as_they_were_entered_last() {
        let mut cache = Cache::default();
        let names: Vec<String> = (1..=crate::NAME_MAX).map(|len| "n".repeat(len)).collect();
        for (at, name) in (1..).zip(&names) {
            assert_eq!(cache.get(name), None);
            cache.insert(name, Known { at: 0, id: ObjectId::new(0) });
            cache.insert(name, Known { at, id: ObjectId::new(at * 2) });
        }
        assert_eq!(cache.len(), names.len());
        for (at, name) in (1..).zip(&names) {
            assert_eq!(cache.get(name), Some(Known { at, id: ObjectId::new(at * 2) }));
        }
        names.iter().step_by(2).for_each(|name| cache.remove(name));
        assert!(names.iter().enumerate().all(|(index, name)| cache.get(name).is_some() == (index % 2 == 1)));
        cache.clear();
        assert_eq!((cache.len(), cache.get("nn")), (0, None));
    }
}
