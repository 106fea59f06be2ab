//! Repair of the tree: entries that lead to no file, files that no entry leads to, links.

use super::draft::{Draft, File};
use super::lines::{self, Found};
use super::table;
use crate::layout::{EntryHead, GROUP_INODES, INODE, Inode, STATE_SNAPSHOT, State, inode};
use crate::table::Body;
use crate::{FileKind, Ino};
use everbyte_media::sealed::unseal_low;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use zerocopy::IntoBytes;

/// The name of the directory that files without a name move to.
const LOST: &str = "lost+found";

/// The files of a volume and their names.
pub(super) struct Tree {
    pub files: BTreeMap<Ino, File>,
    /// The entries of each directory.
    pub names: BTreeMap<Ino, Vec<Found>>,
    /// The directory of snapshots.
    pub snapshots: Option<Ino>,
    /// Offsets of the groups of inodes.
    pub groups: Vec<u64>,
    pub now: i64,
}

impl Tree {
    /// Repairs names, files without a name, and links.
    pub(super) fn mend(&mut self, draft: &mut Draft<'_>) {
        self.drop_entries(draft);
        self.free_orphans(draft);
        self.adopt_lost(draft);
        self.count_links(draft);
    }

    /// Removes entries that lead to no file, to another snapshot's file or twice to a directory,
    /// and second entries of one name. Types become those of the files.
    fn drop_entries(&mut self, draft: &mut Draft<'_>) {
        let mut directories: BTreeMap<Ino, (Ino, u64)> = BTreeMap::new();
        for (&directory, entries) in &mut self.names {
            let (files, of) = (&self.files, self.files[&directory].snapshot);
            let mut seen = HashSet::new();
            entries.retain_mut(|entry| {
                let is_list = self.snapshots == Some(directory);
                let target = files.get(&entry.ino);
                let fits = |file: &&File| file.snapshot == if is_list { entry.ino.0 } else { of };
                let is_root =
                    entry.ino == Ino::ROOT || Some(entry.ino) == self.snapshots || !is_list && entry.ino.0 == of;
                let name = lines::text(&entry.name);
                let wrong = match target {
                    None => Some("leads to no file"),
                    Some(file) if !fits(&file) || is_root => Some("leads to a file of another tree"),
                    Some(_) if !seen.insert(entry.name.clone()) => Some("is there twice"),
                    Some(_) => None,
                };
                if let Some(wrong) = wrong {
                    let ino = entry.ino;
                    draft.note(
                        directory,
                        entry.at,
                        format!("the name `{name}` (inode {ino}) of directory {directory} {wrong}: it is removed"),
                    );
                    draft.set(entry.at, 0);
                    return false;
                }
                let kind = target.expect("it was found").kind;
                if kind != entry.kind {
                    draft.note(
                        directory,
                        entry.at,
                        format!("the name `{name}` of directory {directory} has the type of inode {} now", entry.ino),
                    );
                    draft.set(entry.at + 8, EntryHead::new(&entry.name, kind.byte()).word());
                    entry.kind = kind;
                }
                true
            });
            // Of two names of a directory the one stays that the directory names.
            for entry in entries.iter().filter(|entry| entry.kind == FileKind::Directory) {
                let parent = Ino(draft.inode(files[&entry.ino].at).parent);
                match directories.get(&entry.ino) {
                    Some(_) if parent != directory => (),
                    _ => _ = directories.insert(entry.ino, (directory, entry.at)),
                }
            }
        }
        for (&directory, entries) in &mut self.names {
            entries.retain(|entry| {
                let is_only = directories.get(&entry.ino).is_none_or(|&only| only == (directory, entry.at));
                if !is_only {
                    let name = lines::text(&entry.name);
                    draft.note(
                        directory,
                        entry.at,
                        format!("the name `{name}` is a second one of directory {}: it is removed", entry.ino),
                    );
                    draft.set(entry.at, 0);
                }
                is_only
            });
        }
    }

    fn is_top(&self, ino: Ino) -> bool {
        ino == Ino::ROOT || Some(ino) == self.snapshots
    }

    /// The files that entries lead to.
    fn named(&self) -> BTreeSet<Ino> {
        self.names.values().flatten().map(|entry| entry.ino).collect()
    }

