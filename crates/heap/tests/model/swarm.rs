//! Random programs whose options are drawn too, against a model of the owner of each byte: sizes at
//! the thresholds of classes, pages, clusters and zones, heaps of one zone and of several, heaps
//! that fill, blocks that are thinned out, reservations given up among commits, openings in the
//! middle, threads beside each other. Seeds and long runs: `everbyte_workload`.

use crate::common::{create, heap_of};
use everbyte_heap::{Block, Heap, Op, layout};
use everbyte_sim::swarm;
use everbyte_store::Store;
use everbyte_workload::Random;
use std::collections::{BTreeMap, BTreeSet};

/// Sizes at the thresholds of words, classes, pages, clusters and zones.
const SIZES: &[u64] = &[
    1,
    8,
    16,
    17,
    48,
    49,
    64,
    65,
    256,
    257,
    512,
    513,
    1024,
    1025,
    4095,
    4096,
    4097,
    7168,
    7169,
    8192,
    8193,
    9345,
    10_881,
    12_288,
    61_440,
    61_441,
    65_535,
    65_536,
    65_537,
    131_072,
    1 << 20,
    (1 << 20) + 1,
    5 << 20,
    (8 << 20) - (64 << 10),
    8 << 20,
    (8 << 20) + 1,
];
/// Spans: of a heap that fills at once, of one zone, of two, of many.
const SPANS: &[u64] = &[1 << 20, 8 << 20, 16 << 20, 64 << 20];
/// Blocks that a program keeps at most.
const MOST: usize = 600;
/// Words behind the heap's header that atomic changes publish to.
const TARGETS: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    /// Frees some of the blocks, in one group of operations.
    Free,
    /// Frees most blocks of a range of addresses.
    Thin,
    /// Gives reservations up.
    Cancel,
    /// Begins to free and takes it back.
    Abandon,
    /// Allocates until nothing more fits, then gives most of it up.
    Fill,
    /// Allocates or frees through a word with the address.
    Publish,
    /// Opens the heap again, as a process that closed it.
    Close,
    /// Opens the present bytes of the memory.
    Crash,
    /// Two threads allocate and free, each its own blocks.
    Duel,
    Expand,
    Shrink,
}

const ACTIONS: &[Action] = &[
    Action::Free,
    Action::Thin,
    Action::Cancel,
    Action::Abandon,
    Action::Fill,
    Action::Publish,
    Action::Close,
    Action::Crash,
    Action::Duel,
    Action::Expand,
    Action::Shrink,
];

#[derive(Debug)]
struct Mix {
    span: u64,
    sizes: Vec<u64>,
    actions: Vec<Action>,
    /// Percentage of plain allocations.
    allocations: u64,
    /// Operations that a group has at most.
    group: u64,
    /// How often freed blocks are retired.
    retire: u64,
}

impl Mix {
    fn draw(random: &mut Random) -> Mix {
        let span = random.pick(SPANS);
        let fits: Vec<u64> = SIZES.iter().copied().filter(|size| size * 4 <= span).collect();
        Mix {
            span,
            sizes: random.some(&fits),
            actions: random.some(ACTIONS),
            allocations: random.pick(&[30, 50, 80]),
            group: random.pick(&[1, 3, 40]),
            retire: random.pick(&[5, 40, 100]),
        }
    }

    fn size(&self, random: &mut Random) -> u64 {
        let size = random.pick(&self.sizes);
        if random.chance(70) { size } else { random.below(size) + 1 }
    }
}

struct Run {
    mix: Mix,
    store: Store,
    heap: Heap,
    /// Every byte in use: reserved, allocated, or freed and not yet retired.
    taken: BTreeMap<u64, u64>,
    allocated: Vec<Block>,
    freeing: Vec<Op>,
    freed: Vec<u64>,
    /// Blocks that the words behind the header name.
    published: BTreeMap<u64, Block>,
}

/// Words that tell a block from any other: at its begin, its middle and its end.
fn stamp(heap: &Heap, block: Block) {
    for at in marks(block) {
        heap.media().store(at, at ^ block.at.get().rotate_left(32));
    }
}

fn marks(block: Block) -> [u64; 3] {
    [block.at.get(), (block.at.get() + block.size.get() / 2) & !7, (block.end() - 8).get()]
}

fn assert_stamped(heap: &Heap, block: Block, story: &str) {
    for at in marks(block) {
        assert_eq!(heap.media().load(at), at ^ block.at.get().rotate_left(32), "{story}: {at:#x} of {block:x?}");
    }
}

impl Run {
    fn new(mix: Mix) -> Run {
        let (store, heap) = create(mix.span * 4, mix.span);
        let (taken, allocated, published) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        Run { mix, store, heap, taken, allocated, freeing: Vec::new(), freed: Vec::new(), published }
    }

