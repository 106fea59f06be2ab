//! Queues, vectors, heaps and sets of a typed pool: random transactions of them, some rolled back.

use crate::Case;
use crate::object::{self, End, Explored, image, open, recover};
use everbyte_media::Media;
use everbyte_object::{Journal, MemPool, PBTreeSet, PBinaryHeap, PHashSet, PRefCell, PSafe, PVec, PVecDeque, Pbox};
use everbyte_sim::{Explorer, Failure, Order, Report, Seen, Twin};
use everbyte_workload::Random;
use std::collections::{BTreeSet, VecDeque};

pub(crate) const CASES: &[Case] = &[Case {
    name: "object-collections",
    crate_name: "object",
    about: "queues, vectors, heaps and sets change together, some transactions rolled back: all of one or nothing of it",
    total: 12_000,
    program: random,
}];

#[derive(PSafe, Default)]
#[repr(C)]
struct Collections<P: MemPool> {
    /// Plain numbers: places that are not logged must have been empty before the transaction.
    plain: PVecDeque<u64, P>,
    queue: PVecDeque<Pbox<u64, P>, P>,
    vector: PVec<u64, P>,
    heap: PBinaryHeap<u64, P>,
    hashed: PHashSet<u64, P>,
    ordered: PBTreeSet<u64, P>,
}

/// Their entries; the two sets, and the two queues, hold the same.
#[derive(Clone, Debug, Default, PartialEq)]
struct Plain {
    queue: VecDeque<u64>,
    vector: Vec<u64>,
    heap: Vec<u64>,
    set: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    PushBack(u64),
    PushFront(u64),
    PopFront,
    PopBack,
    Swap,
    /// The middle is drained and goes to the front, to places that held elements.
    DrainMiddle,
    Divide,
    Push(u64),
    Sort,
    Dedup,
    Rest,
    Set(u64),
    HeapPush(u64),
    HeapPop,
    Add(u64),
    Remove(u64),
    SplitOff(u64),
}

fn any(random: &mut Random) -> Change {
    let value = random.below(24);
    match random.below(24) {
        0..=2 => Change::PushBack(value),
        3 | 4 => Change::PushFront(value),
        5 | 6 => Change::PopFront,
        7 => Change::PopBack,
        8 => Change::Swap,
        9 => Change::Divide,
        10 | 11 => Change::Push(value),
        12 => Change::Sort,
        13 => Change::Dedup,
        14 | 20 => Change::Rest,
        21 => Change::Set(value),
        22 | 23 => Change::DrainMiddle,
        15 => Change::HeapPush(value),
        16 => Change::HeapPop,
        17 => Change::Add(value),
        18 => Change::Remove(value),
        _ => Change::SplitOff(value),
    }
}

impl<P: MemPool> Collections<P> {
    fn change(&mut self, change: Change, j: &Journal<P>) {
        match change {
            Change::PushBack(value) => {
                self.plain.push_back(value, j);
                self.queue.push_back(Pbox::new(value, j), j);
            }
            Change::PushFront(value) => {
                self.plain.push_front(value, j);
                self.queue.push_front(Pbox::new(value, j), j);
            }
            Change::PopFront => drop((self.plain.pop_front(j), self.queue.pop_front(j))),
            Change::PopBack => drop((self.plain.pop_back(j), self.queue.pop_back(j))),
            Change::Swap if !self.plain.is_empty() => {
                let last = self.plain.len() - 1;
                self.plain.swap(0, last, j);
                self.queue.swap(0, last, j);
            }
            Change::DrainMiddle => {
                let third = self.plain.len() / 3;
                let (plain, queue) = (self.plain.drain(third..2 * third, j), self.queue.drain(third..2 * third, j));
                plain.into_iter().for_each(|item| self.plain.push_front(item, j));
                queue.into_iter().for_each(|item| self.queue.push_front(item, j));
            }
            Change::Divide => {
                let half = self.plain.len() / 2;
                let (mut plain, mut queue) = (self.plain.split_off(half, j), self.queue.split_off(half, j));
                plain.append(&mut self.plain, j);
                queue.append(&mut self.queue, j);
                (self.plain, self.queue) = (plain, queue);
            }
            Change::Push(value) => self.vector.push(value, j),
            Change::Sort => self.vector.sort(j),
            Change::Dedup => self.vector.dedup(j),
            Change::Rest => {
                let mut rest = self.vector.split_off(self.vector.len() / 2, j);
                rest.append(&mut self.vector, j);
                self.vector.append(&mut rest, j);
            }
            Change::Set(value) if !self.vector.is_empty() => self.vector[0] = value,
            Change::HeapPush(value) => self.heap.push(value, j),
            Change::HeapPop => drop(self.heap.pop(j)),
            Change::Add(value) => _ = (self.hashed.insert(value, j), self.ordered.insert(value, j)),
            Change::Remove(value) => _ = (self.hashed.remove(&value, j), self.ordered.remove(&value, j)),
            Change::SplitOff(value) => {
                drop(self.ordered.split_off(&value, j));
                self.hashed.retain(|item| *item < value, j);
            }
            Change::Swap | Change::Set(_) => {}
        }
    }