    /// Frees files without links or names, as opening does: no process holds them.
    fn free_orphans(&mut self, draft: &mut Draft<'_>) {
        let named = self.named();
        let is_orphan = |ino: &Ino, file: &File| {
            !self.is_top(*ino) && !named.contains(ino) && unseal_low(draft.load(file.at + inode::LINKS)) == Some(0)
        };
        let orphans: Vec<Ino> =
            self.files.iter().filter(|(ino, file)| is_orphan(ino, file)).map(|(ino, _)| *ino).collect();
        for ino in orphans {
            free(draft, self.files[&ino].at);
            self.files.remove(&ino);
            self.names.remove(&ino);
        }
    }

    /// The files that names lead to from the roots on.
    fn reached(&self) -> BTreeSet<Ino> {
        let mut open: Vec<Ino> = [Some(Ino::ROOT), self.snapshots].into_iter().flatten().collect();
        let mut reached: BTreeSet<Ino> = open.iter().copied().collect();
        while let Some(directory) = open.pop() {
            let entries = self.names.get(&directory).into_iter().flatten();
            open.extend(entries.map(|entry| entry.ino).filter(|&ino| reached.insert(ino)));
        }
        reached
    }

    /// Gives a name to each file that no name leads to.
    fn adopt_lost(&mut self, draft: &mut Draft<'_>) {
        loop {
            let reached = self.reached();
            let lost: Vec<Ino> = self.files.keys().filter(|ino| !reached.contains(ino)).copied().collect();
            let named = self.named();
            let unnamed: Vec<Ino> = lost.iter().filter(|ino| !named.contains(ino)).copied().collect();
            if unnamed.is_empty() {
                // Directories that hold each other: one of them loses its name.
                let Some(&first) = lost.iter().find(|ino| self.files[ino].kind == FileKind::Directory) else { return };
                for entries in self.names.values_mut() {
                    entries.retain(|entry| {
                        if entry.ino == first {
                            draft.set(entry.at, 0);
                        }
                        entry.ino != first
                    });
                }
                continue;
            }
            unnamed.into_iter().for_each(|ino| self.adopt(draft, ino));
        }
    }

    fn adopt(&mut self, draft: &mut Draft<'_>, ino: Ino) {
        let (root, kind) = (Ino(self.files[&ino].snapshot.max(1)), self.files[&ino].kind);
        let lost = self.lost_found(draft, root);
        let mut name = format!("#{ino}");
        let taken = |name: &str| self.names[&lost].iter().any(|entry| entry.name == name.as_bytes());
        while taken(&name) {
            name.push('+');
        }
        let at = self.files[&ino].at;
        draft.note(ino, at, format!("no name leads to inode {ino}: it is `{name}` in directory {lost} now"));
        self.enter(draft, lost, name.as_bytes(), ino, kind);
        if kind == FileKind::Directory {
            let found = draft.inode(at);
            draft.set_owner(at, Inode { parent: lost.0, ..found });
        }
    }

    /// Adds an entry.
    fn enter(&mut self, draft: &mut Draft<'_>, directory: Ino, name: &[u8], ino: Ino, kind: FileKind) {
        let file = self.files.get_mut(&directory).expect("it is live");
        let at = lines::add(draft, file, name, ino, kind);
        if kind == FileKind::Directory {
            let links = file.at + inode::LINKS;
            draft.set_number(links, draft.number(links) + 1);
        }
        self.names.entry(directory).or_default().push(Found { at, ino, kind, name: name.to_vec() });
    }

    /// The directory of a tree that files without a name move to.
    fn lost_found(&mut self, draft: &mut Draft<'_>, root: Ino) -> Ino {
        let mut name = LOST.to_string();
        while let Some(found) = self.names.get(&root).into_iter().flatten().find(|entry| entry.name == name.as_bytes())
        {
            if found.kind == FileKind::Directory {
                return found.ino;
            }
            name.push('+');
        }
        let (ino, at) = self.free_inode(draft);
        let snapshot = self.files[&root].snapshot;
        let body = Body::new(FileKind::Directory, 0o700, self.now);
        let old = State::of(draft.load(at));
        let flags = if snapshot == 0 { 0 } else { STATE_SNAPSHOT };
        let state = State { flags, ..body.state(old.generation) };
        let new = Inode { state: state.word(), parent: root.0, snapshot, ..body.inode(old) };
        for (index, word) in new.as_bytes().as_chunks::<8>().0.iter().enumerate() {
            draft.set(at + 8 * index as u64, u64::from_le_bytes(*word));
        }
        draft.set_owner(at, new);
        self.files.insert(ino, File { at, kind: FileKind::Directory, snapshot, chain: Vec::new(), pages: Vec::new() });
        self.names.insert(ino, Vec::new());
        draft.note(ino, at, format!("directory `{name}`, inode {ino}, is made for files without a name"));
        self.enter(draft, root, name.as_bytes(), ino, FileKind::Directory);
        ino
    }

