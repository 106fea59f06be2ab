//! Maps of a typed pool, a hash map and an ordered one that hold the same: every mutating method in
//! a transaction of its own, and random programs of them with transactions rolled back in the
//! middle, by an error or a panic.

use crate::object::{self, End, Explored, image, open, recover};
use everbyte_media::Media;
use everbyte_object::{Journal, MemPool, PBTreeMap, PCell, PHashMap, PRefCell, PSafe, PString, Pbox, Prc, Root};
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_workload::Random;
use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};

/// Keys that random programs use.
const KEYS: u64 = 40;

#[derive(PSafe)]
#[repr(C)]
struct Maps<P: MemPool> {
    hash: PRefCell<Hash<P>, P>,
    ordered: PRefCell<Ordered<P>, P>,
}

type Hash<P> = PHashMap<PString<P>, Pbox<u64, P>, P>;
type Ordered<P> = PBTreeMap<PString<P>, Prc<PCell<u64, P>, P>, P>;
type Plain = BTreeMap<String, u64>;

/// A number in an object of its own.
trait Number<P: MemPool> {
    fn new(number: u64, j: &Journal<P>) -> Self;
    fn get(&self) -> u64;
    fn set(&mut self, number: u64, j: &Journal<P>);
}

impl<P: MemPool> Number<P> for Pbox<u64, P> {
    fn new(number: u64, j: &Journal<P>) -> Self {
        Pbox::new(number, j)
    }

    fn get(&self) -> u64 {
        **self
    }

    fn set(&mut self, number: u64, j: &Journal<P>) {
        *self.as_mut(j) = number;
    }
}

impl<P: MemPool> Number<P> for Prc<PCell<u64, P>, P> {
    fn new(number: u64, j: &Journal<P>) -> Self {
        Prc::new(PCell::new(number), j)
    }

    fn get(&self) -> u64 {
        (**self).get()
    }

    /// Now and then by another object.
    fn set(&mut self, number: u64, j: &Journal<P>) {
        match number % 3 {
            0 => *self = Number::new(number, j),
            _ => (**self).set(number, j),
        }
    }
}

/// One change.
#[derive(Clone, Copy, Debug)]
enum Change {
    Insert(u64, u64),
    Remove(u64),
    /// A key goes and comes back in one transaction: its place is used again.
    Again(u64),
    GetMut(u64),
    GetOrInsert(u64, u64),
    IterMut,
    Retain(u64),
    /// Keys from one on, so many.
    Extend(u64, u64),
    Reserve(u64),
    PopFirst,
    PopLast,
    Take,
    Clear,
}

const ALL: [Change; 17] = {
    use Change::*;
    [
        Insert(20, 1),
        Insert(3, 2),
        Remove(4),
        Remove(99),
        Again(5),
        GetMut(6),
        GetOrInsert(7, 3),
        GetOrInsert(30, 4),
        IterMut,
        Retain(3),
        Extend(10, 12),
        PopFirst,
        PopLast,
        Take,
        Reserve(40),
        Remove(15),
        Clear,
    ]
};

fn text<P: MemPool>(key: u64, j: &Journal<P>) -> PString<P> {
    PString::from_str(&key.to_string(), j)
}

/// One change of a map from text to numbers.
macro_rules! change {
    ($map:expr, $change:expr, $j:ident) => {
        match $change {
            Change::Insert(key, value) => _ = $map.insert(text(key, $j), Number::new(value, $j), $j),
            Change::Remove(key) => _ = $map.remove(key.to_string().as_str(), $j),
            Change::Again(key) => {
                if let Some((key, value)) = $map.remove_entry(key.to_string().as_str(), $j) {
                    // Another object, so that the place holds other bytes than before.
                    $map.insert(key, Number::new(Number::get(&value) + 1, $j), $j);
                }
            }
            Change::GetMut(key) => {
                if let Some(value) = $map.get_mut(key.to_string().as_str(), $j) {
                    Number::set(value, 77, $j);
                }
            }
            Change::GetOrInsert(key, value) => {
                let found = $map.get_or_insert_with(text(key, $j), || Number::new(value, $j), $j);
                Number::set(found, Number::get(found) + 1, $j);
            }
            Change::Retain(of) => $map.retain(|_, value| Number::get(value) % of != 0, $j),
            Change::Extend(from, count) => {
                $map.extend((from..from + count).map(|key| (text(key, $j), Number::new(key, $j))), $j);
            }
            Change::Take => {
                let mut taken = std::mem::take(&mut *$map);
                taken.insert(text(8, $j), Number::new(8, $j), $j);
                *$map = taken;
            }
            Change::Clear => $map.clear($j),
            Change::IterMut | Change::Reserve(_) | Change::PopFirst | Change::PopLast => {}
        }
    };
}

impl<P: MemPool> Maps<P> {
    fn change(&self, change: Change, j: &Journal<P>) {
        let (mut hash, mut ordered) = (self.hash.borrow_mut(j), self.ordered.borrow_mut(j));
        change!(hash, change, j);
        change!(ordered, change, j);
        let popped = match change {
            Change::IterMut => {
                hash.values_mut(j).for_each(|value| value.set(**value + 1, j));
                let values = ordered.range_mut::<str, _>((Included("0"), Unbounded), j).map(|(_, value)| value);
                values.rev().for_each(|value| Number::set(value, Number::get(value) + 1, j));
                None
            }
            Change::Reserve(more) => {
                hash.reserve(more as usize, j);
                None
            }
            Change::PopFirst => ordered.pop_first(j),
            Change::PopLast => ordered.pop_last(j),
            _ => None,
        };
        if let Some((key, _)) = popped {
            hash.remove(key.as_str(), j);
        }
    }

