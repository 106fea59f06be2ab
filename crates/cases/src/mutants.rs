//! Mutants: each call of flush, fence and barrier, and each comparison of a checksum, is left out
//! in turn, and a case must fail.
//!
//! Steps
//!   1. each case runs once, small, while the media record the sites it reaches, in recovery too;
//!      it must pass
//!   2. for each site: some cases that reach it run without it, those of its own crate and the
//!      quick ones first, until one fails; then the first few once more with a larger budget if
//!      none did
//!   3. the case that failed must pass with the site in place and the same budget, or the visit
//!      does not count
//!
//! A site is written by the text of its line, not by its number: the list in `mutants.txt` outlives
//! edits elsewhere in a file.

use crate::{Case, Report, Settings, cases, find};
use everbyte_media::museum::sites::{self, Call, Site};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bound of a small run of a case.
pub const SMALL: u64 = 400;

/// Bound of a larger run, of so many cases: used if none of the small ones failed.
const LARGE: u64 = 1500;
const AGAIN: usize = 3;

/// Cases that run as `make test` runs them, where no larger run failed.
const USUAL: usize = 2;

/// Images from which a second run starts, in small runs and in larger ones.
const STARTS: [u64; 2] = [4, 24];

/// Cases that are tried without a site: a line that a hundred cases reach is missed by the first
/// ones, or by none.
const CASES_MAX: usize = 16;

/// How much of the cases runs without a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Small runs of some cases.
    Small,
    /// Larger ones of the first few.
    Large,
    /// The first few as `make test` runs them.
    Usual,
}

impl Size {
    /// In the order in which they are tried, with their names.
    pub const ALL: [(&'static str, Size); 3] = [("small", Size::Small), ("large", Size::Large), ("usual", Size::Usual)];
}

/// A site as the committed list names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name {
    /// The file, from the root of the workspace.
    pub file: String,
    /// The function called.
    pub call: String,
    /// The line, without the space around it.
    pub text: String,
    /// The first, second, ... line of that text in the file.
    pub nth: u32,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} :: {} :: {} :: {}", self.file, self.call, self.nth, self.text)
    }
}

/// The record of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The case of that name fails without it.
    Found(String),
    /// No case fails without it; the reason why that is well, or nothing.
    Survives(String),
    /// A case reaches it, and no run has left it out so far, or none that ended.
    NotVisited,
    /// No case reaches it.
    NotReached,
}

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Name {
    /// The name of a site, by the source as it is now.
    ///
    /// # Errors
    /// The source cannot be read.
    pub fn of(site: &Site) -> Result<Name, String> {
        let path = root().join(&site.file);
        let source = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        let text = *lines.get(site.line as usize - 1).ok_or("the file is shorter than that")?;
        let nth = lines[..site.line as usize].iter().filter(|line| **line == text).count() as u32;
        Ok(Name { file: site.file.clone(), call: site.call.to_string(), text: text.into(), nth })
    }

    /// The present line; `None` if its text is gone.
    pub fn site(&self) -> Option<Site> {
        let source = std::fs::read_to_string(root().join(&self.file)).ok()?;
        let same = source.lines().enumerate().filter(|(_, line)| line.trim() == self.text);
        let line = same.map(|(index, _)| index as u32 + 1).nth(self.nth as usize - 1)?;
        Some(Site { file: self.file.clone(), line, call: self.call.parse().ok()? })
    }

    /// A line of the list.
    fn parse(line: &str) -> Option<(Name, Verdict)> {
        let (head, verdict) = line.rsplit_once(" => ")?;
        let mut parts = head.splitn(4, " :: ");
        let mut next = || parts.next().map(str::to_owned);
        let (file, call, nth, text) = (next()?, next()?, next()?.parse().ok()?, next()?);
        let verdict = match verdict.split_once(": ") {
            Some(("survives", reason)) => Verdict::Survives(reason.trim().into()),
            Some(("found", case)) => Verdict::Found(case.into()),
            None if verdict == NOT_VISITED => Verdict::NotVisited,
            None if verdict == NOT_REACHED => Verdict::NotReached,
            _ => return None,
        };
        Some((Name { file, call, text, nth }, verdict))
    }
}

const NOT_VISITED: &str = "not yet visited";
const NOT_REACHED: &str = "no case reaches it";

/// Whether a survivor's reason says what a case would have to do.
pub fn is_untested(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Survives(reason) if reason.starts_with("untested"))
}

/// Whether a survivor's reason is one. Nothing and `OPEN` are none.
pub fn is_reason(reason: &str) -> bool {
    !reason.is_empty() && !reason.starts_with("OPEN")
}

/// The committed list.
pub fn list_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants.txt")
}

