//! [`Explorer`]: records a program, tries its crash images, reports. See the crate's page for an
//! example.

use crate::again::Again;
use crate::engine::{Budget, ImageEngine, Tried};
use crate::failure::{Deviation, Failure, Found};
use crate::points::Tear;
use crate::stage::{Check, Stage};
use crate::tape::{Recording, Settling};
use crate::{Cut, DiskTape, Image, Oracle, PowerCut, RecordedDisk, Seen, Threads};
use everbyte_media::Media;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Opens the id of an image of [`Threads::PerStep`].
const STEPS: &str = "steps:";

/// Which images exist: what settles, and how stores tear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Profile {
    /// The instruction that settles.
    pub settling: Settling,
    /// The unit that survives independently.
    pub tear: Tear,
}

impl Profile {
    /// `pmem` and `shm`: a fence settles, words tear.
    pub const PMEM: Profile = Profile { settling: Settling::Fence, tear: Tear::Words };
    /// `file`: a fence only orders, words tear.
    pub const FILE: Profile = Profile { settling: Settling::Barrier, tear: Tear::Words };
    /// `pmem` on CPUs that keep stores to one line in order: for formats that say they rely on it.
    pub const PMEM_LINES: Profile = Profile { settling: Settling::Fence, tear: Tear::Lines };
    /// `file` under the same assumption.
    pub const FILE_LINES: Profile = Profile { settling: Settling::Barrier, tear: Tear::Lines };
    /// Caches inside the persistence domain: stores survive in order, flushed or not.
    pub const EADR: Profile = Profile { settling: Settling::Fence, tear: Tear::Stores };
    /// The two profiles all code must be right under.
    pub const BOTH: [Profile; 2] = [Profile::PMEM, Profile::FILE];

    /// Every profile with its name.
    pub const ALL: [(&'static str, Profile); 5] = [
        ("pmem", Profile::PMEM),
        ("file", Profile::FILE),
        ("pmem-lines", Profile::PMEM_LINES),
        ("file-lines", Profile::FILE_LINES),
        ("eadr", Profile::EADR),
    ];

    /// The name used in reports and image ids.
    pub fn name(self) -> &'static str {
        Profile::ALL.iter().find(|(_, profile)| *profile == self).map_or("other", |(name, _)| name)
    }
}

/// Recovers an image and remembers what it holds, and forgets it.
pub(crate) type Memory<'m> = (Check<'m>, &'m dyn Fn());

/// How much of a program's second run is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Second {
    None,
    /// So many runs, and so many images of each.
    Some(u64, u64),
    Whole,
    /// Every death of a process, and some images of each second run.
    Deaths,
}

/// Tries the crash images of a program. A builder: set what differs, then [`Explorer::run`].
#[derive(Clone, Debug)]
pub struct Explorer {
    name: String,
    profiles: Vec<Profile>,
    scanning: bool,
    threads: Threads,
    second: Second,
    deaths: bool,
    budget: Budget,
    replay: Option<String>,
    command: Option<String>,
}

