//! The chore behind `cargo xtask mutants`: runs in pieces, and keeps in `target/mutants.json` what
//! it knows.
//!
//! Each site is visited in a process of its own: a case that hangs or dies without its fence has
//! failed, and takes nothing else with it. A failure counts if the same case passes in a control
//! run of the same size with the site in place.

use everbyte_cases::Case;
use everbyte_cases::mutants::{self, Name, Reach, Size, Verdict};
use everbyte_media::museum::sites::Call;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A visit that takes longer is stopped. It counts as found only if the case that ran passes in the
/// same time with the site in place.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often a worker looks whether a visit has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Sites visited at a time.
const WORKERS: usize = 2;

/// Results so far.
#[derive(Default, Serialize, Deserialize)]
struct State {
    /// The build that `reaches` is of.
    build: String,
    reaches: BTreeMap<String, Reach>,
    /// Whether cases pass as they are, by name and budget.
    #[serde(default)]
    controls: BTreeMap<String, bool>,
    /// Sites by how they are written in the list.
    verdicts: BTreeMap<String, (Name, Verdict)>,
}

fn state_path() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from).join("mutants.json")
}

impl State {
    fn load() -> State {
        let text = std::fs::read_to_string(state_path()).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn save(&self) {
        let text = serde_json::to_string_pretty(self).expect("plain data");
        let path = state_path();
        let partial = path.with_extension("partial");
        let saved = std::fs::write(&partial, text).and_then(|()| std::fs::rename(&partial, &path));
        saved.unwrap_or_else(|error| eprintln!("{}: {error}", path.display()));
    }

    fn sites(&self) -> BTreeSet<Name> {
        self.reaches.values().flat_map(|reach| reach.sites.iter().cloned()).collect()
    }
}

/// Something that changes with every build.
fn build() -> String {
    let about = std::env::current_exe().and_then(std::fs::metadata).map(|about| (about.len(), about.modified().ok()));
    format!("{about:?}")
}

/// Leaves out one site, in runs of that size: success if some case fails, whose name and budget are
/// the last line printed.
pub(crate) fn one(size: &str, call: &str, file: &str, line: &str, names: &[&str]) -> ExitCode {
    let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
    let mut before = |case: &str, total: u64| println!("run {case} {total}");
    let Some((_, size)) = Size::ALL.into_iter().find(|(name, _)| *name == size) else { return ExitCode::FAILURE };
    match mutants::site_of(call, file, line).map(|site| mutants::visit(&site, &names, size, &mut before)) {
        Ok(Some(_)) => ExitCode::SUCCESS,
        Ok(None) => ExitCode::from(3),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Leaves out one site in runs that follow deaths: success if some case fails, which is printed.
pub(crate) fn one_with_deaths(counts: [&str; 2], site: [&str; 3], names: &[&str]) -> ExitCode {
    let (Some(deaths), Ok(images)) = (deaths(counts[0]), counts[1].parse()) else { return ExitCode::FAILURE };
    let site = match mutants::site_of(site[0], site[1], site[2]) {
        Ok(site) => site,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let cases = names.iter().filter_map(|name| everbyte_cases::find(name));
    match mutants::visit_after_deaths(&site, cases, deaths, images) {
        Some(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        None => ExitCode::from(3),
    }
}

/// `40`, or `40+3` with further deaths.
pub(crate) fn deaths(text: &str) -> Option<(u64, u64)> {
    let (first, further) = text.split_once('+').unwrap_or((text, "0"));
    Some((first.parse().ok()?, further.parse().ok()?))
}

/// Runs a case with every site in place: success if it passes.
pub(crate) fn control(case: &str, total: &str) -> ExitCode {
    let passes = total.parse().is_ok_and(|total| mutants::control_passes(case, total));
    if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the sites that a case reaches, as JSON.
pub(crate) fn reach(case: &str) -> ExitCode {
    match mutants::reach(case) {
        Ok(reach) => {
            println!("{}", serde_json::to_string(&reach).expect("plain data"));
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs for some minutes, or until all is known.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    let (mut minutes, mut bless, mut show, mut state, mut parts) = (10, false, false, State::load(), Vec::new());
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "--minutes" => minutes = words.next().and_then(|text| text.parse().ok()).unwrap_or(10),
            "--survivors" => state.verdicts.retain(|_, (_, verdict)| matches!(verdict, Verdict::Found(_))),
            "--fresh" => state = State::default(),
            "--bless" => bless = true,
            "--show" => show = true,
            part => parts.push(part),
        }
    }
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    if !show && !work(&mut state, &parts, end) {
        println!("mutants: {} sites were visited; run the chore again to go on", state.verdicts.len());
        if !bless {
            return ExitCode::SUCCESS;
        }
    }
    conclude(&state, bless)
}

/// Whether all is done. Sites that the list does not know come first.
fn work(state: &mut State, parts: &[&str], end: Instant) -> bool {
    if state.build != build() {
        (state.build, state.reaches, state.controls) = (build(), BTreeMap::new(), BTreeMap::new());
    }
    let shared = Mutex::new(state);
    let missing: Vec<Case> =
        mutants::chosen(parts).into_iter().filter(|case| !shared.lock().reaches.contains_key(case.name)).collect();
    let all = each(&missing, end, |case| match child(&["reach", case.name]) {
        Ok((Some(0), said)) => {
            let Ok(reach) = serde_json::from_str::<Reach>(said.trim()) else { return };
            println!("mutants: {} reaches {} sites in {} ms", case.name, reach.sites.len(), reach.ms);
            let mut state = shared.lock();
            state.reaches.insert(case.name.into(), reach);
            state.save();
        }
        _ => println!("mutants: {} is left out, because it fails as it is", case.name),
    });
    if !all {
        return false;
    }
    let listed = mutants::read_list().unwrap_or_default();
    let is_listed = |name: &Name| matches!(listed.get(name), Some(Verdict::Found(_) | Verdict::Survives(_)));
    let mut sites: Vec<Name> = shared.lock().sites().into_iter().collect();
    sites.sort_by_key(is_listed);
    let open: Vec<Name> =
        sites.iter().filter(|name| !shared.lock().verdicts.contains_key(&name.to_string())).cloned().collect();
    let (known, done) = (sites.len() - open.len(), AtomicUsize::new(0));
    each(&open, end, |name| {
        let start = Instant::now();
        let mut names = mutants::reaching(name, &shared.lock().reaches);
        if let Some(Verdict::Found(case)) = listed.get(name)
            && let Some(place) = names.iter().position(|name| name == case)
        {
            names[..=place].rotate_right(1); // it found the site before
        }
        let verdict = match visit(&shared, name, &names) {
            Ok(verdict) => verdict,
            Err(message) => return eprintln!("mutants: {name}: {message}"),
        };
        let said = match &verdict {
            Verdict::Found(case) => format!("found by {case}"),
            Verdict::Survives(_) => format!("SURVIVES {} cases", names.len()),
            Verdict::NotVisited | Verdict::NotReached => "no answer: a control run fails".into(),
        };
        let number = known + done.fetch_add(1, Relaxed) + 1;
        let (seconds, count) = (start.elapsed().as_secs_f64(), sites.len());
        let line = name.site().map_or(0, |site| site.line);
        println!("mutants: {number} of {count}, {seconds:.1} s: {}:{line} {}: {said}", name.file, name.call);
        let mut state = shared.lock();
        state.verdicts.insert(name.to_string(), (name.clone(), verdict));
        state.save();
    })
}

/// Hands the items to two workers until the time is over. Returns whether all items were begun.
fn each<T: Sync>(items: &[T], end: Instant, work: impl Fn(&T) + Sync) -> bool {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while Instant::now() < end {
                    let Some(item) = items.get(next.fetch_add(1, Relaxed)) else { return };
                    work(item);
                }
            });
        }
    });
    next.load(Relaxed) >= items.len()
}

fn visit(shared: &Mutex<&mut State>, name: &Name, names: &[String]) -> Result<Verdict, String> {
    let Some(site) = name.site() else { return Ok(Verdict::NotVisited) };
    let (call, line) = (site.call.to_string(), site.line.to_string());
    // Comparisons of checksums find rot, or torn records in the first small run that reaches them.
    let sizes = if site.call == Call::Sum { &Size::ALL[..1] } else { &Size::ALL[..] };
    for (size, _) in sizes {
        let words = ["mutant", size, &call, &site.file, &line].into_iter().chain(names.iter().map(String::as_str));
        let (code, said) = child(&words.collect::<Vec<_>>())?;
        let run = said.trim().lines().last().unwrap_or_default();
        match code {
            Some(3) => continue,
            Some(1) => return Err("it is no site".into()),
            // Some case failed, or the visit died, or never ended: the last case that ran must pass
            // as it is.
            _ => {
                let ["run", case, total] = run.split(' ').collect::<Vec<_>>()[..] else {
                    return Ok(Verdict::NotVisited);
                };
                let passes = controlled(shared, case, total)?;
                return Ok(if passes { Verdict::Found(case.into()) } else { Verdict::NotVisited });
            }
        }
    }
    Ok(Verdict::Survives(String::new()))
}

/// Whether a case passes with every site in place. Asked once per build; small runs passed when
/// their sites were noted.
fn controlled(shared: &Mutex<&mut State>, case: &str, total: &str) -> Result<bool, String> {
    let key = format!("{case} {total}");
    let state = shared.lock();
    if total == mutants::SMALL.to_string() && state.reaches.contains_key(case) {
        return Ok(true);
    }
    if let Some(&known) = state.controls.get(&key) {
        return Ok(known);
    }
    drop(state);
    let passes = child(&["control", case, total])?.0 == Some(0);
    shared.lock().controls.insert(key, passes);
    Ok(passes)
}

/// Runs this program with other words.
fn child(words: &[&str]) -> Result<(Option<i32>, String), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    wait(command.spawn().map_err(|error| error.to_string())?)
}