const HEADING: &str = "\
# Call sites of flush, fence, barrier and settle on media, and comparisons of checksums: FILE :: CALL :: NTH :: LINE => VERDICT
# `found: CASE`: that case fails when the call is left out. `survives: REASON`: no case does, and the reason why that is right; if the reason begins
# with `untested`, what a case would have to do.
# `not yet visited`: a case reaches the call, and it has not been left out so far. `no case reaches it`: the text has such a call.
# Written by `cargo xtask mutants --bless`; the reasons are kept. A test leaves out a few of these each day.
";

/// Reads the committed list; no file is an empty list.
///
/// # Errors
/// The first line that is none.
pub fn read_list() -> Result<BTreeMap<Name, Verdict>, String> {
    let text = std::fs::read_to_string(list_path()).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| Name::parse(line).ok_or_else(|| format!("mutants.txt: not a site: {line}"))).collect()
}

/// Writes the list.
///
/// # Errors
/// The file cannot be written.
pub fn write_list(list: &BTreeMap<Name, Verdict>) -> Result<(), String> {
    let line = |(name, verdict): (&Name, &Verdict)| match verdict {
        Verdict::Found(case) => format!("{name} => found: {case}\n"),
        Verdict::Survives(reason) => format!("{name} => survives: {reason}\n"),
        Verdict::NotVisited => format!("{name} => {NOT_VISITED}\n"),
        Verdict::NotReached => format!("{name} => {NOT_REACHED}\n"),
    };
    let text: String = std::iter::once(HEADING.to_owned()).chain(list.iter().map(line)).collect();
    std::fs::write(list_path(), text).map_err(|error| error.to_string())
}

/// The sites that one case reaches, and the time of its small run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reach {
    /// Milliseconds.
    pub ms: u64,
    /// Its sites.
    pub sites: Vec<Name>,
}

fn small(total: u64) -> Settings {
    Settings { total: Some(total), images: Some((total / 10).clamp(24, 200) as usize), ..Settings::default() }
}

/// Runs a case, small, and records the sites it reaches.
///
/// # Errors
/// There is no such case, or it fails: then nothing can be said about what it needs.
pub fn reach(name: &str) -> Result<Reach, String> {
    let case = find(name).ok_or_else(|| format!("no case is called {name}"))?;
    let start = Instant::now();
    sites::watch();
    let report = case.sketch(STARTS[0], &small(SMALL));
    if !report.passed() {
        return Err(report.to_string());
    }
    let ms = start.elapsed().as_millis() as u64;
    let sites = sites::reached().into_iter().filter(|site| is_ours(&site.file)).filter_map(|site| Name::of(&site).ok());
    Ok(Reach { ms, sites: sites.collect() })
}

/// Crates that are no part of a store: benches, tests, and the cases themselves.
const INSTRUMENTS: [&str; 4] = ["bench", "cases", "sim", "suite"];

/// Whether a file is part of what cases are to hold.
fn is_ours(file: &str) -> bool {
    let mut parts = file.split('/');
    parts.next() == Some("crates") && parts.next().is_some_and(|name| !INSTRUMENTS.contains(&name))
}

/// Whether the case fails in a run of about so many images, 0 for those of `make test`; a panic is
/// a failure.
fn fails(case: &Case, total: u64) -> bool {
    let run = || match total {
        0 => case.glance(&Settings::default()),
        total => case.sketch(STARTS[usize::from(total > SMALL)], &small(total.min(case.total))),
    };
    catch_unwind(AssertUnwindSafe(|| !run().passed())).unwrap_or(true)
}

/// Whether the case passes with every site in place, in a run of the same size: without that, its
/// failure says nothing.
pub fn control_passes(name: &str, total: u64) -> bool {
    find(name).is_some_and(|case| !fails(&case, total))
}

/// The case of the names given that fails without the site in runs of that size, and the budget;
/// `before` is told each run before it begins.
pub fn visit(
    site: &Site,
    names: &[String],
    size: Size,
    before: &mut dyn FnMut(&str, u64),
) -> Option<(&'static str, u64)> {
    let (total, count) = match size {
        Size::Small => (SMALL, CASES_MAX),
        Size::Large => (LARGE, AGAIN),
        Size::Usual => (0, USUAL),
    };
    let cases = names.iter().filter_map(|name| find(name)).take(count);
    cases
        .map(|case| (case, total))
        .find(|(case, total)| {
            before(case.name, *total);
            sites::leave_out(Some(site.clone()));
            let failed = fails(case, *total);
            sites::leave_out(None);
            failed
        })
        .map(|(case, total)| (case.name, total))
}

/// The report of the first case that fails without the site after deaths, as of
/// [`Case::explore_deaths`].
pub fn visit_after_deaths(
    site: &Site,
    cases: impl IntoIterator<Item = Case>,
    deaths: (u64, u64),
    images: u64,
) -> Option<Report> {
    cases.into_iter().find_map(|case| {
        sites::leave_out(Some(site.clone()));
        let report = case.explore_deaths(deaths, images);
        sites::leave_out(None);
        Some(report).filter(|report| !report.passed())
    })
}

