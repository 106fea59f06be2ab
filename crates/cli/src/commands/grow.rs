//! `everbyte grow`: backs more of an object in advance, so that what is stored later cannot fail for want of space.

use crate::args::GrowArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, text};
use serde_json::json;

pub fn run(args: &GrowArgs, output: &Output) -> Result<(), Failure> {
    let store = open::store(&args.store.store, &args.store.open)?;
    let object = store.object(&args.object)?;
    let range = object.grow(args.by)?;
    store.media().barrier()?;
    let backed = object.backed() - object.span().start;
    drop(object);
    store.close()?;
    output.say(
        format!("`{}` grew by {} to {}", args.object, text::bytes(range.end - range.start), text::bytes(backed)),
        json!({ "object": args.object, "by": range.end - range.start, "backed": backed }),
    )
}
