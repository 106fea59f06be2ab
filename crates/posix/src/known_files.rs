//! [`KnownFiles`]: the files that a kernel or another client knows by their numbers, each held while
//! the client counts it, so that its number stays its own, also after its last name is gone.
//!
//! Invariants
//!   FU-1  A number that the client knows leads to the file that it was told for, until the client
//!         has forgotten as many answers as it was given.

use crate::Result;
use everbyte_fs::{Held, Ino, Volume};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

/// Held files by their numbers.
#[derive(Default)]
pub struct KnownFiles(Mutex<HashMap<Ino, Known>>);

struct Known {
    _held: Held,
    /// Answers that told the client this number.
    count: u64,
}

impl KnownFiles {
    /// Counts one more answer that tells a file's number.
    ///
    /// # Errors
    /// [`crate::Errno::ESTALE`] if there is no such file.
    pub fn told(&self, volume: &Volume, ino: Ino) -> Result<()> {
        match self.0.lock().entry(ino) {
            Entry::Occupied(mut known) => known.get_mut().count += 1,
            Entry::Vacant(new) => {
                new.insert(Known { _held: volume.hold(ino)?, count: 1 });
            }
        }
        Ok(())
    }

    /// The client has forgotten so many answers.
    pub fn forget(&self, ino: Ino, count: u64) {
        let mut known = self.0.lock();
        let Entry::Occupied(mut file) = known.entry(ino) else { return };
        file.get_mut().count = file.get().count.saturating_sub(count);
        if file.get().count == 0 {
            let file = file.remove();
            drop(known);
            drop(file); // may free the file's pages
        }
    }

    /// Forgets all, when the client has gone.
    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        drop(all);
    }
}

impl fmt::Debug for KnownFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnownFiles({} files)", self.0.lock().len())
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
        let known = KnownFiles::default();
        let made = |name: &[u8]| {
            let ino = volume.make(Ino::ROOT, name, &NewFile::new(FileKind::Regular, 0o600)).unwrap();
            (0..4).for_each(|_| known.told(&volume, ino).unwrap());
            volume.unlink(Ino::ROOT, name).unwrap();
            ino
        };
        let lives = |ino| volume.attributes(ino).is_ok();
        let [first, second] = [made(b"first"), made(b"second")];
        known.forget(first, 1);
        assert!(lives(first));
        known.forget(first, 2);
        assert!(lives(first));
        known.forget(first, 1);
        assert!(!lives(first) && lives(second));
        known.forget(first, 1); // an answer that was withdrawn
        known.clear();
        assert!(!lives(second));
    }
}
