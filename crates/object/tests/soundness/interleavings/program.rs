//! One random program.

use super::shelf::{Burnt, Copied, FUSE, Item, Key, Link, PLACES, Place, Shelf, Twin, burn};
use everbyte_media::{Media, Recorder};
use everbyte_object::parc::VWeak;
use everbyte_object::{
    Error, In, Journal, PRef, PRefCell, PSafe, PString, PVec, Parc, Pbox, Pool, PoolOptions, Root, TryError, pool,
};
use everbyte_store::{FormatOptions, Store};
use everbyte_workload::Random;
use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

pool!(P);

type Opened = Root<Shelf<P>, P>;
type B<'tx> = In<'tx, PTag>;

/// Media that may refuse room, or fail to settle.
struct Failing {
    full: Arc<AtomicBool>,
    fails: Arc<AtomicBool>,
    fence: u64,
}

impl Recorder for Failing {
    fn store(&mut self, _: u64, _: &[u8]) {}
    fn flush(&mut self, _: u64, _: u64) {}

    fn fence(&mut self) {
        self.fence += 1;
    }

    fn mark(&mut self) -> u64 {
        self.fence
    }

    fn barrier(&mut self, _: u64) -> io::Result<()> {
        match self.fails.load(Ordering::Relaxed) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => Ok(()),
        }
    }

    fn allocate(&mut self, _: u64, _: u64) -> io::Result<()> {
        match self.full.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

/// A volatile value that counts how many of its kind live. Its destructor may panic.
struct Counted {
    living: Arc<AtomicI64>,
    armed: bool,
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert!(self.living.fetch_sub(1, Ordering::Relaxed) > 0, "dropped twice");
        if self.armed && !std::thread::panicking() {
            resume_unwind(Box::new(Burnt));
        }
    }
}

struct Program<'r> {
    root: &'r Opened,
    random: RefCell<Random>,
    failure: RefCell<Option<String>>,
    /// Guards of each cell that were forgotten or are held, and whether a mutable one was
    /// forgotten.
    borrowed: [Cell<u32>; PLACES],
    stuck: [Cell<bool>; PLACES],
    living: Arc<AtomicI64>,
    /// A nested transaction has failed: the outermost will.
    doomed: Cell<bool>,
    next: Cell<u64>,
    /// Volatile weak pointers, with the numbers of their objects.
    seen: RefCell<Vec<(VWeak<u64, P>, u64)>>,
}

