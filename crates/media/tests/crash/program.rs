//! Random programs on a recorded disk, and the exploration of their images.

use crate::model::Model;
use everbyte_media::{BackendChoice, Durability, Geometry, Media, OpenOptions, Options, Words};
use everbyte_sim::{Cut, DiskEvent, PowerCut, PowerFailure, PowerReport, RecordedDisk};
use everbyte_workload::Random;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const LOG_AT: u64 = 16 << 10;
pub(crate) const LOG_LEN: u64 = 16 << 10;
pub(crate) const DATA: u64 = LOG_AT + LOG_LEN;
pub(crate) const LEN: u64 = 64 << 10;
pub(crate) const MAX: u64 = 128 << 10;

/// A fresh store as it lies on the medium, with its log prepared.
pub(crate) fn fresh() -> Vec<u8> {
    created(Geometry { max: MAX, len: LEN, log_at: LOG_AT, log_len: LOG_LEN })
}

/// As [`fresh`], of a store without a map of chunks: its file is as long as the store.
pub(crate) fn linear() -> Vec<u8> {
    let mut image = fresh();
    image.truncate(LEN as usize);
    for at in [8 << 10, 12 << 10] {
        image[at + 128..at + 136].fill(0);
        image[at + 8..at + 12].fill(0);
        let sum = crc32c::crc32c(&image[at..at + 512]);
        image[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
    }
    image
}

/// Offset of the log of a store that may grow: behind the data.
const GROWING_AT: u64 = 96 << 10;

/// As [`fresh`], with a log that may grow to twice its ring.
pub(crate) fn growing() -> Vec<u8> {
    created(Geometry { max: MAX, len: MAX, log_at: GROWING_AT, log_len: 2 * LOG_LEN })
}

fn created(geometry: Geometry) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = Options { log_room: LOG_LEN, ..options(Durability::Always) };
    drop(OpenOptions::new(&path).create(geometry, &options).unwrap());
    std::fs::read(&path).unwrap()
}

/// No threads but the test's, so that a seed determines the run.
pub(crate) fn options(durability: Durability) -> Options {
    Options { backend: BackendChoice::File, durability, background: false, ..Options::default() }
}

pub(crate) fn open(disk: &Arc<RecordedDisk>, durability: Durability) -> everbyte_media::Result<Media> {
    OpenOptions::new("recorded").on_disk(disk.clone()).open(&options(durability))
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Store(u64),
    Flush(u64, u64),
    /// Some words of a line.
    Words(u64, u8),
    Fence,
    Barrier,
    Checkpoint,
    /// Flushes half of a batch from there, which the thread that writes such batches then does.
    Early(u64),
    /// The process dies, and the store is opened again.
    Die,
    /// The store is closed, and opened again.
    Close,
    Extend(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub ops: Vec<Op>,
    pub durability: Durability,
    /// Whether the log may grow.
    pub grows: bool,
    pub world: World,
}

/// The kind of disk under a program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct World {
    /// The file system has no `fallocate`.
    pub without_fallocate: bool,
    /// A failed allocation keeps half of its range.
    pub halves: bool,
    /// Before that call of the disk another thread lets the file grow.
    pub growth: Option<u64>,
}

impl World {
    fn of(seed: u64) -> World {
        let growth = seed.is_multiple_of(3).then_some(seed * 7 % 60);
        World { without_fallocate: seed % 4 == 1, halves: seed % 4 == 3, growth }
    }

    pub(crate) fn disk(&self, image: &[u8]) -> Arc<RecordedDisk> {
        let disk = RecordedDisk::new(image).unwrap();
        if self.without_fallocate {
            disk.without_fallocate();
        }
        if self.halves {
            disk.allocate_by_halves();
        }
        if let Some(step) = self.growth {
            disk.grow_before(step, MAX);
        }
        disk
    }
}

impl Program {
    /// A program of a few dozen steps on a few dozen words, so that lines and pages repeat.
    pub(crate) fn random(seed: u64) -> Program {
        let mut random = Random::new(seed);
        let durability = match random.below(4) {
            0 => Durability::Process,
            1 => Durability::Interval(Duration::from_secs(3600)),
            _ => Durability::Always,
        };
        let deaths = random.below(3);
        let mut ops = Vec::new();
        let mut pages: Vec<u64> = (0..5).map(|page| DATA + page * 4096).collect();
        for step in 0..80 + random.below(120) {
            let page = pages[random.below(pages.len() as u64) as usize];
            let word = page + random.below(6) * 64 + random.below(2) * 8;
            if step == 12 && seed % 3 == 1 {
                ops.push(Op::Die); // the log begins in an earlier life
            }
            ops.push(match random.below(43) {
                0..16 => Op::Store(word),
                16..21 => Op::Flush(word & !63, 64 * (1 + random.below(3))),
                21..26 => Op::Words(word & !63, 1 + random.below(3) as u8),
                // fills the log, and with it comes a checkpoint
                26 => Op::Flush(word & !4095, 4096),
                27..33 => Op::Fence,
                33..36 => Op::Barrier,
                36..38 => Op::Checkpoint,
                38 if deaths > 0 => {
                    if random.below(3) == 0 {
                        Op::Close
                    } else {
                        Op::Die
                    }
                }
                40.. => Op::Early(word & !4095),
                _ => Op::Extend(LEN + random.below(8) * 4096),
            });
            // Single lines and words are stored to new pages: no write ever covers a whole page.
            if let Some(Op::Extend(page)) = ops.last()
                && !pages.contains(page)
            {
                pages.push(*page);
            }
        }
        Program { ops, durability, grows: seed.is_multiple_of(2), world: World::of(seed) }
    }

