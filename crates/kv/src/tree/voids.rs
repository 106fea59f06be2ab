//! The list of versions that a crash cut short, on media.

use crate::error::{Result, damaged};
use crate::tree::handle::OpenTree;
use crate::tree::layout::*;
use crate::tree::number::Version;
use crate::tree::savepoint::NUMBERS_MAX;
use crate::tree::scrub::scrub;
use crate::tree::version::Voids;
use everbyte_media::{Media, Offset, PublishWord, seeded};
use std::mem::offset_of;

/// Lists the version that may have been under way as void, and takes back the mark of a clean
/// close.
pub(crate) fn void_unfinished(shared: &OpenTree, mut voids: Voids, version: Version) -> Result<()> {
    let media = &shared.media;
    let mark = media.load(shared.header + CLOSED_AT);
    let closed = mark & !AFTER_DEATH == version.get();
    // A process that closed the tree in good order may have looked at little of what another one
    // had left unflushed at its death.
    let follows_a_death = !closed || mark & AFTER_DEATH != 0 && !seeded("tree-close-hides-a-death");
    shared.writer.lock().suspicious = follows_a_death && media.fences_settle();
    let next = voids.0.last().map_or(version, |last| last.1.max(version)).next();
    if closed || seeded("tree-void-forgotten") {
        shared.set_voids(voids);
        shared.writer.lock().next = next;
    } else {
        let last = if seeded("tree-one-number-void") { next } else { Version::new(next.get() + NUMBERS_MAX - 1) };
        voids.add(next, last);
        store_voids(shared, voids);
        shared.writer.lock().next = last.next();
    }
    if closed {
        media.store(shared.header + CLOSED_AT, 0);
        media.flush(shared.header + CLOSED_AT, 8);
        // Before anything of the next version: a crash then must not find the mark.
        media.fence();
    }
    Ok(())
}

pub(crate) fn load_voids(media: &Media, area: u64, version: Version) -> Result<Voids> {
    let count = media.load(area + VOID_COUNT_AT);
    if count > VOIDS_MAX as u64 {
        return damaged(area + VOID_COUNT_AT, "the void list is longer than its room");
    }
    let mut voids = Voids::default();
    for index in 0..count {
        let at = area + VOIDS_AT + index * VOID_RANGE;
        let VoidRange { first, last } = media.get(at);
        let after = voids.0.last().map_or(Version::NONE, |last| last.1);
        if first <= after || last < first || first.get() > version.get() + 2 {
            return damaged(at, "the void list is not ascending");
        }
        voids.0.push((first, last));
    }
    Ok(voids)
}

/// Makes `voids` the list, on media and for new views. Ordered before everything stored later.
fn store_voids(shared: &OpenTree, mut voids: Voids) {
    let media = &shared.media;
    let _section = media.section();
    if voids.0.len() > VOIDS_MAX {
        shared.set_voids(voids.clone());
        scrub(shared, &voids);
        let last = voids.0.pop().expect("longer than its room");
        // The newest stays listed: its stamps may be in flight still, and numbers go on from it.
        voids.0 = vec![last];
        media.store(shared.area + VOID_COUNT_AT, 0);
        media.flush(shared.area + VOID_COUNT_AT, 8);
        media.fence();
    }
    let (Some(&(first, last)), index) = (voids.0.last(), voids.0.len() as u64 - 1) else { return };
    let at = shared.area + VOIDS_AT + index * VOID_RANGE;
    // A range that only grows changes in one word; a new one is whole before the count includes it.
    media.store(at + offset_of!(VoidRange, first) as u64, first.get());
    media.store(at + offset_of!(VoidRange, last) as u64, last.get());
    media.flush(at, VOID_RANGE);
    let ordered = media.fence_after(index + 1);
    PublishWord::new(Offset::new(shared.area + VOID_COUNT_AT)).publish(media, *ordered, &ordered);
    media.fence();
    shared.set_voids(voids);
}
