//! Random programs whose options are drawn too, for both engines, against a plain model: ranges and
//! blocks at the thresholds of the formats, logs and lanes so short that they are extended,
//! transactions in transactions, savepoints, aborts among commits, objects that fill, openings in
//! the middle, two threads. Seeds and long runs: `everbyte_workload`.

use everbyte_heap::Block;
use everbyte_media::{Media, Options};
use everbyte_sim::swarm;
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};
use everbyte_tx::redo::{Truncation, Worker};
use everbyte_tx::{Error, Redo, Tx, TxError, Undo, layout};
use everbyte_workload::Random;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Bytes that transactions change, and words that name blocks behind them: half of each is the
/// second thread's.
const BYTES: u64 = 64 << 10;
const SLOTS: u64 = 64;
/// Lengths at the thresholds of words, entries of a lane (32 and 48), lines, chunks of a long entry
/// (768), pages, lanes.
const LENGTHS: &[u64] =
    &[1, 7, 8, 9, 31, 32, 33, 47, 48, 49, 64, 65, 96, 97, 512, 767, 768, 769, 800, 4095, 4096, 9000];
/// Blocks at the thresholds of classes, pages and clusters.
const BLOCKS: &[u64] = &[8, 16, 17, 64, 65, 1000, 4096, 8192, 8193, 65_536, 65_537, 300_000, 2 << 20];

#[derive(Clone, Debug, PartialEq)]
struct Model {
    bytes: Vec<u8>,
    /// For each slot the size of its block, and the size that was asked for.
    blocks: BTreeMap<u64, (u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Write,
    /// Several words that share a fence (undo), or one after the other.
    Name,
    Allocate,
    Free,
    /// Frees most blocks.
    Thin,
    /// A transaction in the transaction, or a savepoint; it may fail.
    Inner,
    /// Looks at the memory as after the death of the process, in the middle of the transaction.
    Peek,
}
/// Some are drawn more often than others.
const ACTIONS: &[Action] = &[
    Action::Name,
    Action::Allocate,
    Action::Allocate,
    Action::Free,
    Action::Thin,
    Action::Inner,
    Action::Inner,
    Action::Peek,
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Undo,
    Redo,
}

#[derive(Debug)]
struct Mix {
    kind: Kind,
    span: u64,
    /// Lanes or logs, and bytes of each.
    lanes: (u32, u64),
    lengths: Vec<u64>,
    blocks: Vec<u64>,
    actions: Vec<Action>,
    /// Steps of a transaction at most.
    steps: u64,
    /// Percentage of transactions that fail.
    failures: u64,
    /// Percentage of transactions after which the object is opened again.
    reopens: u64,
    duels: u64,
    asynchronous: bool,
}

impl Mix {
    fn draw(random: &mut Random, kind: Kind) -> Mix {
        let lane_lens: &[u64] =
            if kind == Kind::Undo { &[256, 320, 512, 4096, 8192] } else { &[320, 512, 4096, 65_536] };
        let span = random.pick(&[1 << 20, 4 << 20, 16 << 20]);
        let fits: Vec<u64> = BLOCKS.iter().copied().filter(|size| size * 2 <= span).collect();
        Mix {
            kind,
            span,
            lanes: (random.pick(&[2, 3, 8]), random.pick(lane_lens)),
            lengths: random.some(LENGTHS),
            blocks: random.some(&fits),
            actions: random.some(ACTIONS),
            steps: random.pick(&[2, 8, 60]),
            failures: random.pick(&[0, 10, 50]),
            reopens: random.pick(&[0, 5, 20]),
            duels: random.pick(&[0, 0, 10]),
            asynchronous: random.chance(50),
        }
    }
}

/// Operations of a body, whichever engine it runs under.
trait Change {
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), Error>;
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error>;
    fn name(&mut self, words: &[(u64, u64)]) -> Result<(), Error>;
    fn allocate(&mut self, size: u64) -> Result<Block, Error>;
    fn free(&mut self, at: u64) -> Result<(), Error>;
    /// Runs `body` so that its failure takes back its changes. `Ok(false)`: it failed, and the rest
    /// may go on.
    fn inner(&mut self, body: &mut dyn FnMut(&mut dyn Change) -> Result<(), Error>) -> Result<bool, Error>;