impl Explorer {
    /// An explorer with the project's budget: both settling profiles, all images of a point of at
    /// most 4096 (12 undecided words, each stored once), else 200, both as far as
    /// [`Explorer::total`] goes; recovery crashed too, processes that die on shared memory.
    /// `EVERBYTE_CRASH_SEED` and, for the explorer of the name in `EVERBYTE_CRASH_CASE`,
    /// `EVERBYTE_CRASH_IMAGE` are honoured: that is how a failure replays.
    pub fn new(name: impl Into<String>) -> Explorer {
        let name = name.into();
        let variable = |name: &str| std::env::var(name).ok();
        let number = |text: String| match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        };
        let threads = match variable("EVERBYTE_CRASH_THREADS").as_deref() {
            Some("steps") => Threads::PerStep,
            _ => Threads::One,
        };
        let (second, deaths) = match variable("EVERBYTE_CRASH_AGAIN").as_deref() {
            Some("whole") => (Second::Whole, false),
            Some("deaths") => (Second::Deaths, true),
            _ => (Second::None, false),
        };
        let ours = variable("EVERBYTE_CRASH_CASE").is_none_or(|case| case == name);
        let replay = variable("EVERBYTE_CRASH_IMAGE").filter(|_| ours);
        let budget = Budget {
            images: 200,
            exhaustive: 1 << 12,
            whole: false,
            recovery_images: 12,
            recovery_every: 24,
            recoveries: u64::MAX,
            depth: 2,
            deaths: true,
            further_deaths: match second {
                Second::Deaths => 8,
                Second::Whole => 2,
                _ => 1,
            },
            total: 24_000,
            floor: 24,
            points: u64::MAX,
            batch: 48,
            jobs: 2,
            timeout: Duration::from_secs(20),
            seed: variable("EVERBYTE_CRASH_SEED").and_then(number).unwrap_or(1),
            shrinks: true,
        };
        Explorer {
            name,
            profiles: Profile::BOTH.to_vec(),
            scanning: false,
            threads,
            second,
            deaths,
            budget,
            replay,
            command: None,
        }
    }

    /// The seed of the samples.
    pub fn seed(mut self, seed: u64) -> Explorer {
        self.budget.seed = seed;
        self
    }

    /// Images per crash point where not all are tried; 200 unless set.
    pub fn images(mut self, images: usize) -> Explorer {
        self.budget.images = images;
        self
    }

    /// All images are tried where at most so many words are undecided, each stored once; 12 unless
    /// set. A point whose share of [`Explorer::total`] is less than a fourth of them gets samples.
    pub fn exhaustive_words(mut self, words: u32) -> Explorer {
        self.budget.exhaustive = 1 << words.min(30);
        self
    }

    /// All images of the points of [`Explorer::exhaustive_words`], whatever [`Explorer::total`]:
    /// that bounds the images of larger points alone.
    pub fn whole(mut self) -> Explorer {
        self.budget.whole = true;
        self
    }

    /// About how many images one profile may cost; crash points share them, and each gets
    /// [`Explorer::floor`] at least.
    pub fn total(mut self, images: u64) -> Explorer {
        self.budget.total = images;
        self
    }

    /// Images that each crash point gets at least; 24 unless set.
    pub fn floor(mut self, images: usize) -> Explorer {
        self.budget.floor = images.max(2);
        self
    }

    /// Children that try images at the same time; two unless set.
    pub fn jobs(mut self, jobs: usize) -> Explorer {
        self.budget.jobs = jobs.max(1);
        self
    }

    /// At most about so many crash points of a recording are tried, drawn by seed; all unless set.
    pub fn points(mut self, points: u64) -> Explorer {
        self.budget.points = points;
        self
    }

    /// The profiles to explore, instead of [`Profile::BOTH`].
    pub fn profiles(mut self, profiles: &[Profile]) -> Explorer {
        self.profiles = profiles.to_vec();
        self
    }

    /// Crashes on the way to a checked state: 1 leaves recovery uncrashed, 2 (the default) crashes
    /// it once.
    pub fn depth(mut self, crashes: u32) -> Explorer {
        self.budget.depth = crashes;
        self
    }

    /// Recoveries explored: one in `every` images (settled and everything always), `images` per
    /// point inside.
    pub fn recovery(mut self, every: u64, images: usize) -> Explorer {
        (self.budget.recovery_every, self.budget.recovery_images) = (every, images);
        self
    }

    /// At most about so many recoveries of one recording are explored, drawn by seed; no limit
    /// unless set.
    pub fn recoveries(mut self, recoveries: u64) -> Explorer {
        self.budget.recoveries = recoveries;
        self
    }

    /// Lets only power fail. Otherwise processes die, too, at each crash point of a profile where
    /// memory outlives them (`pmem`): recovery then sees every store of the dead process, none of
    /// which is settled, and power fails during or after recovery. For programs that promise
    /// nothing on such media.
    pub fn without_process_death(mut self) -> Explorer {
        self.budget.deaths = false;
        self
    }

    /// About so many further deaths in each explored recovery and each second run, where processes
    /// die: before any of its stores the process dies, another one recovers or runs on the same
    /// memory, and power fails then. 1 unless set, 2 in the soak.
    pub fn further_deaths(mut self, deaths: u64) -> Explorer {
        self.budget.further_deaths = deaths;
        self
    }

    /// Which thread runs each step of the program. Unless set, `EVERBYTE_CRASH_THREADS` decides:
    /// `one` or `steps`.
    pub fn threads(mut self, threads: Threads) -> Explorer {
        self.threads = threads;
        self
    }

    /// Runs the program again on recovered images, crashes it there, and checks that recovery. The
    /// program then starts from any state that a crash leaves: it asks
    /// [`Twin::model`](crate::Twin::model) for it. `runs` images of a recording are such starts,
    /// about `images` of each second run are tried; `EVERBYTE_CRASH_AGAIN=whole` tries all starts
    /// and 600 images, and `EVERBYTE_CRASH_AGAIN=deaths` those of [`Explorer::after_deaths`].
    pub fn again(mut self, runs: u64, images: u64) -> Explorer {
        if let Second::None | Second::Some(..) = self.second {
            self.second = Second::Some(runs, images);
        }
        self
    }

    /// As [`Explorer::again`], with starts of one kind: a process dies before any of its stores and
    /// memory stays, another one goes on with it, and then power fails. The soak tries all starts.
    pub fn after_deaths(self, runs: u64, images: u64) -> Explorer {
        Explorer { deaths: true, ..self.again(runs, images) }
    }

    /// No second run: for programs that start from one state only.
    pub fn once(mut self) -> Explorer {
        self.second = Second::None;
        self
    }

    /// How long recovery and check of one image may be silent before they count as hung.
    pub fn timeout(mut self, timeout: Duration) -> Explorer {
        self.budget.timeout = timeout;
        self
    }

    /// Tells a failing image as it was found, where only the verdict matters.
    pub fn unshrunk(mut self) -> Explorer {
        self.budget.shrinks = false;
        self
    }

    /// A process of its own for every image from the start, instead of batches that undo each
    /// image.
    pub fn isolated(mut self) -> Explorer {
        self.budget.batch = 1;
        self
    }

    /// Finds stores by comparing memory at each flush, fence and barrier, for code that does not
    /// tell its stores. Order and intermediate values between two such points are not seen; the
    /// report says so.
    pub fn page_scan(mut self) -> Explorer {
        (self.scanning, self.budget.batch) = (true, 1);
        self
    }

    /// Tries this one image only, as a failure named it.
    pub fn replay(mut self, image: impl Into<String>) -> Explorer {
        self.replay = Some(image.into());
        self
    }

    /// How a person runs this explorer again, for the failure's replay line; `cargo test ...`
    /// unless set. The image id and the seed are put in place of `{image}` and `{seed}`.
    pub fn command(mut self, command: impl Into<String>) -> Explorer {
        self.command = Some(command.into());
        self
    }

    /// [`Explorer::explore`], printing what was explored.
    ///
    /// # Panics
    /// With the failure's text, if an image fails.
    pub fn run<P, C>(&self, image: &Image, program: P, check: C) -> Report
    where
        P: Fn(Media, &Oracle),
        C: Fn(Media, &Seen) -> Result<(), String>,
    {
        match self.explore(image, program, check) {
            Ok(report) => {
                println!("{report}");
                report
            }
            Err(failure) => panic!("{failure}"),
        }
    }

    /// Records `program` on media with `image` once per settling profile, then tries crash images:
    /// each is handed to `check`, which recovers and says whether what is there keeps what was
    /// acknowledged.
    ///
    /// The program should do the same each time, or a failure may not replay. It must not leave
    /// threads behind.
    ///
    /// # Errors
    /// The failing image, shrunk.
    pub fn explore<P, C>(&self, image: &Image, program: P, check: C) -> Result<Report, Box<Failure>>
    where
        P: Fn(Media, &Oracle),
        C: Fn(Media, &Seen) -> Result<(), String>,
    {
        self.generations(image, &program, &check, None)
    }

    /// As [`Explorer::explore`], with what a second run needs to know.
    pub(crate) fn generations(
        &self,
        image: &Image,
        program: &dyn Fn(Media, &Oracle),
        check: Check<'_>,
        memory: Option<Memory<'_>>,
    ) -> Result<Report, Box<Failure>> {
        let start = Instant::now();
        everbyte_media::museum::sites::forget();
        let replaying = self.replay.as_ref().is_some_and(|id| id.contains("+g"));
        let second = if replaying && self.second == Second::None { Second::Whole } else { self.second };
        let again = memory.and_then(|(begin, end)| {
            let (runs, points, images, total) = match second {
                Second::None => return None,
                Second::Some(runs, images) if self.deaths => (runs.max(1), images.div_ceil(8), 8, images),
                Second::Some(runs, images) => (runs.max(1), images.div_ceil(6), 6, images),
                Second::Whole if self.deaths => (u64::MAX, u64::MAX, 30, 600),
                Second::Whole => (0, u64::MAX, 60, 600),
                Second::Deaths => (u64::MAX, 30, 12, 360),
            };
            let deaths = self.deaths;
            Some(Again { begin, program, check, end, threads: self.mode(), runs, images, points, total, deaths })
        });
        let mut report = Report {
            name: self.name.clone(),
            seed: self.budget.seed,
            scanned: self.scanning,
            profiles: Vec::new(),
            elapsed: Duration::ZERO,
        };
        let replayed = self.replay.as_ref().map(|id| self.parse(id)).transpose()?;
        for settling in [Settling::Fence, Settling::Barrier] {
            let wanted = |profile: &Profile| match &replayed {
                Some((only, _)) => profile == only,
                None => self.profiles.contains(profile),
            };
            let profiles = Profile::ALL.map(|(_, profile)| profile);
            let profiles = profiles.iter().filter(|profile| profile.settling == settling && wanted(profile));
            let mut recording = None;
            for &profile in profiles {
                let recording = recording.get_or_insert_with(|| self.record(image, settling, program));
                let chain = replayed.as_ref().map(|(_, chain)| chain.as_slice());
                let tried = self.profile(image, recording, profile, (check, again.as_ref()), chain)?;
                report.profiles.push(ProfileReport::new(profile, &tried, recording));
            }
        }
        report.elapsed = start.elapsed();
        Ok(report)
    }

    /// Tries the images that power cuts may leave of a recorded disk, under this explorer's name,
    /// seed and replay.
    ///
    /// # Errors
    /// The image that fails.
    pub fn cut_power(
        &self,
        tape: &DiskTape,
        check: impl FnMut(Cut<'_>, Arc<RecordedDisk>) -> Result<(), String>,
    ) -> Result<Report, Box<Failure>> {
        let start = Instant::now();
        let images = (self.budget.images / 8).max(8);
        let mut cut = PowerCut::new(&self.name).seed(self.budget.seed).images_per_point(images);
        if let Some(id) = &self.replay {
            let parts = id.strip_prefix("power@").and_then(|rest| rest.split_once('.'));
            let parsed = parts.and_then(|(point, image)| Some((point.parse().ok()?, image.parse().ok()?)));
            let (point, image) = parsed.ok_or_else(|| {
                let text = format!("`{id}` is not the id of a power cut");
                self.named(Profile::FILE.name(), String::new(), self.no_image(text))
            })?;
            cut = cut.only(point, image);
        }
        let tried = cut.explore(tape, check).map_err(|failure| {
            let image = format!("power@{}.{}", failure.point, failure.image);
            let story = "the disk lost what was not synced, sector by sector".into();
            self.named("power", image, Found { message: failure.detail, story, chain: Vec::new() })
        })?;
        let profile = ProfileReport {
            profile: "power",
            points: tried.points as u64,
            whole_points: tried.exhausted as u64,
            images: tried.images as u64,
            repeated: 0,
            possible: tried.possible as f64,
            recovery_images: 0,
            stores: 0,
            fences: 0,
        };
        let (name, seed, elapsed) = (self.name.clone(), self.budget.seed, start.elapsed());
        Ok(Report { name, seed, scanned: false, profiles: vec![profile], elapsed })
    }

    fn record(&self, image: &Image, settling: Settling, program: &dyn Fn(Media, &Oracle)) -> Recording {
        let (media, tape) = image.open(settling);
        tape.scan(self.scanning);
        tape.start(media.len());
        program(media.clone(), &Oracle { tape: tape.clone(), threads: self.mode() });
        tape.catch_up(&media);
        tape.take()
    }

    fn profile(
        &self,
        image: &Image,
        recording: &Recording,
        profile: Profile,
        (check, again): (Check<'_>, Option<&Again<'_>>),
        chain: Option<&[Deviation]>,
    ) -> Result<Tried, Box<Failure>> {
        let stage = Stage::new(image, profile.settling, self.scanning);
        let tears = (profile.settling, profile.tear);
        let mut engine = ImageEngine::new(recording, tears, &self.budget, check, stage).followed_by(again);
        let found = match chain {
            None => engine.explore(),
            Some(chain) => engine.replay(chain).map_err(|text| self.failure(profile, self.no_image(text)))?,
        };
        found.map_or(Ok(engine.tried), |found| Err(self.failure(profile, found)))
    }

    fn parse(&self, id: &str) -> Result<(Profile, Vec<Deviation>), Box<Failure>> {
        let plain = id.strip_prefix(STEPS).unwrap_or(id);
        let parts = plain.split_once('@').and_then(|(name, chain)| {
            let profile = Profile::ALL.iter().find(|(known, _)| *known == name)?.1;
            Some((profile, Deviation::parse_chain(chain)?))
        });
        parts.ok_or_else(|| self.failure(Profile::FILE, self.no_image(format!("`{id}` is not an image id"))))
    }

    /// The mode of this run: an image to be replayed names its own.
    fn mode(&self) -> Threads {
        match &self.replay {
            Some(id) if id.starts_with(STEPS) => Threads::PerStep,
            Some(_) => Threads::One,
            None => self.threads,
        }
    }

    fn no_image(&self, text: String) -> Found {
        Found { message: text, story: "explore without an image id to find what fails now".into(), chain: vec![] }
    }

    fn failure(&self, profile: Profile, found: Found) -> Box<Failure> {
        let mode = if self.mode() == Threads::PerStep { STEPS } else { "" };
        self.named(profile.name(), format!("{mode}{}@{}", profile.name(), found.id()), found)
    }

    fn named(&self, profile: &str, image: String, found: Found) -> Box<Failure> {
        let command = match &self.command {
            Some(command) => command.clone(),
            None => format!("EVERBYTE_CRASH_CASE='{}' {}", self.name, test_command()),
        };
        let deaths = if self.second == Second::Deaths { "EVERBYTE_CRASH_AGAIN=deaths " } else { "" };
        let command = deaths.to_owned() + &command;
        let command = command.replace("{image}", &image).replace("{seed}", &self.budget.seed.to_string());
        Box::new(Failure {
            name: self.name.clone(),
            profile: profile.into(),
            seed: self.budget.seed,
            image,
            message: found.message,
            story: found.story,
            command,
        })
    }
}

