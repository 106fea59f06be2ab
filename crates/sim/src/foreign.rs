//! Programs in other languages before the explorer: [`Foreign`].
//!
//!   1. the program runs in a process of its own on a private copy of a store; the library it is
//!      linked with watches its memory and writes a tape, a line for each [`TraceLine`]
//!   2. the tape is played on the explorer's own media, which makes crash images of it as of any
//!      program's
//!   3. each image is written to a file, and a second command runs on that: it recovers, looks, and
//!      exits with 0 if the promises are kept. Its tape is played, too: it is the recovery that is
//!      crashed next

use crate::{Explorer, Failure, Image, Oracle, Report, Seen, Settling};
use everbyte_media::{Mark, Media, OpenOptions, Options, TraceLine};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PAGE: u64 = 4096;

/// A program that stores through `libeverbyte`, and one that checks what a crash left. Both are
/// commands of the shell and find the store by `EVERBYTE_STORE`. They have one thread.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// The store they start from. It stays as it is.
    pub store: PathBuf,
    /// The program: it says what it begins and what is acknowledged (`everbyte/crash.h`).
    pub run: String,
    /// Exits with 0 if what it finds keeps the promises.
    pub check: String,
    /// Each store is seen, by single steps, instead of what pages hold at each flush and fence.
    pub precise: bool,
}

/// Addresses of images, tapes and copies of the store, and the non-zero parts of the store.
struct Stand<'f> {
    foreign: &'f Foreign,
    dir: PathBuf,
    /// Pages that may hold something, by offset: what the store held at first, and what tapes have
    /// stored to.
    pages: RefCell<BTreeSet<u64>>,
}

impl Explorer {
    /// [`Explorer::explore`] for a program of another language. Files are made in `dir`, best on
    /// tmpfs.
    ///
    /// # Errors
    /// A sentence if the store cannot be read, or the program fails without a crash.
    pub fn explore_foreign(&self, foreign: &Foreign, dir: &Path) -> Result<Result<Report, Box<Failure>>, String> {
        let media = OpenOptions::new(&foreign.store)
            .read_only()
            .open(&Options::default())
            .map_err(|error| error.to_string())?;
        let image = Image::of(&media);
        drop(media);
        let stand = Stand { foreign, dir: dir.into(), pages: RefCell::new(pages_in_use(&image)) };
        let tapes = [stand.record(Settling::Fence, &image)?, stand.record(Settling::Barrier, &image)?];
        let program = |media: Media, oracle: &Oracle| {
            let fence_settles = media.fences_settle();
            play(&tapes[usize::from(!fence_settles)], &media, |line| match line {
                Voice::Begin(name) => drop(oracle.begin(name)),
                Voice::Acked(op) => oracle.acked(crate::Op(op)),
                Voice::Recovered => {}
            });
        };
        let check = |media: Media, seen: &Seen| stand.check(&media, seen);
        let explored = self.explore(&image, program, check);
        Ok(explored.map(|report| Report { scanned: !foreign.precise, ..report }))
    }
}

/// The contents of a tape besides the events of media.
enum Voice<'t> {
    Begin(&'t str),
    Acked(usize),
    Recovered,
}

