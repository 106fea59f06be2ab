//! The chore behind `cargo xtask mutants`: runs in pieces, and keeps in `target/mutants.json` what it knows.
//!
//! Each site is visited in a process of its own: a case that hangs or dies without its fence has failed, and takes nothing
//! else with it.

use everbyte_cases::mutants::{self, Name, Reach, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A visit that takes longer counts as found: some case never ends without the site.
const PATIENCE: Duration = Duration::from_secs(300);

/// What was found out so far.
#[derive(Default, Serialize, Deserialize)]
struct State {
    /// The build that `reaches` is of.
    build: String,
    reaches: BTreeMap<String, Reach>,
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

/// Visits one site: success if some case fails without it, whose name is printed.
pub fn one(call: &str, file: &str, line: &str, names: &[&str]) -> ExitCode {
    let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
    match mutants::site_of(call, file, line).map(|site| mutants::visit(&site, &names)) {
        Ok(Some(case)) => {
            println!("{case}");
            ExitCode::SUCCESS
        }
        Ok(None) => ExitCode::from(3),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs for some minutes, or until all is known.
pub fn run(words: &[&str]) -> ExitCode {
    let (mut minutes, mut bless, mut show, mut state, mut parts) = (10, false, false, State::load(), Vec::new());
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "--minutes" => minutes = words.next().and_then(|text| text.parse().ok()).unwrap_or(10),
            "--fresh" => state = State::default(),
            "--bless" => bless = true,
            "--show" => show = true,
            part => parts.push(part),
        }
    }
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    if !show && !work(&mut state, &parts, end) {
        println!("mutants: {} sites are known; run the chore again to go on", state.verdicts.len());
        return ExitCode::SUCCESS;
    }
    conclude(&state, bless)
}

/// Whether all is done.
fn work(state: &mut State, parts: &[&str], end: Instant) -> bool {
    if state.build != build() {
        (state.build, state.reaches) = (build(), BTreeMap::new());
    }
    for case in mutants::chosen(parts) {
        if !state.reaches.contains_key(case.name) {
            if Instant::now() > end {
                return false;
            }
            let reach = match mutants::reach(&case) {
                Ok(reach) => reach,
                Err(message) => {
                    println!("mutants: left out, because it fails as it is: {message}");
                    continue;
                }
            };
            println!("mutants: {} reaches {} sites in {} ms", case.name, reach.sites.len(), reach.ms);
            state.reaches.insert(case.name.into(), reach);
            state.save();
        }
    }
    let sites = state.sites();
    for (index, name) in sites.iter().enumerate() {
        let known =
            state.verdicts.get(&name.to_string()).is_some_and(|(_, verdict)| matches!(verdict, Verdict::Found(_)));
        let looked = state.verdicts.contains_key(&name.to_string());
        if known || looked {
            continue;
        }
        if Instant::now() > end {
            return false;
        }
        let Some(site) = name.site() else { continue };
        let names = mutants::reaching(name, &state.reaches);
        let start = Instant::now();
        let verdict = match visit(&site.call.to_string(), &site.file, site.line, &names) {
            Ok(verdict) => verdict,
            Err(message) => {
                eprintln!("mutants: {name}: {message}");
                return false;
            }
        };
        let (seconds, count) = (start.elapsed().as_secs_f64(), sites.len());
        let said = match &verdict {
            Verdict::Found(case) => format!("found by {case}"),
            Verdict::Survives(_) => format!("SURVIVES {} cases", names.len()),
        };
        println!(
            "mutants: {} of {count}, {seconds:.1} s: {}:{} {}: {said}",
            index + 1,
            site.file,
            site.line,
            site.call
        );
        state.verdicts.insert(name.to_string(), (name.clone(), verdict));
        state.save();
    }
    true
}

fn visit(call: &str, file: &str, line: u32, names: &[String]) -> Result<Verdict, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["mutant", call, file, &line.to_string()]).args(names);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().map_err(|error| error.to_string())?;
    let (code, said) = wait(child)?;
    match code {
        Some(0) => Ok(Verdict::Found(said.trim().lines().last().unwrap_or_default().into())),
        Some(3) => Ok(Verdict::Survives(String::new())),
        // It died, or never ended: some case is not what it was.
        _ => Ok(Verdict::Found(names.first().cloned().unwrap_or_default())),
    }
}

/// Exit status, `None` if it was killed, and what it printed.
fn wait(mut child: Child) -> Result<(Option<i32>, String), String> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            let mut said = String::new();
            if let Some(mut pipe) = child.stdout.take() {
                let _ = std::io::Read::read_to_string(&mut pipe, &mut said);
            }
            return Ok((status.code(), said));
        }
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Ok((None, String::new()));
        }
        std::thread::sleep(Duration::from_millis(20));
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
    for (name, verdict) in state.verdicts.values().filter(|(name, _)| name.site().is_some()) {
        let verdict = match (verdict, listed.get(name)) {
            (Verdict::Survives(_), Some(Verdict::Survives(reason))) => Verdict::Survives(reason.clone()),
            (verdict, _) => verdict.clone(),
        };
        if verdict == Verdict::Survives(String::new()) {
            unexplained.push(name.clone());
        }
        list.insert(name.clone(), verdict);
    }
    let survivors = list.values().filter(|verdict| matches!(verdict, Verdict::Survives(_))).count();
    println!("mutants: {} sites, {survivors} survive, {} of them unexplained", list.len(), unexplained.len());
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
    if unexplained.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
