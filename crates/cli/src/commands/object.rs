//! `everbyte object dump|load`: typed pools as lines of JSON.

use crate::args::{DumpArgs, LoadArgs, ObjectCommand, ObjectCommands};
use crate::failure::Failure;
use crate::output::Output;
use crate::{files, open, progress};
use everbyte_object::{Error, PoolOptions, UntypedPool};
use everbyte_store::Store;
use serde_json::json;

pub(crate) fn run(args: &ObjectCommands, output: &Output) -> Result<(), Failure> {
    match &args.command {
        ObjectCommand::Dump(dumped) => dump(open::to_read(&args.store, &args.open)?, dumped, output),
        ObjectCommand::Load(loaded) => load(open::store(&args.store, &args.open)?, loaded, output),
    }
}

fn dump(store: Store, args: &DumpArgs, output: &Output) -> Result<(), Failure> {
    let pool = UntypedPool::open(&store, &args.name)?;
    let bar = progress::bar("checking", pool.allocated().ok().map(|total| total.blocks));
    if files::is_standard(&args.file) {
        let dumped = pool.dump(&mut *output.writer(), &|met| bar.set_position(met));
        bar.finish_and_clear();
        return match dumped {
            Err(Error::Output { source, .. }) => Err(Failure::output(source)),
            dumped => Ok(dumped.map(drop)?),
        };
    }
    let dumped = files::write_new(&args.file, |file| Ok(pool.dump(file, &|met| bar.set_position(met))?))?;
    bar.finish_and_clear();
    output.say(
        format!("dumped {} to {}: {} lines", args.name, args.file.display(), dumped.lines),
        json!({ "dumped": args.name, "file": args.file, "lines": dumped.lines, "shared": dumped.shared }),
    )
}

fn load(store: Store, args: &LoadArgs, output: &Output) -> Result<(), Failure> {
    let (mut lines, _) = files::lines(&args.file)?;
    let bar = progress::bar("loading", None);
    let loaded = everbyte_object::load(&store, &args.name, &PoolOptions::default(), &mut lines, &|lines| {
        bar.set_position(lines)
    });
    bar.finish_and_clear();
    let loaded = loaded?;
    store.close()?;
    output.say(
        format!("loaded {}: {} lines, {} blocks", args.name, loaded.lines, loaded.blocks),
        json!({ "loaded": args.name, "lines": loaded.lines, "blocks": loaded.blocks }),
    )
}
