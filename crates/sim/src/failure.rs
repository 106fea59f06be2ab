//! A crash image that fails: its short name, which replays it, and the text a person reads.

use crate::points::{Point, Unit};
use crate::recipes::{Choice, Recipe};
use crate::stage::Trial;
use crate::tape::{Event, Recording};
use std::fmt;

/// One crash image, as the few units in which it deviates from "settled" or "everything".
///
/// Written `57.e-808:0`: before event 57, everything survived except that of the unit at word 0x808
/// (offset 0x4040) no store did. `s` is the settled image; `h` after the letter says that holes
/// punched later show, `d` that the process died and the machine did not. A `g` before the event
/// says that the crash is of the second generation: the program ran again on what the first crash
/// had left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deviation {
    pub event: usize,
    /// A crash of the program's second run, not of the recovery before it.
    pub again: bool,
    everything: bool,
    holes: bool,
    death: bool,
    units: Vec<(u64, u32)>,
}

impl Deviation {
    pub(crate) fn of(point: &Point, trial: &Trial, again: bool) -> Deviation {
        let differs = |base: &Choice| -> Vec<(u64, u32)> {
            let units = point.units.iter().zip(&trial.choice).zip(base);
            units.filter(|((_, count), base)| count != base).map(|((unit, &count), _)| (unit.at, count)).collect()
        };
        let settled = differs(&Recipe::Settled.choice(&point.units));
        let missing = differs(&Recipe::Everything.choice(&point.units));
        let everything = missing.len() < settled.len();
        let units = if everything { missing } else { settled };
        Deviation { event: point.event, again, everything, holes: trial.holes, death: trial.death, units }
    }

    /// The image this names at `point`, or why there is none.
    pub(crate) fn trial(&self, point: &Point) -> Result<Trial, String> {
        let base = if self.everything { Recipe::Everything } else { Recipe::Settled };
        let mut choice = base.choice(&point.units);
        for &(at, count) in &self.units {
            let index = point.units.binary_search_by_key(&at, |unit: &Unit| unit.at);
            let index = index.map_err(|_| format!("nothing is undecided at {at:#x}: the program took another path"))?;
            if count as usize > point.units[index].stores.len() {
                return Err(format!("fewer than {count} stores at {at:#x}: the program took another path"));
            }
            choice[index] = count;
        }
        Ok(Trial { choice, holes: self.holes, death: self.death })
    }

    /// Images joined by `+`: the crash of the program, then the one inside its recovery or of its
    /// second run.
    pub(crate) fn parse_chain(text: &str) -> Option<Vec<Deviation>> {
        text.split('+').map(Deviation::parse).collect()
    }

    fn parse(text: &str) -> Option<Deviation> {
        let (again, text) = text.strip_prefix('g').map_or((false, text), |rest| (true, rest));
        let (event, rest) = text.split_once('.')?;
        let mut parts = rest.split('-');
        let base = parts.next()?;
        let units = parts.map(|part| {
            let (at, count) = part.split_once(':')?;
            Some((u64::from_str_radix(at, 16).ok()? * 8, count.parse().ok()?))
        });
        let units = units.collect::<Option<Vec<_>>>()?;
        let known = matches!(base, "e" | "s" | "eh" | "sh" | "ed" | "sd");
        let (everything, holes, death) = (base.starts_with('e'), base.ends_with('h'), base.ends_with('d'));
        known.then_some(Deviation { event: event.parse().ok()?, again, everything, holes, death, units })
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = if self.everything { 'e' } else { 's' };
        let how = match (self.holes, self.death) {
            (true, _) => "h",
            (_, true) => "d",
            _ => "",
        };
        write!(f, "{}{}.{base}{how}", if self.again { "g" } else { "" }, self.event)?;
        self.units.iter().try_for_each(|(at, count)| write!(f, "-{:x}:{count}", at / 8))
    }
}

/// A confirmed failure inside the engine.
pub(crate) struct Found {
    pub message: String,
    pub story: String,
    pub chain: Vec<Deviation>,
}

impl Found {
    /// The id of the image, crashes inside recovery included.
    pub(crate) fn id(&self) -> String {
        self.chain.iter().map(Deviation::to_string).collect::<Vec<_>>().join("+")
    }

    /// For the pipe: id and text of a crash inside recovery.
    pub(crate) fn wire(&self) -> Vec<u8> {
        let story = self.story.replace('\n', "\n  ");
        let of = match self.chain.first() {
            Some(first) if first.again => "of the program's second run, on what the first crash left",
            _ => "inside recovery",
        };
        format!("{}\0{}\nafter another crash, {of}:\n  {story}", self.id(), self.message).into_bytes()
    }
}

/// A crash image that recovery or check did not survive.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The explorer's name.
    pub name: String,
    /// Settling and tear profile: see the manual page of the explorer.
    pub profile: String,
    /// The seed of the run.
    pub seed: u64,
    /// Names the image: profile, crash point and what survived, after shrinking.
    pub image: String,
    /// The message of the check or the process.
    pub message: String,
    /// The point of the power failure and the words that were lost.
    pub story: String,
    /// Replays this image.
    pub command: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { name, profile, message, story, command, .. } = self;
        write!(f, "crash image of `{name}` ({profile}) fails: {message}\n{story}\nreplay: {command}")
    }
}

impl std::error::Error for Failure {}

impl Recording {
    /// How far a store had got by the event `until`.
    pub(crate) fn fate(&self, store: usize, word: u64, until: usize) -> &'static str {
        let Event::Store { thread, .. } = self.events[store] else { return "not a store" };
        let covers = |event: &Event| {
            matches!(event, Event::Flush { thread: by, at, len } if *by == thread
            && (*at..at + len).contains(&word))
        };
        let after = &self.events[store..until];
        let Some(flushed) = after.iter().position(covers) else { return "never flushed by then" };
        let fences = |event: &Event| matches!(event, Event::Fence { thread: by } if *by == thread);
        if after[flushed..].iter().any(fences) { "flushed and fenced, not settled" } else { "flushed, not fenced" }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Store { at, len, .. } => write!(f, "store {at:#x} {len}"),
            Event::Flush { at, len, .. } => write!(f, "flush {at:#x} {len}"),
            Event::Fence { .. } => f.write_str("fence"),
            Event::Barrier { .. } => f.write_str("barrier"),
            Event::Allocate { at, len } => write!(f, "allocate {at:#x} {len}"),
            Event::Punch { at, len } => write!(f, "punch {at:#x} {len}"),
            Event::Begin(op) => write!(f, "begin {op}"),
            Event::Acked(op) => write!(f, "acknowledge {op}"),
        }
    }
}
