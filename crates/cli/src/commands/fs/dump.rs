//! `everbyte fs dump`: the structures of a volume on media, decoded.

use super::volume;
use crate::args::FsDumpArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::volume::{Place, resolve};
use everbyte_fs::{Dump, Ino, dump};
use everbyte_store::{Engine, Store};
use serde_json::json;

pub(super) fn run(store: &Store, args: &FsDumpArgs, output: &Output) -> Result<(), Failure> {
    let place = Place::of(&args.place)?;
    let of = match (args.inode, args.page) {
        (Some(ino), _) => Dump::Inode(Ino(ino)),
        (None, Some(page)) => Dump::Page(page),
        (None, None) if !args.place.contains(':') => Dump::Volume,
        // A path needs a volume that can be opened.
        (None, None) => Dump::Inode(resolve(&volume(store, &place.volume)?, &place, Ino::ROOT)?),
    };
    let object = store.object(&place.volume)?;
    object.require_engine(Engine::Fs)?;
    for line in dump(&object, of) {
        let mark = if line.is_whole { "" } else { "  DAMAGED" };
        let value = json!({ "at": line.at, "field": line.field, "value": line.value, "whole": line.is_whole });
        output.say(format!("{:#010x}  {}: {}{mark}", line.at, line.field, line.value), value)?;
    }
    Ok(())
}
