//! `everbyte fs dump`: the structures of a volume on media, decoded.

use super::volumes::volume;
use crate::args::FsDumpArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::volume::{Place, resolve};
use everbyte_fs::{Dump, Ino, Volume, dump};
use everbyte_store::{Engine, Object, Store};
use serde_json::json;

/// Dumps a part of a volume that is not open.
pub(super) fn run(store: &Store, args: &FsDumpArgs, output: &Output) -> Result<(), Failure> {
    let place = Place::of(&args.place)?;
    let object = store.object(&place.volume)?;
    object.require_engine(Engine::Fs)?;
    let of = part(args, || {
        // A path needs a volume that can be opened.
        let volume = volume(store, &place.volume)?;
        let ino = resolve(&volume, &place, Ino::ROOT)?;
        volume.close()?;
        Ok(ino)
    })?;
    tell(&object, of, output)
}

/// Dumps a part of an open volume that no other thread changes.
pub(super) fn run_open(volume: &Volume, args: &FsDumpArgs, output: &Output) -> Result<(), Failure> {
    let place = Place::of(&args.place)?;
    let of = part(args, || resolve(volume, &place, Ino::ROOT))?;
    tell(volume.object(), of, output)
}

/// The part that the arguments name.
fn part(args: &FsDumpArgs, resolve: impl FnOnce() -> Result<Ino, Failure>) -> Result<Dump, Failure> {
    Ok(match (args.inode, args.page) {
        (Some(ino), _) => Dump::Inode(Ino(ino)),
        (None, Some(page)) => Dump::Page(page),
        (None, None) if !args.place.contains(':') => Dump::Volume,
        (None, None) => Dump::Inode(resolve()?),
    })
}

fn tell(object: &Object, of: Dump, output: &Output) -> Result<(), Failure> {
    for line in dump(object, of) {
        let mark = if line.is_whole { "" } else { "  DAMAGED" };
        let value = json!({ "at": line.at, "field": line.field, "value": line.value, "whole": line.is_whole });
        output.say(format!("{:#010x}  {}: {}{mark}", line.at, line.field, line.value), value)?;
    }
    Ok(())
}