impl Program<'_> {
    fn below(&self, limit: u64) -> u64 {
        self.random.borrow_mut().below(limit)
    }

    fn one_in(&self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// Notes the first failure: a panic inside of a body would come out as the body's.
    fn demand(&self, condition: bool, what: impl FnOnce() -> String) {
        if !condition {
            self.failure.borrow_mut().get_or_insert_with(what);
        }
    }

    fn is_free(&self, place: Place) -> bool {
        self.borrowed[place as usize].get() == 0 && !self.stuck[place as usize].get()
    }

    /// A new number.
    fn fresh(&self) -> u64 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    fn counted(&self) -> Counted {
        self.living.fetch_add(1, Ordering::Relaxed);
        Counted { living: Arc::clone(&self.living), armed: self.one_in(3) }
    }

    /// Changes a cell that the rules let be borrowed; some guards are forgotten.
    fn change<'tx, T: PSafe<B<'tx>>>(
        &self,
        cell: &PRefCell<T, B<'tx>>,
        place: Place,
        j: &Journal<B<'tx>>,
        change: impl FnOnce(&mut T),
    ) {
        let guard = cell.try_borrow_mut(j);
        self.demand(guard.is_some() == self.is_free(place), || {
            format!("the borrow of {place:?} is not as it should be")
        });
        let Some(mut guard) = guard else { return };
        change(&mut guard);
        if self.one_in(150) {
            std::mem::forget(guard);
            self.stuck[place as usize].set(true);
        }
    }

    /// Some steps in one transaction. `depth`: how many more may be inside of each other.
    fn steps<'tx>(&self, shelf: &Shelf<B<'tx>>, j: &Journal<B<'tx>>, twin: &mut Twin, depth: u32) {
        for _ in 0..1 + self.below(8) {
            if self.doomed.get() || self.failure.borrow().is_some() {
                return;
            }
            match self.below(20) {
                0 if depth > 0 => self.nest(twin, depth),
                1 if depth > 0 => self.hold(shelf, j, twin, depth),
                2 => self.reach_in(),
                3..6 => self.burn_one(shelf, j, twin),
                _ => self.step(shelf, j, twin),
            }
            if self.one_in(4) && !self.doomed.get() {
                let found = Twin::read(shelf, j, twin);
                self.demand(found == *twin, || format!("inside: {found:?} for {twin:?}"));
            }
        }
    }

    /// A transaction inside of this one, which may fail.
    fn nest(&self, twin: &mut Twin, depth: u32) {
        let outcome = self.root.try_tx(|j, shelf| {
            self.steps(shelf, j, twin, depth - 1);
            match self.below(12) {
                0 => resume_unwind(Box::new(Burnt)),
                1 => Err(self.counted()),
                _ => Ok(self.counted()),
            }
        });
        if let Err(error) = &outcome {
            self.doomed.set(true);
            self.demand(is_told(error), || format!("a nested transaction: {}", told(error)));
        }
        let _ = catch_unwind(AssertUnwindSafe(|| drop(outcome)));
    }

    /// Steps while a cell is borrowed by this very transaction.
    fn hold<'tx>(&self, shelf: &Shelf<B<'tx>>, j: &Journal<B<'tx>>, twin: &mut Twin, depth: u32) {
        let Some(guard) = shelf.list.try_borrow() else { return };
        let held = &self.borrowed[Place::List as usize];
        held.set(held.get() + 1);
        let before = twin.list.clone();
        let end = catch_unwind(AssertUnwindSafe(|| self.steps(shelf, j, twin, depth - 1)));
        held.set(held.get() - 1);
        let now: Vec<u64> = guard.iter().map(Item::number).collect();
        self.demand(now == before, || format!("held inside: {now:?} for {before:?}"));
        drop(guard);
        end.unwrap_or_else(|payload| resume_unwind(payload));
    }

    /// A reference that would outlive a roll-back.
    fn reach_in(&self) {
        let root = self.root;
        let refused = match self.below(4) {
            0 => catch_unwind(AssertUnwindSafe(|| drop(root.list.borrow()))),
            1 => catch_unwind(AssertUnwindSafe(|| drop(root.boxed.try_borrow()))),
            2 => catch_unwind(AssertUnwindSafe(|| drop(root.chain.borrow()))),
            _ => catch_unwind(AssertUnwindSafe(|| assert!(root.once.get().is_none_or(|text| !text.is_empty())))),
        };
        self.demand(refused.is_err(), || "a captured root lends what a roll-back takes".into());
    }

    /// A step of which the program's own code panics, caught or not. A caught panic leaves a part
    /// of the step done: for one key at most, or for the first of several values.
    fn burn_one<'tx>(&self, shelf: &Shelf<B<'tx>>, j: &Journal<B<'tx>>, twin: &mut Twin) {
        let key = self.below(30);
        let what = self.below(6);
        let mut after = twin.clone();
        FUSE.set(Some(self.below(12)));
        let end = catch_unwind(AssertUnwindSafe(|| match what {
            0 => self.change(&shelf.hashed, Place::Hashed, j, |map| {
                let number = self.fresh();
                map.insert(Key::new(key, j), Item::new(number, j), j);
                after.hashed.insert(key, number);
            }),
            1 => self.change(&shelf.hashed, Place::Hashed, j, |map| {
                map.remove(&Key::new(key, j), j);
                after.hashed.remove(&key);
            }),
            2 => self.change(&shelf.ordered, Place::Ordered, j, |map| {
                let number = self.fresh();
                map.insert(Key::new(key, j), Item::new(number, j), j);
                after.ordered.insert(key, number);
            }),
            3 => self.change(&shelf.ordered, Place::Ordered, j, |map| {
                map.remove(&Key::new(key, j), j);
                after.ordered.remove(&key);
            }),
            4 => self.change(&shelf.list, Place::List, j, |list| {
                list.retain(
                    |item| {
                        burn();
                        item.number() % 3 != 0
                    },
                    j,
                );
                after.list.retain(|number| number % 3 != 0);
            }),
            _ => self.change(&shelf.copies, Place::Copies, j, |copies| {
                let more: Vec<u64> = (0..4).map(|_| self.fresh()).collect();
                after.copies.extend(&more);
                let more: Vec<Copied<B<'_>>> = more.into_iter().map(Copied::new).collect();
                copies.extend_from_slice(&more, j);
            }),
        }));
        FUSE.set(None);
        let Err(payload) = end else {
            *twin = after;
            return;
        };
        if !payload.is::<Burnt>() || self.one_in(2) {
            resume_unwind(payload); // the engine's own, or one that nothing catches
        }
        let found = Twin::read(shelf, j, twin);
        // The new number of a key that went in is not in `after` yet.
        let is_one_key = |before: &std::collections::BTreeMap<u64, u64>, now: &std::collections::BTreeMap<u64, u64>| {
            let differs = |other: &u64| before.get(other) != now.get(other);
            before.keys().chain(now.keys()).all(|other| *other == key || !differs(other))
        };
        let is_right = match what {
            0 | 1 => is_one_key(&twin.hashed, &found.hashed),
            2 | 3 => is_one_key(&twin.ordered, &found.ordered),
            4 => twin.list.iter().all(|number| number.is_multiple_of(3) || found.list.contains(number)),
            _ => found.copies.starts_with(&twin.copies),
        };
        self.demand(is_right, || format!("after a caught panic: {found:?} for {twin:?}"));
        (twin.hashed, twin.ordered) = (found.hashed, found.ordered);
        (twin.list, twin.copies) = (found.list, found.copies);
    }

    /// A step that nothing of the program's own keeps from its end; only the engine may.
    fn step<'tx>(&self, shelf: &Shelf<B<'tx>>, j: &Journal<B<'tx>>, twin: &mut Twin) {
        let number = self.fresh();
        match self.below(12) {
            0 => {
                self.change(&shelf.boxed, Place::Boxed, j, |boxed| match boxed {
                    Some(value) if number.is_multiple_of(3) => {
                        value.as_mut(j)[1] = number;
                        twin.boxed.as_mut().expect("as in the pool")[1] = number;
                    }
                    _ => {
                        twin.boxed = (!number.is_multiple_of(4)).then_some([number; 4]);
                        *boxed = twin.boxed.map(|value| Pbox::new(value, j));
                    }
                });
            }
            1 | 2 => {
                let at = self.below(twin.list.len() as u64 + 1) as usize;
                let is_behind = at == twin.list.len();
                let what = self.below(6);
                self.change(&shelf.list, Place::List, j, |list| match what {
                    0 | 1 => {
                        list.insert(at, Item::new(number, j), j);
                        twin.list.insert(at, number);
                    }
                    2 => {
                        list.push(Item::new(number, j), j);
                        twin.list.push(number);
                    }
                    3 if !is_behind => {
                        let gone = list.remove(at, j).number();
                        self.demand(gone == twin.list.remove(at), || "another element went".into());
                    }
                    4 if !is_behind => {
                        let gone = list.set(at, Item::new(number, j), j).number();
                        self.demand(gone == std::mem::replace(&mut twin.list[at], number), || "another".into());
                    }
                    _ => {
                        list.truncate(at, j);
                        twin.list.truncate(at);
                    }
                });
            }
            3 => {
                self.change(&shelf.hashed, Place::Hashed, j, |map| {
                    (0..8).for_each(|more| {
                        let old = map.insert(Key::new(more, j), Item::new(number + more, j), j);
                        let known = twin.hashed.insert(more, number + more);
                        self.demand(old.map(|old| old.number()) == known, || "another value went".into());
                    });
                });
                self.next.set(number + 8);
            }
            4 => {
                self.change(&shelf.ordered, Place::Ordered, j, |map| match number % 3 {
                    0 => {
                        map.retain(|_, item| item.number() % 2 == 0, j);
                        twin.ordered.retain(|_, item| *item % 2 == 0);
                    }
                    _ => {
                        let first = map.pop_first(j).map(|(_, item)| item.number());
                        let known = twin.ordered.pop_first().map(|(_, item)| item);
                        self.demand(first == known, || "another first entry".into());
                    }
                });
            }
            5 => {
                let count = self.below(100);
                self.change(&shelf.chain, Place::Chain, j, |chain| {
                    if number.is_multiple_of(3) {
                        *chain = None;
                        twin.chain.clear();
                    }
                    for number in number..number + count {
                        let next = chain.take();
                        *chain = Some(Pbox::new(Link { number, next }, j));
                        twin.chain.insert(0, number);
                    }
                });
                self.next.set(number + count);
            }
            6 | 7 => self.share(shelf, j, twin, number),
            8 => match number % 4 {
                0 => {
                    let set = shelf.once.set(PString::from_str(&number.to_string(), j), j).is_ok();
                    self.demand(set == twin.once.is_none(), || "a value that is set once".into());
                    twin.once.get_or_insert_with(|| number.to_string());
                }
                1 => {
                    shelf.volatile.set(number, j);
                    twin.volatile = Some(number);
                }
                2 => {
                    shelf.volatile.clear(j);
                    twin.volatile = None;
                }
                _ => {
                    shelf.number.set(number, j);
                    twin.number = number;
                }
            },
            9 => {
                shelf.locked.lock(j).push(number, j);
                twin.locked.push(number);
                *shelf.lock.write(j) = number;
                twin.lock = number;
            }
            10 => {
                self.change(&shelf.many, Place::Many, j, |many| {
                    let count = if number.is_multiple_of(2) { number % 10 } else { 900 };
                    many.truncate(count as usize, j);
                    many.extend((many.len() as u64..count).map(|number| Pbox::new([number; 8], j)), j);
                    twin.many = count;
                });
            }
            _ => {
                let len = 1 << self.below(16);
                self.change(&shelf.filling, Place::Filling, j, |filling| {
                    if number.is_multiple_of(5) {
                        filling.clear(j);
                        twin.filling.clear();
                    }
                    filling.push(PVec::from_iter((0..len).map(|_| 0), j), j);
                    twin.filling.push(len);
                });
            }
        }
    }

    /// Shared objects and pointers to them, strong, weak and volatile.
    fn share<'tx>(&self, shelf: &Shelf<B<'tx>>, j: &Journal<B<'tx>>, twin: &mut Twin, number: u64) {
        let what = self.below(7);
        let at = self.below(twin.shared.len().max(1) as u64) as usize;
        let is_there = at < twin.shared.len();
        self.change(&shelf.shared, Place::Shared, j, |shared| match what {
            0 | 1 => {
                let new = Parc::new(number, j);
                self.seen.borrow_mut().push((new.demote(j), number));
                shared.push(new, j);
                twin.shared.push(number);
            }
            2 if is_there => {
                let clone = shared[at].pclone(j);
                self.seen.borrow_mut().push((clone.demote(j), twin.shared[at]));
                shared.push(clone, j);
                twin.shared.push(twin.shared[at]);
            }
            3 if is_there => {
                shared.swap_remove(at, j);
                twin.shared.swap_remove(at);
            }
            4 if is_there => {
                let weak = shared[at].downgrade(j);
                let id = twin.shared[at];
                self.change(&shelf.weak, Place::Weak, j, |all| {
                    all.push(weak, j);
                    twin.weak.push(id);
                });
            }
            5 => {
                self.change(&shelf.weak, Place::Weak, j, |all| {
                    all.clear(j);
                    twin.weak.clear();
                });
            }
            6 => {
                shared.clear(j);
                twin.shared.clear();
            }
            _ => {}
        });
    }

    /// The body of an outermost transaction.
    fn body<'tx>(
        &self,
        shelf: &Shelf<B<'tx>>,
        j: &Journal<B<'tx>>,
        twin: &mut Twin,
        how: u64,
    ) -> Result<Counted, Counted> {
        self.steps(shelf, j, twin, 2);
        match how {
            0 => Err(self.counted()),
            1 => panic_any(self.counted()),
            _ => Ok(self.counted()),
        }
    }

    /// One outermost transaction; returns whether it committed, and the twin of the state after it.
    fn outermost(&self, known: &Twin, full: &AtomicBool, fails: &AtomicBool) -> Result<(bool, Twin), String> {
        self.doomed.set(false);
        let mut twin = known.clone();
        let (how, breaks) = (self.below(8), self.one_in(40));
        full.store(self.one_in(12), Ordering::Relaxed);
        fails.store(breaks, Ordering::Relaxed);
        let ended = catch_unwind(AssertUnwindSafe(|| match how {
            0..5 => self.root.try_tx(|j, shelf| self.body(shelf, j, &mut twin, how)),
            _ => {
                let body = |j: &Journal<B<'_>>| match self.body(self.root.at(j), j, &mut twin, how) {
                    Ok(value) | Err(value) => value,
                };
                P::transaction(body).map_err(TryError::Failed)
            }
        }));
        FUSE.set(None);
        full.store(false, Ordering::Relaxed);
        fails.store(false, Ordering::Relaxed);
        let is_committed = matches!(&ended, Ok(Ok(_)));
        let is_expected = match &ended {
            Ok(Ok(_)) => !self.doomed.get() && how > 1,
            Ok(Err(TryError::Aborted(_))) => how == 0 || self.doomed.get(),
            Ok(Err(error)) => is_told(error),
            Err(payload) => payload.is::<Burnt>(), // a destructor's
        };
        let what = match &ended {
            Ok(Ok(_)) => "committed".into(),
            Ok(Err(error)) => told(error),
            Err(_) => "a panic came out".into(),
        };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(ended)));
        if let Some(failure) = self.failure.borrow_mut().take() {
            return Err(failure);
        }
        if !is_expected {
            return Err(format!("way {how} to end, doomed: {}: {what}", self.doomed.get()));
        }
        let findings = self.root.check().map_err(|error| error.to_string())?;
        if !findings.is_empty() {
            return Err(format!("{what}: {findings:?}"));
        }
        if is_committed {
            return Ok((true, twin));
        }
        // An unsettled value may be there all the same.
        let is_there = breaks && self.compare(&twin).is_ok();
        Ok((false, if is_there { twin } else { known.clone() }))
    }

    /// Compares everything.
    fn compare(&self, twin: &Twin) -> Result<(), String> {
        let living = self.living.load(Ordering::Relaxed);
        if living != 0 {
            return Err(format!("{living} values were not dropped"));
        }
        let found = self.root.tx(|j, shelf| Twin::read(shelf, j, twin)).map_err(|error| error.to_string())?;
        if found != *twin {
            return Err(format!("{found:?} for {twin:?}"));
        }
        let wrong = self.root.tx(|j, _| {
            let all = self.seen.borrow();
            let is_wrong = |(weak, number): &&(VWeak<u64, P>, u64)| {
                let met = weak.promote(j).map(|strong| *strong);
                met != twin.shared.contains(number).then_some(*number)
            };
            all.iter().find(is_wrong).map(|(_, number)| *number)
        });
        match wrong.map_err(|error| error.to_string())? {
            Some(number) => Err(format!("a volatile weak pointer to {number}: {:?}", twin.shared)),
            None => Ok(()),
        }
    }
}

