//! `everbyte store rebase`: a new identity, in place. After a crash the old or the new identity
//! applies.

use crate::args::StoreArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, text};
use everbyte_store::Store;
use serde_json::json;

pub(super) fn run(args: &StoreArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.store;
    open::exists(path)?;
    let store = Store::options(path).rebased().open(&open::options(&args.open))?;
    let identity = text::hex(&store.identity());
    store.close()?;
    output.say(
        format!("{} now has the identity {identity}", path.display()),
        json!({ "store": path, "identity": identity }),
    )
}
