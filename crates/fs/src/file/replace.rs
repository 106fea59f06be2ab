//! Writes of whole pages that one slot maps exactly: the most frequent change of a file that is
//! rewritten, with nothing but the steps that it takes.
//!
//! One write, a fence between the steps:
//!   1. the bytes are stored to pages that were taken for them; the times are stored and flushed
//!   2. the word of the place is published
//!   3. the pages that the slot led to before become free
//!
//! No lock is taken between the stores past the cache and their fence: a locked instruction waits
//! for all of them.

use super::{large, store_times};
use crate::core::Core;
use crate::extents::Extents;
use crate::layout::{PAGE, PLACE_SEALED, Place};
use crate::node::Node;
use crate::order::publish;
use crate::{PageSize, Result};

/// Writes whole pages of a file, before its end, that one slot maps exactly. `None`: they are not
/// such pages, or not as many adjacent ones are free; nothing has changed.
pub(super) fn exactly(core: &Core, node: &Node, extents: &mut Extents, at: u64, bytes: &[u8]) -> Option<Result<()>> {
    let (first, count) = (at / PAGE, bytes.len() as u64 / PAGE);
    if !at.is_multiple_of(PAGE) || !(bytes.len() as u64).is_multiple_of(PAGE) {
        return None;
    }
    let (found, piece) = extents.exact(first, count)?;
    // Bytes that were sealed are replaced whole: the new ones are not.
    let is_plain = piece.place.flags & !PLACE_SEALED == 0;
    let stays = large::size_of(core, node) != PageSize::Small || core.maps.meet(node, &(first..first + count));
    if !is_plain || stays {
        return None;
    }
    let word_at = extents.place_at(core, node.at, piece);
    let page = match core.take_replacement(count) {
        Ok((page, taken)) if taken == count => page,
        Ok((page, taken)) => {
            core.give_pages(page, taken);
            return None;
        }
        Err(error) => return Some(Err(error)),
    };
    let media = core.media();
    let _section = media.section();
    let now = core.now() as u64;
    let copied = core.copy_pages_unless("fs-data-unflushed", page, bytes);
    let new = copied.and(store_times(core, node, [now; 2])).with(Place::page(page)); // FS-10
    publish(media, word_at, &media.fence_after_unless("fs-single-unfenced", new));
    media.fence();
    extents.replace(found, Place::page(page));
    core.give_unshared(piece.place.page, count);
    Some(Ok(()))
}
