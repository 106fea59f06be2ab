//! `everbyte fs scrub`: verifies the checksums of all sealed pages.

use super::volumes::Volumes;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Form;
use crate::volume::all_paths;
use everbyte_fs::{ScrubCursor, StepLimits};
use serde_json::json;

pub(super) fn run(volumes: &Volumes, name: &str, output: &Output) -> Result<(), Failure> {
    let volume = volumes.volume(name)?;
    if !volume.has_checksums() {
        let text =
            format!("volume {name} keeps no checksums of data; `everbyte fs mkfs --checksums` makes one that does");
        return Err(Failure::No(text));
    }
    let (progress, total) = (output.progress("scrubbing pages", Form::Items), volume.sealed_share().sealed);
    let (mut cursor, mut pages, mut damaged) = (ScrubCursor::default(), 0, Vec::new());
    loop {
        let done = volume.scrub_step(&mut cursor, &StepLimits::default())?;
        pages += done.pages;
        progress.set(pages, Some(total))?;
        damaged.extend(done.damaged);
        if cursor.is_at_start() {
            break;
        }
    }
    progress.finish();
    let paths = if damaged.is_empty() { Default::default() } else { all_paths(&volume) };
    for (ino, offset, damage) in &damaged {
        let paths: &[String] = paths.get(ino).map_or(&[], |paths| paths);
        let value =
            json!({ "inode": ino.0, "paths": paths, "offset": offset, "at": damage.offset, "detail": damage.detail });
        output.say(format!("{damage} ({})", paths.join(", ")), value)?;
    }
    let wrong = damaged.len();
    if wrong == 0 {
        let text = format!("volume {name}: {pages} sealed pages, each with its checksum");
        return output.say(text, json!({ "volume": name, "pages": pages, "damaged": 0 }));
    }
    Err(Failure::No(format!(
        "volume {name}: {wrong} of {pages} sealed pages are damaged; restore these files from a copy"
    )))
}
