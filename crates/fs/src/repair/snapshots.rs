//! Repair of the word that leads to the snapshots, and of their list.

use super::draft::{Draft, File, one_flip};
use super::lines::{self, Found};
use crate::layout::{SNAPSHOTS_AT, inode};
use crate::{FileKind, Ino};
use everbyte_media::sealed::{seal_low, unseal_low};
use std::collections::{BTreeMap, BTreeSet};

/// The directory of snapshots, after the word that leads to it is repaired.
pub(super) fn directory(draft: &mut Draft<'_>, files: &BTreeMap<Ino, File>) -> Option<Ino> {
    let at = draft.pages.start + SNAPSHOTS_AT;
    let word = draft.load(at);
    let is_one = |ino: &Ino| {
        let file = files.get(ino)?;
        let found = draft.inode(file.at);
        let holds_itself = [file.snapshot, found.snapshot, found.parent] == [ino.0; 3];
        (file.kind == FileKind::Directory && holds_itself && found.taken == 0).then_some(*ino)
    };
    let of_word = |word: u64| unseal_low(word).map(Ino).filter(|ino| is_one(ino).is_some());
    if let Some(found) = of_word(word) {
        return Some(found);
    }
    // One that no snapshot was ever entered in is left by a crash, unless the word says otherwise.
    let is_used = |ino: &Ino| word != 0 || draft.number(files[ino].at + inode::SIZE) > 0;
    let any = || files.keys().find(|ino| is_one(ino).is_some() && is_used(ino)).copied();
    let found = one_flip(word, of_word).or_else(any);
    match found {
        Some(ino) => draft.note(
            ino,
            at,
            format!("the word of the snapshots is damaged: it leads to their directory, inode {ino}"),
        ),
        None if word == 0 => return None,
        None => draft.note(
            Ino(0),
            at,
            "the word of the snapshots is damaged, and no directory of snapshots was found: they are gone",
        ),
    }
    draft.set(at, found.map_or(0, |ino| seal_low(ino.0)));
    found
}

/// Repairs the entries of the directory of snapshots; returns them.
pub(super) fn entries(draft: &mut Draft<'_>, ino: Ino, files: &mut BTreeMap<Ino, File>) -> Vec<Found> {
    let mut directory = files[&ino].clone();
    let before = draft.notes.len();
    let is_root =
        |ino: Ino| files.get(&ino).is_some_and(|file| file.kind == FileKind::Directory && file.snapshot == ino.0);
    let mut found = lines::mend(draft, ino, &directory, &|ino| is_root(ino));
    let is_damaged = draft.notes.len() > before || !directory_is_whole(draft, ino);
    found.retain(|entry| {
        let is_one = is_root(entry.ino) && entry.ino != ino;
        if !is_one {
            let name = lines::text(&entry.name);
            draft.note(
                ino,
                entry.at,
                format!("snapshot `{name}` leads to inode {}, which is no root of one: it is gone", entry.ino),
            );
            draft.set(entry.at, 0);
        }
        is_one
    });
    if is_damaged {
        // A crash leaves roots without an entry, too; those are freed.
        let known: BTreeSet<Ino> = found.iter().map(|entry| entry.ino).collect();
        let lost: Vec<Ino> =
            files.keys().filter(|&&root| is_root(root) && root != ino && !known.contains(&root)).copied().collect();
        for root in lost {
            let name = format!("#{root}").into_bytes();
            draft.note(root, files[&root].at, format!("a snapshot has lost its name: it is `#{root}` now"));
            let at = lines::add(draft, &mut directory, &name, root, FileKind::Directory);
            found.push(Found { at, ino: root, kind: FileKind::Directory, name });
        }
    }
    files.insert(ino, directory);
    found
}

/// Whether nothing of the directory of snapshots was found damaged.
fn directory_is_whole(draft: &Draft<'_>, ino: Ino) -> bool {
    draft.notes.iter().all(|note| note.ino != ino)
}
