//! Every mutating method of every type of a typed pool, each in a transaction of its own, and
//! random programs of them with transactions rolled back in the middle, by an error or a panic.

use crate::object::{self, End, Explored, image, open, recover};
use everbyte_media::Media;
use everbyte_object::parc::PWeak as ArcWeak;
use everbyte_object::prc::PWeak as RcWeak;
use everbyte_object::{
    Journal, MemPool, PCell, PMutex, POnceCell, PRefCell, PRwLock, PSafe, PString, PVec, Parc, Pbox, Prc, Root, VCell,
};
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_workload::Random;

type Slot<T, P> = PRefCell<Option<T>, P>;
type Counter<P> = PMutex<u64, P>;

#[derive(PSafe)]
#[repr(C)]
pub(crate) struct All<P: MemPool> {
    boxes: PRefCell<PVec<Pbox<u64, P>, P>, P>,
    text: PRefCell<PString<P>, P>,
    cell: PCell<u64, P>,
    once: POnceCell<u64, P>,
    mutex: PMutex<u64, P>,
    lock: PRwLock<[u64; 9], P>,
    volatile: VCell<u64, P>,
    shape: PRefCell<Shape<P>, P>,
    one: Slot<Prc<u64, P>, P>,
    two: Slot<Prc<u64, P>, P>,
    weak: Slot<RcWeak<u64, P>, P>,
    arcs: PMutex<PVec<Parc<Counter<P>, P>, P>, P>,
    arc_weak: PMutex<Option<ArcWeak<Counter<P>, P>>, P>,
}

/// A value that is one of several.
#[derive(PSafe)]
#[repr(u8)]
enum Shape<P: MemPool> {
    Empty,
    Named { name: PString<P> },
    Boxed(Pbox<(u64, u8), P>, u32),
}

/// The plain twin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plain {
    boxes: Vec<u64>,
    text: String,
    cell: u64,
    once: Option<u64>,
    mutex: u64,
    lock: u64,
    shape: Option<u64>,
    named: Option<String>,
    one: Option<u64>,
    two: Option<u64>,
    same: bool,
    weak: bool,
    /// Value, and the first place of the same object.
    arcs: Vec<(u64, usize)>,
    arc_weak: bool,
    ids: Ids,
}

/// Which objects `one`, `two` and `weak` name: of the twin alone.
#[derive(Clone, Debug, Default, Eq)]
struct Ids {
    newest: u64,
    one: Option<u64>,
    two: Option<u64>,
    weak: Option<u64>,
}

impl PartialEq for Ids {
    fn eq(&self, _: &Ids) -> bool {
        true
    }
}

/// One change.
#[derive(Clone, Copy, Debug)]
enum Change {
    Push(u64),
    Pop,
    Insert(u64),
    Remove,
    SwapRemove,
    Truncate,
    Retain,
    AsMut,
    Into,
    Text(u64),
    TextPop,
    TextCut,
    Cell(u64),
    Once(u64),
    Mutex(u64),
    Lock(u64),
    Volatile(u64),
    Name(u64),
    Boxed(u64),
    Empty,
    Count(u64),
    CountClone,
    CountDrop,
    CountDropTwo,
    Weak,
    WeakDrop,
    ArcNew(u64),
    ArcClone,
    ArcAdd,
    ArcPop,
    ArcWeak,
    ArcPromote,
}

const ALL: [Change; 32] = {
    use Change::*;
    [
        Push(1),
        Push(2),
        Insert(3),
        AsMut,
        SwapRemove,
        Remove,
        Retain,
        Text(4),
        TextPop,
        Cell(5),
        Once(6),
        Mutex(7),
        Lock(8),
        Volatile(9),
        Name(10),
        Boxed(11),
        Empty,
        Count(12),
        CountClone,
        CountDrop,
        Weak,
        CountDropTwo,
        WeakDrop,
        ArcNew(13),
        ArcClone,
        ArcAdd,
        ArcWeak,
        ArcPop,
        ArcPromote,
        Truncate,
        Into,
        TextCut,
    ]
};

