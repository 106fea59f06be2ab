//! The files that the kernel knows, each held while the kernel counts it, so that its number stays
//! its own, also after its last name is gone.
//!
//! Invariants
//!   FU-1  A number that the kernel knows leads to the file that it was told for, until the kernel
//!         has forgotten as many answers as it was given.

use everbyte_fs::{Held, Volume};
use everbyte_posix::Ino;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Held files by their numbers.
#[derive(Default)]
pub(crate) struct Nodes(Mutex<HashMap<Ino, Known>>);

struct Known {
    _held: Held,
    /// Answers that told the kernel this number.
    count: u64,
}

impl Nodes {
    /// Counts one more answer that tells a file's number.
    pub(crate) fn told(&self, volume: &Volume, ino: Ino) -> everbyte_fs::Result<()> {
        match self.0.lock().entry(ino) {
            Entry::Occupied(mut known) => known.get_mut().count += 1,
            Entry::Vacant(new) => {
                new.insert(Known { _held: volume.hold(ino)?, count: 1 });
            }
        }
        Ok(())
    }

    /// The kernel has forgotten so many answers.
    pub(crate) fn forget(&self, ino: Ino, count: u64) {
        let mut nodes = self.0.lock();
        let Entry::Occupied(mut known) = nodes.entry(ino) else { return };
        known.get_mut().count = known.get().count.saturating_sub(count);
        if known.get().count == 0 {
            let known = known.remove();
            drop(nodes);
            drop(known); // may free the file's pages
        }
    }

    /// Forgets all, at the end of the mount.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        drop(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_fs::{FileKind, NewFile, VolumeOptions};
    use everbyte_media::{Media, Options};
    use everbyte_store::{FormatOptions, Store};

    /// FU-1: a file without a name lives until it was forgotten as often as it was told.
    #[test]
    fn a_number_is_kept_until_each_answer_is_forgotten() {
        let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        let options = VolumeOptions { span: Some(16 << 20), ..VolumeOptions::default() };
        let volume = Volume::create(&store, "home", &options).unwrap();
        let nodes = Nodes::default();
        let made = |name: &[u8]| {
            let ino = volume.make(Ino::ROOT, name, &NewFile::new(FileKind::Regular, 0o600)).unwrap();
            (0..4).for_each(|_| nodes.told(&volume, ino).unwrap());
            volume.unlink(Ino::ROOT, name).unwrap();
            ino
        };
        let lives = |ino| volume.attributes(ino).is_ok();
        let [first, second] = [made(b"first"), made(b"second")];
        nodes.forget(first, 1);
        assert!(lives(first));
        nodes.forget(first, 2);
        assert!(lives(first));
        nodes.forget(first, 1);
        assert!(!lives(first) && lives(second));
        nodes.forget(first, 1); // an answer that was withdrawn
        nodes.clear();
        assert!(!lives(second));
    }
}