    /// A reservation that overlaps no other bytes in use; `None`: there is no room.
    fn reserve(&mut self, size: u64, story: &str) -> Option<Block> {
        let block = match self.heap.reserve(size) {
            Ok(block) => block,
            Err(error) => {
                assert!(error.is_full(), "{story}: {error}");
                return None;
            }
        };
        assert!(block.size >= size, "{story}: {block:x?} for {size} bytes");
        self.take(block, story);
        Some(block)
    }

    fn take(&mut self, block: Block, story: &str) {
        let before = self.taken.range(..block.end().get()).next_back();
        assert!(
            before.is_none_or(|(&other, &len)| other + len <= block.at.get()),
            "{story}: {block:x?} and {before:x?}"
        );
        self.taken.insert(block.at.get(), block.size.get());
        stamp(&self.heap, block);
    }

    fn commit(&mut self, blocks: Vec<Block>) {
        let ops: Vec<Op> = blocks.iter().map(|block| self.heap.op_allocate(block)).collect();
        self.heap.apply(&ops);
        self.heap.finish(&ops);
        self.allocated.extend(blocks);
    }

    fn free(&mut self, blocks: &[Block], story: &str) {
        let mut ops = Vec::new();
        for block in blocks {
            assert_stamped(&self.heap, *block, story);
            assert_eq!(self.heap.size_of(block.at.get()).unwrap(), block.size.get(), "{story}");
            ops.push(self.heap.op_free(block.at.get()).unwrap());
            self.freed.push(block.at.get());
        }
        self.heap.apply(&ops);
        self.freeing.extend(ops);
    }

    fn retire(&mut self) {
        self.heap.finish(&self.freeing);
        self.freeing.clear();
        for at in self.freed.drain(..) {
            self.taken.remove(&at);
        }
    }

    fn some(&mut self, random: &mut Random, most: u64) -> Vec<Block> {
        let count = random.below(most) as usize + 1;
        let mut chosen = Vec::new();
        while chosen.len() < count && !self.allocated.is_empty() {
            chosen.push(self.allocated.swap_remove(random.below(self.allocated.len() as u64) as usize));
        }
        chosen
    }

    fn allocate(&mut self, random: &mut Random, story: &str) {
        let mut blocks = Vec::new();
        for _ in 0..=random.below(self.mix.group) {
            let size = self.mix.size(random);
            blocks.extend(self.reserve(size, story));
        }
        self.commit(blocks);
        while self.allocated.len() > MOST {
            let gone = self.some(random, 100);
            self.free(&gone, story);
        }
    }

    fn step(&mut self, action: Action, random: &mut Random, story: &str) {
        match action {
            Action::Free => {
                let gone = self.some(random, self.mix.group * 2);
                self.free(&gone, story);
            }
            Action::Thin => {
                self.allocated.sort_unstable_by_key(|block| block.at);
                let from = random.below(self.allocated.len() as u64 + 1) as usize;
                let until = (from + random.pick(&[10, 100, 600])).min(self.allocated.len());
                let kept = random.pick(&[0, 10]);
                let (mut gone, mut stay) = (Vec::new(), Vec::new());
                for block in self.allocated.splice(from..until, []) {
                    if random.chance(kept) { stay.push(block) } else { gone.push(block) }
                }
                self.allocated.extend(stay);
                self.free(&gone, story);
            }
            Action::Cancel => {
                for _ in 0..=random.below(self.mix.group) {
                    let size = self.mix.size(random);
                    if let Some(block) = self.reserve(size, story) {
                        self.heap.cancel(block);
                        self.taken.remove(&block.at.get());
                    }
                }
            }
            Action::Abandon => {
                let blocks = self.some(random, self.mix.group);
                let ops: Vec<Op> = blocks.iter().map(|block| self.heap.op_free(block.at.get()).unwrap()).collect();
                self.heap.abandon(&ops);
                self.allocated.extend(blocks);
            }
            Action::Fill => self.fill(random, story),
            Action::Publish => self.publish(random, story),
            Action::Close | Action::Crash => self.reopen(action == Action::Crash, story),
            Action::Duel => self.duel(random, story),
            Action::Expand => {
                let bytes = random.below(self.mix.span / 4);
                if let Err(error) = self.heap.expand(bytes) {
                    assert!(error.is_full(), "{story}: {error}");
                }
            }
            Action::Shrink => self.heap.shrink_all().unwrap(),
        }
    }

    /// The blocks of a filled heap that were given up can be allocated again, but for the cost of
    /// another order of places.
    fn fill(&mut self, random: &mut Random, story: &str) {
        let size = self.mix.size(random).max(self.mix.span / 400);
        self.retire();
        let mut all = Vec::new();
        while let Some(block) = self.reserve(size, story) {
            all.push(block);
        }
        for block in &all {
            self.heap.cancel(*block);
            self.taken.remove(&block.at.get());
        }
        let again = all.iter().map_while(|_| self.heap.reserve(size).ok()).collect::<Vec<_>>();
        again.iter().for_each(|block| self.heap.cancel(*block));
        let (before, now) = (all.len(), again.len());
        assert!(now * 10 >= before * 9, "{story}: {now} blocks of {size} bytes, {before} were had before");
    }