fn told<E>(error: &TryError<E>) -> String {
    match error {
        TryError::Aborted(_) => "aborted".into(),
        TryError::Failed(error) => error.to_string(),
    }
}

/// Whether a program may fail so: with an error of its own, in the engine, by a nested transaction,
/// by a panic without a text, as those of programs here are.
fn is_told<E>(error: &TryError<E>) -> bool {
    match error {
        TryError::Aborted(_) | TryError::Failed(Error::Store(_) | Error::Tx(_) | Error::Doomed) => true,
        TryError::Failed(Error::Panicked { message }) => message == "(a payload that is no text)",
        TryError::Failed(_) => false,
    }
}

/// Runs a program; answers how many of its transactions committed, and how many there were.
///
/// # Panics
/// If the pool differs from its twin.
pub(super) fn run(seed: u64) -> (u32, u32) {
    let mut random = Random::new(seed);
    let (full, fails) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let failing = Failing { full: Arc::clone(&full), fails: Arc::clone(&fails), fence: 0 };
    let media = Media::recorded(16 << 20, &[], Box::new(failing)).expect("memory");
    let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([3; 16]) }).expect("a store");
    let options = PoolOptions { span: Some((1 << 20).into()), lanes: Some(1 + random.below(4) as u32) };
    drop(P::create_with::<Shelf<P>>(&store, "shelf", &options, |_| Shelf::new()).expect("a pool"));
    let (mut twin, mut next, mut old) = (Twin::default(), 1, Vec::new());
    let (mut committed, mut all) = (0, 0);
    for _ in 0..3 {
        let root = P::open::<Shelf<P>>(&store, "shelf").expect("a pool");
        twin.volatile = None;
        let program = Program {
            root: &root,
            random: RefCell::new(Random::new(random.next())),
            failure: RefCell::default(),
            borrowed: Default::default(),
            stuck: Default::default(),
            living: Arc::default(),
            doomed: Cell::default(),
            next: Cell::new(next),
            seen: RefCell::default(),
        };
        let count = |place: Place, more: i32| {
            let count = &program.borrowed[place as usize];
            count.set(count.get().wrapping_add_signed(more));
        };
        let (mut list, mut part, mut once) = (None, None, None);
        for _ in 0..10 {
            match program.below(8) {
                0 if list.is_none() => {
                    list = root.list.try_borrow();
                    count(Place::List, list.is_some().into());
                }
                1 if part.is_none() && twin.boxed.is_some() => {
                    let boxed = root.boxed.try_borrow();
                    part = boxed.map(|boxed| PRef::map(boxed, |boxed| &**boxed.as_ref().expect("as the twin")));
                    count(Place::Boxed, part.is_some().into());
                }
                2 => once = root.once.get(),
                3 => {
                    count(Place::List, -i32::from(list.take().is_some()));
                    count(Place::Boxed, -i32::from(part.take().is_some()));
                }
                4 if program.one_in(4) => {
                    let guard = root.ordered.try_borrow();
                    count(Place::Ordered, guard.is_some().into());
                    std::mem::forget(guard);
                }
                _ => {}
            }
            let outcome = program.outermost(&twin, &full, &fails);
            let (is_committed, now) = outcome.unwrap_or_else(|failure| panic!("{failure}"));
            twin = now;
            (committed, all) = (committed + u32::from(is_committed), all + 1);
            program.compare(&twin).unwrap_or_else(|failure| panic!("after (committed: {is_committed}): {failure}"));
            let held = list.as_ref().map(|list| list.iter().map(Item::number).collect::<Vec<_>>());
            assert!(held.is_none_or(|held| held == twin.list), "what is borrowed outside has changed");
            assert!(
                part.as_ref().is_none_or(|part| Some(**part) == twin.boxed),
                "a part that is borrowed outside has changed"
            );
            assert!(once.is_none_or(|text| Some(text.to_string()) == twin.once), "what was set once has changed");
            let revived = root.tx(|j, _| old.iter().any(|weak: &VWeak<u64, P>| weak.promote(j).is_some()));
            assert!(!revived.unwrap(), "a volatile weak pointer of an earlier opening");
        }
        next = program.next.get();
        old.extend(program.seen.take().into_iter().map(|(weak, _)| weak));
    }
    (committed, all)
}
