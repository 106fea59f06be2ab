//! Reading: one copy from the medium to the caller.

use super::is_inline;
use crate::core::Core;
use crate::extents::Pages;
use crate::layout::{PAGE, inode};
use crate::node::Node;
use crate::volume::Volume;
use crate::{Error, FileKind, Held, Ino, Result, sums};

impl Volume {
    /// Reads bytes of a regular file from offset `at` on; returns their number, which is less than
    /// the length of `into` at the end of the file only. Holes read as zeros.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::IsADirectory`], [`Error::NotAFile`]; [`Error::Store`] if a page
    /// of the volume could not be read.
    pub fn read(&self, ino: Ino, at: u64, into: &mut [u8]) -> Result<usize> {
        read_regular(&self.core, &*self.core.node(ino)?, at, into)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`Error::NotAFile`] for other files; otherwise as [`Volume::read`].
    pub fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        let core = &*self.core;
        let node = core.node(ino)?;
        if node.kind(core)? != FileKind::Link {
            return Err(Error::NotAFile { ino });
        }
        let mut target = vec![0; PAGE as usize];
        let len = read(core, &node, 0, &mut target)?;
        target.truncate(len);
        Ok(target)
    }
}

impl Held {
    /// [`Volume::read`] of this file.
    ///
    /// # Errors
    /// As [`Volume::read`].
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<usize> {
        read_regular(&self.core, &self.node, at, into)
    }
}

fn read_regular(core: &Core, node: &Node, at: u64, into: &mut [u8]) -> Result<usize> {
    match node.kind(core)? {
        FileKind::Regular => read(core, node, at, into),
        FileKind::Directory => Err(Error::IsADirectory { ino: node.ino }),
        _ => Err(Error::NotAFile { ino: node.ino }),
    }
}

fn read(core: &Core, node: &Node, at: u64, into: &mut [u8]) -> Result<usize> {
    let state = node.read_extents(core)?;
    let media = core.media();
    let size = node.size(core);
    let len = size.saturating_sub(at).min(into.len() as u64);
    let into = &mut into[..len as usize];
    if is_inline(core, node) {
        media.read(node.at + inode::INLINE + at.min(size), into);
        core.object().require_readable()?;
        return Ok(into.len());
    }
    let extents = state.extents.as_ref().expect("they are loaded");
    let mut done = 0;
    while done < len {
        let page = (at + done) / PAGE;
        let within = (at + done) % PAGE;
        let found = extents.find(page);
        let end = match found {
            Some((first, piece)) => first + piece.len,
            None => extents.next(page).map_or(u64::MAX / PAGE, |(first, _)| first),
        };
        let step = (len - done).min((end - page) * PAGE - within);
        let part = &mut into[done as usize..(done + step) as usize];
        match found.filter(|(_, piece)| !piece.place.is_unwritten()) {
            Some((first, piece)) if piece.place.is_sealed() && core.verifies => {
                let sealed = Sealed { ino: node.ino, page: piece.place.page + (page - first), of_file: page };
                sealed.read(core, within, part)?;
            }
            Some((first, piece)) => media.read(core.at(piece.place.page + (page - first)) + within, part),
            None => part.fill(0),
        }
        done += step;
    }
    core.object().require_readable()?;
    Ok(into.len())
}

/// Sealed pages that follow each other.
struct Sealed {
    ino: Ino,
    page: u64,
    of_file: u64,
}

impl Sealed {
    /// Reads bytes from an offset in the first page on, and verifies all pages that they lie in.
    fn read(&self, core: &Core, within: u64, into: &mut [u8]) -> Result<()> {
        let (media, pages) = (core.media(), Pages::of(core.object()));
        let mut page = [0; PAGE as usize];
        let (mut within, mut rest, mut index) = (within as usize, into, 0);
        while !rest.is_empty() {
            let (part, behind) = rest.split_at_mut(rest.len().min(PAGE as usize - within));
            let at = core.at(self.page + index);
            let verify = |bytes: &[u8]| {
                let verified = sums::require_whole(pages, self.ino, self.page + index, self.of_file + index, bytes);
                verified.map_err(|damage| crate::Error::from(damage.of_object(core.name())))
            };
            if part.len() == PAGE as usize {
                media.read(at, part);
                verify(part)?;
            } else {
                media.read(at, &mut page);
                verify(&page)?;
                part.copy_from_slice(&page[within..within + part.len()]);
            }
            (within, rest, index) = (0, behind, index + 1);
        }
        Ok(())
    }
}
