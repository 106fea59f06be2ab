//! `everbyte backup STORE FILE`: all objects of a store as of one moment, in one file.

use crate::args::BackupArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, progress, text};
use everbyte::Store;
use everbyte::backup::{Options, Phase, Summary};
use serde_json::json;

pub(crate) fn run(args: &BackupArgs, output: &Output) -> Result<(), Failure> {
    let store = open::store(&args.store, &args.open)?;
    let options = Options { since: args.since.clone(), ..Options::default() };
    let bar = progress::bytes("copying");
    let made = Store::from(store.clone()).backup(&args.file, &options, &mut |progress| {
        if progress.phase == Phase::Copy {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        }
    });
    bar.finish_and_clear();
    let made = made?;
    let Summary { store: identity, identity: backup, parent, pages, stored, size, pause, time, .. } = made;
    store.close()?;
    let (file, held) = (args.file.display(), pause.as_secs_f64() * 1e3);
    let kind = match &args.since {
        Some(since) => format!(", increment of {}", since.display()),
        None => String::new(),
    };
    output.say(
        format!(
            "backed up {} to {file}{kind}: {stored} of {pages} pages, {}; writers were held back for {held:.1} ms",
            args.store.display(),
            text::bytes(size),
        ),
        json!({
            "store": args.store,
            "file": args.file,
            "identity": text::hex(&identity),
            "backup": text::hex(&backup),
            "parent": parent.map(|parent| text::hex(&parent)),
            "pages": pages,
            "stored": stored,
            "bytes": size,
            "held_back_ms": held,
            "seconds": time.as_secs_f64(),
        }),
    )
}