/// Runs the test of this thread again, as cargo names it.
fn test_command() -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "PACKAGE".into());
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or("TEST");
    format!("EVERBYTE_CRASH_SEED={{seed}} EVERBYTE_CRASH_IMAGE='{{image}}' cargo test -p {package} {test}")
}

/// The points and images explored without a failure.
#[derive(Clone, Debug)]
pub struct Report {
    /// The explorer's name.
    pub name: String,
    /// The seed of the samples.
    pub seed: u64,
    /// Stores were found by page scan: orders within an interval are not among the images.
    pub scanned: bool,
    /// One entry per profile.
    pub profiles: Vec<ProfileReport>,
    /// How long it took.
    pub elapsed: Duration,
}

/// The points and images explored under one profile.
#[derive(Clone, Debug)]
pub struct ProfileReport {
    /// The profile's name.
    pub profile: &'static str,
    /// Crash points of the program.
    pub points: u64,
    /// Crash points of which every image was tried.
    pub whole_points: u64,
    /// Different images tried.
    pub images: u64,
    /// Choices that gave an image already tried with the same promises.
    pub repeated: u64,
    /// Images the rule permits, all points together; may be astronomic.
    pub possible: f64,
    /// Images of crashes inside recovery.
    pub recovery_images: u64,
    /// Words the program stored; 0 for power cuts of a disk.
    pub stores: u64,
    /// Fences it issued.
    pub fences: u64,
}