impl All<Explored> {
    fn image() -> Image {
        image::<All<Explored>>(|_| All {
            boxes: PRefCell::default(),
            text: PRefCell::default(),
            cell: PCell::default(),
            once: POnceCell::new(),
            mutex: PMutex::default(),
            lock: PRwLock::default(),
            volatile: VCell::new(),
            shape: PRefCell::new(Shape::Empty),
            one: PRefCell::default(),
            two: PRefCell::default(),
            weak: PRefCell::default(),
            arcs: PMutex::default(),
            arc_weak: PMutex::default(),
        })
    }
}

impl<P: MemPool> All<P> {
    fn change(&self, change: Change, j: &Journal<P>) {
        match change {
            Change::Push(value) => self.boxes.borrow_mut(j).push(Pbox::new(value, j), j),
            Change::Pop => drop(self.boxes.borrow_mut(j).pop(j)),
            Change::Insert(value) => self.boxes.borrow_mut(j).insert(0, Pbox::new(value, j), j),
            Change::Remove if !self.boxes.borrow().is_empty() => drop(self.boxes.borrow_mut(j).remove(0, j)),
            Change::SwapRemove if !self.boxes.borrow().is_empty() => drop(self.boxes.borrow_mut(j).swap_remove(0, j)),
            Change::Truncate => self.boxes.borrow_mut(j).truncate(1, j),
            Change::Retain => self.boxes.borrow_mut(j).retain(|value| **value % 2 == 0, j),
            Change::AsMut => self.boxes.borrow_mut(j).iter_mut(j).for_each(|value| *value.as_mut(j) += 1),
            Change::Into => {
                let last = self.boxes.borrow_mut(j).pop(j);
                let value = last.map_or(0, |last| last.into_inner(j));
                self.cell.set(value, j);
            }
            Change::Text(value) => self.text.borrow_mut(j).push_str(&format!("{value}ß"), j),
            Change::TextPop => drop(self.text.borrow_mut(j).pop(j)),
            Change::TextCut => self.text.borrow_mut(j).clear(j),
            Change::Cell(value) => self.cell.set(value, j),
            Change::Once(value) => drop(self.once.set(value, j)),
            Change::Mutex(value) => *self.mutex.lock(j) += value,
            Change::Lock(value) => self.lock.write(j).iter_mut().for_each(|word| *word += value),
            Change::Volatile(value) => self.volatile.set(value, j),
            Change::Name(value) => {
                *self.shape.borrow_mut(j) = Shape::Named { name: PString::from_str(&value.to_string(), j) };
            }
            Change::Boxed(value) => *self.shape.borrow_mut(j) = Shape::Boxed(Pbox::new((value, 1), j), 7),
            Change::Empty => *self.shape.borrow_mut(j) = Shape::Empty,
            Change::Count(value) => *self.one.borrow_mut(j) = Some(Prc::new(value, j)),
            Change::CountClone => {
                let copy = self.one.borrow().as_ref().map(|one| one.pclone(j));
                *self.two.borrow_mut(j) = copy;
            }
            Change::CountDrop => *self.one.borrow_mut(j) = None,
            Change::CountDropTwo => *self.two.borrow_mut(j) = None,
            Change::Weak => {
                let weak = self.two.borrow().as_ref().map(|two| two.downgrade(j));
                *self.weak.borrow_mut(j) = weak;
            }
            Change::WeakDrop => *self.weak.borrow_mut(j) = None,
            Change::ArcNew(value) => self.arcs.lock(j).push(Parc::new(PMutex::new(value), j), j),
            Change::ArcClone => {
                let mut arcs = self.arcs.lock(j);
                if let Some(first) = arcs.first().map(|first| first.pclone(j)) {
                    arcs.push(first, j);
                }
            }
            Change::ArcAdd => self.arcs.lock(j).iter().take(1).for_each(|first| *first.lock(j) += 1),
            Change::ArcPop => drop(self.arcs.lock(j).pop(j)),
            Change::ArcWeak => *self.arc_weak.lock(j) = self.arcs.lock(j).first().map(|first| first.downgrade(j)),
            Change::ArcPromote => {
                if let Some(strong) = self.arc_weak.lock(j).as_ref().and_then(|weak| weak.upgrade(j)) {
                    self.arcs.lock(j).push(strong, j);
                }
            }
            Change::Remove | Change::SwapRemove => {}
        }
    }

