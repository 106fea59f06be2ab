//! Volumes of commands: opened for one command, or in use by this process.

use crate::failure::Failure;
use everbyte_fs::Volume;
use everbyte_fuse::{Changed, MountedVolume};
use everbyte_store::Store;

/// The source of a command's volume.
pub(crate) enum Volumes {
    /// A store that was opened for the command.
    Own(Store),
    /// A volume in use by this process, and its mount if it has one.
    Served(Volume, Option<MountedVolume>),
}

impl Volumes {
    pub(crate) fn volume(&self, name: &str) -> Result<Volume, Failure> {
        match self {
            Volumes::Own(store) => volume(store, name),
            Volumes::Served(volume, _) => Ok(volume.clone()),
        }
    }

    /// Makes a change durable, and closes what the command opened.
    pub(crate) fn done(self, volume: Volume) -> Result<(), Failure> {
        match self {
            Volumes::Own(store) => {
                volume.close()?;
                Ok(store.close()?)
            }
            Volumes::Served(..) => Ok(volume.settle()?),
        }
    }

    /// Tells the mount of a change of a file.
    pub(crate) fn changed(&self, change: Changed<'_>) {
        if let Volumes::Served(_, Some(mounted)) = self {
            mounted.changed(change);
        }
    }
}

/// Opens a volume of a store.
pub(crate) fn volume(store: &Store, name: &str) -> Result<Volume, Failure> {
    Ok(Volume::open(store.object(name)?)?)
}
