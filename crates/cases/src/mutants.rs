//! Mutants: each call of flush, fence and barrier, and each comparison of a checksum, is left out in turn, and a case must fail.
//!
//! Steps
//!   1. each case runs once, small, while the media note which sites it reaches, in recovery too
//!   2. for each site: the cases that reach it run without it, the quick ones and those of its own room first, until one
//!      fails; then the first few once more with a larger budget if none did
//!
//! A site is written by the text of its line, not by its number: the list in `mutants.txt` outlives edits elsewhere in a file.

use crate::{Case, Settings, cases, find};
use everbyte_media::museum::sites::{self, Call, Site};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What a small run of a case may cost.
const SMALL: u64 = 400;

/// What a second run may cost, of so many cases: where none of the small ones failed.
const LARGE: u64 = 1500;
const AGAIN: usize = 3;

/// Cases that are tried without a site. A line that thirty cases reach is missed by the first few, or by none.
const CASES_MAX: usize = 8;

/// A site as the committed list names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name {
    /// The file, from the root of the workspace.
    pub file: String,
    /// What is called.
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

/// What is known of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The case of that name fails without it.
    Found(String),
    /// No case fails without it; the reason why that is well, or nothing.
    Survives(String),
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

    /// Where it is now; `None` if its line is no more.
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
            _ => return None,
        };
        Some((Name { file, call, text, nth }, verdict))
    }
}

/// The committed list.
pub fn list_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants.txt")
}

const HEADING: &str = "\
# Call sites of flush, fence, barrier and settle on media, and comparisons of checksums: FILE :: CALL :: NTH :: LINE => VERDICT
# `found: CASE`: that case fails when the call is left out. `survives: REASON`: none does, and why that is well.
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
    };
    let text: String = std::iter::once(HEADING.to_owned()).chain(list.iter().map(line)).collect();
    std::fs::write(list_path(), text).map_err(|error| error.to_string())
}

/// What one case reaches, and how long its small run takes.
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

/// Runs a case, small, and notes the sites it reaches.
///
/// # Errors
/// The case fails: then nothing can be said about what it needs.
pub fn reach(case: &Case) -> Result<Reach, String> {
    let start = Instant::now();
    sites::watch();
    let report = case.sketch(&small(SMALL));
    if !report.passed() {
        return Err(report.to_string());
    }
    let ms = start.elapsed().as_millis() as u64;
    let sites = sites::reached().into_iter().filter(|site| is_ours(&site.file)).filter_map(|site| Name::of(&site).ok());
    Ok(Reach { ms, sites: sites.collect() })
}

/// Whether a file is part of what cases are to hold: not the cases themselves.
fn is_ours(file: &str) -> bool {
    file.starts_with("crates/") && !["crates/cases/", "crates/sim/"].iter().any(|other| file.starts_with(other))
}

/// Whether the case fails without the site, in a run of about so many images.
fn fails_without(site: &Site, case: &Case, total: u64) -> bool {
    sites::leave_out(Some(site.clone()));
    let failed =
        catch_unwind(AssertUnwindSafe(|| !case.sketch(&small(total.min(case.total))).passed())).unwrap_or(true);
    sites::leave_out(None);
    failed
}

/// The case of the names given that fails without the site, small runs first.
pub fn visit(site: &Site, names: &[String]) -> Option<String> {
    let all: Vec<Case> = names.iter().filter_map(|name| find(name)).collect();
    let first = all.iter().map(|case| (case, SMALL));
    let again = all.iter().take(AGAIN).map(|case| (case, LARGE));
    first.chain(again).find(|(case, total)| fails_without(site, case, *total)).map(|(case, _)| case.name.into())
}

/// The cases that are tried without a site: of its own room first, then the quick ones, and no more than some.
pub fn reaching(name: &Name, reaches: &BTreeMap<String, Reach>) -> Vec<String> {
    let room = name.file.split('/').nth(1).unwrap_or_default();
    let of_room = |case: &str| case.strip_prefix(room).is_some_and(|rest| rest.starts_with('-'));
    let mut found: Vec<(bool, u64, &String)> = reaches
        .iter()
        .filter(|(_, reach)| reach.sites.contains(name))
        .map(|(case, reach)| (!of_room(case), reach.ms, case))
        .collect();
    found.sort();
    found.into_iter().take(CASES_MAX).map(|(.., case)| case.clone()).collect()
}

/// Every case whose name has one of the parts in it.
pub fn chosen(parts: &[&str]) -> Vec<Case> {
    let wanted = |case: &Case| parts.is_empty() || parts.iter().any(|part| case.name.contains(part));
    cases().into_iter().filter(wanted).collect()
}

/// The call of a name, for the command line.
///
/// # Errors
/// It is no call.
pub fn site_of(call: &str, file: &str, line: &str) -> Result<Site, String> {
    let call: Call = call.parse()?;
    Ok(Site { file: file.into(), line: line.parse().map_err(|_| format!("`{line}` is no line"))?, call })
}
