//! `everbyte create`: a new, empty store. The properties of its format are chosen here and recorded
//! in the store.

use crate::args::CreateArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, text};
use serde_json::json;

pub(crate) fn run(args: &CreateArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.store.store;
    let store = open::create(path, &args.store.open, &args.shape)?;
    let media = store.media();
    let (backend, max, binding) = (media.kind().name(), store.max(), media.binding());
    store.close()?;
    let bound = binding.map(|address| format!(", bound to {address:#x}")).unwrap_or_default();
    output.say(
        format!("created {} on `{backend}`, for at most {}{bound}", path.display(), text::bytes(max.get())),
        json!({ "store": path, "backend": backend, "max": max.get(), "binding": binding }),
    )
}