    /// # Errors
    /// If the maps differ, or a key is not found.
    fn plain(&self) -> Result<Plain, String> {
        let (hash, ordered) = (self.hash.borrow(), self.ordered.borrow());
        let found: Plain = hash.iter().map(|(key, value)| (key.to_string(), **value)).collect();
        if found.len() != hash.len() || !found.keys().all(|key| hash.contains_key(key.as_str())) {
            return Err(format!("a hash map of {} entries has {found:?}, or does not find them", hash.len()));
        }
        let found_ordered: Vec<_> = ordered.iter().map(|(key, value)| (key.to_string(), Number::get(value))).collect();
        if ordered.len() != hash.len() || !found_ordered.iter().cloned().eq(found.clone()) {
            return Err(format!("the hash map has {found:?}, the ordered one {found_ordered:?}"));
        }
        match found.keys().find(|key| !ordered.contains_key(key.as_str())) {
            Some(lost) => Err(format!("the ordered map does not find {lost}")),
            None => Ok(found),
        }
    }
}

fn change(plain: &mut Plain, change: Change) {
    match change {
        Change::Insert(key, value) => drop(plain.insert(key.to_string(), value)),
        Change::Remove(key) => drop(plain.remove(&key.to_string())),
        Change::Again(key) => plain.get_mut(&key.to_string()).into_iter().for_each(|value| *value += 1),
        Change::GetMut(key) => plain.get_mut(&key.to_string()).into_iter().for_each(|value| *value = 77),
        Change::GetOrInsert(key, value) => *plain.entry(key.to_string()).or_insert(value) += 1,
        Change::IterMut => plain.values_mut().for_each(|value| *value += 1),
        Change::Retain(of) => plain.retain(|_, value| *value % of != 0),
        Change::Extend(from, count) => plain.extend((from..from + count).map(|key| (key.to_string(), key))),
        Change::Take => drop(plain.insert("8".into(), 8)),
        Change::PopFirst => drop(plain.pop_first()),
        Change::PopLast => drop(plain.pop_last()),
        Change::Clear => plain.clear(),
        Change::Reserve(_) => {}
    }
}

/// Ten entries: two groups of places, and a root above two leaves.
fn start() -> (Image, Plain) {
    let mut plain = Plain::new();
    change(&mut plain, Change::Extend(0, 10));
    let image = image::<Maps<Explored>>(|j| {
        let maps = Maps { hash: PRefCell::default(), ordered: PRefCell::default() };
        maps.change(Change::Extend(0, 10), j);
        maps
    });
    (image, plain)
}

fn observe(media: Media, seen: &Seen) -> Result<Plain, String> {
    let maps = recover::<Maps<Explored>>(&media, seen)?;
    let found = maps.plain()?;
    let again = [Change::Insert(1000, 1), Change::Remove(3), Change::Extend(20, 20)];
    maps.tx(|j, maps| again.map(|change| maps.change(change, j))).map_err(|error| error.to_string())?;
    let mut wanted = found.clone();
    again.into_iter().for_each(|again| change(&mut wanted, again));
    if maps.plain()? == wanted { Ok(found) } else { Err("the maps are of no use after recovery".into()) }
}

/// A transaction that makes `changes`, here and in the twin.
fn step(maps: &Root<Maps<Explored>, Explored>, twin: &Twin<'_, Plain>, changes: &[Change], end: End) {
    let wanted = changes.to_vec();
    let apply = move |plain: &mut Plain| wanted.iter().for_each(|wanted| change(plain, *wanted));
    object::step(maps, twin, format!("{changes:?} {end:?}"), end, apply, |j, maps| {
        changes.iter().for_each(|change| maps.change(*change, j));
    });
}

fn explore(
    explorer: Explorer,
    program: impl Fn(&Root<Maps<Explored>, Explored>, &Twin<'_, Plain>),
) -> Result<Report, Box<Failure>> {
    let (image, plain) = start();
    let program = |media: Media, twin: &Twin<'_, Plain>| {
        program(&open(&media).expect("a whole pool"), twin);
    };
    explorer.explore_twin(&image, &plain, Order::InOrder, program, observe)
}

/// Each change in a transaction of its own.
pub(crate) fn each(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, |maps, twin| ALL.iter().for_each(|change| step(maps, twin, &[*change], End::Commit)))
}

/// Random transactions of up to five changes, some rolled back.
pub(crate) fn random(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, |maps, twin| {
        let mut random = Random::new(0x3a95_b007);
        for _ in 0..9 {
            let changes: Vec<Change> = (0..1 + random.below(5)).map(|_| any(&mut random)).collect();
            step(maps, twin, &changes, End::any(&mut random));
        }
    })
}

fn any(random: &mut Random) -> Change {
    let (key, value) = (random.below(KEYS), random.below(1000));
    match random.below(18) {
        0..5 => Change::Insert(key, value),
        5..9 => Change::Remove(key),
        9 => Change::Again(key),
        10 => Change::GetMut(key),
        11 => Change::GetOrInsert(key, value),
        12 => Change::IterMut,
        13 => Change::Retain(2 + value % 3),
        14 => Change::Extend(key, value % 20),
        15 => Change::PopFirst,
        16 => Change::PopLast,
        _ => [Change::Take, Change::Reserve(value % 60), Change::Clear][random.below(3) as usize],
    }
}
