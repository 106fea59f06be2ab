//! The example that counts words, killed again and again over real text: in the end each word was
//! counted as often as it stands there.

#![forbid(unsafe_code)]

use everbyte_suite::{debian, process};
use everbyte_workload::Random;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Kills, and how many of them at least must have ended a run that had counted something.
const KILLS: usize = 30;
const KILLS_AT_WORK: usize = 15;
/// Packages in one file of text.
const PART: usize = 150;

struct Counter {
    program: PathBuf,
    store: PathBuf,
    texts: Vec<PathBuf>,
}

impl Counter {
    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(&self.store).args(["--consumers", "3"]).args(options).args(&self.texts);
        command
    }

    /// Lets it run to its end; answers what it prints.
    fn run(&self, options: &[&str]) -> String {
        let output = self.command(options).output().expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Words that have been counted so far: it is opened, and recovers, and counts no chunk.
    fn counted(&self) -> u64 {
        let said = self.run(&["--stop", "0"]);
        let words = said.strip_suffix(" in all\n").and_then(|said| said.rsplit(' ').next());
        words.and_then(|words| words.parse().ok()).unwrap_or_else(|| panic!("{said}"))
    }

    /// Kills it after a while; false if it had come to its end.
    fn kill_after(&self, life: Duration) -> bool {
        let mut child = self.command(&[]).stdout(Stdio::null()).spawn().expect("the program runs");
        std::thread::sleep(life);
        let ended = child.try_wait().expect("it is a child");
        ended.inspect(|status| assert!(status.success(), "it failed by itself"));
        child.kill().expect("it is a child");
        child.wait().expect("it is a child");
        ended.is_none()
    }
}

/// The straight count.
fn count(texts: &[PathBuf]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for text in texts {
        let text = fs::read_to_string(text).expect("a file of ours").to_lowercase();
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.for_each(|word| *counts.entry(word.to_string()).or_default() += 1);
    }
    counts
}

fn counts_right_in_the_end(folder: &Path, mut random: Random) {
    let packages: Vec<String> =
        debian::packages().into_values().map(|stanza| String::from_utf8(stanza).expect("text")).collect();
    let mut parts = packages.chunks(PART).enumerate();
    let mut next_text = || {
        let (number, part) = parts.next().expect("the index is long");
        let path = folder.join(format!("part-{number}"));
        fs::write(&path, part.join("\n\n")).expect("room for a file");
        path
    };
    let program = process::program("everbyte-examples", "word_count");
    let mut counter = Counter { program, store: folder.join("words.store"), texts: vec![next_text()] };
    let (mut kills, mut at_work, mut counted, mut life_max) = (0, 0, 0, 50_000);
    while kills < KILLS || at_work < KILLS_AT_WORK {
        if !counter.kill_after(Duration::from_micros(random.below(life_max))) {
            counter.texts.push(next_text()); // all is counted: more to do
            continue;
        }
        kills += 1;
        let now = counter.counted();
        assert!(now >= counted, "{counted} words were counted, and after a kill {now}");
        if now > counted {
            at_work += 1;
        } else {
            life_max += life_max / 8; // a slow machine: it did not come to counting
        }
        counted = now;
    }
    let said = counter.run(&["--most", "100000000"]);
    let found = said.lines().filter_map(|line| line.trim().split_once(' ')).filter(|(_, word)| !word.contains(' '));
    let found: BTreeMap<String, u64> =
        found.map(|(count, word)| (word.to_string(), count.parse().expect("a number"))).collect();
    let right = count(&counter.texts);
    println!("{kills} kills, {at_work} in progress; {} words, {} in all", right.len(), right.values().sum::<u64>());
    let wrong = right.iter().find(|(word, count)| found.get(*word) != Some(count));
    assert!(
        wrong.is_none() && found.len() == right.len(),
        "{wrong:?} is not {:?}",
        wrong.map(|(word, _)| found.get(word))
    );
    assert_eq!(counter.counted(), right.values().sum::<u64>());
}

fn random() -> Random {
    Random::new(everbyte_workload::seed(0x3011d, "-p everbyte-suite --test processes word_count"))
}

/// A process's death is a crash there.
#[test]
fn words_are_counted_once_whatever_is_killed_on_a_disk() {
    counts_right_in_the_end(tempfile::tempdir().expect("a folder").path(), random());
}

/// A process's death keeps every store, those of half a transaction, too.
#[test]
fn words_are_counted_once_whatever_is_killed_on_shared_memory() {
    counts_right_in_the_end(tempfile::tempdir_in("/dev/shm").expect("a folder").path(), random());
}
