//! The archive a Linux kernel unpacks as its first file system (cpio, `newc` form).

use std::collections::BTreeSet;
use std::io::{self, Write};

/// Writes entries in order; parents come by themselves.
pub(super) struct Archive<W: Write> {
    out: W,
    made: BTreeSet<String>,
    entries: u32,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(out: W) -> Archive<W> {
        Archive { out, made: BTreeSet::new(), entries: 0 }
    }

    /// A regular, executable file. `path` is absolute in the guest.
    pub(super) fn file(&mut self, path: &str, body: &[u8]) -> io::Result<()> {
        self.entry(path, 0o100_755, body)
    }

    /// A symbolic link.
    pub(super) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.entry(path, 0o120_777, target.as_bytes())
    }

    /// An empty directory.
    pub(super) fn folder(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, 0o040_755, &[])
    }

    /// The closing entry. An archive without it is refused.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.record("TRAILER!!!", 0, &[])?;
        self.out.flush()
    }

    fn entry(&mut self, path: &str, mode: u32, body: &[u8]) -> io::Result<()> {
        let path = path.trim_start_matches('/').to_string();
        if self.made.contains(&path) {
            return Ok(());
        }
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent)?;
        }
        self.record(&path, mode, body)?;
        self.made.insert(path);
        Ok(())
    }

    fn record(&mut self, name: &str, mode: u32, body: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let size = u32::try_from(body.len()).map_err(|_| io::Error::other("a file over 4 GiB"))?;
        let links = if mode & 0o170_000 == 0o040_000 { 2 } else { 1 };
        // inode, mode, uid, gid, links, time, size, device (2), special device (2), name length,
        // check
        let name_len = u32::try_from(name.len() + 1).map_err(|_| io::Error::other("a long name"))?;
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_len, 0];
        self.out.write_all(b"070701")?;
        for field in fields {
            write!(self.out, "{field:08x}")?;
        }
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(&[0])?;
        self.pad(110 + name.len() + 1)?;
        self.out.write_all(body)?;
        self.pad(body.len())
    }

    /// Everything is aligned to four bytes.
    fn pad(&mut self, len: usize) -> io::Result<()> {
        self.out.write_all(&[0; 3][..len.next_multiple_of(4) - len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_parents_alignment_and_a_trailer() {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.file("/bin/x", b"hello").unwrap();
        archive.link("/bin/y", "x").unwrap();
        archive.finish().unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(text.matches("070701").count(), 4, "bin, bin/x, bin/y, the trailer");
        assert!(text.contains("TRAILER!!!"));
    }
}
