//! [`OnlyClient`]: the right to be the one client of a volume that caches its files.

use everbyte_fs::Volume;
use parking_lot::Mutex;

/// Volumes that have such a client, by the addresses that all clones of a volume share.
static CACHED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The right to be the one client of a volume that caches its files, such as a mount: two would
/// cache each its own state of a file.
#[derive(Debug)]
pub struct OnlyClient(usize);

impl OnlyClient {
    /// `None` while the volume has such a client.
    pub fn of(volume: &Volume) -> Option<OnlyClient> {
        let (address, mut cached) = (std::ptr::from_ref(volume.object()).addr(), CACHED.lock());
        let is_new = !cached.contains(&address);
        is_new.then(|| {
            cached.push(address);
            OnlyClient(address)
        })
    }
}

impl Drop for OnlyClient {
    fn drop(&mut self) {
        CACHED.lock().retain(|&cached| cached != self.0);
    }
}