/// Exit status, `None` if it was killed, and what it printed. The time is counted in looks, which
/// pass only while this process runs: visits that were stopped with it for a while do not hang.
fn wait(mut child: Child) -> Result<(Option<i32>, String), String> {
    let mut waited = Duration::ZERO;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            let mut said = String::new();
            if let Some(mut pipe) = child.stdout.take() {
                let _ = std::io::Read::read_to_string(&mut pipe, &mut said);
            }
            return Ok((status.code(), said));
        }
        if waited > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Ok((None, String::new()));
        }
        std::thread::sleep(LOOK);
        waited += LOOK;
    }
}

/// Compares with the committed list, or writes it.
fn conclude(state: &State, bless: bool) -> ExitCode {
    let listed = match mutants::read_list() {
        Ok(listed) => listed,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let mut list = BTreeMap::new();
    let mut unexplained = Vec::new();
    let written = match mutants::written() {
        Ok(written) => written,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    // Weakest first: what the text has, what cases reach, what the list knows, what this run has
    // found out.
    let mut known: BTreeMap<Name, Verdict> = written.into_iter().map(|name| (name, Verdict::NotReached)).collect();
    known.extend(state.sites().into_iter().map(|name| (name, Verdict::NotVisited)));
    let visited = |verdict: &Verdict| matches!(verdict, Verdict::Found(_) | Verdict::Survives(_));
    known.extend(
        listed.iter().filter(|(_, verdict)| visited(verdict)).map(|(name, verdict)| (name.clone(), verdict.clone())),
    );
    known.extend(state.verdicts.values().filter(|(_, verdict)| visited(verdict)).cloned());
    for (name, verdict) in known.iter().filter(|(name, _)| name.site().is_some()) {
        let verdict = match (verdict, listed.get(name)) {
            (Verdict::Survives(_), Some(Verdict::Survives(reason))) => Verdict::Survives(reason.clone()),
            (verdict, _) => verdict.clone(),
        };
        if matches!(&verdict, Verdict::Survives(reason) if !mutants::is_reason(reason)) {
            unexplained.push(name.clone());
        }
        list.insert(name.clone(), verdict);
    }
    let survivors = list.values().filter(|verdict| matches!(verdict, Verdict::Survives(_))).count();
    let count = |wanted: &Verdict| list.values().filter(|verdict| *verdict == wanted).count();
    let (unvisited, unreached) = (count(&Verdict::NotVisited), count(&Verdict::NotReached));
    println!("mutants: {} sites, {unvisited} not yet visited, {unreached} that no case reaches", list.len());
    let untested = list.values().filter(|verdict| mutants::is_untested(verdict)).count();
    println!("mutants: {survivors} survive, {untested} for want of a case, {} unexplained", unexplained.len());
    for name in &unexplained {
        let place = name.site().map_or(String::new(), |site| format!("{}:{}", site.file, site.line));
        println!("unexplained: {place} {} {}", name.call, name.text);
    }
    if bless {
        let written = mutants::write_list(&list);
        return written.map_or_else(
            |message| {
                eprintln!("{message}");
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        );
    }
    if unexplained.is_empty() && unvisited == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
