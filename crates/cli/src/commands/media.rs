//! `everbyte media probe PATH`: backend, durability and costs under a path.

use crate::args::{MediaArgs, MediaCommand};
use crate::failure::Failure;
use crate::output::Output;
use crate::text;
use everbyte_media::Probe;
use serde_json::json;
use std::path::Path;

pub(crate) fn run(args: &MediaArgs, output: &Output) -> Result<(), Failure> {
    match &args.command {
        MediaCommand::Probe { path } => probe(path, output),
    }
}

fn probe(path: &Path, output: &Output) -> Result<(), Failure> {
    let probe = everbyte_media::probe(path)?;
    let Probe {
        kind,
        reason,
        keeps_stores_of_the_dead,
        survives_power_loss,
        line_ns,
        fence_ns,
        barrier_ns,
        free_bytes,
        ..
    } = probe;
    if output.is_json() {
        return output.say(
            "",
            json!({
                "path": path, "backend": kind.name(), "reason": reason, "keeps_stores_of_the_dead": keeps_stores_of_the_dead,
                "survives_power_loss": survives_power_loss, "flush": probe.flush.name(), "line_ns": line_ns,
                "fence_ns": fence_ns, "barrier_ns": barrier_ns, "free_bytes": free_bytes,
            }),
        );
    }
    let death = if keeps_stores_of_the_dead {
        "keeps every store, flushed or not"
    } else {
        "keeps settled bytes (the crash rule applies to the rest)"
    };
    let power = if survives_power_loss { "keeps what a barrier settled" } else { "loses everything" };
    output.table(&json!({
        "path": path,
        "backend": format!("{}: {reason}", kind.name()),
        "process death": death,
        "power loss": power,
        "flush": format!("{} for pmem and shm", probe.flush.name()),
        "line": format!("{line_ns:.1} ns to store and flush, among many of one fence"),
        "fence": format!("{fence_ns:.0} ns after one line"),
        "barrier": format!("{:.1} us after one line: the lower bound of a durable operation here", barrier_ns / 1000.0),
        "free": text::bytes(free_bytes),
    }))
}