    /// A free inode and its place; the table grows where none is free.
    fn free_inode(&mut self, draft: &mut Draft<'_>) -> (Ino, u64) {
        let mut number = Ino::ROOT.0 + 1;
        loop {
            let Some(group) = self.groups.get((number / GROUP_INODES) as usize) else {
                let group = table::add_group(draft, self.groups.len() as u64);
                self.groups.push(group);
                continue;
            };
            let at = group + number % GROUP_INODES * INODE;
            if State::of(draft.load(at)).mode == 0 {
                return (Ino(number), at);
            }
            number += 1;
        }
    }

    /// Links are the numbers of names, and of subdirectories; directories name the one that holds
    /// them.
    fn count_links(&mut self, draft: &mut Draft<'_>) {
        let (mut links, mut parents) = (BTreeMap::<Ino, u64>::new(), BTreeMap::new());
        for (&directory, entries) in &self.names {
            for entry in entries {
                if entry.kind == FileKind::Directory {
                    *links.entry(directory).or_default() += 1;
                    parents.insert(entry.ino, directory);
                } else {
                    *links.entry(entry.ino).or_default() += 1;
                }
            }
        }
        for (&ino, file) in &self.files {
            let is_directory = file.kind == FileKind::Directory;
            let expected = links.get(&ino).copied().unwrap_or(0) + if is_directory { 2 } else { 0 };
            let at = file.at + inode::LINKS;
            let stored = unseal_low(draft.load(at));
            if stored != Some(expected) {
                let detail = match stored {
                    Some(stored) => format!("inode {ino} counts {stored} links and has {expected}"),
                    None => format!("the count of links of inode {ino} is damaged: it has {expected}"),
                };
                draft.note(ino, at, detail);
                draft.set_number(at, expected);
            }
            // Roots hold themselves.
            let is_root = self.is_top(ino) || parents.get(&ino).copied() == self.snapshots;
            let parent = if is_root { ino } else { parents.get(&ino).copied().unwrap_or(ino) };
            let found = draft.inode(file.at);
            if is_directory && found.parent != parent.0 {
                draft.note(
                    ino,
                    file.at + inode::PARENT,
                    format!("directory {ino} names {} as the one that holds it, which is {parent}", found.parent),
                );
                draft.set_owner(file.at, Inode { parent: parent.0, ..found });
            }
        }
    }

    /// The paths of an inode: those of snapshots behind `@NAME`.
    pub(super) fn paths(&self, index: &BTreeMap<Ino, Vec<(Ino, &[u8])>>, ino: Ino) -> Vec<String> {
        if ino == Ino::ROOT {
            return vec!["/".into()];
        }
        let names = index.get(&ino).into_iter().flatten();
        names.filter_map(|&(directory, name)| self.path(index, directory, name, 0)).collect()
    }

    /// Of each inode the directories and names of its entries.
    pub(super) fn index(&self) -> BTreeMap<Ino, Vec<(Ino, &[u8])>> {
        let mut index = BTreeMap::<Ino, Vec<(Ino, &[u8])>>::new();
        for (&directory, entries) in &self.names {
            entries.iter().for_each(|entry| index.entry(entry.ino).or_default().push((directory, &entry.name)));
        }
        index
    }

    fn path(
        &self,
        index: &BTreeMap<Ino, Vec<(Ino, &[u8])>>,
        directory: Ino,
        name: &[u8],
        depth: usize,
    ) -> Option<String> {
        let name = lines::text(name);
        if Some(directory) == self.snapshots {
            return Some(format!("@{name}"));
        }
        if directory == Ino::ROOT {
            return Some(format!("/{name}"));
        }
        let &(above, own) = index.get(&directory)?.first().filter(|_| depth <= index.len())?;
        Some(format!("{}/{name}", self.path(index, above, own, depth + 1)?))
    }
}

/// Frees an inode.
pub(super) fn free(draft: &mut Draft<'_>, at: u64) {
    let generation = State::of(draft.load(at)).generation.wrapping_add(1);
    draft.set(at, State { mode: 0, flags: 0, generation }.word());
}