    /// The store it begins with.
    pub(crate) fn image(&self) -> Vec<u8> {
        if self.grows { growing() } else { fresh() }
    }

    /// Runs on `disk`, which records acknowledged fences; returns the model of each life at its
    /// end.
    pub(crate) fn run(&self, disk: &Arc<RecordedDisk>) -> everbyte_media::Result<Vec<Model>> {
        let (lives, outcome) = self.run_to_failure(disk);
        outcome.map(|()| lives)
    }

    /// As [`Program::run`], with the steps done when a call failed.
    pub(crate) fn run_to_failure(&self, disk: &Arc<RecordedDisk>) -> (Vec<Model>, everbyte_media::Result<()>) {
        let (mut lives, mut model) = (Vec::new(), Model::default());
        let outcome = self.steps(disk, &mut lives, &mut model);
        lives.push(model);
        (lives, outcome)
    }

    fn steps(&self, disk: &Arc<RecordedDisk>, lives: &mut Vec<Model>, model: &mut Model) -> everbyte_media::Result<()> {
        let acknowledge = |life: usize, fence: u64| disk.note((life as u64) << 32 | fence);
        let mut media = open(disk, self.durability)?;
        let mut grown = Vec::new();
        for (step, op) in self.ops.iter().enumerate() {
            match *op {
                Op::Store(at) => {
                    media.store(at, step as u64 + 1);
                    model.store(at, step as u64 + 1);
                }
                Op::Flush(at, len) => {
                    media.flush(at, len);
                    model.flush(at, len);
                }
                Op::Words(line, mask) => {
                    media.flush_words(&[Words::new(line, mask)]);
                    model.flush_words(line, mask);
                }
                Op::Fence => {
                    media.fence();
                    model.fence();
                }
                Op::Barrier => {
                    let fence = model.fence();
                    media.barrier()?;
                    // The other modes acknowledge against a process's death only.
                    if self.durability == Durability::Always {
                        acknowledge(lives.len(), fence);
                    }
                }
                Op::Checkpoint => {
                    let fence = model.fence();
                    media.checkpoint()?;
                    acknowledge(lives.len(), fence);
                }
                Op::Early(at) => {
                    media.flush(at, 2048);
                    model.flush(at, 2048);
                    media.write_early()?;
                }
                Op::Extend(at) => {
                    media.extend(at, 4096)?;
                    grown.push(at);
                }
                Op::Die | Op::Close => {
                    if matches!(op, Op::Close) {
                        model.fence();
                        media.close()?;
                    }
                    media.abandon();
                    media = open(disk, self.durability)?;
                    lives.push(model.clone());
                    acknowledge(lives.len(), model.restart(|at| read(&media, at)));
                    // Growth that was not ordered is lost with the process.
                    grown.iter().try_for_each(|&at| media.extend(at, 4096))?;
                }
            }
        }
        media.abandon();
        Ok(())
    }
}

/// Runs the program and cuts its power at every point; each image is recovered, checked, and cut
/// again in recovery.
pub(crate) fn explore(test: &str, program: &Program, seed: u64) -> Result<PowerReport, PowerFailure> {
    let disk = program.world.disk(&program.image());
    let told = |detail: String| PowerFailure { point: 0, image: 0, detail, replay: format!("seed {seed} of {test}") };
    let lives = program.run(&disk).map_err(|error| told(format!("without a power cut: {error}")))?;
    let cut = PowerCut::new(test).seed(seed).images_per_point(16);
    cut.explore(&disk.tape(), |cut, image| {
        recover(&lives, cut, &image)?;
        if cut.image % 9 != 0 {
            return Ok(());
        }
        let again = PowerCut::new("recovery").seed(seed).images_per_point(6);
        let again = again.explore(&image.tape(), |_, image| recover(&lives, cut, &image));
        again.map(|_| ()).map_err(|failure| format!("in recovery: {}", failure.detail))
    })
}

/// Reopens at once, checks, and cuts the power at the end of that life.
pub(crate) fn explore_end(test: &str, lives: &[Model], disk: &Arc<RecordedDisk>, seed: u64) -> Result<(), String> {
    let tape = disk.tape();
    let cut = PowerCut::new(test).seed(seed).images_per_point(200);
    let explored = cut
        .explore(&tape, |cut, image| if cut.point == tape.events.len() { recover(lives, cut, &image) } else { Ok(()) });
    explored.map_err(|failure| failure.to_string())?;
    let notes: Vec<u64> = tape
        .events
        .iter()
        .filter_map(|event| if let DiskEvent::Note(note) = event { Some(*note) } else { None })
        .collect();
    recover(lives, Cut { point: tape.events.len(), image: 0, notes: &notes }, disk)
        .map_err(|detail| format!("reopened: {detail}"))
}

/// A word, or its content before the file had grown there.
fn read(media: &Media, at: u64) -> u64 {
    if at + 8 <= media.len() { media.load(at) } else { 0 }
}

fn recover(lives: &[Model], cut: Cut<'_>, image: &Arc<RecordedDisk>) -> Result<(), String> {
    let media = open(image, Durability::Always).map_err(|error| error.to_string())?;
    let (life, acked) = cut.notes.last().map_or((0, None), |note| ((note >> 32) as usize, Some(note & 0xffff_ffff)));
    let checked = lives[life].check(acked, |at| read(&media, at));
    media.abandon();
    checked
}
