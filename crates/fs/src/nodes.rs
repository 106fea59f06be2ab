//! [`Nodes`]: the nodes of the files in use, by inode number, and those of other files while there is
//! room for them.
//!
//! A part of the nodes is a table of pointers with open addresses, which a hand goes around: above
//! the limit a new node takes the place of one that no thread uses or holds, and that was not used
//! since the hand passed it. The indexes of that one are loaded again when it is used.
//!
//! Threads: any. The lock of a part is held for a look-up alone; nothing is loaded or freed under
//! it.

use crate::hash::Seeded;
use crate::layout::{State, inode};
use crate::node::{Indexed, Node};
use crate::parts::Apart;
use crate::recover;
use crate::space::Space;
use crate::table::InodeTable;
use crate::{Error, Ino, Result};
use everbyte_media::Damage;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Parts of a table with room for many nodes: so many that one rarely has the new files of two
/// threads.
const PARTS: usize = 256;
/// Parts of a table with room for few nodes.
const FEW_PARTS: usize = 16;
/// Numbers that follow each other and lie in one part: those that a thread takes at once.
const ADJACENT: u64 = crate::table::BATCH as u64;
/// Places that the hand passes for one new node at most.
const STEPS: usize = 64;

/// The nodes in memory.
pub(crate) struct Nodes {
    parts: Box<[Apart<Mutex<NodeTable>>]>,
    /// Nodes of a part that may stay although no thread uses them.
    limit: usize,
    /// Numbers that follow each other and lie in one part: [`ADJACENT`], or 1 where a part has room
    /// for few nodes, so that all parts are in use.
    adjacent: u64,
    damaged: HashSet<Ino>,
}

/// Nodes by number: each lies at the place of its hash, or behind it without a gap.
#[derive(Default)]
struct NodeTable {
    /// A power of two, a quarter of them free.
    places: Vec<Option<Arc<Node>>>,
    len: usize,
    hand: usize,
    seeds: Seeded,
}

impl Nodes {
    /// No nodes. About `files` of them may stay although no thread uses them.
    pub(crate) fn new(damaged: &[Ino], files: usize) -> Nodes {
        let is_large = files >= PARTS * 16 * ADJACENT as usize;
        let (parts, adjacent) = if is_large { (PARTS, ADJACENT) } else { (FEW_PARTS, 1) };
        let limit = files.div_ceil(parts).max(1);
        let parts = (0..parts).map(|_| Apart::default()).collect();
        Nodes { parts, limit, adjacent, damaged: damaged.iter().copied().collect() }
    }

    fn part(&self, ino: Ino) -> &Mutex<NodeTable> {
        &self.parts[(ino.0 / self.adjacent % self.parts.len() as u64) as usize]
    }

    /// Forgets a node whose inode was freed; the next file of that number gets one of its own.
    pub(crate) fn forget(&self, ino: Ino) {
        let mut part = self.part(ino).lock();
        let forgotten = part.find(ino).ok().map(|place| part.remove(place));
        drop(part);
        drop(forgotten);
    }

    /// Whether no file was damaged when the volume was opened.
    pub(crate) fn are_whole(&self) -> bool {
        self.damaged.is_empty()
    }

    /// Refuses a file that was damaged when the volume was opened.
    pub(crate) fn require_whole(&self, ino: Ino, at: u64, space: &Space) -> Result<()> {
        if self.damaged.contains(&ino) {
            let damage = Damage::at(at, format!("the extents of inode {ino} contradict themselves"));
            return Err(damage.of_object(space.name()).into());
        }
        Ok(())
    }

    /// Files in memory; a file that a thread changes meanwhile is left out.
    pub(crate) fn indexed(&self) -> Indexed {
        let mut indexed = Indexed::default();
        for part in self.parts.iter() {
            let part = part.lock();
            part.places.iter().flatten().for_each(|node| node.count(&mut indexed));
            indexed.bytes += part.places.capacity() * size_of::<Option<Arc<Node>>>();
        }
        indexed
    }

    /// The node of an inode.
    ///
    /// # Errors
    /// [`Error::Stale`] if the volume has no such inode; whether it is free the lock tells.
    pub(crate) fn get(&self, ino: Ino, table: &InodeTable, space: &Space) -> Result<Arc<Node>> {
        let mut part = self.part(ino).lock();
        if let Ok(place) = part.find(ino) {
            let node = part.places[place].as_ref().expect("it was found");
            if !node.is_used.load(Ordering::Relaxed) {
                node.is_used.store(true, Ordering::Relaxed);
            }
            return Ok(Arc::clone(node));
        }
        let at = table.at(ino).ok_or(Error::Stale { ino })?;
        self.require_whole(ino, at, space)?;
        if State::checked(space.media().load(at + inode::STATE)).is_none_or(|state| state.mode != 0) {
            // A volume that was closed is not scanned.
            recover::require_plausible(space.media(), ino, at).map_err(|damage| damage.of_object(space.name()))?;
        }
        let node = Arc::new(Node::new(ino, at));
        // Two, so that the limit is kept again after more nodes were in use.
        let dropped = [(); 2].map(|()| if part.len >= self.limit { part.evict() } else { None });
        part.insert(Arc::clone(&node));
        drop(part);
        drop(dropped); // the names of a large directory take a while
        Ok(node)
    }
}

