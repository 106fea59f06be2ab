//! `everbyte grow`: raises a store's declared maximum. After a crash the old or the new maximum
//! applies.

use crate::args::GrowArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, text};
use everbyte_store::Store;
use serde_json::json;

pub(crate) fn run(args: &GrowArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.store.store;
    open::exists(path)?;
    let store = Store::options(path).grown(args.max).open(&open::options(&args.store.open))?;
    let max = store.info().max;
    store.close()?;
    output.say(format!("{} may now grow to {}", path.display(), text::bytes(max)), json!({ "store": path, "max": max }))
}
