//! Random programs against a plain model, one thread and several; and many random crashes.

use crate::common::{create, heap_of};
use everbyte_heap::{Error, Heap, Op, layout};
use everbyte_media::Media;
use everbyte_store::Store;
use everbyte_workload::Random;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Step {
    Reserve(u64),
    Cancel(usize),
    Commit(usize),
    Free(usize),
    Abandon(usize),
    Retire,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![8 => 1u64..600, 4 => 600u64..8193, 2 => 8193u64..300_000, 1 => Just(2_000_000)];
    prop_oneof![
        12 => size.prop_map(Step::Reserve),
        2 => any::<usize>().prop_map(Step::Cancel),
        9 => any::<usize>().prop_map(Step::Commit),
        6 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::Abandon),
        4 => Just(Step::Retire),
        1 => Just(Step::Reopen),
    ]
}

fn pick<T>(list: &mut Vec<T>, at: usize) -> Option<T> {
    (!list.is_empty()).then(|| list.swap_remove(at % list.len()))
}

/// No block that is reserved, allocated or not yet retired is handed out again.
fn handed_out(taken: &mut BTreeMap<u64, u64>, at: u64, size: u64) {
    let before = taken.range(..at + size).next_back();
    assert!(before.is_none_or(|(&other, &len)| other + len <= at), "{at:#x} + {size} and {before:x?}");
    taken.insert(at, size);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn blocks_agree_with_the_model(steps in prop::collection::vec(step(), 1..300)) {
        let (store, mut heap) = create(32 << 20, 16 << 20);
        let mut taken = BTreeMap::new();
        let (mut reserved, mut allocated, mut freeing): (Vec<_>, Vec<u64>, Vec<Op>) = Default::default();
        for step in steps {
            match step {
                Step::Reserve(size) => match heap.reserve(size) {
                    Ok(block) => {
                        prop_assert!(block.size >= size);
                        handed_out(&mut taken, block.at.get(), block.size.get());
                        reserved.push(block);
                    }
                    Err(error) => prop_assert!(error.is_full(), "{}", error),
                },
                Step::Cancel(at) => {
                    if let Some(block) = pick(&mut reserved, at) {
                        heap.cancel(block);
                        taken.remove(&block.at.get());
                    }
                }
                Step::Commit(at) => {
                    if let Some(block) = pick(&mut reserved, at) {
                        let ops = [heap.op_allocate(&block)];
                        heap.validate(ops[0]).unwrap();
                        heap.apply(&ops);
                        heap.apply(&ops);
                        heap.finish(&ops);
                        prop_assert_eq!(heap.size_of(block.at.get()).unwrap(), block.size.get());
                        allocated.push(block.at.get());
                    }
                }
                Step::Free(at) => {
                    if let Some(at) = pick(&mut allocated, at) {
                        let op = heap.op_free(at).unwrap();
                        let twice = matches!(heap.op_free(at), Err(Error::BeingFreed { .. }));
                        prop_assert!(twice);
                        heap.apply(&[op]);
                        freeing.push(op);
                    }
                }
                Step::Abandon(at) => {
                    if let Some(at) = pick(&mut allocated, at) {
                        heap.abandon(&[heap.op_free(at).unwrap()]);
                        allocated.push(at);
                    }
                }
                Step::Retire => {
                    heap.finish(&freeing);
                    freeing.clear();
                    taken.retain(|at, _| allocated.contains(at) || reserved.iter().any(|block| block.at == *at));
                }
                Step::Reopen => {
                    drop(heap);
                    heap = heap_of(&store);
                    reserved.clear();
                    // Applied operations that are not retired are replayed, which may be repeated.
                    freeing.iter().for_each(|op| heap.validate(*op).unwrap());
                    heap.apply(&freeing);
                    heap.apply(&freeing);
                    heap.finish(&freeing);
                    freeing.clear();
                    taken.retain(|at, _| allocated.contains(at));
                }
            }
        }
        let reachable: BTreeSet<u64> = allocated.iter().copied().collect();
        prop_assert_eq!(heap.check(Some(&reachable)), []);
        let mut walked = vec![];
        heap.blocks(|block| walked.push(block)).unwrap();
        prop_assert!(walked.iter().all(|block| taken.get(&block.at.get()) == Some(&block.size.get())));
        prop_assert_eq!(walked.len(), allocated.len());
    }
}