    fn load(&mut self, at: u64) -> Result<u64, Error> {
        let mut word = [0; 8];
        self.read(at, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }
    fn store(&mut self, at: u64, word: u64) -> Result<(), Error> {
        self.write(at, &word.to_le_bytes())
    }
}

struct UndoChange<'a>(&'a Undo, &'a Tx<'a>);

impl Change for UndoChange<'_> {
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), Error> {
        self.1.media().read(at, into);
        Ok(())
    }
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.1.write(at, bytes)
    }
    fn name(&mut self, words: &[(u64, u64)]) -> Result<(), Error> {
        self.1.name_ranges(&words.iter().map(|&(at, _)| (at, 8)).collect::<Vec<_>>())?;
        words.iter().for_each(|&(at, word)| self.1.media().store(at, word));
        Ok(())
    }
    fn allocate(&mut self, size: u64) -> Result<Block, Error> {
        self.1.allocate(size)
    }
    fn free(&mut self, at: u64) -> Result<(), Error> {
        self.1.free(at)
    }
    fn inner(&mut self, body: &mut dyn FnMut(&mut dyn Change) -> Result<(), Error>) -> Result<bool, Error> {
        let undo = self.0;
        match undo.run(|tx| body(&mut UndoChange(undo, tx))) {
            Ok(()) => Ok(true),
            // It dooms the outermost one.
            Err(TxError::Aborted(error) | TxError::Engine(error)) => Err(error),
            Err(TxError::Doomed) => Err(stop()),
        }
    }
}

struct RedoChange<'a>(&'a mut Worker);

impl Change for RedoChange<'_> {
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), Error> {
        self.0.read(at, into)
    }
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.0.write(at, bytes)
    }
    fn name(&mut self, words: &[(u64, u64)]) -> Result<(), Error> {
        words.iter().try_for_each(|&(at, word)| self.0.store(at, word))
    }
    fn allocate(&mut self, size: u64) -> Result<Block, Error> {
        self.0.allocate(size)
    }
    fn free(&mut self, at: u64) -> Result<(), Error> {
        self.0.free(at)
    }
    fn inner(&mut self, body: &mut dyn FnMut(&mut dyn Change) -> Result<(), Error>) -> Result<bool, Error> {
        let checkpoint = self.0.checkpoint();
        match body(self) {
            Ok(()) => {
                self.0.release();
                Ok(true)
            }
            Err(Error::Conflict) => Err(Error::Conflict),
            Err(_) => {
                self.0.roll_back_to(checkpoint);
                Ok(false)
            }
        }
    }
}

fn stop() -> Error {
    Error::NoLane { object: "on purpose".into() }
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Heap(error) if error.is_full()) || matches!(error, Error::TooLong { .. })
}

enum Room {
    Undo(Undo),
    Redo(Redo),
}

impl Room {
    fn open(store: &Store, mix: &Mix) -> Room {
        let object = store.object("test").unwrap();
        match mix.kind {
            Kind::Undo => Room::Undo(Undo::open(object).unwrap()),
            Kind::Redo => {
                let redo = Redo::open(object).unwrap();
                redo.set_truncation(if mix.asynchronous { Truncation::Asynchronous } else { Truncation::Synchronous });
                Room::Redo(redo)
            }
        }
    }

    /// Runs a body as one transaction; it may run several times.
    fn transact(&self, body: &mut dyn FnMut(&mut dyn Change) -> Result<(), Error>) -> Result<(), TxError<Error>> {
        match self {
            Room::Undo(undo) => undo.run(|tx| body(&mut UndoChange(undo, tx))),
            Room::Redo(redo) => redo.atomically(|worker| body(&mut RedoChange(worker))),
        }
    }