/// The cases that reach a site: of its own crate first, then the quick ones.
pub fn reaching(name: &Name, reaches: &BTreeMap<String, Reach>) -> Vec<String> {
    let crate_name = name.file.split('/').nth(1).unwrap_or_default();
    let of_crate = |case: &str| case.strip_prefix(crate_name).is_some_and(|rest| rest.starts_with('-'));
    let mut found: Vec<(bool, u64, &String)> = reaches
        .iter()
        .filter(|(_, reach)| reach.sites.contains(name))
        .map(|(case, reach)| (!of_crate(case), reach.ms, case))
        .collect();
    found.sort();
    found.into_iter().map(|(.., case)| case.clone()).collect()
}

/// Every case whose name has one of the parts in it.
pub fn chosen(parts: &[&str]) -> Vec<Case> {
    let wanted = |case: &Case| parts.is_empty() || parts.iter().any(|part| case.name.contains(part));
    cases().into_iter().filter(wanted).collect()
}

/// The calls that the text of the workspace has, by the names of methods of media. A few that a
/// wrapper makes are not among them.
///
/// # Errors
/// The source cannot be read.
pub fn written() -> Result<BTreeSet<Name>, String> {
    let mut names = BTreeSet::new();
    let mut open = vec![root().join("crates")];
    while let Some(folder) = open.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| error.to_string())?.path();
            let file = path.strip_prefix(root()).map_err(|error| error.to_string())?.to_string_lossy().into_owned();
            if path.is_dir() {
                open.push(path);
            } else if is_ours(&file) && file.contains("/src/") && file.ends_with(".rs") {
                let source = std::fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
                names.extend(calls_of(&file, &source));
            }
        }
    }
    Ok(names)
}

/// The calls in one file, up to its tests. The site of a call in a function with `#[track_caller]`
/// is that function's caller.
fn calls_of(file: &str, source: &str) -> Vec<Name> {
    let (mut seen, mut found) = (BTreeMap::<&str, u32>::new(), Vec::new());
    let (mut is_tracked, mut tracks_next) = (false, false);
    for text in source.lines().map(str::trim).take_while(|line| *line != "mod tests {") {
        let nth = *seen.entry(text).and_modify(|nth| *nth += 1).or_insert(1);
        tracks_next |= text == "#[track_caller]";
        if !text.starts_with("//") && (text.starts_with("fn ") || text.contains(" fn ")) {
            (is_tracked, tracks_next) = (tracks_next, false);
            continue;
        }
        if is_tracked || text.starts_with("//") {
            continue;
        }
        let call = CALLS.iter().filter(|(pattern, _)| text.contains(pattern)).map(|&(_, call)| call).next();
        found.extend(call.map(|call| Name { file: file.into(), call: call.to_string(), text: text.into(), nth }));
    }
    found
}

/// How a call on media is written.
const CALLS: [(&str, Call); 29] = [
    ("media.flush(", Call::Flush),
    ("media().flush(", Call::Flush),
    ("media.flush_unless(", Call::Flush),
    ("media().flush_unless(", Call::Flush),
    ("media.flush_words(", Call::Flush),
    ("media().flush_words(", Call::Flush),
    ("media.reflush(", Call::Flush),
    ("media().reflush(", Call::Flush),
    ("media.fence()", Call::Fence),
    ("media().fence()", Call::Fence),
    ("media.fence_unless(", Call::Fence),
    (".fence_after(", Call::Fence),
    (".fence_after_unless(", Call::Fence),
    (".publish(media, ", Call::Flush),
    (".publish(&self.media, ", Call::Flush),
    (".publish(&shared.media, ", Call::Flush),
    ("media().fence_unless(", Call::Fence),
    ("media.barrier()", Call::Barrier),
    ("media().barrier()", Call::Barrier),
    ("media.barrier_unless(", Call::Barrier),
    ("media().barrier_unless(", Call::Barrier),
    ("media.barrier_or_fence(", Call::Barrier),
    ("media().barrier_or_fence(", Call::Barrier),
    ("media.settle(", Call::Settle),
    ("media().settle(", Call::Settle),
    (".settle_unless(", Call::Settle),
    (" sums_agree(", Call::Sum),
    ("!sums_agree(", Call::Sum),
    (".checksum_agrees()", Call::Sum),
];

/// The call of a name, for the command line.
///
/// # Errors
/// It is no call.
pub fn site_of(call: &str, file: &str, line: &str) -> Result<Site, String> {
    let call: Call = call.parse()?;
    Ok(Site { file: file.into(), line: line.parse().map_err(|_| format!("`{line}` is no line"))?, call })
}