impl Drop for Nodes {
    /// Frees all nodes in the order of their addresses: in that of their hashes each of a million
    /// would be a miss of the caches.
    fn drop(&mut self) {
        let places = self.parts.iter_mut().flat_map(|part| std::mem::take(&mut part.get_mut().places));
        let mut all: Vec<Arc<Node>> = places.flatten().collect();
        all.sort_unstable_by_key(|node| Arc::as_ptr(node).addr());
    }
}

impl NodeTable {
    /// The place where a number belongs if all others were absent.
    fn home(&self, ino: Ino) -> usize {
        let mut hasher = self.seeds.build_hasher();
        hasher.write_u64(ino.0);
        hasher.finish() as usize & (self.places.len() - 1)
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// The place of a node. `Err`: the free place where it would lie.
    fn find(&self, ino: Ino) -> Result<usize, usize> {
        if self.places.is_empty() {
            return Err(0);
        }
        let mut place = self.home(ino);
        while let Some(node) = &self.places[place] {
            if node.ino == ino {
                return Ok(place);
            }
            place = self.next(place);
        }
        Err(place)
    }

    /// Adds a node that the table does not have.
    fn insert(&mut self, node: Arc<Node>) {
        if (self.len + 1) * 4 > self.places.len() * 3 {
            let larger = (self.places.len() * 2).max(8);
            let old = std::mem::replace(&mut self.places, vec![None; larger]);
            old.into_iter().flatten().for_each(|node| self.put(node));
        }
        self.put(node);
        self.len += 1;
    }

    fn put(&mut self, node: Arc<Node>) {
        let place = self.find(node.ino).expect_err("the table does not have it");
        self.places[place] = Some(node);
    }

    /// Takes a node out; those behind it move up, so that none has a gap before it.
    fn remove(&mut self, place: usize) -> Option<Arc<Node>> {
        let removed = self.places[place].take();
        self.len -= 1;
        let (mut gap, mut place, mask) = (place, self.next(place), self.places.len() - 1);
        while let Some(node) = &self.places[place] {
            let home = self.home(node.ino);
            if (place.wrapping_sub(home) & mask) >= (place.wrapping_sub(gap) & mask) {
                self.places.swap(gap, place);
                gap = place;
            }
            place = self.next(place);
        }
        removed
    }

    /// Takes a node out that no thread uses: the first that was not used since the hand passed it,
    /// or else the first of those that the hand passes now.
    fn evict(&mut self) -> Option<Arc<Node>> {
        let mut second = None;
        for _ in 0..STEPS.min(2 * self.places.len()) {
            let place = self.hand;
            // Alone in the table: as the lock of the part is held, no thread gets it now. This also
            // orders what the last user has stored before the next loading.
            if let Some(node) = self.places[place].as_mut().and_then(Arc::get_mut) {
                if !std::mem::take(node.is_used.get_mut()) {
                    return self.remove(place);
                }
                second.get_or_insert(place);
            }
            self.hand = self.next(place);
        }
        second.and_then(|place| self.remove(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_workload::Random;
    use std::collections::HashMap;

    /// Nodes in use stay, others go when the limit is reached, and each is found by its number.
    #[test]
    fn nodes_in_use_stay_and_others_go() {
        let (mut random, limit) = (Random::new(3), 100);
        let (mut table, mut used) = (NodeTable::default(), HashMap::new());
        for _ in 0..50_000 {
            let ino = Ino(1 + random.below(1000));
            match table.find(ino) {
                Ok(place) if random.chance(30) => {
                    _ = used.insert(ino, Arc::clone(table.places[place].as_ref().unwrap()))
                }
                Ok(place) if random.chance(10) && !used.contains_key(&ino) => drop(table.remove(place)),
                Ok(place) => table.places[place].as_ref().unwrap().is_used.store(true, Ordering::Relaxed),
                Err(_) => {
                    if table.len >= limit {
                        drop(table.evict());
                    }
                    table.insert(Arc::new(Node::new(ino, 8 * ino.0)));
                }
            }
            if random.chance(20) {
                used.remove(&Ino(1 + random.below(1000)));
            }
            if used.len() > 60 {
                used.clear();
            }
            assert!(table.len <= limit, "{} nodes", table.len);
        }
        for (ino, node) in &used {
            let place = table.find(*ino).expect("it is in use");
            assert!(Arc::ptr_eq(table.places[place].as_ref().unwrap(), node));
        }
        let found = (1..=1000).filter(|&ino| table.find(Ino(ino)).is_ok()).count();
        assert_eq!(found, table.len);
        assert_eq!(table.places.iter().flatten().count(), table.len);
    }
}