/// Does to `media` what a tape says.
fn play(tape: &[TraceLine], media: &Media, mut say: impl FnMut(Voice<'_>)) {
    let mut marks: Vec<Mark> = Vec::new();
    let mut begun = 0;
    for line in tape {
        match line {
            TraceLine::Store(at, bytes) => media.write(*at, bytes),
            TraceLine::Flush(at, len) => media.flush(*at, *len),
            TraceLine::Fence => {
                media.fence();
                marks.push(media.mark());
            }
            TraceLine::Barrier(mark) => {
                if let Some(&mark) = mark.checked_sub(1).and_then(|last| marks.get(last as usize)) {
                    media.settle(mark).expect("no faults are injected here");
                }
            }
            TraceLine::Allocate(at, len) => media.extend(*at, *len).expect("no faults are injected here"),
            TraceLine::Punch(at, len) => media.punch(*at, *len),
            TraceLine::Begin(name) => {
                begun += 1;
                say(Voice::Begin(name));
            }
            TraceLine::Acked => say(Voice::Acked(begun - 1)),
            TraceLine::Recovered => say(Voice::Recovered),
        }
    }
}

fn pages_in_use(image: &Image) -> BTreeSet<u64> {
    let pages = image.bytes().chunks(PAGE as usize).enumerate();
    let used = pages.filter(|(_, bytes)| bytes.iter().any(|&byte| byte != 0));
    used.map(|(page, _)| page as u64 * PAGE).collect()
}

impl Stand<'_> {
    /// Runs the program once on a copy of the store.
    fn record(&self, settling: Settling, image: &Image) -> Result<Vec<TraceLine>, String> {
        let copy = self.dir.join("run.store");
        self.write(&copy, &image.media()).map_err(|error| format!("{}: {error}", copy.display()))?;
        let (tape, run) = self.run(&self.foreign.run, &copy, settling, None)?;
        if let Err(said) = run {
            return Err(format!("`{}` fails without any crash: {said}", self.foreign.run));
        }
        let sound = tape.iter().try_fold(0, |open: usize, line| match line {
            TraceLine::Begin(_) => Some(open + 1),
            TraceLine::Acked => open.checked_sub(1).map(|_| open),
            _ => Some(open),
        });
        match sound {
            Some(begun) if begun > 0 => Ok(tape),
            _ => Err(format!("`{}` acknowledges nothing that it has begun; see everbyte/crash.h", self.foreign.run)),
        }
    }

    /// Runs the second command on what `media` holds.
    fn check(&self, media: &Media, seen: &Seen) -> Result<(), String> {
        let settling = if media.fences_settle() { Settling::Fence } else { Settling::Barrier };
        let copy = self.dir.join(format!("image-{}.store", std::process::id()));
        self.write(&copy, media).map_err(|error| format!("{}: {error}", copy.display()))?;
        let outcome = self.run(&self.foreign.check, &copy, settling, Some(seen));
        let _ = std::fs::remove_file(&copy);
        let (tape, result) = outcome?;
        play(&tape, media, |voice| {
            if let Voice::Recovered = voice {
                seen.recovered();
            }
        });
        result
    }

    /// Writes what `media` holds as a sparse file.
    fn write(&self, path: &Path, media: &Media) -> io::Result<()> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len(media.len())?;
        let pages = self.pages.borrow();
        let mut used = pages.iter().filter(|&&at| media.holds(at, PAGE));
        used.try_for_each(|&at| file.write_all_at(&media.read_vec(at, PAGE as usize), at))?;
        everbyte_media::make_linear(&file, path).map_err(io::Error::other)
    }

    /// Runs a command under the watch of its library: its tape, and whether it exited with 0, else
    /// what it said.
    fn run(
        &self,
        command: &str,
        store: &Path,
        settling: Settling,
        seen: Option<&Seen>,
    ) -> Result<(Vec<TraceLine>, Result<(), String>), String> {
        let tape = store.with_extension("tape");
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).env("EVERBYTE_STORE", store).env("EVERBYTE_RECORD", &tape);
        shell.env("EVERBYTE_RECORD_MODE", if self.foreign.precise { "precise" } else { "scan" });
        shell.env("EVERBYTE_RECORD_SETTLING", if settling == Settling::Fence { "fence" } else { "barrier" });
        if let Some(seen) = seen {
            shell.env("EVERBYTE_CRASH_BEGUN", seen.begun_count().to_string());
            shell.env("EVERBYTE_CRASH_ACKED", seen.acked_count().to_string());
        }
        let die_too = || Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?);
        // SAFETY: one system call, which allocates nothing and takes no lock.
        unsafe { shell.pre_exec(die_too) };
        let output = shell.output().map_err(|error| format!("sh: {error}"))?;
        // none: it did not open its store
        let text = std::fs::read_to_string(&tape).unwrap_or_default();
        let _ = std::fs::remove_file(&tape);
        let lines: Vec<TraceLine> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
        self.pages.borrow_mut().extend(lines.iter().flat_map(touched));
        let result = if output.status.success() {
            Ok(())
        } else {
            let said = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).trim().to_owned();
            Err(format!("{}{}{said}", output.status, if said.is_empty() { "" } else { ": " }))
        };
        Ok((lines, result))
    }
}

/// The pages that a line of a tape stores to.
fn touched(line: &TraceLine) -> impl Iterator<Item = u64> {
    let (at, len) = match line {
        TraceLine::Store(at, bytes) => (*at, bytes.len() as u64),
        _ => (0, 0),
    };
    (at & !(PAGE - 1)..at + len).step_by(PAGE as usize)
}