impl ProfileReport {
    fn new(profile: Profile, tried: &Tried, recording: &Recording) -> ProfileReport {
        ProfileReport {
            profile: profile.name(),
            points: tried.points,
            whole_points: tried.whole,
            images: tried.images,
            repeated: tried.repeated,
            possible: tried.possible.min(f64::MAX), // infinity is no number in JSON
            recovery_images: tried.recoveries,
            stores: recording.words.len() as u64,
            fences: recording.fences,
        }
    }

    /// Tried choices as a share of all that the rule permits, 0 to 1.
    pub fn share(&self) -> f64 {
        ((self.images + self.repeated) as f64 / self.possible.max(1.0)).min(1.0)
    }
}

impl Report {
    /// Images tried, those of crashes inside recovery included.
    pub fn images(&self) -> u64 {
        self.profiles.iter().map(|profile| profile.images + profile.recovery_images).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crash images of `{}`, seed {}, {:.1?}:", self.name, self.seed, self.elapsed)?;
        for profile in &self.profiles {
            let ProfileReport { profile: name, points, whole_points, images, recovery_images, .. } = profile;
            let share = profile.share() * 100.0;
            write!(f, "\n  {name}: {images} images at {points} points ({whole_points} in full), ")?;
            write!(f, "{share:.3} % of {:.3e}; {recovery_images} inside recovery", profile.possible)?;
        }
        if self.scanned {
            write!(f, "\n  stores found by page scan: orders between two flushes or fences are not among these")?;
        }
        Ok(())
    }
}
