//! [`Lines`]: which line of a directory has the entry of a name, by the hash of the name.
//!
//! A table with open addresses of 12 bytes a place; the names themselves lie on media alone.

use crate::Ino;
use crate::hash::Seeded;
use crate::names::Named;
use std::hash::{BuildHasher, Hasher};

/// A place of the table; a line of 0 is none.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// The line and 1.
    line: u32,
    /// The lower half of the hash of the name.
    hash: u32,
    /// The inode: a volume has fewer than 2^26.
    ino: u32,
}
const _: () = assert!(size_of::<Place>() == 12);

/// The entries of a directory.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// A power of two, a quarter of them free. An entry lies at the place of its hash, or behind it
    /// without a gap.
    places: Vec<Place>,
    len: usize,
    seeds: Seeded,
}

impl Lines {
    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place>()
    }

    fn hash(&self, name: &[u8]) -> u32 {
        let mut hasher = self.seeds.build_hasher();
        hasher.write(name);
        hasher.finish() as u32
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// The place of a name; `is_named` compares it with the name of a line.
    fn find(&self, name: &[u8], is_named: impl Fn(u32) -> bool) -> Option<usize> {
        let hash = self.hash(name);
        let mut place = hash as usize & self.places.len().checked_sub(1)?;
        while self.places[place].line != 0 {
            if self.places[place].hash == hash && is_named(self.places[place].line - 1) {
                return Some(place);
            }
            place = self.next(place);
        }
        None
    }

    /// The entry of a name.
    pub(crate) fn get(&self, name: &[u8], is_named: impl Fn(u32) -> bool) -> Option<Named> {
        let Place { line, ino, .. } = self.places[self.find(name, is_named)?];
        Some(Named { ino: Ino(ino.into()), line: line - 1 })
    }

    /// Adds an entry of a name that has none.
    pub(crate) fn insert(&mut self, name: &[u8], ino: Ino, line: u32) {
        if (self.len + 1) * 4 > self.places.len() * 3 {
            let larger = (self.places.len() * 2).max(4);
            let old = std::mem::replace(&mut self.places, vec![Place::default(); larger]);
            old.into_iter().filter(|place| place.line != 0).for_each(|place| self.put(place));
        }
        let ino = u32::try_from(ino.0).expect("a volume has fewer inodes");
        self.put(Place { line: line + 1, hash: self.hash(name), ino });
        self.len += 1;
    }

    fn put(&mut self, new: Place) {
        let mut place = new.hash as usize & (self.places.len() - 1);
        while self.places[place].line != 0 {
            place = self.next(place);
        }
        self.places[place] = new;
    }

    /// The entry of a name leads to another inode now.
    ///
    /// # Panics
    /// If the name has no entry.
    pub(crate) fn replace(&mut self, name: &[u8], ino: Ino, is_named: impl Fn(u32) -> bool) {
        let place = self.find(name, is_named).expect("the entry exists");
        self.places[place].ino = u32::try_from(ino.0).expect("a volume has fewer inodes");
    }

    /// Removes the entry of a name; those behind it move up. Returns its line.
    ///
    /// # Panics
    /// If the name has no entry.
    pub(crate) fn remove(&mut self, name: &[u8], is_named: impl Fn(u32) -> bool) -> u32 {
        let mut gap = self.find(name, is_named).expect("the entry exists");
        let Place { line, .. } = std::mem::take(&mut self.places[gap]);
        self.len -= 1;
        let (mut place, mask) = (self.next(gap), self.places.len() - 1);
        while self.places[place].line != 0 {
            let home = self.places[place].hash as usize & mask;
            if (place.wrapping_sub(home) & mask) >= (place.wrapping_sub(gap) & mask) {
                self.places.swap(gap, place);
                gap = place;
            }
            place = self.next(place);
        }
        line - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_workload::Random;
    use std::collections::HashMap;

    /// A map of names answers as the lines do.
    #[test]
    fn lines_are_found_by_their_names() {
        let mut random = Random::new(5);
        let (mut lines, mut twin) = (Lines::default(), HashMap::new());
        let mut names: Vec<String> = Vec::new(); // of each line
        for _ in 0..20_000 {
            let name = format!("message-{}", random.below(500));
            let find = |line: u32| names[line as usize] == name;
            let found = lines.get(name.as_bytes(), find);
            assert_eq!(found, twin.get(&name).copied());
            match found {
                None => {
                    let named = Named { ino: Ino(random.below(1 << 26)), line: names.len() as u32 };
                    lines.insert(name.as_bytes(), named.ino, named.line);
                    names.push(name.clone());
                    twin.insert(name, named);
                }
                Some(named) if random.chance(60) => {
                    assert_eq!(lines.remove(name.as_bytes(), find), named.line);
                    twin.remove(&name);
                }
                Some(named) => {
                    lines.replace(name.as_bytes(), Ino(7), find);
                    twin.insert(name, Named { ino: Ino(7), ..named });
                }
            }
            assert_eq!(lines.len(), twin.len());
        }
    }
}
