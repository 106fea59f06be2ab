//! `everbyte store merge DST SRC..`: copies the objects of stores into another. The sources are
//! only read. Conflicts are refused before the first copy.

use crate::args::MergeArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::{open, progress, text};
use everbyte::{Engines, Merge, MergeOptions, MergeStep};
use everbyte_store::Store;
use serde_json::json;
use std::path::Path;

pub(super) fn run(args: &MergeArgs, output: &Output) -> Result<(), Failure> {
    let sources = args.sources.iter().map(|source| read(source, args)).collect::<Result<Vec<_>, _>>()?;
    let path = &args.target;
    let target = if args.dry_run { open::to_read(path, &args.open)? } else { open::store(path, &args.open)? };
    let options = MergeOptions {
        prefix: args.prefix.clone(),
        renames: args.rename.clone(),
        skip: args.skip.clone(),
        resume: args.resume,
        engines: Engines::standard(),
    };
    let merge = Merge::plan(&target, &sources, &options)?;
    let (copies, present): (Vec<_>, Vec<_>) = merge.steps().iter().partition(|step| !step.present);
    if !args.dry_run {
        copy(&merge, &copies)?;
    }
    let state = if args.dry_run { "to be copied" } else { "copied" };
    copies.iter().try_for_each(|step| tell(step, state, output))?;
    present.iter().try_for_each(|step| tell(step, "there already", output))?;
    let (copied, left) = (copies.len(), present.len());
    output.say(
        format!("{}: {copied} {state}, {left} there already", path.display()),
        json!({ "store": path, "dry_run": args.dry_run, "copied": copied, "present": left }),
    )?;
    drop((merge, sources));
    if args.dry_run { Ok(()) } else { Ok(target.close()?) }
}

/// Opens a source read-only.
fn read(source: &Path, args: &MergeArgs) -> Result<Store, Failure> {
    let same = |path: &Path| path.canonicalize().ok();
    if same(source).is_some_and(|source| Some(source) == same(&args.target)) {
        return Err(Failure::Words(format!("{}: cannot be merged into itself", source.display())));
    }
    open::to_read(source, &args.open)
}

fn copy(merge: &Merge<'_>, steps: &[&MergeStep]) -> Result<(), Failure> {
    let bar = progress::bytes("merging");
    bar.set_length(steps.iter().map(|step| step.bytes.get()).sum());
    let mut end = 0;
    for step in steps {
        end += step.bytes.get(); // an estimate for a table: only its entries are copied
        merge.copy(step, &mut |bytes| bar.set_position(end.min(bar.position() + bytes)))?;
        bar.set_position(end);
    }
    bar.finish_and_clear();
    Ok(())
}

fn tell(step: &MergeStep, state: &str, output: &Output) -> Result<(), Failure> {
    let (source, size) = (step.source_path(), text::bytes(step.bytes.get()));
    output.say(
        format!("  {}  {state}: `{}` of {}, engine {}, {size}", step.target, step.name, source.display(), step.engine),
        json!({ "source": source, "object": step.name, "name": step.target, "state": state, "engine": step.engine.name(), "bytes": step.bytes.get() }),
    )
}
