//! `everbyte store clone SRC DST`: a copy with a new identity. The source is not changed.

use crate::args::CloneArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, progress, text};
use everbyte_store::Store;
use serde_json::json;

pub(super) fn run(args: &CloneArgs, output: &Output) -> Result<(), Failure> {
    let (source, target) = (&args.source, &args.target);
    open::exists(source)?;
    let bar = progress::bytes("cloning");
    let mut copied = 0;
    let cloned = Store::clone_file(source, target, &open::options(&args.open), &mut |done, of| {
        copied = done;
        bar.set_length(of);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let identity = text::hex(&cloned?);
    output.say(
        format!(
            "cloned {} to {}: identity {identity}, {} copied",
            source.display(),
            target.display(),
            text::bytes(copied)
        ),
        json!({ "source": source, "target": target, "identity": identity, "copied": copied }),
    )
}
