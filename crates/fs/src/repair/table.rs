//! Repair of the inode table: words that lead to its pages and to groups of inodes.
//!
//! The first page of each level and the first group lie at fixed pages. A word that fails its check
//! is corrected if one bit of it has changed; otherwise the inodes behind it are lost, and an empty
//! group takes their place, so that later inodes keep their numbers.

use super::draft::Draft;
use crate::Ino;
use crate::layout::{GROUP_INODES, GROUP_PAGES, LANE_LEN, LANES_PAGE, PAGE, Place, TABLE_AT, TABLE_WORDS};

/// Repairs the table, and gives its pages an owner; returns the offsets of the groups.
pub(super) fn mend(draft: &mut Draft<'_>, lanes: u32) -> Vec<u64> {
    let fixed = LANES_PAGE + u64::from(lanes) * LANE_LEN / PAGE;
    let start = draft.pages.start;
    let root = word(draft, start + TABLE_AT, fixed, 1, Some(fixed), "").unwrap_or(fixed);
    let mut groups = Vec::new();
    let pages = used(draft, root);
    draft.tables.push(draft.at(root));
    for index in 0..pages.max(1) {
        let at = draft.at(root) + 8 * index;
        let first = groups.len() as u64 * GROUP_INODES;
        let of = format!("inodes {first} to {}", first + TABLE_WORDS * GROUP_INODES - 1);
        let known = (index == 0).then_some(fixed + 1);
        let Some(page) = word(draft, at, fixed, 1, known, &of) else {
            // A page of a group that is empty, so that the words behind it keep their numbers.
            let page = draft.take(1);
            draft.set(at, Place::page(page).word());
            for index in 0..TABLE_WORDS {
                groups.push(empty_group(draft, page, index));
            }
            continue;
        };
        draft.tables.push(draft.at(page));
        let is_last = index + 1 >= pages;
        let count = if is_last { used(draft, page).max(1) } else { TABLE_WORDS };
        for index in 0..count {
            let at = draft.at(page) + 8 * index;
            let first = groups.len() as u64 * GROUP_INODES;
            let known = groups.is_empty().then_some(fixed + 2);
            let of = format!("inodes {first} to {}", first + GROUP_INODES - 1);
            match word(draft, at, fixed, GROUP_PAGES, known, &of) {
                Some(group) => groups.push(draft.at(group)),
                None => groups.push(empty_group(draft, page, index)),
            }
        }
    }
    groups
}

/// The words of a page of the table that are in use: up to the last that is not 0.
fn used(draft: &Draft<'_>, page: u64) -> u64 {
    (0..TABLE_WORDS).rev().find(|index| draft.load(draft.at(page) + 8 * index) != 0).map_or(0, |last| last + 1)
}

fn empty_group(draft: &mut Draft<'_>, page: u64, index: u64) -> u64 {
    let group = draft.take(GROUP_PAGES);
    draft.set(draft.at(page) + 8 * index, Place::page(group).word());
    draft.at(group)
}

/// The page that a word of the table leads to, which is then the table's. `known`: the page, where
/// the layout tells it. `None`: what the word led to is lost.
fn word(draft: &mut Draft<'_>, at: u64, fixed: u64, count: u64, known: Option<u64>, of: &str) -> Option<u64> {
    // The first pages of the table have their owner; no other word leads there.
    let first = fixed + 2 + GROUP_PAGES;
    let found = draft.place(at, count, &[0]).ok().filter(|(place, _)| match known {
        Some(known) => place.page == known,
        None => place.page >= first && (place.page..place.page + count).all(|page| !draft.is_owned(page)),
    });
    let page = match (found, known) {
        (Some((place, _)), _) => place.page,
        (None, Some(known)) => known,
        (None, None) => {
            draft.note(Ino(0), at, format!("the word of the inode table fails its check: {of} are lost, and free now"));
            return None;
        }
    };
    if draft.load(at) != Place::page(page).word() {
        draft.note(Ino(0), at, "a word of the inode table is corrected; all inodes behind it are kept");
        draft.set(at, Place::page(page).word());
    }
    if known.is_none() {
        draft.own(page, count, false);
    }
    Some(page)
}

/// Adds an empty group behind all others; returns its offset.
pub(super) fn add_group(draft: &mut Draft<'_>, index: u64) -> u64 {
    let root = Place::raw_page(draft.load(draft.pages.start + TABLE_AT));
    let at = draft.at(root) + 8 * (index / TABLE_WORDS);
    if draft.load(at) == 0 {
        let page = draft.take(1);
        draft.set(at, Place::page(page).word());
    }
    let page = Place::raw_page(draft.load(at));
    empty_group(draft, page, index % TABLE_WORDS)
}
