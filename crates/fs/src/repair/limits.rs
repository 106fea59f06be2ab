//! Repair of the words of the quotas and of the size.

use super::draft::{Draft, one_flip};
use crate::Ino;
use crate::layout::{PAGE, Place, SIZE_AT};
use crate::quota::list::{self, Limits};
use everbyte_media::sealed::{seal_low, unseal_low};

/// Gives the list of quotas its pages. Returns the limits that are written to a new list: those of
/// a damaged one that can be read.
pub(super) fn quotas(draft: &mut Draft<'_>) -> Limits {
    let at = list::word_at(draft.pages.start);
    if draft.load(at) == 0 {
        return Limits::new();
    }
    let place = draft.place(at, 1, &[0]).ok();
    let run = place.and_then(|(place, word)| Some((list::run_at(draft.pages, place).ok()?, word)));
    let Some(((page, _), word)) = run.filter(|&((page, count), _)| draft.own(page, count, false).is_empty()) else {
        draft.note(Ino(0), at, "the list of quotas is damaged: the volume has no limits now");
        draft.set(at, 0);
        return Limits::new();
    };
    if word != draft.load(at) {
        draft.note(Ino(0), at, "the word that leads to the list of quotas is corrected");
        draft.set(at, word);
    }
    let (all, damaged) = list::records(draft.pages, page);
    for &at in &damaged {
        draft.note(Ino(0), at, "a record of the list of quotas is damaged: the limits of an owner are lost");
    }
    match damaged.is_empty() {
        true => Limits::new(),
        false => {
            draft.set(at, 0);
            all
        }
    }
}

/// Writes a new list, to pages that have no owner.
pub(super) fn rewrite(draft: &mut Draft<'_>, all: &Limits) {
    if all.is_empty() {
        return;
    }
    let mut bytes = list::bytes(all);
    bytes.resize(bytes.len().next_multiple_of(PAGE as usize), 0);
    let page = draft.take(bytes.len() as u64 / PAGE);
    for (word, index) in bytes.as_chunks::<8>().0.iter().zip(0..) {
        draft.set(draft.at(page) + 8 * index, u64::from_le_bytes(*word));
    }
    draft.set(list::word_at(draft.pages.start), Place::page(page).word());
}

/// Corrects the size of the volume; a size that cannot be read becomes none.
pub(super) fn size(draft: &mut Draft<'_>) {
    let at = draft.pages.start + SIZE_AT;
    let word = draft.load(at);
    if word == 0 || unseal_low(word).is_some() {
        return;
    }
    match one_flip(word, |word| unseal_low(word).filter(|&pages| pages > 0)) {
        Some(pages) => {
            draft.note(Ino(0), at, format!("the size of the volume is corrected: {pages} pages"));
            draft.set(at, seal_low(pages));
        }
        None => {
            draft.note(Ino(0), at, "the size of the volume is damaged: it is that of the span now");
            draft.set(at, 0);
        }
    }
}
