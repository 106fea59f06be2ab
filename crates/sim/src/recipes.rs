//! Which images of a crash point to try: all of them where they are few, else the telling ones and
//! samples.
//!
//! An image is a choice: for each unit, how many of its stores survive. A recipe is a compact way
//! to write one down. Order of the telling ones: settled, everything, each line missing, each line
//! alone, the store order cut anywhere, each earlier value of an overwritten word, each unit
//! missing and alone (a torn pair is a unit missing or alone while its neighbour is not). If these
//! exceed three quarters of the budget, each kind gets its share, drawn by seed; samples fill the
//! rest.

use crate::points::{Point, Unit};
use everbyte_workload::Random;

/// How many stores of each unit survive.
pub(crate) type Choice = Vec<u32>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    /// Number so-and-so of all, in mixed radix.
    Nth(u64),
    Settled,
    Everything,
    LineMissing(u64),
    LineAlone(u64),
    /// All stores of events up to this one.
    UpTo(usize),
    /// All units that have a store of this event or a later one, nothing of the others.
    Since(usize),
    /// This unit stops early, the others have everything or nothing.
    Earlier {
        unit: usize,
        count: u32,
        others: bool,
    },
    Missing(usize),
    Alone(usize),
    Sample(u64),
}

/// The recipes of one point and the number of images there are (as a float: it may be astronomic).
pub(crate) struct Menu {
    pub recipes: Vec<Recipe>,
    pub possible: f64,
    pub all: bool,
}

/// Chooses recipes: all where there are at most `exhaustive`, else about `budget`.
pub(crate) fn menu(point: &Point, exhaustive: u64, budget: usize, seed: u64) -> Menu {
    let possible: f64 = point.units.iter().map(|unit| unit.stores.len() as f64 + 1.0).product();
    if possible <= exhaustive as f64 {
        return Menu { recipes: (0..possible as u64).map(Recipe::Nth).collect(), possible, all: true };
    }
    let mut random = Random::new(seed ^ (point.event as u64) << 20);
    let mut recipes = vec![Recipe::Settled, Recipe::Everything];
    let mut kinds = telling(&point.units);
    for kind in &mut kinds {
        random.shuffle(kind);
    }
    let most = (budget * 3 / 4).max(2);
    while recipes.len() < most && kinds.iter().any(|kind| !kind.is_empty()) {
        recipes.extend(kinds.iter_mut().filter_map(Vec::pop).take(most - recipes.len()));
    }
    while recipes.len() < budget {
        recipes.push(Recipe::Sample(random.next()));
    }
    Menu { recipes, possible, all: false }
}

fn telling(units: &[Unit]) -> [Vec<Recipe>; 7] {
    let mut lines: Vec<u64> = units.iter().map(|unit| unit.at & !63).collect();
    lines.dedup();
    let mut events: Vec<usize> = units.iter().flat_map(|unit| &unit.stores).map(|store| store.event).collect();
    events.sort_unstable();
    events.dedup();
    let earlier = |others: bool| {
        let stops = units.iter().enumerate().flat_map(|(unit, Unit { stores, .. })| {
            (1..stores.len() as u32).map(move |count| Recipe::Earlier { unit, count, others })
        });
        stops.collect::<Vec<_>>()
    };
    [
        lines.iter().map(|&line| Recipe::LineMissing(line)).collect(),
        lines.iter().map(|&line| Recipe::LineAlone(line)).collect(),
        events.into_iter().map(Recipe::UpTo).collect(),
        earlier(true),
        earlier(false),
        (0..units.len()).map(Recipe::Missing).collect(),
        (0..units.len()).map(Recipe::Alone).collect(),
    ]
}

impl Recipe {
    /// The choice this recipe stands for.
    pub(crate) fn choice(self, units: &[Unit]) -> Choice {
        let each = |pick: &dyn Fn(usize, &Unit, u32) -> u32| -> Choice {
            units.iter().enumerate().map(|(index, unit)| pick(index, unit, unit.stores.len() as u32)).collect()
        };
        match self {
            Recipe::Settled => vec![0; units.len()],
            Recipe::Everything => each(&|_, _, all| all),
            Recipe::LineMissing(line) => each(&|_, unit, all| if unit.at & !63 == line { 0 } else { all }),
            Recipe::LineAlone(line) => each(&|_, unit, all| if unit.at & !63 == line { all } else { 0 }),
            Recipe::UpTo(event) => each(&|_, unit, _| unit.stores.partition_point(|store| store.event <= event) as u32),
            Recipe::Since(event) => each(&|_, unit, all| {
                if unit.stores.last().is_some_and(|store| store.event >= event) { all } else { 0 }
            }),
            Recipe::Earlier { unit: stops, count, others } => each(&|index, _, all| match index == stops {
                true => count,
                false => all * u32::from(others),
            }),
            Recipe::Missing(gone) => each(&|index, _, all| if index == gone { 0 } else { all }),
            Recipe::Alone(kept) => each(&|index, _, all| if index == kept { all } else { 0 }),
            Recipe::Nth(number) => {
                let mut rest = number;
                let digit = |unit: &Unit| {
                    let radix = unit.stores.len() as u64 + 1;
                    let digit = rest % radix;
                    rest /= radix;
                    digit as u32
                };
                units.iter().map(digit).collect()
            }
            Recipe::Sample(seed) => sample(units, seed),
        }
    }
}

/// Mostly everything, mostly nothing or half and half; by units or by whole lines.
fn sample(units: &[Unit], seed: u64) -> Choice {
    let mut random = Random::new(seed);
    let keep = [16, 64, 128, 192, 240][random.below(5) as usize];
    let by_line = random.below(3) == 0;
    let between = random.below(2) == 0;
    let (mut line, mut line_keeps) = (u64::MAX, false);
    let pick = |unit: &Unit| {
        if unit.at & !63 != line {
            (line, line_keeps) = (unit.at & !63, random.below(256) < keep);
        }
        let keeps = if by_line { line_keeps } else { random.below(256) < keep };
        let all = unit.stores.len() as u64;
        let count = match (between && all > 1, keeps) {
            (true, _) => random.below(all + 1),
            (false, true) => all,
            (false, false) => 0,
        };
        count as u32
    };
    units.iter().map(pick).collect()
}