    fn heap(&self) -> &everbyte_heap::Heap {
        match self {
            Room::Undo(undo) => undo.heap(),
            Room::Redo(redo) => redo.heap(),
        }
    }

    fn media(&self) -> &Media {
        self.heap().media()
    }

    /// The contents of the object; its heap has been checked.
    fn observe(&self, at: u64, story: &str) -> Model {
        if let Room::Redo(redo) = self {
            redo.truncate();
        }
        let media = self.media();
        let lanes = media.load(self.heap().object().prime() + layout::LANES_AT);
        let (mut reachable, mut blocks) = (BTreeSet::from([at, lanes]), BTreeMap::new());
        for slot in 0..SLOTS {
            let block = media.load(at + BYTES + slot * 8);
            if block != 0 {
                let size = self.heap().size_of(block).unwrap();
                blocks.insert(slot, (size, media.load(block + size - 8)));
                assert!(reachable.insert(block), "{story}: two slots have {block:#x}");
            }
        }
        let findings = match self {
            Room::Undo(undo) => undo.heap().check(Some(&reachable)),
            Room::Redo(redo) => redo.check(Some(&reachable)),
        };
        assert!(findings.is_empty(), "{story}: {:#?}", &findings[..findings.len().min(3)]);
        Model { bytes: media.read_vec(at, BYTES as usize), blocks }
    }
}

/// An object with an engine in a store in memory.
fn create(mix: &Mix) -> (Store, Room) {
    let media = Media::anonymous(mix.span * 4, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let (lanes, len) = mix.lanes;
    let engine = if mix.kind == Kind::Undo { Engine::Undo } else { Engine::Redo };
    let options = ObjectOptions { engine, fingerprint: 0, span: Some(mix.span) };
    let format = |object: &everbyte_store::Object| match mix.kind {
        Kind::Undo => Undo::format_with(object, lanes, len),
        Kind::Redo => Redo::format_with(object, lanes, len),
    };
    store.create_object("test", options, format).unwrap();
    let room = Room::open(&store, mix);
    (store, room)
}

struct Run {
    mix: Mix,
    store: Store,
    room: Room,
    at: u64,
    model: Model,
    /// Bytes stored since all logs were empty: while they are few, no other thread truncates.
    stored: u64,
}

/// One transaction's steps, in its part of the bytes and of the slots.
struct Steps<'a> {
    mix: &'a Mix,
    at: u64,
    bytes: Range<u64>,
    slots: Range<u64>,
    peek: &'a dyn Fn(),
}

