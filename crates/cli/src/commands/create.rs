//! `everbyte create`: a new, empty store. What shapes its format is decided here, and kept in the store.

use crate::args::CreateArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, text};
use serde_json::json;

pub fn run(args: &CreateArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.store.store;
    let store = open::create(path, &args.store.open, args.max, args.log)?;
    let media = store.media();
    let (backend, max) = (media.kind().name(), media.max());
    store.close()?;
    output.say(
        format!("created {} on `{backend}`, for at most {}", path.display(), text::bytes(max)),
        json!({ "store": path, "backend": backend, "max": max }),
    )
}