/// Threads allocate and free their own and each other's blocks (FM36).
#[test]
fn threads_share_a_heap() {
    let (store, heap) = create(64 << 20, 32 << 20);
    let exchange = parking_lot::Mutex::new(Vec::<u64>::new());
    let kept: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6u64)
            .map(|thread| {
                let (heap, exchange) = (&heap, &exchange);
                scope.spawn(move || {
                    let mut random = Random::new(thread + 1);
                    let mut mine: Vec<u64> = vec![];
                    for _ in 0..3000 {
                        let size = [40, 64, 700, 5000, 20_000][random.below(5) as usize];
                        let block = heap.reserve(size).unwrap();
                        heap.media().store(block.at, block.at.get() ^ thread);
                        let ops = [heap.op_allocate(&block)];
                        heap.apply(&ops);
                        heap.finish(&ops);
                        assert_eq!(
                            heap.media().load(block.at),
                            block.at.get() ^ thread,
                            "another thread has this block"
                        );
                        heap.media().store(block.at, block.at.get());
                        mine.push(block.at.get());
                        if random.below(2) == 0 {
                            exchange.lock().push(mine.swap_remove(random.below(mine.len() as u64) as usize));
                        }
                        let victim = if mine.len() > 40 {
                            Some(mine.swap_remove(0))
                        } else {
                            let mut exchange = exchange.lock();
                            if exchange.len() > 50 { exchange.pop() } else { None }
                        };
                        if let Some(at) = victim {
                            assert_eq!(heap.media().load(at), at);
                            let ops = [heap.op_free(at).unwrap()];
                            heap.apply(&ops);
                            heap.finish(&ops);
                        }
                    }
                    mine
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let reachable: BTreeSet<u64> = kept.into_iter().chain(exchange.into_inner()).collect();
    assert_eq!(heap.check(Some(&reachable)), []);
    drop(heap);
    assert_eq!(heap_of(&store).check(Some(&reachable)), []);
}

/// FM35: after random crashes nothing is leaked and nothing allocated twice. Every crash loses a
/// random part of the words flushed since the last fence, twice in a row where recovery is hit too.
/// `EVERBYTE_SOAK=100000` for a long run.
#[test]
fn random_crashes_leak_and_double_nothing() {
    let rounds = everbyte_workload::soak().unwrap_or(1500);
    let mut random = Random::new(everbyte_workload::seed(1, "-p everbyte-heap random_crashes"));
    let (store, heap) = create(4 << 20, 2 << 20);
    let mut bytes = store.media().read_vec(0, store.media().len() as usize);
    drop((store, heap));
    for round in 0..rounds {
        let tape = random_tape::Tape::new(&bytes);
        let media = Media::recorded(4 << 20, &bytes, Box::new(tape.clone())).unwrap();
        let opened = Store::attach(media.clone()).unwrap();
        let heap = Heap::open(opened.object("test").unwrap()).unwrap();
        let target = |index: u64| heap.object().prime() + layout::HEADER_END + index * 8;
        let mut reachable = BTreeSet::new();
        for index in 0..16 {
            let at = media.load(target(index));
            if at != 0 {
                assert!(reachable.insert(at), "round {round}: two targets have {at:#x}");
                assert!(heap.size_of(at).is_ok(), "round {round}: {at:#x} is not allocated");
            }
        }
        assert_eq!(heap.check(Some(&reachable)), [], "round {round}");
        tape.arm(random.below(30), random.next());
        for _ in 0..8 {
            let index = random.below(16);
            let at = target(index);
            if media.load(at) != 0 {
                heap.free_from(at.get()).unwrap();
            } else {
                let size = [24, 64, 500, 4096, 9000, 70_000][random.below(6) as usize];
                let _ = heap.alloc_into(size, at.get());
            }
        }
        bytes = tape.crash();
    }
}

/// A recorder that holds the settled bytes and, for each other word, its later stores: one random
/// image of a crash, cheaply. The explorer tries them all, on short programs; this one runs long
/// programs.
mod random_tape {
    use everbyte_media::Recorder;
    use everbyte_workload::Random;
    use parking_lot::Mutex;
    use std::collections::BTreeMap;
    use std::io;
    use std::sync::Arc;

    #[derive(Clone)]
    pub(super) struct Tape(Arc<Mutex<Inner>>);

    struct Inner {
        settled: Vec<u8>,
        /// By word: values in the order of stores, and how many of them were flushed.
        pending: BTreeMap<usize, (Vec<[u8; 8]>, usize)>,
        /// Fences left before the crash; its seed.
        crash: Option<(u64, u64)>,
        image: Option<Vec<u8>>,
    }

    impl Tape {
        pub(super) fn new(image: &[u8]) -> Tape {
            let inner = Inner { settled: image.to_vec(), pending: BTreeMap::new(), crash: None, image: None };
            Tape(Arc::new(Mutex::new(inner)))
        }

        /// Power fails at the fence after `fences` more.
        pub(super) fn arm(&self, fences: u64, seed: u64) {
            self.0.lock().crash = Some((fences, seed));
        }

        /// The bytes after the crash; if none came, power fails now.
        pub(super) fn crash(&self) -> Vec<u8> {
            let mut inner = self.0.lock();
            inner.fail();
            inner.image.take().expect("power has failed")
        }
    }

    impl Inner {
        fn fail(&mut self) {
            if self.image.is_some() {
                return;
            }
            let mut random = Random::new(self.crash.map_or(1, |(_, seed)| seed));
            let (mut image, mood) = (self.settled.clone(), random.below(4));
            for (&word, (values, _)) in &self.pending {
                let survivor = match mood {
                    0 => values.len() as u64,
                    1 => 0,
                    _ => random.below(values.len() as u64 + 1),
                };
                if survivor > 0 {
                    image[word..word + 8].copy_from_slice(&values[survivor as usize - 1]);
                }
            }
            self.image = Some(image);
        }
    }

    impl Recorder for Tape {
        fn store(&mut self, at: u64, bytes: &[u8]) {
            let mut inner = self.0.lock();
            let inner = &mut *inner;
            for (offset, byte) in bytes.iter().enumerate() {
                let at = at as usize + offset;
                let word = at & !7;
                let settled: [u8; 8] = inner.settled[word..word + 8].try_into().unwrap();
                let values = &mut inner.pending.entry(word).or_default().0;
                let mut value = values.last().copied().unwrap_or(settled);
                value[at - word] = *byte;
                if offset > 0 && at != word {
                    *values.last_mut().unwrap() = value; // one store, not eight
                } else {
                    values.push(value);
                }
            }
        }
        fn flush(&mut self, at: u64, len: u64) {
            let mut inner = self.0.lock();
            for (_, (values, flushed)) in inner.pending.range_mut(at as usize..(at + len) as usize) {
                *flushed = values.len();
            }
        }
        fn fence(&mut self) {
            let mut inner = self.0.lock();
            let inner = &mut *inner;
            match &mut inner.crash {
                Some((0, _)) => inner.fail(),
                Some((left, _)) => *left -= 1,
                None => {}
            }
            let settled = &mut inner.settled;
            inner.pending.retain(|&word, (values, flushed)| {
                if *flushed > 0 {
                    settled[word..word + 8].copy_from_slice(&values[*flushed - 1]);
                    values.drain(..std::mem::take(flushed));
                }
                !values.is_empty()
            });
        }
        fn barrier(&mut self, _mark: u64) -> io::Result<()> {
            Ok(())
        }
        fn allocate(&mut self, at: u64, len: u64) -> io::Result<()> {
            let mut inner = self.0.lock();
            let end = (at + len) as usize;
            if inner.settled.len() < end {
                inner.settled.resize(end, 0);
            }
            Ok(())
        }
    }
}
