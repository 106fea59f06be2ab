//! Small files, whose bytes lie in the inode.

use super::{publish_size, store_times};
use crate::Result;
use crate::change::Change;
use crate::core::Core;
use crate::extents::{Extents, Pages};
use crate::layout::{INLINE, PAGE, Place, Run, STATE_INLINE, State, inode};
use crate::node::{Node, NodeState};

type Bytes = [u8; INLINE as usize];

fn bytes(core: &Core, node: &Node) -> Bytes {
    core.media().get(node.at + inode::INLINE)
}

/// Writes to a small file that stays one.
pub(super) fn write(core: &Core, node: &Node, at: u64, from: &[u8]) -> Result<()> {
    let media = core.media();
    let (size, end) = (node.word(core, inode::SIZE), at + from.len() as u64);
    let mut new = bytes(core, node);
    new[size as usize..].fill(0); // FS-11
    new[at as usize..end as usize].copy_from_slice(from);
    if at >= size {
        let (first, last) = (size & !7, end.next_multiple_of(8));
        let _section = media.section();
        media.write(node.at + inode::INLINE + first, &new[first as usize..last as usize]);
        media.flush_unless("fs-inline-unflushed", node.at + inode::INLINE + first, last - first);
        store_times(core, node, core.now() as u64);
        publish_size(core, node, end);
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
    let size = node.word(core, inode::SIZE);
    if to > size {
        let mut new = bytes(core, node);
        new[size as usize..].fill(0); // FS-11
        let first = size & !7;
        let _section = media.section();
        media.write(node.at + inode::INLINE + first, &new[first as usize..]);
        media.flush(node.at + inode::INLINE + first, INLINE - first);
    }
    store_times(core, node, core.now() as u64);
    publish_size(core, node, to);
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
    change.set(node.at + inode::SIZE, size);
    change.set(node.at + inode::MODIFIED, now);
    change.set(node.at + inode::CHANGED, now);
}

/// Moves the bytes of a small file to a page. Its content stays the same, so a crash may fall
/// between this change and the one that it is for.
pub(super) fn to_pages(core: &Core, node: &Node, state: &mut NodeState) -> Result<()> {
    let media = core.media();
    let (size, word) = (node.word(core, inode::SIZE), node.state_word(core));
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
        let mut taken = None;
        if size > 0 {
            let page = core.take_run(1)?;
            taken = Some(page);
            let mut content = [0; PAGE as usize];
            content[..size as usize].copy_from_slice(&old[..size as usize]);
            let _section = media.section();
            media.copy_nt_unless("fs-inline-moved-unflushed", core.at(page), &content);
            slots[..8].copy_from_slice(&Run { first: 0, len: 1 }.word().to_le_bytes());
            slots[8..16].copy_from_slice(&Place::page(page).word().to_le_bytes());
        }
        set_bytes(&mut change, node, &slots);
        change.commit().inspect_err(|_| taken.into_iter().for_each(|page| core.give_pages(page, 1)))?;
    }
    state.extents = Some(match Extents::load(Pages::of(core.object()), node.at) {
        Ok(loaded) => loaded.extents,
        Err(damage) => return Err(damage.of_object(core.name()).into()),
    });
    Ok(())
}