    /// # Errors
    /// If two collections differ that hold the same.
    fn plain(&self) -> Result<Plain, String> {
        let queue: VecDeque<u64> = self.plain.iter().copied().collect();
        if !self.queue.iter().map(|item| **item).eq(queue.iter().copied()) {
            return Err(format!("queues of numbers {queue:?} and of blocks {:?}", self.queue));
        }
        let set: BTreeSet<u64> = self.ordered.iter().copied().collect();
        if self.hashed.len() != set.len() || !set.iter().all(|item| self.hashed.contains(item)) {
            return Err(format!("sets {:?} and {set:?}", self.hashed));
        }
        let mut heap = self.heap.as_slice().to_vec();
        heap.sort_unstable();
        if self.heap.peek() != heap.last() {
            return Err(format!("{heap:?} has not its largest element in front"));
        }
        Ok(Plain { queue, vector: self.vector.to_vec(), heap, set })
    }
}

fn change(plain: &mut Plain, change: Change) {
    let Plain { queue, vector, heap, set } = plain;
    match change {
        Change::PushBack(value) => queue.push_back(value),
        Change::PushFront(value) => queue.push_front(value),
        Change::PopFront => _ = queue.pop_front(),
        Change::PopBack => _ = queue.pop_back(),
        Change::Swap if !queue.is_empty() => queue.swap(0, queue.len() - 1),
        Change::DrainMiddle => {
            let third = queue.len() / 3;
            let middle: Vec<u64> = queue.drain(third..2 * third).collect();
            middle.into_iter().for_each(|item| queue.push_front(item));
        }
        Change::Divide => {
            let half = queue.len() / 2;
            queue.rotate_left(half);
        }
        Change::Push(value) => vector.push(value),
        Change::Sort => vector.sort_unstable(),
        Change::Dedup => vector.dedup(),
        Change::Rest => {
            let half = vector.len() / 2;
            vector.rotate_left(half);
        }
        Change::Set(value) if !vector.is_empty() => vector[0] = value,
        Change::HeapPush(value) => {
            heap.push(value);
            heap.sort_unstable();
        }
        Change::HeapPop => _ = heap.pop(),
        Change::Add(value) => _ = set.insert(value),
        Change::Remove(value) => _ = set.remove(&value),
        Change::SplitOff(value) => drop(set.split_off(&value)),
        Change::Swap | Change::Set(_) => {}
    }
}

fn observe(media: Media, seen: &Seen) -> Result<Plain, String> {
    let root = recover::<PRefCell<Collections<Explored>, Explored>>(&media, seen)?;
    let found = root.borrow().plain()?;
    let again = [Change::PushFront(1), Change::PushBack(2), Change::Add(3), Change::HeapPush(4), Change::Push(5)];
    root.tx(|j, all| again.map(|change| all.borrow_mut(j).change(change, j))).map_err(|error| error.to_string())?;
    let mut wanted = found.clone();
    again.into_iter().for_each(|again| change(&mut wanted, again));
    if root.borrow().plain()? != wanted {
        return Err("the collections are of no use after recovery".into());
    }
    root.tx(|j, all| {
        let mut all = all.borrow_mut(j);
        all.change(Change::PopFront, j);
        all.change(Change::PopBack, j);
        all.vector.pop(j);
        all.heap.retain(|_| false, j);
        all.heap.extend(found.heap.iter().copied(), j);
        if !found.set.contains(&3) {
            all.change(Change::Remove(3), j);
        }
    })
    .map_err(|error| error.to_string())?;
    Ok(found)
}

/// Random transactions of up to four changes, some rolled back.
fn random(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let start: Vec<Change> = (0..7).flat_map(|n| [Change::PushBack(n), Change::Push(n), Change::Add(n)]).collect();
    let mut plain = Plain::default();
    start.iter().for_each(|&start| change(&mut plain, start));
    let image = image::<PRefCell<Collections<Explored>, Explored>>(|j| {
        let mut all = Collections::default();
        start.iter().for_each(|&start| all.change(start, j));
        PRefCell::new(all)
    });
    let program = |media: Media, twin: &Twin<'_, Plain>| {
        let root = open::<PRefCell<Collections<Explored>, Explored>>(&media).expect("a whole pool");
        let mut random = Random::new(0xc011_ec71);
        for _ in 0..14 {
            let changes: Vec<Change> = (0..=random.below(4)).map(|_| any(&mut random)).collect();
            let wanted = changes.clone();
            let apply = move |plain: &mut Plain| wanted.iter().for_each(|wanted| change(plain, *wanted));
            object::step(&root, twin, format!("{changes:?}"), End::any(&mut random), apply, |j, all| {
                let mut all = all.borrow_mut(j);
                changes.iter().for_each(|change| all.change(*change, j));
            });
        }
    };
    explorer.explore_twin(&image, &plain, Order::InOrder, program, observe)
}