    fn plain(&self, j: &Journal<P>) -> Plain {
        let arcs = self.arcs.lock(j);
        let weak = self.arc_weak.lock(j).as_ref().and_then(|weak| weak.upgrade(j));
        Plain {
            boxes: self.boxes.borrow().iter().map(|value| **value).collect(),
            text: self.text.borrow().to_string(),
            cell: self.cell.get(),
            once: self.once.get().copied(),
            mutex: *self.mutex.lock(j),
            lock: self.lock.read(j)[8],
            shape: match &*self.shape.borrow() {
                Shape::Boxed(value, 7) if value.1 == 1 => Some(value.0),
                _ => None,
            },
            named: match &*self.shape.borrow() {
                Shape::Named { name } => Some(name.to_string()),
                _ => None,
            },
            one: self.one.borrow().as_ref().map(|one| **one),
            two: self.two.borrow().as_ref().map(|two| **two),
            same: match (&*self.one.borrow(), &*self.two.borrow()) {
                (Some(one), Some(two)) => one.ptr_eq(two),
                _ => false,
            },
            weak: self.weak.borrow().as_ref().is_some_and(|weak| weak.upgrade(j).is_some()),
            arcs: arcs
                .iter()
                .map(|one| (*one.lock(j), arcs.iter().position(|other| other.ptr_eq(one)).expect("itself")))
                .collect(),
            arc_weak: weak.is_some(),
            ids: self.ids(j),
        }
    }

    /// Numbers that tell the same of `one`, `two` and `weak` as those that the twin would have
    /// given: a second run begins here.
    fn ids(&self, j: &Journal<P>) -> Ids {
        let (one, two) = (self.one.borrow(), self.two.borrow());
        let weak = self.weak.borrow().as_ref().and_then(|weak| weak.upgrade(j));
        let first = one.as_ref().map(|_| 1);
        let second = two.as_ref().map(|two| if one.as_ref().is_some_and(|one| one.ptr_eq(two)) { 1 } else { 2 });
        let named = weak.map(|weak| if one.as_ref().is_some_and(|one| one.ptr_eq(&weak)) { 1 } else { 2 });
        Ids { newest: 2, one: first, two: second, weak: named }
    }
}

