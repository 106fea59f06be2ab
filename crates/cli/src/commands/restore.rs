//! `everbyte restore FILE.. STORE`: a store of a backup and its increments.

use crate::args::RestoreArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, progress, text};
use everbyte::backup::{RestoreOptions, restore};
use everbyte_store::FindingKind;
use serde_json::json;

pub(crate) fn run(args: &RestoreArgs, output: &Output) -> Result<(), Failure> {
    let options = RestoreOptions { new_identity: args.new_identity, media: open::options(&args.open) };
    let bar = progress::bytes("restoring");
    let restored = restore(&args.files, &args.store, &options, &mut |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    let restored = restored?;
    let (store, identity) = (args.store.display(), text::hex(&restored.identity));
    let bad: Vec<String> =
        restored.findings.iter().filter(|found| found.kind != FindingKind::Note).map(ToString::to_string).collect();
    output.say(
        format!("restored {store} of {} files: identity {identity}, {} pages", restored.files, restored.pages),
        json!({
            "store": args.store,
            "identity": identity,
            "files": restored.files,
            "pages": restored.pages,
            "findings": bad,
        }),
    )?;
    match bad.first() {
        None => Ok(()),
        Some(first) => Err(Failure::No(format!("{store}: the backup holds a damaged store: {first}"))),
    }
}
