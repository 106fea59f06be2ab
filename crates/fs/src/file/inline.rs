//! Small files, whose bytes lie in the inode.

use super::{large, publish_size, store_times};
use crate::change::Change;
use crate::core::Core;
use crate::extents::{Extents, Pages};
use crate::layout::{INLINE, PAGE, PLACE_UNWRITTEN, Place, Run, STATE_INLINE, State, inode};
use crate::node::{Node, NodeState};
use crate::order::{Blank, Fresh};
use crate::{PageSize, Result};

type Bytes = [u8; INLINE as usize];

fn bytes(core: &Core, node: &Node) -> Bytes {
    core.media().get(node.at + inode::INLINE)
}

/// Writes to a small file that stays one.
pub(super) fn write(core: &Core, node: &Node, at: u64, from: &[u8]) -> Result<()> {
    let media = core.media();
    let (size, end) = (node.size(core), at + from.len() as u64);
    let mut new = bytes(core, node);
    new[size as usize..].fill(0); // FS-11
    new[at as usize..end as usize].copy_from_slice(from);
    if at >= size {
        let (first, last) = (size & !7, end.next_multiple_of(8));
        let _section = media.section();
        media.write(node.at + inode::INLINE + first, &new[first as usize..last as usize]);
        let inside = node.at + inode::INLINE + first;
        let new = Blank::new(()).flush_unless(media, "fs-inline-unflushed", inside, last - first);
        publish_size(core, node, end, new.and(store_times(core, node, [core.now() as u64; 2])));
        return Ok(());
    }
    let mut change = core.change().of_bytes();
    set_bytes(&mut change, node, &new);
    set_size(&mut change, node, size.max(end));
    change.commit()
}

/// Changes the size of a small file that stays one.
pub(super) fn resize(core: &Core, node: &Node, to: u64) -> Result<()> {
    let media = core.media();
    let size = node.size(core);
    let mut covered = Fresh::linked(());
    if to > size {
        let mut new = bytes(core, node);
        new[size as usize..].fill(0); // FS-11
        let first = size & !7;
        let _section = media.section();
        media.write(node.at + inode::INLINE + first, &new[first as usize..]);
        let inside = node.at + inode::INLINE + first;
        covered = Blank::new(()).flush_unless(media, "fs-inline-zeros-unflushed", inside, INLINE - first);
    }
    publish_size(core, node, to, covered.and(store_times(core, node, [core.now() as u64; 2])));
    Ok(())
}

fn set_bytes(change: &mut Change<'_>, node: &Node, new: &Bytes) {
    for (index, word) in new.as_chunks::<8>().0.iter().enumerate() {
        change.set(node.at + inode::INLINE + 8 * index as u64, u64::from_le_bytes(*word));
    }
}

/// A new size, and the time of the change.
pub(super) fn set_size(change: &mut Change<'_>, node: &Node, size: u64) {
    let now = change.now();
    change.set_number(node.at + inode::SIZE, size);
    change.set(node.at + inode::MODIFIED, now);
    change.set(node.at + inode::CHANGED, now);
}

/// Moves the bytes of a small file to a page. Its content stays the same, so a crash may fall
/// between this change and the one that it is for.
pub(super) fn to_pages(core: &Core, node: &Node, state: &mut NodeState) -> Result<()> {
    let media = core.media();
    let (size, word) = (node.size(core), node.state_word(core));
    let plain = State { flags: word.flags & !STATE_INLINE, ..word }.word();
    let old = bytes(core, node);
    if size == 0 && old.iter().all(|&byte| byte == 0) {
        // An empty file is the same in both forms.
        let _section = media.section();
        media.store(node.at + inode::STATE, plain);
        media.flush(node.at + inode::STATE, 8);
    } else {
        let mut change = core.change();
        change.set(node.at + inode::STATE, plain);
        let mut slots = [0; INLINE as usize];
        let (mut moved, mut taken) = (None, 0);
        if size > 0 {
            let large = match large::size_of(core, node) {
                PageSize::Small => None,
                size => large::take_any(core, size)?,
            };
            let (page, count) = large.map_or_else(|| core.take_run(1).map(|page| (page, 1)), Ok)?;
            change.charge(node.at, count as i64, 0);
            let mut content = [0; PAGE as usize];
            content[..size as usize].copy_from_slice(&old[..size as usize]);
            moved = Some(core.copy_pages_unless("fs-inline-moved-unflushed", page, &content));
            slots[..8].copy_from_slice(&Run { first: 0, len: 1 }.word().to_le_bytes());
            if count > 1 {
                let rest = Place { flags: PLACE_UNWRITTEN, ..Place::page(page + 1) };
                slots[16..24].copy_from_slice(&Run { first: 1, len: count - 1 }.word().to_le_bytes());
                slots[24..32].copy_from_slice(&rest.word().to_le_bytes());
            }
            taken = count;
        }
        set_bytes(&mut change, node, &slots);
        moved.iter().for_each(|place| change.link(node.at + inode::INLINE + 8, place));
        change.commit().inspect_err(|_| moved.iter().for_each(|place| core.give_pages(place.page, taken)))?;
    }
    state.extents = Some(match Extents::load(Pages::of(core.object()), node.at) {
        Ok(loaded) => loaded.extents,
        Err(damage) => return Err(node.damaged(core, damage)),
    });
    Ok(())
}