    fn publish(&mut self, random: &mut Random, story: &str) {
        let target = self.heap.object().prime() + layout::HEADER_END + random.below(TARGETS) * 8;
        if let Some(block) = self.published.remove(&target.get()) {
            assert_eq!(self.heap.media().load(target), block.at.get(), "{story}");
            assert_stamped(&self.heap, block, story);
            self.heap.free_from(target.get()).unwrap();
            self.taken.remove(&block.at.get());
        } else {
            match self.heap.alloc_into(self.mix.size(random), target.get()) {
                Ok(block) => {
                    self.take(block, story);
                    self.published.insert(target.get(), block);
                }
                Err(error) => assert!(error.is_full(), "{story}: {error}"),
            }
        }
    }

    fn reopen(&mut self, crash: bool, story: &str) {
        // Reservations end with the process; what was being freed is freed once more, as a log
        // would do it.
        if crash {
            let backed = self.heap.object().backed();
            let media = swarm::copy(self.store.media(), backed.get(), self.mix.span * 4);
            self.store = Store::attach(media).unwrap();
        }
        // The old heap is closed before its object is opened again.
        self.heap = create(4 << 20, 1 << 20).1;
        self.heap = heap_of(&self.store);
        for _ in 0..2 {
            self.freeing.iter().for_each(|op| self.heap.validate(*op).unwrap());
            self.heap.apply(&self.freeing);
        }
        self.retire();
        self.assert_sound(story);
    }

    fn duel(&mut self, random: &mut Random, story: &str) {
        let seeds = [random.next(), random.next()];
        let (heap, mix) = (&self.heap, &self.mix);
        let work = |seed: u64| {
            let random = &mut Random::new(seed);
            let mut mine: Vec<Block> = Vec::new();
            for _ in 0..60 {
                if mine.is_empty() || random.chance(60) {
                    match heap.reserve(mix.size(random)) {
                        Ok(block) if random.chance(20) => heap.cancel(block),
                        Ok(block) => {
                            stamp(heap, block);
                            let ops = [heap.op_allocate(&block)];
                            heap.apply(&ops);
                            heap.finish(&ops);
                            mine.push(block);
                        }
                        Err(error) => assert!(error.is_full(), "{story}: {error}"),
                    }
                } else {
                    let block = mine.swap_remove(random.below(mine.len() as u64) as usize);
                    assert_stamped(heap, block, story);
                    let ops = [heap.op_free(block.at.get()).unwrap()];
                    heap.apply(&ops);
                    heap.finish(&ops);
                }
            }
            mine
        };
        let kept = std::thread::scope(|scope| {
            let other = scope.spawn(|| work(seeds[0]));
            [work(seeds[1]), other.join().unwrap()].concat()
        });
        for block in kept {
            assert_stamped(&self.heap, block, story);
            self.take(block, story);
            self.allocated.push(block);
        }
    }

    fn assert_sound(&self, story: &str) {
        let all = || self.allocated.iter().chain(self.published.values());
        all().for_each(|block| assert_stamped(&self.heap, *block, story));
        let reachable: BTreeSet<u64> = all().map(|block| block.at.get()).collect();
        let findings = self.heap.check(Some(&reachable));
        assert!(findings.is_empty(), "{story}: {:#?}", &findings[..findings.len().min(3)]);
        let mut walked = BTreeMap::new();
        self.heap.blocks(|block| assert!(walked.insert(block.at, block.size).is_none(), "{story}")).unwrap();
        assert!(
            walked.iter().eq(all().map(|block| (block.at, block.size)).collect::<BTreeMap<_, _>>().iter()),
            "{story}"
        );
    }
}

fn run(random: &mut Random, soak: bool) {
    let steps = if soak { 1000 } else { 300 };
    let mix = Mix::draw(random);
    let story = format!("{mix:?}");
    let mut run = Run::new(mix);
    for step in 0..steps {
        let action = random.pick(&run.mix.actions);
        let story = format!("{story} step {step} {action:?}");
        if random.chance(run.mix.allocations) {
            run.allocate(random, &story);
        } else {
            // Some operations cost as much as many others.
            let share = match action {
                Action::Free | Action::Cancel | Action::Abandon | Action::Publish => 100,
                Action::Thin | Action::Duel | Action::Expand => 30,
                Action::Fill | Action::Close | Action::Crash | Action::Shrink => 5,
            };
            if random.chance(share) {
                run.step(action, random, &story);
            }
        }
        if random.chance(run.mix.retire) {
            run.retire();
        }
        if step % (steps / 3) == steps / 3 - 1 {
            run.retire();
            run.assert_sound(&story);
        }
    }
    // After all blocks are freed, all can be allocated.
    let all = std::mem::take(&mut run.allocated);
    run.free(&all, &story);
    run.retire();
    run.assert_sound(&story);
    run.fill(random, &story);
}

#[test]
fn heap_programs_with_options_of_their_own() {
    everbyte_workload::programs(20, run);
}