impl Plain {
    fn change(&mut self, change: Change) {
        match change {
            Change::Push(value) => self.boxes.push(value),
            Change::Pop => drop(self.boxes.pop()),
            Change::Insert(value) => self.boxes.insert(0, value),
            Change::Remove if !self.boxes.is_empty() => drop(self.boxes.remove(0)),
            Change::SwapRemove if !self.boxes.is_empty() => drop(self.boxes.swap_remove(0)),
            Change::Truncate => self.boxes.truncate(1),
            Change::Retain => self.boxes.retain(|value| value % 2 == 0),
            Change::AsMut => self.boxes.iter_mut().for_each(|value| *value += 1),
            Change::Into => self.cell = self.boxes.pop().unwrap_or(0),
            Change::Text(value) => self.text.push_str(&format!("{value}ß")),
            Change::TextPop => drop(self.text.pop()),
            Change::TextCut => self.text.clear(),
            Change::Cell(value) => self.cell = value,
            Change::Once(value) => self.once = self.once.or(Some(value)),
            Change::Mutex(value) => self.mutex += value,
            Change::Lock(value) => self.lock += value,
            Change::Volatile(_) => {}
            Change::Name(value) => (self.shape, self.named) = (None, Some(value.to_string())),
            Change::Boxed(value) => (self.shape, self.named) = (Some(value), None),
            Change::Empty => (self.shape, self.named) = (None, None),
            Change::Count(value) => {
                self.ids.newest += 1;
                (self.one, self.ids.one) = (Some(value), Some(self.ids.newest));
            }
            Change::CountClone => (self.two, self.ids.two) = (self.one, self.ids.one),
            Change::CountDrop => (self.one, self.ids.one) = (None, None),
            Change::CountDropTwo => (self.two, self.ids.two) = (None, None),
            Change::Weak => self.ids.weak = self.ids.two,
            Change::WeakDrop => self.ids.weak = None,
            Change::ArcNew(value) => self.arcs.push((value, self.arcs.len())),
            Change::ArcClone => self.arcs.extend(self.arcs.first().copied()),
            Change::ArcAdd => self.arcs.iter_mut().filter(|arc| arc.1 == 0).for_each(|arc| arc.0 += 1),
            Change::ArcPop => drop(self.arcs.pop()),
            Change::ArcWeak => self.arc_weak = !self.arcs.is_empty(),
            Change::ArcPromote if self.arc_weak => self.arcs.push(self.arcs[0]),
            Change::ArcPromote | Change::Remove | Change::SwapRemove => {}
        }
        self.arc_weak &= !self.arcs.is_empty();
        self.same = self.ids.one.is_some() && self.ids.one == self.ids.two;
        let id = self.ids.weak.filter(|&id| self.ids.one == Some(id) || self.ids.two == Some(id));
        (self.weak, self.ids.weak) = (id.is_some(), id);
    }
}

fn observe(media: Media, seen: &Seen) -> Result<Plain, String> {
    let all = recover::<All<Explored>>(&media, seen)?;
    if let Some(value) = all.volatile.get() {
        return Err(format!("a volatile cell says {value} after a crash"));
    }
    let found = all.tx(|j, all| all.plain(j)).map_err(|error| error.to_string())?;
    all.tx(|j, all| [Change::Push(99), Change::Count(99), Change::ArcClone].map(|change| all.change(change, j)))
        .map_err(|error| error.to_string())?;
    Ok(found)
}

/// A transaction that makes `changes`, here and in the twin.
fn step(all: &Root<All<Explored>, Explored>, twin: &Twin<'_, Plain>, changes: &[Change], end: End) {
    let wanted = changes.to_vec();
    let change = move |plain: &mut Plain| wanted.iter().for_each(|change| plain.change(*change));
    object::step(all, twin, format!("{changes:?} {end:?}"), end, change, |j, all| {
        changes.iter().for_each(|change| all.change(*change, j));
    });
}

fn explore(
    explorer: Explorer,
    program: impl Fn(&Root<All<Explored>, Explored>, &Twin<'_, Plain>),
) -> Result<Report, Box<Failure>> {
    let program = |media: Media, twin: &Twin<'_, Plain>| {
        program(&open(&media).expect("a whole pool"), twin);
    };
    explorer.explore_twin(&All::image(), &Plain::default(), Order::InOrder, program, observe)
}

/// Each change in a transaction of its own.
pub(crate) fn each(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, |all, twin| {
        ALL.iter().for_each(|change| step(all, twin, &[*change], End::Commit));
        // Places of a vector that are left and taken again in one transaction.
        step(all, twin, &[Change::Push(41), Change::Push(42), Change::Push(43)], End::Commit);
        step(all, twin, &[Change::Pop, Change::Push(44)], End::Error);
        step(all, twin, &[Change::Truncate, Change::Push(45), Change::Push(46)], End::Commit);
    })
}

/// Random transactions of up to five changes, some rolled back.
pub(crate) fn random(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explore(explorer, |all, twin| {
        let mut random = Random::new(0x0b1e_c7ed);
        for _ in 0..30 {
            let count = 1 + random.below(5);
            let changes: Vec<Change> = (0..count).map(|_| ALL[random.below(ALL.len() as u64) as usize]).collect();
            step(all, twin, &changes, End::any(&mut random));
        }
    })
}
