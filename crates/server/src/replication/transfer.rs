//! A transfer: the difference of two versions, or a copy of one, as parts in the order of the keys.
//!
//! Each part says up to which key it goes. So a transfer that is cut goes on behind the last part
//! that has arrived. A part of a copy begins with the removal of whatever the replica has in its
//! range.

use super::frame::{Frame, Item, PROTOCOL, Plan};
use super::link::{Assembly, Patch, find_frame};
use super::position::{Position, RUN, ReplicaOrigin, RunId};
use crate::keyspace::ReplicatedTables;
use everbyte_kv::{Result, Snapshot};
use std::ops::Bound;

/// Receives parts; `None`: no more are wanted.
type Send<'s> = &'s mut dyn FnMut(Frame) -> Option<()>;

/// See the head of this file.
pub(super) struct Walk<'w> {
    pub tables: &'w ReplicatedTables,
    /// The version that the replica has; `None`: a copy.
    pub base: Option<&'w Snapshot>,
    pub target: &'w Snapshot,
    /// Bytes of a part, about; a larger value has one of its own.
    pub part_size: usize,
}

/// A part that is being filled.
struct Part {
    items: Vec<Item>,
    size: usize,
    /// The last key before it.
    after: Vec<u8>,
}

impl Walk<'_> {
    /// Sends everything behind a cursor.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn run(&self, cursor: &[u8], send: Send<'_>) -> Result<Option<()>> {
        let mut part = Part { items: Vec::new(), size: 0, after: cursor.to_vec() };
        for place in 0..ReplicatedTables::COUNT {
            let key_after = match cursor.split_first() {
                Some((at, _)) if *at > place => continue,
                Some((at, key)) if *at == place => Some(key),
                _ => None,
            };
            let sent = match self.base {
                Some(base) => self.changes(place, base, key_after, &mut part, send)?,
                None => self.copy(place, key_after, &mut part, send)?,
            };
            let Some(()) = sent else { return Ok(None) };
        }
        Ok(self.end_part(&mut part, vec![ReplicatedTables::COUNT], send))
    }

    fn changes(
        &self,
        place: u8,
        base: &Snapshot,
        key_after: Option<&[u8]>,
        part: &mut Part,
        send: Send<'_>,
    ) -> Result<Option<()>> {
        for change in self.tables.changes(place, base, self.target)? {
            let change = change?;
            if key_after.is_some_and(|after| change.key.as_slice() <= after) {
                continue;
            }
            let key = full_key(place, &change.key);
            let item = match change.after {
                Some(value) => Item::Put(key.clone(), value),
                None => Item::Delete(key.clone()),
            };
            let Some(()) = self.add(part, item, key, send) else { return Ok(None) };
        }
        Ok(Some(()))
    }

    fn copy(&self, place: u8, key_after: Option<&[u8]>, part: &mut Part, send: Send<'_>) -> Result<Option<()>> {
        let from = key_after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut entries = self.tables.entries(place, self.target, from)?;
        while let Some((key, value)) = entries.next_ref()? {
            let key = full_key(place, key);
            let Some(()) = self.add(part, Item::Put(key.clone(), value.to_vec()), key, send) else { return Ok(None) };
        }
        Ok(Some(()))
    }

    fn add(&self, part: &mut Part, item: Item, key: Vec<u8>, send: Send<'_>) -> Option<()> {
        part.size += item.size();
        part.items.push(item);
        if part.size >= self.part_size { self.end_part(part, key, send) } else { Some(()) }
    }

    /// Sends what a part has; with it the replica has everything up to `cursor`.
    fn end_part(&self, part: &mut Part, cursor: Vec<u8>, send: Send<'_>) -> Option<()> {
        let mut items = std::mem::take(&mut part.items);
        if self.base.is_none() {
            let from = if part.after.is_empty() { vec![0] } else { [&part.after[..], &[0]].concat() };
            let to = [&cursor[..], &[0]].concat();
            items.insert(0, Item::Clear(from, to));
        }
        (part.size, part.after) = (0, cursor.clone());
        send(Frame::Part { items, cursor })
    }
}

fn full_key(place: u8, key: &[u8]) -> Vec<u8> {
    [&[place], key].concat()
}

/// The patches by which a replica gets a copy of the first version, then the differences to the
/// others, through the bytes of the frames: for scripts.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn patches_of(tables: &ReplicatedTables, versions: &[Snapshot], part_size: usize) -> Result<Vec<Patch>> {
    let run = RunId([1; RUN]);
    let position = |snapshot: &Snapshot| Position { run, version: snapshot.version().get() };
    let mut frames = vec![Frame::Greeting { protocol: PROTOCOL, plan: Plan::WholeUnknown, chain: vec![run] }];
    let mut base: Option<&Snapshot> = None;
    for target in versions {
        frames.push(Frame::Begin { target: position(target), base: base.map(position), cursor: Vec::new() });
        let walk = Walk { tables, base, target, part_size };
        walk.run(&[], &mut |part| {
            frames.push(part);
            Some(())
        })?;
        frames.push(Frame::End);
        base = Some(target);
    }
    let bytes: Vec<u8> = (0..).zip(&frames).flat_map(|(number, frame)| frame.bytes(number)).collect();
    let mut assembly = Assembly::new(ReplicaOrigin::Own, part_size);
    let (mut patches, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((frame, after)) = find_frame(rest) {
        patches.extend(assembly.take(frame).expect("own frames"));
        rest = after;
    }
    Ok(patches)
}
