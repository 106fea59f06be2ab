//! [`Stage`]: one media whose memory is the settled image of the point being explored, and the
//! trials made on it.
//!
//! A trial turns the stage into one crash image, runs the check on it and puts everything back.
//! Trials run in forked children only, whose memory is a copy-on-write copy of the stage.
//!
//! Invariants
//!   STAGE-1  The tape is not armed except while a check runs.
//!   STAGE-2  `hash` is the exclusive or, over all words that differ from the first image, of the
//!            hashes of word and value, first and now; so it names the image whichever way led to
//!            it.
//!   STAGE-3  Memory is as long as it was before a trial: what a recovery backed is taken back.

use crate::points::{Point, Tear, Unit};
use crate::recipes::Choice;
use crate::tape::{Recording, Settling, Tape};
use crate::{Image, Seen};
use everbyte_media::Media;
use everbyte_workload::mix;
use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The check of a crash image that a user writes.
pub(crate) type Check<'c> = &'c dyn Fn(Media, &Seen) -> Result<(), String>;

/// One image of a point: how much of each unit survives, and whether holes punched later show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trial {
    pub choice: Choice,
    pub holes: bool,
    /// The process dies and the machine does not: everything is there, undecided as it was, through
    /// recovery.
    pub death: bool,
}

pub(crate) struct Stage {
    pub media: Media,
    pub tape: Tape,
    hash: Cell<u64>,
    /// First values of words that were settled since, for [`Stage::reset`].
    first: HashMap<u64, u64>,
    /// Bytes backed in the first image.
    first_len: u64,
}

impl Stage {
    pub(crate) fn new(image: &Image, settling: Settling, scanning: bool) -> Stage {
        let (media, tape) = image.open(settling);
        tape.scan(scanning);
        let first_len = media.len();
        Stage { media, tape, hash: Cell::new(0), first: HashMap::new(), first_len }
    }

    /// Another explorer of the same memory, for what a recovery did to it.
    pub(crate) fn inner(&self) -> Stage {
        let (media, tape, first_len) = (self.media.clone(), self.tape.clone(), self.media.len());
        Stage { media, tape, hash: Cell::new(0), first: HashMap::new(), first_len }
    }

    /// Lends the memory to an explorer that starts over from the first image, and brings it back to
    /// where it is.
    pub(crate) fn start_over<T>(&self, body: impl FnOnce(Stage) -> T) -> T {
        let here: Vec<(u64, u64)> = self.first.keys().map(|&word| (word, self.read(word))).collect();
        let len = self.media.len();
        let mut other = Stage { first: self.first.clone(), first_len: self.first_len, ..self.inner() };
        other.reset();
        let result = body(other);
        self.back(len);
        here.into_iter().for_each(|(word, value)| self.poke(word, value));
        result
    }

    pub(crate) fn read(&self, word: u64) -> u64 {
        self.tape.word(word)
    }

    /// The settled image changes.
    pub(crate) fn settle(&mut self, word: u64, value: u64) {
        if let Entry::Vacant(vacant) = self.first.entry(word) {
            vacant.insert(self.tape.word(word));
        }
        self.place(word, value);
    }

    /// Changes a word of the settled image that [`Stage::settle`] has noted; also takes it back.
    pub(crate) fn place(&self, word: u64, value: u64) {
        self.hash.set(self.hash.get() ^ pair(word, self.read(word)) ^ pair(word, value));
        self.poke(word, value);
    }

    /// Back to the first image.
    pub(crate) fn reset(&mut self) {
        for (word, value) in std::mem::take(&mut self.first) {
            self.poke(word, value);
        }
        self.media.take_back(self.first_len);
        self.hash.set(0);
    }

    fn poke(&self, word: u64, value: u64) {
        if !self.media.holds(word, 8) {
            self.back((word + 8).next_multiple_of(4096));
        }
        self.media.store(word, value);
    }

    fn back(&self, len: u64) {
        if self.media.len() < len {
            self.media.extend(0, len).expect("an image within its maximum");
        }
    }

    /// A hash of the image `trial`.
    pub(crate) fn hash_of(&self, point: &Point, trial: &Trial) -> u64 {
        let mut hash = self.hash.get();
        self.each_word(point, trial, |word, value| hash ^= pair(word, self.read(word)) ^ pair(word, value));
        mix(hash ^ point.len)
    }

