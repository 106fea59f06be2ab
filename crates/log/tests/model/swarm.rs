//! Random lives of a lane whose options are drawn too, against a plain model: ranges at the
//! thresholds of the format, lanes and further segments of the least size and of more, roll-backs
//! and openings at every point, two lanes beside each other. Seeds and long runs:
//! `everbyte_workload`.

use everbyte_log::{Error, Journal, Outcome};
use everbyte_media::{Media, Options};
use everbyte_sim::swarm;
use everbyte_workload::Random;
use std::ops::Range;

/// Offset of the home of a lane, and its bytes. The lane lies at the begin of its part, its
/// segments behind it.
const PART: u64 = 1 << 20;
const HOME: u64 = 768 << 10;
const BYTES: u64 = 64 << 10;
/// Around a word, the bytes of an entry (48), of a long entry's line (32), lines, the chunks of a
/// long entry (768).
const LENGTHS: &[u64] =
    &[0, 1, 7, 8, 9, 31, 32, 33, 47, 48, 49, 64, 96, 97, 127, 128, 700, 768, 769, 800, 4096, 5000, 60_000];
const LANES: &[u64] = &[256, 320, 384, 1024, 8192];
const SEGMENTS: &[u64] = &[128, 192, 256, 4096, 65_536];

#[derive(Debug)]
struct Mix {
    lane: u64,
    segments: Vec<u64>,
    lengths: Vec<u64>,
    /// Changes of a transaction at most.
    changes: u64,
    /// Percentage of transactions that commit with operations, of those that roll back, of those
    /// that a crash cuts.
    ends: (u64, u64, u64),
}

impl Mix {
    fn draw(random: &mut Random) -> Mix {
        Mix {
            lane: random.pick(LANES),
            segments: random.some(SEGMENTS),
            lengths: random.some(LENGTHS),
            changes: random.pick(&[1, 5, 40]),
            ends: (random.pick(&[0, 20, 50]), random.pick(&[0, 20]), random.pick(&[5, 20])),
        }
    }
}

/// One lane, its home, and the expected bytes of the home.
struct Life {
    mix: Mix,
    media: Media,
    /// Offset of its part.
    at: u64,
    journal: Option<Journal>,
    home: Vec<u8>,
    /// Offset of the next segment.
    next: u64,
}

impl Life {
    fn begin(mix: Mix, media: Media, at: u64) -> Life {
        Journal::format(&media, at..at + mix.lane, at ^ 0x5eed).unwrap();
        let mut life = Life { mix, media, at, journal: None, home: vec![0; BYTES as usize], next: 0 };
        life.open(&life.media.clone(), Outcome::Idle, &[], "new");
        life
    }

    fn lane(&self) -> Range<u64> {
        self.at..self.at + self.mix.lane
    }

    /// Recovers the lane in `media`, which may be a copy, and compares the home with the expected
    /// bytes.
    fn recover(&self, media: &Media, outcome: Outcome, ops: &[u64], story: &str) -> Journal {
        for _ in 0..2 {
            let again = Journal::recover(media, self.lane(), self.at..self.at + PART).unwrap();
            assert_eq!((again.outcome(), again.ops()), (outcome, ops), "{story}");
            again.undo();
        }
        let recovery = Journal::recover(media, self.lane(), self.at..self.at + PART).unwrap();
        let journal = recovery.finish();
        let found = media.read_vec(self.at + HOME, BYTES as usize);
        let place = found.iter().zip(&self.home).position(|(one, two)| one != two);
        assert!(place.is_none(), "{story}: byte {place:?} of the home differs after {outcome:?}");
        journal
    }

    fn open(&mut self, media: &Media, outcome: Outcome, ops: &[u64], story: &str) {
        self.journal = None;
        self.journal = Some(self.recover(media, outcome, ops, story));
        self.next = self.at + self.mix.lane.next_multiple_of(4096);
    }

    /// Appends, and gives the lane segments as long as it has no space.
    fn append(&mut self, random: &mut Random, append: impl Fn(&mut Journal) -> everbyte_log::Result<()>) {
        loop {
            let journal = self.journal.as_mut().unwrap();
            match append(journal) {
                Ok(()) => return,
                Err(Error::Full { .. }) => {
                    let len = random.pick(&self.mix.segments);
                    if self.next + len > self.at + HOME {
                        self.next = u64::MAX; // no space: the transaction ends without it
                        return;
                    }
                    journal.extend(self.next..self.next + len).unwrap();
                    self.next += len + random.pick(&[0, 64, 4096]);
                }
                Err(error) => panic!("{error}"),
            }
            if self.next == u64::MAX {
                return;
            }
        }
    }