impl Steps<'_> {
    fn perform(&self, tx: &mut dyn Change, random: &mut Random, model: &mut Model, deep: u32) -> Result<(), Error> {
        for _ in 0..=random.below((self.mix.steps >> (2 * deep)).max(1)) {
            let action = if random.chance(50) { Action::Write } else { random.pick(&self.mix.actions) };
            self.step(action, tx, random, model, deep)?;
            // It reads its own stores.
            let (from, len) = self.range(random);
            let mut found = vec![0; len as usize];
            tx.read(self.at + from, &mut found)?;
            let expected = &model.bytes[from as usize..(from + len) as usize];
            assert!(found == expected, "a transaction reads {len} bytes at {from} that are not its own");
        }
        if random.chance(self.mix.failures) { Err(stop()) } else { Ok(()) }
    }

    fn range(&self, random: &mut Random) -> (u64, u64) {
        let len = random.pick(&self.mix.lengths).min(self.bytes.end - self.bytes.start);
        let from = self.bytes.start + random.below(self.bytes.end - self.bytes.start - len + 1);
        (if random.chance(50) { (from & !7).max(self.bytes.start) } else { from }, len)
    }

    fn step(
        &self,
        action: Action,
        tx: &mut dyn Change,
        random: &mut Random,
        model: &mut Model,
        deep: u32,
    ) -> Result<(), Error> {
        match action {
            Action::Write => {
                let ((from, len), fill) = (self.range(random), random.next() as u8);
                let bytes: Vec<u8> = (0..len).map(|index| fill.wrapping_add(index as u8)).collect();
                tx.write(self.at + from, &bytes)?;
                model.bytes[from as usize..(from + len) as usize].copy_from_slice(&bytes);
            }
            Action::Name => {
                let count = random.pick(&[1, 3, 4, 6, 7, 70]);
                let word = |random: &mut Random| {
                    let words = (self.bytes.end - self.bytes.start) / 8;
                    (self.bytes.start + random.below(words) * 8, random.next())
                };
                let words: Vec<(u64, u64)> = (0..count).map(|_| word(random)).collect();
                tx.name(&words.iter().map(|&(from, word)| (self.at + from, word)).collect::<Vec<_>>())?;
                for (from, word) in words {
                    model.bytes[from as usize..from as usize + 8].copy_from_slice(&word.to_le_bytes());
                }
            }
            Action::Allocate => {
                let slot = self.slots.start + random.below(self.slots.end - self.slots.start);
                self.free(tx, slot, model)?;
                let size = random.pick(&self.mix.blocks);
                let block = tx.allocate(size)?;
                tx.store((block.end() - 8).get(), size)?;
                tx.store(self.at + BYTES + slot * 8, block.at.get())?;
                model.blocks.insert(slot, (block.size.get(), size));
            }
            Action::Free => {
                let slot = self.slots.start + random.below(self.slots.end - self.slots.start);
                self.free(tx, slot, model)?;
            }
            Action::Thin => {
                for slot in self.slots.clone() {
                    if random.chance(80) {
                        self.free(tx, slot, model)?;
                    }
                }
            }
            Action::Inner if deep < 4 => {
                let before = model.clone();
                let again = random.clone();
                let went_well = tx.inner(&mut |tx| {
                    *random = again.clone();
                    self.perform(tx, random, model, deep + 1)
                })?;
                if !went_well {
                    *model = before;
                }
            }
            Action::Inner => {}
            Action::Peek => {
                if random.chance(10) {
                    (self.peek)();
                }
            }
        }
        Ok(())
    }

    fn free(&self, tx: &mut dyn Change, slot: u64, model: &mut Model) -> Result<(), Error> {
        let at = self.at + BYTES + slot * 8;
        let old = tx.load(at)?;
        assert_eq!(old != 0, model.blocks.remove(&slot).is_some(), "slot {slot}");
        if old != 0 {
            tx.free(old)?;
            tx.store(at, 0)?;
        }
        Ok(())
    }
}

impl Run {
    fn new(mix: Mix) -> Run {
        let (store, room) = create(&mix);
        // A block of zeros, which the root word names, in an atomic change of the heap's own.
        let root = room.heap().object().root_at();
        let at = room.heap().alloc_set(BYTES + SLOTS * 8, root.get(), 0).unwrap().at;
        let model = Model { bytes: vec![0; BYTES as usize], blocks: BTreeMap::new() };
        Run { mix, store, room, at: at.get(), model, stored: 0 }
    }

    /// Opens the present contents of the memory.
    fn crashed(&self) -> (Store, Room) {
        let backed = self.room.heap().object().backed();
        let store = Store::attach(swarm::copy(self.store.media(), backed.get(), self.mix.span * 4)).unwrap();
        let room = Room::open(&store, &self.mix);
        (store, room)
    }

    fn transaction(&mut self, random: &mut Random, story: &str) {
        let peek = || {
            let (_store, room) = self.crashed();
            assert!(room.observe(self.at, story) == self.model, "{story}: a crash in the middle leaves a trace");
        };
        let steps = Steps { mix: &self.mix, at: self.at, bytes: 0..BYTES, slots: 0..SLOTS, peek: &peek };
        let next = RefCell::new(self.model.clone());
        let start = random.clone();
        let outcome = self.room.transact(&mut |tx| {
            *random = start.clone();
            next.replace(self.model.clone());
            steps.perform(tx, random, &mut next.borrow_mut(), 0)
        });
        match outcome {
            Ok(()) => self.model = next.into_inner(),
            Err(TxError::Aborted(error) | TxError::Engine(error)) => {
                let on_purpose = matches!(&error, Error::NoLane { object } if object == "on purpose");
                assert!(on_purpose || is_full(&error), "{story}: {error}");
            }
            Err(TxError::Doomed) => {}
        }
        self.stored += self.mix.steps * self.mix.lengths.iter().max().unwrap() * 4;
        self.rest();
    }