    /// The words in which `trial` differs from the settled image, each once.
    fn each_word(&self, point: &Point, trial: &Trial, mut change: impl FnMut(u64, u64)) {
        let in_hole =
            |word: u64| trial.holes && point.later_holes.iter().any(|&(at, len)| (at..at + len).contains(&word));
        let mut seen = Vec::new();
        for (unit, &count) in point.units.iter().zip(&trial.choice) {
            seen.clear();
            for store in unit.stores[..count as usize].iter().rev() {
                // Few words share a unit except in store order, where the list is long but searched
                // from its end.
                if !seen.contains(&store.word) {
                    seen.push(store.word);
                    if !in_hole(store.word) {
                        change(store.word, store.value);
                    }
                }
            }
        }
        if trial.holes {
            for &(at, len) in &point.later_holes {
                (at..at + len).step_by(8).filter(|&word| self.read(word) != 0).for_each(|word| change(word, 0));
            }
        }
    }

    /// Runs the check on one image, in this process, and leaves the stage as it was. Answers with
    /// what the check said and what recovery did, whose effects are undone too.
    pub(crate) fn check(&self, check: Check<'_>, seen: &Seen) -> (Result<(), String>, Recording) {
        let mut said = Ok(());
        let checked = std::cell::RefCell::new(&mut said);
        let (result, recording) = self.record(&|media| **checked.borrow_mut() = check(media, seen));
        (result.map_or_else(|panic| Err(format!("panicked: {panic}")), |()| said), recording)
    }

    /// Records what `body` does, in this process, and leaves the stage as it was.
    pub(crate) fn record(&self, body: &dyn Fn(Media)) -> (Result<(), String>, Recording) {
        let len = self.media.len();
        self.tape.start(len);
        let result = catch_unwind(AssertUnwindSafe(|| body(self.media.clone())));
        self.tape.catch_up(&self.media);
        let recording = self.tape.take();
        for (&word, &value) in &recording.before {
            self.poke(word, value);
        }
        self.media.take_back(len);
        (result.map_err(|panic| text_of(&*panic).to_owned()), recording)
    }

    /// Makes the image of `trial`, calls `body`, and unmakes it.
    pub(crate) fn with<T>(&self, point: &Point, trial: &Trial, body: impl FnOnce() -> T) -> T {
        let len = self.media.len();
        self.back(point.len);
        let mut words = Vec::new();
        self.each_word(point, trial, |word, value| words.push((word, value)));
        let undo: Vec<(u64, u64)> = words.iter().map(|&(word, _)| (word, self.read(word))).collect();
        words.into_iter().for_each(|(word, value)| self.poke(word, value));
        let result = body();
        undo.into_iter().for_each(|(word, value)| self.poke(word, value));
        self.media.take_back(len);
        result
    }
}

fn pair(word: u64, value: u64) -> u64 {
    mix(mix(word.wrapping_add(0x51)) ^ value)
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("with a value that is no text")
}

/// One line per deviation from `baseline`: what a person needs to see why an image fails.
pub(crate) fn describe(
    units: &[Unit],
    choice: &Choice,
    tear: Tear,
    fate: &dyn Fn(usize, u64) -> &'static str,
) -> String {
    let mut lines = Vec::new();
    let everything = |index: usize| units[index].stores.len() as u32;
    let lost: usize = (0..units.len()).filter(|&index| choice[index] < everything(index)).count();
    let kept: usize = (0..units.len()).filter(|&index| choice[index] > 0).count();
    let show_lost = lost <= kept.max(8) || kept == 0;
    let name = match tear {
        Tear::Words => "word",
        Tear::Lines => "line",
        Tear::Stores => "memory",
    };
    lines.push(match (show_lost, lost, kept) {
        (true, 0, _) => "everything stored so far survived".into(),
        (true, _, 0) => format!("only what was settled survived; of {lost} {name}(s) nothing newer did:"),
        (true, ..) => format!("everything survived, except of {lost} {name}(s):"),
        (false, ..) => format!("only what was settled survived, and of {kept} {name}(s):"),
    });
    for (unit, &count) in units.iter().zip(choice) {
        let all = unit.stores.len() as u32;
        if (show_lost && count == all) || (!show_lost && count == 0) {
            continue;
        }
        if lines.len() > 16 {
            lines.push("  ...".into());
            break;
        }
        let next = unit.stores.get(count as usize);
        let lost = next.map(|store| {
            let (event, word, value) = (store.event, store.word, store.value);
            format!("{word:#x} = {value:#x} of event {event} was lost ({})", fate(event, word))
        });
        lines.push(format!(
            "  {name} {:#x}: {count} of {all} stores survived; {}",
            unit.at,
            lost.unwrap_or("none lost".into())
        ));
    }
    lines.join("\n")
}
