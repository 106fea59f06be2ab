//! `bridge`: a C++ program that uses Rust's types through the bridge, against Rust that uses them
//! directly, and against the same algorithms in C on libpmemobj.
//!
//! The program (crates/bench/cpp/bridge.cpp) is compiled as its users compile it: headers made from
//! the library, which lies beside this program and is linked statically, as CMake does it. A second
//! one is linked with the shared library (`_shared`). Each is asked through a pipe, keeps the time
//! itself, and lies on a store of its own; all run on one CPU, in turn.

use super::Result;
use super::bridge_first;
use super::workloads::{SHARDS, Text};
use crate::harness::{Bench, Runner, Unit};
use crate::host;
use crate::ours::NAME;
use crate::report::Bar;
use everbyte_bench_bridge::words::{GROUPS, THREADS};
use everbyte_bench_bridge::{BUCKETS, Bst, Btree8, Counter, KvStore, WordCounts};
use everbyte_bench_rivals::{CppRow, Pmemobj, PmemobjCpp, Row, Structure, WorkKind};
use everbyte_bridge::headers;
use everbyte_media::{Counts, Options};
use everbyte_object::{Journal, MemPool, PRefCell, PSafe, PVec, Pbox, Pool, Root, pool};
use everbyte_store::{CreateOptions, Store};
use everbyte_workload::{mix, step};
use std::cell::RefCell;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub(super) const RUST: &str = "rust";
pub(super) const RIVAL: &str = "libpmemobj";
pub(super) const CPP: &str = "libpmemobj-cpp";
pub(super) const NS: Unit = Unit::Nanoseconds;
/// The library, among the parts of this program.
const LIBRARY: &str = "libeverbyte_bench_bridge.so";
/// The same, to be linked statically; `cargo xtask bench bridge` makes it.
const ARCHIVE: &str = "libeverbyte_bench_bridge.a";
/// The rival of a metric without borrow flags: the same program with them.
const CHECKED: &str = "with flags";
/// Operations of a round of single operations.
pub(super) const MOST: u64 = 50_000;
/// Bytes of a rival's pool of single operations.
pub(super) const POOL: usize = 32 << 20;
/// Words of a chunk.
const WORDS: usize = 256;

pool!(
    /// Of the Rust side.
    pub Direct
);
pool!(
    /// Of the Rust side's word count.
    pub DirectWords
);

/// The roots of the C++ program, and what its classes have, in one.
#[derive(PSafe)]
#[repr(C)]
struct Top<P: MemPool> {
    counter: Counter<P>,
    bst: Bst<P>,
    kvstore: KvStore<P>,
    btree8: Btree8<P>,
    cell: PRefCell<u64, P>,
    boxes: PVec<Pbox<u64, P>, P>,
}

impl<P: MemPool> Top<P> {
    fn new(j: &Journal<P>) -> Self {
        Top {
            counter: Counter::new(j),
            bst: Bst::new(j),
            kvstore: KvStore::new(j),
            btree8: Btree8::new(j),
            cell: PRefCell::new(0),
            boxes: PVec::from_iter((0..100).map(|value| Pbox::new(value, j)), j),
        }
    }
}

type Opened = Root<Top<Direct>, Direct>;

/// The C++ program.
pub(super) struct Program {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// Starts it with a store of its own and the words of a file.
    pub(super) fn start(program: &Path, store: &Path, words: &Path) -> Result<Program> {
        let mut command = Command::new(program);
        command.arg(store).arg(words).env("EVERBYTE_BACKEND", "shm");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (questions, answers) = (child.stdin.take(), child.stdout.take().ok_or("no pipe")?);
        Ok(Program { child, questions, answers: BufReader::new(answers) })
    }

    /// How long so many operations took, and the sum of what they found.
    pub(super) fn ask(&mut self, what: &str, count: u64) -> (Duration, u64) {
        let mut answer = String::new();
        let questions = self.questions.as_mut().expect("it is closed at the end alone");
        writeln!(questions, "{what} {count}").expect("the program listens");
        self.answers.read_line(&mut answer).expect("the program answers");
        let mut numbers = answer.split_whitespace().map(|number| number.parse().expect("two numbers"));
        let took = Duration::from_nanos(numbers.next().expect("nanoseconds"));
        (took, numbers.next().expect("a sum"))
    }

    pub(super) fn counts(&mut self) -> Counts {
        Counts { lines: self.ask("lines", 0).1, fences: self.ask("fences", 0).1, ..Counts::default() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.questions.take()); // it ends when its input does
        let _ = self.child.wait();
    }
}

