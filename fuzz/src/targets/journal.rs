//! A lane of the undo journal with entries in it, patched and recovered.

use crate::class;
use crate::patch::{Image, memory};
use everbyte_log::Journal;
use std::ops::Range;
use std::sync::OnceLock;

const LEN: u64 = 64 << 10;
const LANE: Range<u64> = 4096..8192;
const DATA: Range<u64> = 16 << 10..64 << 10;

fn good() -> &'static Image {
    static GOOD: OnceLock<Image> = OnceLock::new();
    GOOD.get_or_init(|| {
        let media = memory(LEN);
        Journal::format(&media, LANE, 77).expect("a lane");
        media.barrier().expect("a barrier");
        let mut journal = Journal::recover(&media, LANE, DATA).expect("a lane").finish();
        journal.log(DATA.start + 100, 500).expect("room");
        journal.log_words(&[DATA.start + 1000, DATA.start + 2000]).expect("room");
        journal.log_ops(&[1, 2, 3]).expect("room");
        journal.fence();
        Image::new(media.read_vec(0, LEN as usize), Vec::new())
    })
}

pub(crate) fn run(input: &[u8]) -> String {
    let media = good().media(input);
    match Journal::recover(&media, LANE, DATA) {
        Ok(recovery) => {
            let said = format!(
                "{:?} {} undo {} ops",
                recovery.outcome(),
                recovery.undo_entries().count(),
                recovery.ops().len()
            );
            recovery.undo();
            let mut journal = recovery.finish();
            let used = journal.log(DATA.start, 64).map_or_else(|error| class(&error.to_string()), |()| "used".into());
            format!("{said} {used}")
        }
        Err(error) => class(&error.to_string()),
    }
}
