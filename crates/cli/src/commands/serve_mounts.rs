//! The volumes that `everbyte serve --mount VOLUME=DIR[,OPTIONS]` mounts.

use crate::config::Config;
use crate::failure::Failure;
use crate::mount_table::OF_SERVER;
use everbyte_fs::{Volume, VolumeOptions};
use everbyte_fuse::{Mount, MountOptions, MountedVolume, Serving};
use everbyte_media::{ErrorInfo, ErrorKind};
use everbyte_store::Store;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};

/// A volume, the directory to mount it on, and the options.
pub(super) type VolumeAt = (String, PathBuf, MountOptions);

/// Mounted volumes. All are unmounted when this is dropped.
pub(super) struct Mounts(Vec<(String, Serving)>);

/// Reads the settings of the mounts.
pub(super) fn parse(config: &Config) -> Result<Vec<VolumeAt>, Failure> {
    let parse = |word: &String| match word.split_once('=') {
        Some((volume, place)) if !volume.is_empty() && !place.is_empty() && !place.starts_with(',') => {
            let (directory, options) = place_of(place);
            Ok((volume.to_owned(), directory, MountOptions::parse(options)?))
        }
        _ => Err(Failure::Words(format!("mount `{word}` is not VOLUME=DIR or VOLUME=DIR,OPTIONS"))),
    };
    let places: Vec<VolumeAt> = config.mounts.iter().map(parse).collect::<Result<_, _>>()?;
    let backups = config.backups.as_deref().and_then(|directory| directory.canonicalize().ok());
    for (volume, directory, _) in &places {
        let Ok(directory) = directory.canonicalize() else { continue }; // refused when it is mounted
        if backups.as_ref().is_some_and(|backups| backups.starts_with(&directory)) {
            let text = format!("backups would go to {}, into the store itself", directory.display());
            return Err(Failure::Words(format!("{text}; mount volume {volume} elsewhere")));
        }
    }
    Ok(places)
}

/// The directory and the options of `DIR[,OPTIONS]`. A directory that exists by the whole text,
/// with its commas, is meant as it is.
fn place_of(text: &str) -> (PathBuf, &str) {
    match text.split_once(',') {
        Some((directory, options)) if !Path::new(text).is_dir() => (directory.into(), options),
        _ => (text.into(), ""),
    }
}

impl Mounts {
    /// Opens and mounts all volumes, or none.
    pub(super) fn start(store: &Store, config: &Config, places: &[VolumeAt]) -> Result<Mounts, Failure> {
        let mut mounts = Mounts(Vec::new());
        for (name, directory, options) in places {
            match mount(store, config, name, directory, options) {
                Ok(serving) => mounts.0.push((name.clone(), serving)),
                Err(failure) => {
                    if let Err(other) = mounts.stop() {
                        let _ = writeln!(stderr(), "everbyte: {other}"); // a terminal may be gone
                    }
                    return Err(failure);
                }
            }
        }
        Ok(mounts)
    }

    /// The mount points.
    pub(super) fn paths(&self) -> Vec<String> {
        self.0.iter().map(|(_, serving)| serving.path().display().to_string()).collect()
    }

    /// The volumes by their names.
    pub(super) fn volumes(&self) -> Vec<(String, MountedVolume)> {
        self.0.iter().map(|(name, serving)| (name.clone(), serving.volume())).collect()
    }

    /// Unmounts all, also after a failure of one, which is returned. Tells whether all volumes are
    /// closed.
    pub(super) fn stop(self) -> Result<bool, Failure> {
        let ended: Vec<_> = self.0.into_iter().map(|(_, serving)| serving.stop()).collect();
        let mut closed = true;
        for end in ended {
            closed &= end?;
        }
        Ok(closed)
    }
}

fn mount(
    store: &Store,
    config: &Config,
    name: &str,
    directory: &Path,
    options: &MountOptions,
) -> Result<Serving, Failure> {
    let object = match store.object(name) {
        Err(error) if config.create && error.kind() == ErrorKind::NotFound => {
            let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
            Volume::create(store, name, &VolumeOptions { owner, ..VolumeOptions::default() })?.close()?;
            store.object(name)
        }
        object => object,
    };
    let volume = Volume::open_with(object?, &options.files.opening())?;
    let path =
        config.store.canonicalize().map_err(|error| Failure::system("resolve the path", &config.store, error))?;
    let source = format!("{OF_SERVER}{}:{name}", path.display());
    Ok(Mount::new(volume, directory, &source, options)?.start()?)
}