/// The compiler, with the headers of the library in a folder.
struct Compiler {
    folder: PathBuf,
    library: PathBuf,
    optimise: &'static str,
}

impl Compiler {
    /// Makes the headers.
    fn new(folder: &Path, is_smoke: bool) -> Result<Compiler> {
        let built = std::env::current_exe()?;
        let library = built.parent().ok_or("a program lies in a folder")?.join("deps");
        if !library.join(LIBRARY).exists() {
            return Err("the library is not built; `cargo xtask bench bridge` does that".into());
        }
        if Command::new("g++").arg("--version").output().is_err() {
            return Err("no compiler `g++`; ci/setup test installs it".into());
        }
        let description = everbyte_bridge::describe_library(&library.join(LIBRARY))?;
        let written = headers::write(&headers::generate(&description)?, folder);
        written.map_err(|(path, error)| format!("{}: {error}", path.display()))?;
        Ok(Compiler { folder: folder.into(), library, optimise: if is_smoke { "-O0" } else { "-O2" } })
    }

    fn command(&self, source: &Path, made: &Path) -> Command {
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
        let mut command = Command::new("g++");
        command.args(["-std=c++20", self.optimise, "-Wall", "-Wextra"]);
        command.arg("-I").arg(include).arg("-I").arg(&self.folder).arg(source).arg("-o").arg(made);
        command
    }

    /// The program, linked with the static library or the shared one.
    fn program(&self, is_static: bool) -> Result<PathBuf> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("cpp/bridge.cpp");
        let made = self.folder.join(if is_static { "bridge" } else { "bridge_shared" });
        let mut command = self.command(&source, &made);
        match is_static {
            true => command.arg(self.library.join(ARCHIVE)).args(["-ldl", "-lm", "-lgcc_s"]),
            false => command.arg(self.library.join(LIBRARY)).arg(format!("-Wl,-rpath,{}", self.library.display())),
        };
        said(command.arg("-pthread"))?;
        Ok(made)
    }

    /// Whether there is a static library that was made with the shared one.
    fn has_archive(&self) -> bool {
        let time = |name| std::fs::metadata(self.library.join(name)).and_then(|about| about.modified()).ok();
        let (Some(archive), Some(shared)) = (time(ARCHIVE), time(LIBRARY)) else { return false };
        archive + Duration::from_secs(60) >= shared
    }

    /// How long the compiler takes for a file of this text, in milliseconds.
    fn milliseconds(&self, name: &str, text: &str, times: usize) -> Result<Vec<f64>> {
        let source = self.folder.join(name);
        std::fs::write(&source, text)?;
        let once = |_| {
            let start = Instant::now();
            said(self.command(&source, &self.folder.join("made.o")).arg("-c"))?;
            Ok(start.elapsed().as_secs_f64() * 1e3)
        };
        (0..times).map(once).collect()
    }
}