    fn transaction(&mut self, random: &mut Random, story: &str) {
        let before = self.home.clone();
        let mut after = self.home.clone();
        for _ in 0..=random.below(self.mix.changes) {
            let mut places = Vec::new();
            if random.chance(70) {
                let len = random.pick(&self.mix.lengths);
                let from = random.below(BYTES - len + 1) & if random.chance(50) { !7 } else { !0 };
                let (at, end) = (self.at + HOME + from, self.at + HOME + from + len);
                self.append(random, |journal| journal.log(at, len));
                places.push(at..end);
            } else {
                let word = |random: &mut Random| self.at + HOME + random.below(BYTES / 8) * 8;
                let words: Vec<u64> = (0..random.pick(&[1, 2, 3, 4, 7, 30])).map(|_| word(random)).collect();
                self.append(random, |journal| journal.log_words(&words));
                places.extend(words.iter().map(|&at| at..at + 8));
            }
            if self.next == u64::MAX {
                break;
            }
            self.journal.as_mut().unwrap().fence();
            let fill = random.next() as u8;
            let _section = self.media.section();
            for place in places {
                self.media.write(place.start, &vec![fill; (place.end - place.start) as usize]);
                self.media.flush(place.start, place.end - place.start);
                let from = (place.start - self.at - HOME) as usize;
                after[from..from + (place.end - place.start) as usize].fill(fill);
            }
        }
        let changed = !self.journal.as_ref().unwrap().is_empty();
        let under_way = if changed { Outcome::Undo } else { Outcome::Idle };
        let (commit, roll_back, crash) = self.mix.ends;
        if random.chance(10) {
            // Checks the recovery of a crash at this moment.
            let copy = swarm::copy(&self.media, self.at + PART, 4 << 20);
            self.recover(&copy, under_way, &[], story);
        }
        if self.next == u64::MAX || random.chance(roll_back) {
            self.journal.as_mut().unwrap().rollback().unwrap();
        } else if random.chance(crash) {
            let media = self.media.clone();
            return self.open(&media, under_way, &[], story);
        } else if random.chance(commit) {
            let ops: Vec<u64> = (0..random.pick(&[1, 5, 6, 7, 12, 50])).map(|_| random.next()).collect();
            self.append(random, |journal| journal.log_ops(&ops));
            if self.next == u64::MAX {
                self.journal.as_mut().unwrap().rollback().unwrap();
            } else {
                let journal = self.journal.as_mut().unwrap();
                let ordered = journal.fence_ops();
                journal.commit(&ordered);
                self.home = after;
                if random.chance(crash) {
                    let media = self.media.clone();
                    return self.open(&media, Outcome::Redo, &ops, story);
                }
                let journal = self.journal.as_mut().unwrap();
                journal.fence();
                journal.retire();
                journal.fence();
            }
        } else {
            let journal = self.journal.as_mut().unwrap();
            journal.retire();
            journal.fence();
            self.home = after;
        }
        let found = self.media.read_vec(self.at + HOME, BYTES as usize);
        assert!(
            found == self.home,
            "{story}: the home after {}",
            if self.home == before { "a roll-back" } else { "a commit" }
        );
        let journal = self.journal.as_mut().unwrap();
        if self.next == u64::MAX || random.chance(50) {
            journal.take_extra();
            self.next = self.at + self.mix.lane.next_multiple_of(4096);
        }
        if random.chance(crash) {
            let media = self.media.clone();
            self.open(&media, Outcome::Idle, &[], story);
        }
    }
}

fn run(random: &mut Random, soak: bool) {
    let media = Media::anonymous(4 << 20, &Options::default()).unwrap();
    if media.len() < 2 * PART {
        media.extend(0, 2 * PART).unwrap();
    }
    let mut lives = [0, PART].map(|at| Life::begin(Mix::draw(random), media.clone(), at));
    let story = format!("{:?} and {:?}", lives[0].mix, lives[1].mix);
    for number in 0..if soak { 300 } else { 30 } {
        let story = format!("{story} transaction {number}");
        if random.chance(70) {
            lives[random.below(2) as usize].transaction(random, &story);
            continue;
        }
        // Two lanes, each on a thread of its own.
        let [one, two] = &mut lives;
        let seeds = [random.next(), random.next()];
        std::thread::scope(|scope| {
            scope.spawn(|| (0..4).for_each(|_| one.transaction(&mut Random::new(seeds[0]), &story)));
            (0..4).for_each(|_| two.transaction(&mut Random::new(seeds[1]), &story));
        });
    }
}

#[test]
fn lives_with_options_of_their_own() {
    everbyte_workload::programs(15, run);
}