    /// Empties the logs before a thread would do so at a time of its own.
    fn rest(&mut self) {
        if let Room::Redo(redo) = &self.room
            && self.stored > self.mix.lanes.1 / 4
        {
            redo.truncate();
            self.stored = 0;
        }
    }

    /// Two threads, each in its half.
    fn duel(&mut self, random: &mut Random) {
        let halves = [(0..BYTES / 2, 0..SLOTS / 2), (BYTES / 2..BYTES, SLOTS / 2..SLOTS)];
        let seeds = [random.next(), random.next()];
        let (mix, room, at, model) = (&self.mix, &self.room, self.at, &self.model);
        let work = |which: usize| {
            let (bytes, slots) = halves[which].clone();
            let steps = Steps { mix, at, bytes, slots, peek: &|| {} };
            let (random, mut mine) = (&mut Random::new(seeds[which]), model.clone());
            for _ in 0..12 {
                let (start, mut next) = (random.clone(), mine.clone());
                let outcome = room.transact(&mut |tx| {
                    *random = start.clone();
                    next.clone_from(&mine);
                    steps.perform(tx, random, &mut next, 0)
                });
                if outcome.is_ok() {
                    mine = next;
                }
            }
            mine
        };
        let (first, second) = std::thread::scope(|scope| {
            let other = scope.spawn(|| work(1));
            (work(0), other.join().unwrap())
        });
        let middle = (BYTES / 2) as usize;
        self.model.bytes = [&first.bytes[..middle], &second.bytes[middle..]].concat();
        let halves = first.blocks.range(..SLOTS / 2).chain(second.blocks.range(SLOTS / 2..));
        self.model.blocks = halves.map(|(&slot, &sizes)| (slot, sizes)).collect();
        self.stored = 1 << 40;
        self.rest();
    }

    fn assert_same(&self, story: &str) {
        let found = self.room.observe(self.at, story);
        let place = found.bytes.iter().zip(&self.model.bytes).position(|(one, two)| one != two);
        assert!(place.is_none(), "{story}: byte {place:?} differs");
        assert!(found.blocks == self.model.blocks, "{story}: {:x?} and {:x?}", found.blocks, self.model.blocks);
    }
}

fn run(random: &mut Random, soak: bool, kind: Kind) {
    let mix = Mix::draw(random, kind);
    let transactions = if soak { 400 } else { 60 };
    let story = format!("{mix:?}");
    let mut run = Run::new(mix);
    for number in 0..transactions {
        let story = format!("{story} transaction {number}");
        if random.chance(run.mix.duels) {
            run.duel(random);
            run.assert_same(&story);
        } else {
            run.transaction(random, &story);
        }
        if random.chance(run.mix.reopens) {
            if random.chance(50) {
                (run.store, run.room) = run.crashed();
            } else {
                // The old engine is closed before its object is opened again.
                run.room = create(&Mix { span: 1 << 20, ..Mix::draw(random, kind) }).1;
                run.room = Room::open(&run.store, &run.mix);
            }
            run.stored = 0;
        }
        if number % 10 == 9 {
            run.assert_same(&story);
        }
    }
    run.assert_same(&story);
    let (_store, room) = run.crashed();
    assert!(room.observe(run.at, &story) == run.model, "{story}: what a crash leaves at the end");
}

#[test]
fn undo_programs_with_options_of_their_own() {
    everbyte_workload::programs(16, |random, soak| run(random, soak, Kind::Undo));
}

#[test]
fn redo_programs_with_options_of_their_own() {
    everbyte_workload::programs(16, |random, soak| run(random, soak, Kind::Redo));
}