fn said(command: &mut Command) -> Result {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// A file that uses one type, and one that uses the containers that most files include.
const ONE_TYPE: &str = "#include \"counter.hpp\"\n#include \"bridged.hpp\"\n\
    std::uint64_t value(const measured::bridged& pool) {\n\
      auto counter = pool.root<measured::bridged::counter>(\"counter\");\n\
      measured::bridged::txn([&](auto& t) { counter.add(t, 1); });\n\
      return counter.value();\n}\n";
const MAP_AND_STRING: &str = "#include <map>\n#include <string>\n\
    int value(const std::map<std::string, int>& map) { return map.empty() ? 0 : map.begin()->second; }\n";

pub(super) fn run(bench: &mut Bench<'_>) -> Result {
    let (made, memory) = (tempfile::tempdir_in(&bench.plan.disk)?, tempfile::tempdir_in(&bench.plan.memory)?);
    let compiler = match Compiler::new(made.path(), bench.plan.smoke) {
        Ok(compiler) => compiler,
        Err(error) => {
            bench.skipped("all", &error.to_string());
            return Ok(());
        }
    };
    let text = Text::new(bench.plan.pick(1 << 20, 1 << 18, 1 << 9), bench.plan.pick(20_000, 20_000, 50));
    let words = made.path().join("words");
    std::fs::write(&words, bytes_of(&text))?;
    let linked = compiler.program(false)?;
    let program = match compiler.has_archive() {
        true => compiler.program(true)?,
        false => {
            bench.skipped("static", "the static library is not built; `cargo xtask bench bridge` does that");
            linked.clone()
        }
    };
    let create = CreateOptions { media: Options::default(), max: 16 << 30, ..CreateOptions::default() };
    let store = Store::create(&memory.path().join("rust"), &create)?;
    let rival = Pmemobj::create(&memory.path().join("pmemobj"), bench.plan.pick(1 << 30, 512 << 20, 32 << 20))?;
    if rival.is_none() {
        bench.skipped(RIVAL, "it was not installed when this was built; `cargo xtask rivals` does that");
    }
    let cpp = PmemobjCpp::create(&memory.path().join("pmemobj-cpp"), POOL)?;
    if cpp.is_none() {
        bench.skipped(CPP, "its headers were not there when this was built; docs/manual/bench.md");
    }
    bench.on(store.media());
    #[expect(clippy::redundant_closure, reason = "`new` of one lifetime is not general enough")]
    let top = Direct::create::<Top<Direct>>(&store, "direct", |j| Top::new(j))?;

    host::pin(0); // the program's thread runs where this one does
    let started = Program::start(&program, &memory.path().join("cpp"), &words)?;
    let shared = match program == linked {
        true => None,
        false => Some(RefCell::new(Program::start(&linked, &memory.path().join("cpp_shared"), &words)?)),
    };
    let sides = Sides { program: RefCell::new(started), shared, top, rival, cpp };
    sides.singles(bench);
    bridge_first::run(bench, memory.path(), &words, &program, "mut_first")?;
    if sides.shared.is_some() {
        bridge_first::run(bench, memory.path(), &words, &linked, "mut_first_shared")?;
    }
    sides.maps(bench);
    drop(sides);
    host::unpin();
    let program = Program::start(&program, &memory.path().join("cpp"), &words)?;
    #[expect(clippy::redundant_closure, reason = "as above")]
    let counts = DirectWords::create::<WordCounts<DirectWords>>(&store, "words", |j| WordCounts::new(j))?;
    count_words(bench, &counts, &RefCell::new(program), &text);
    let times = bench.plan.pick(7, 5, 1);
    if bench.wants("compile") {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..times {
            ours.extend(compiler.milliseconds("one_type.cpp", ONE_TYPE, 1)?);
            theirs.extend(compiler.milliseconds("map_and_string.cpp", MAP_AND_STRING, 1)?);
        }
        bench.bars = vec![Bar::new(HEADERS, 1.0 / 1.5)];
        bench.report("compile", Unit::Milliseconds, vec![(NAME.into(), ours), (HEADERS.into(), theirs)], None);
    }
    Ok(())
}

const HEADERS: &str = "<map> and <string>";

/// The words with their hashes, as the program reads them.
fn bytes_of(text: &Text) -> Vec<u8> {
    let pairs = text.words.iter().zip(&text.hashes);
    pairs.flat_map(|(word, hash)| word.iter().copied().chain(hash.to_le_bytes())).collect()
}

/// The sides.
struct Sides {
    program: RefCell<Program>,
    /// The one with the shared library, if the other has the static one.
    shared: Option<RefCell<Program>>,
    top: Opened,
    rival: Option<Pmemobj>,
    cpp: Option<PmemobjCpp>,
}

/// The program's side of an operation.
fn ours<'p>(program: &'p RefCell<Program>, what: &'static str) -> Runner<'p> {
    let run = move |count| program.borrow_mut().ask(what, count).0;
    Runner::timed(NAME, run).counted_by(move || program.borrow_mut().counts())
}

pub(super) fn timed(body: impl FnOnce()) -> Duration {
    let start = Instant::now();
    body();
    start.elapsed()
}

pub(super) fn done<T>(outcome: everbyte_object::Result<T>) -> T {
    outcome.expect("a transaction that must succeed")
}

/// An operation on libpmemobj.
type On<'a> = &'a dyn Fn(&Pmemobj, u64) -> Duration;

impl Sides {
    /// One operation: through the bridge, in Rust, and on libpmemobj if that has it.
    fn single(
        &self,
        bench: &mut Bench<'_>,
        what: &'static str,
        bars: Vec<Bar>,
        mut rust: impl FnMut(u64) -> Duration,
        rival: Option<On<'_>>,
    ) {
        bench.bars = bars;
        let mut runners = vec![ours(&self.program, what), Runner::timed(RUST, &mut rust)];
        if let (Some(on), Some(run)) = (&self.rival, rival) {
            runners.push(Runner::timed(RIVAL, move |count| run(on, count)));
        }
        let row = [("txn_empty", CppRow::Empty), ("deref", CppRow::Deref)].into_iter().find(|row| row.0 == what);
        if let (Some(on), Some((_, row))) = (&self.cpp, row) {
            runners.push(Runner::timed(CPP, move |count| on.row(row, count)));
        }
        bench.metric(what, NS, MOST, runners);
        if let Some(shared) = &self.shared {
            let runners = vec![ours(shared, what), Runner::timed(RUST, rust)];
            bench.metric(&format!("{what}_shared"), NS, MOST, runners);
        }
    }

    fn singles(&self, bench: &mut Bench<'_>) {
        let top = &self.top;
        let call = |count| timed(|| (0..count).for_each(|_| _ = black_box(black_box(&top.counter).value())));
        self.single(bench, "call", vec![Bar::above(RUST, 3.0)], call, None);

        let change = |count| {
            let took =
                top.tx(|j, top| timed(|| (0..count).for_each(|_| _ = black_box(black_box(&top.counter).add(1, j)))));
            done(took)
        };
        self.single(bench, "call_change", vec![], change, None);

        let empty = |count| timed(|| (0..count).for_each(|_| done(top.tx(|_, _| ()))));
        let theirs = |rival: &Pmemobj, count| timed(|| rival.empty(count));
        self.single(bench, "txn_empty", vec![Bar::above(RUST, 20.0)], empty, Some(&theirs));

        let deref = |count: u64| {
            let boxes: &[Pbox<u64, Direct>] = &top.boxes;
            let sum = |boxes: &[Pbox<u64, Direct>]| boxes.iter().fold(0u64, |sum, one| sum.wrapping_add(**one));
            timed(|| (0..count.div_ceil(100)).for_each(|_| _ = black_box(sum(black_box(boxes)))))
        };
        let theirs = |rival: &Pmemobj, count| rival.row(Row::Deref, 8, count);
        self.single(bench, "deref", vec![Bar::most(1.0), Bar::above(RIVAL, 0.0)], deref, Some(&theirs));

        let later = |count| {
            let took = top.tx(|j, top| {
                let mut guard = top.cell.borrow_mut(j);
                *guard = 1;
                timed(|| (0..count).for_each(|value| **black_box(&mut guard) = value))
            });
            done(took)
        };
        let theirs = |rival: &Pmemobj, count| rival.row(Row::DerefMut, 8, count);
        self.single(bench, "mut_later", vec![Bar::most(2.0)], later, Some(&theirs));

        let again = |count| {
            let took =
                top.tx(|j, top| timed(|| (0..count).for_each(|value| *black_box(&top.cell).borrow_mut(j) = value)));
            done(took)
        };
        self.single(bench, "mut_again", vec![], again, None);
    }

    /// The structures, which find the same on all sides.
    fn maps(&self, bench: &mut Bench<'_>) {
        let top = &self.top;
        let maps = [
            ("bst", Structure::Bst, vec![Bar::new(RUST, 1.0 / 1.1), Bar::new(RIVAL, 1.1)]),
            ("kvstore", Structure::KvStore, vec![Bar::new(RUST, 1.0 / 1.1), Bar::new(RIVAL, 1.1)]),
            ("btree8", Structure::Btree8, vec![Bar::new(RUST, 1.0 / 1.15), Bar::new(RIVAL, 0.97)]),
            ("btree8_bytes", Structure::Btree8, vec![]),
            ("btree8_unchecked", Structure::Btree8, vec![]),
        ];
        if !maps.iter().any(|(name, ..)| bench.wants(name)) {
            return;
        }
        let keys = bench.plan.pick(200_000, 50_000, 200);
        let programs = || std::iter::once(&self.program).chain(&self.shared);
        programs().for_each(|program| _ = program.borrow_mut().ask("keys", keys));
        if let Some(rival) = &self.rival {
            rival.tables(BUCKETS as u64, SHARDS as u64, 1);
        }
        let mut found = 0;
        for (name, structure, bars) in maps {
            let checked = keys / 4;
            let _ = self.program.borrow_mut().ask("random", 5);
            if name == "btree8_unchecked" {
                let unchecked = self.program.borrow_mut().ask(name, checked).1;
                assert_eq!(unchecked, found, "{name}: the same without flags");
                let _ = self.program.borrow_mut().ask(name, keys * 8); // the other tree has aged, too
            } else if name != "btree8_bytes" {
                load(top, structure, keys);
                let _ = self.rival.as_ref().map(|rival| rival.run(structure, WorkKind::Load, &mut 5, keys, 0));
                let mine = self.program.borrow_mut().ask(name, checked).1;
                found = mine;
                assert_eq!(mine, run_in_rust(top, structure, &mut 5, keys, checked), "{name}: Rust finds the same");
                if let Some(rival) = &self.rival {
                    let theirs = rival.run(structure, WorkKind::Mix, &mut 5, keys, checked);
                    assert_eq!(mine, theirs, "{name}: libpmemobj finds the same");
                }
            }
            programs().for_each(|program| _ = program.borrow_mut().ask("random", 7));
            let (mut random, mut other) = (7, 7);
            let rust = |count| timed(|| _ = run_in_rust(top, structure, &mut random, keys, count));
            let mut runners = vec![ours(&self.program, name), Runner::timed(RUST, rust)];
            if let Some(rival) = &self.rival {
                let run = |count| _ = rival.run(structure, WorkKind::Mix, &mut other, keys, count);
                runners.push(Runner::new(RIVAL, run));
            }
            if name == "btree8_unchecked" {
                runners = vec![ours(&self.program, name), ours(&self.program, "btree8").named(CHECKED)];
            }
            bench.bars = bars;
            bench.metric(name, NS, 0, runners);
        }
        if let Some(shared) = &self.shared {
            let mut random = 7;
            let rust = |count| timed(|| _ = run_in_rust(top, Structure::Btree8, &mut random, keys, count));
            bench.metric("btree8_shared", NS, 0, vec![ours(shared, "btree8"), Runner::timed(RUST, rust)]);
        }
    }
}

fn load(top: &Opened, structure: Structure, keys: u64) {
    for number in (0..keys).step_by(2) {
        done(top.tx(|j, top| put(top, structure, mix(number), number, j)));
    }
}

fn put<P: MemPool>(top: &Top<P>, structure: Structure, key: u64, value: u64, j: &Journal<P>) -> u64 {
    match structure {
        Structure::Bst => top.bst.put(key, value, j),
        Structure::KvStore => top.kvstore.put(key, value, j),
        Structure::Btree8 => top.btree8.put(key, value, j),
    }
}

/// A third each of puts, removals and gets.
fn run_in_rust(top: &Opened, structure: Structure, random: &mut u64, keys: u64, count: u64) -> u64 {
    macro_rules! mixed {
        ($map:ident) => {
            (0..count).fold(0, |sum: u64, _| {
                let word = step(random);
                let key = mix(((word >> 32) * keys) >> 32);
                sum.wrapping_add(match word % 3 {
                    0 => done(top.tx(|j, top| top.$map.put(key, word, j))),
                    1 => done(top.tx(|j, top| top.$map.remove(key, j))),
                    _ => top.$map.get(key),
                })
            })
        };
    }
    match structure {
        Structure::Bst => mixed!(bst),
        Structure::KvStore => mixed!(kvstore),
        Structure::Btree8 => mixed!(btree8),
    }
}

/// Words in chunks: C++ counts a chunk behind plain pointers, Rust in the pool.
fn count_words(
    bench: &mut Bench<'_>,
    counts: &Root<WordCounts<DirectWords>, DirectWords>,
    program: &RefCell<Program>,
    text: &Text,
) {
    let in_rust = |threads: usize, total: u64| {
        let next = AtomicUsize::new(0);
        let work = |thread: usize| {
            loop {
                let first = next.fetch_add(WORDS, Ordering::Relaxed);
                if first >= total as usize {
                    return;
                }
                let (from, len) = (first % (text.words.len() - WORDS), WORDS.min(total as usize - first));
                let words = text.words[from..from + len].iter().zip(text.hashes[from..from + len].iter().copied());
                done(counts.tx(|j, counts| counts.count_chunk(thread, words, j)));
                for group in (0..GROUPS).map(|group| (group + thread * GROUPS / 2) % GROUPS) {
                    done(counts.tx(|j, counts| counts.add_group(thread, group, j)));
                }
            }
        };
        if threads == 1 {
            return work(0);
        }
        std::thread::scope(|scope| (0..threads).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    };
    let half = text.words.len() as u64 / 2;
    let _ = program.borrow_mut().ask("words_1", half);
    in_rust(1, half);
    let mine = program.borrow_mut().ask("words_sum", 0).1;
    assert_eq!(mine, done(counts.tx(|j, counts| counts.sum(j))), "both sides count the same");
    for (threads, name, what) in [(1, "wordcount", "words_1"), (2, "wordcount_2", "words_2")] {
        assert!(threads <= THREADS);
        let rust = Runner::timed(RUST, |total| {
            host::unpin();
            timed(|| in_rust(threads, total))
        });
        bench.bars = vec![Bar::new(RUST, 1.6)];
        bench.metric(name, Unit::PerSecond, 0, vec![ours(program, what), rust]);
    }
    let runners = vec![ours(program, "words_unchecked"), ours(program, "words_1").named(CHECKED)];
    bench.metric("wordcount_unchecked", Unit::PerSecond, 0, runners);
}
