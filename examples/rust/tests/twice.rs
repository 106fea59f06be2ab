//! Every example runs at least twice, in processes of its own; each run goes on where the last one
//! stopped.

use everbyte::{Options, Store, UntypedPool};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Runs `program` on the store in `directory`; answers what it prints.
fn run(program: &str, directory: &Path, words: &[&str]) -> String {
    let output = Command::new(program).arg(directory.join("store.everbyte")).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The error output of `program`.
fn refused(program: &str, directory: &Path) -> String {
    let output = Command::new(program).arg(directory.join("store.everbyte")).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_list_goes_on() {
    let (directory, list) = (tempfile::tempdir().unwrap(), env!("CARGO_BIN_EXE_list"));
    assert_eq!(run(list, directory.path(), &["1", "2"]), "1\n2\n");
    assert_eq!(run(list, directory.path(), &["3"]), "1\n2\n3\n");
    assert_eq!(run(list, directory.path(), &[]), "1\n2\n3\n");
}

#[test]
fn the_address_book_goes_on() {
    let (directory, book) = (tempfile::tempdir().unwrap(), env!("CARGO_BIN_EXE_address_book"));
    run(book, directory.path(), &["add", "Zoe", "zoe@example.org"]);
    run(book, directory.path(), &["add", "Ada", "1 Analytical Row"]);
    run(book, directory.path(), &["add", "Ada", "ada@example.org"]);
    assert_eq!(run(book, directory.path(), &["find", "Ada"]), "Ada: 1 Analytical Row; ada@example.org\n");
    run(book, directory.path(), &["remove", "Ada"]);
    assert_eq!(run(book, directory.path(), &["list"]), "Zoe: zoe@example.org\n1 people, 4 changes\n");
}

#[test]
fn the_cache_restarts_warm() {
    let (directory, cache) = (tempfile::tempdir().unwrap(), env!("CARGO_BIN_EXE_lru_cache"));
    let first = run(cache, directory.path(), &["1", "2", "3", "4", "5", "6", "7", "8", "1"]);
    assert!(first.starts_with("warm: 0 entries\n1: 1 (miss)\n"), "{first}");
    assert!(first.ends_with("1: 1 (hit)\nhits: 1 now, 1 ever\n"), "{first}");
    // 9 makes 2 go, the one that was used longest ago.
    let second = run(cache, directory.path(), &["1", "9", "3", "2"]);
    let expected = "warm: 8 entries\n1: 1 (hit)\n9: 81 (miss)\n3: 9 (hit)\n2: 4 (miss)\nhits: 2 now, 3 ever\n";
    assert_eq!(second, expected);
}

#[test]
fn the_queue_goes_on() {
    let (directory, queue) = (tempfile::tempdir().unwrap(), env!("CARGO_BIN_EXE_work_queue"));
    run(queue, directory.path(), &["add", "100"]);
    assert!(run(queue, directory.path(), &["work", "3", "40"]).starts_with("100 queued, 60 waiting, 40 done"));
    run(queue, directory.path(), &["add", "20"]);
    let sum: u64 = (1..=120u64).map(|job| job * job).sum();
    let end = format!("120 queued, 0 waiting, 120 done, sum {sum}\n");
    assert_eq!(run(queue, directory.path(), &["work", "4"]), end);
    assert_eq!(run(queue, directory.path(), &["work", "1"]), end);
}

/// The first version's pool is refused by the second one, rehearsed, migrated, and refused by the
/// first one.
#[test]
fn the_inventory_is_migrated() {
    let (directory, [old, new]) =
        (tempfile::tempdir().unwrap(), [env!("CARGO_BIN_EXE_inventory_v1"), env!("CARGO_BIN_EXE_inventory_v2")]);
    assert_eq!(run(old, directory.path(), &["chair", "40", "table", "120"]), "chair: 40\ntable: 120\n");
    assert!(refused(new, directory.path()).contains("OlderVersion"));
    let done = run(new, directory.path(), &["--rehearse"]);
    assert!(done.starts_with("Item 1 -> 2: 2 values; 2 blocks made anew"), "{done}");
    assert_eq!(run(old, directory.path(), &["lamp", "15"]), "chair: 40\ntable: 120\nlamp: 15\n");
    let all = "chair: 40.00\ntable: 120.00\nlamp: 15.00\n";
    assert_eq!(run(new, directory.path(), &["--migrate"]), all);
    assert_eq!(run(new, directory.path(), &["rug", "2550", "7"]), format!("{all}rug: 25.50, shelf 7\n"));
    assert!(refused(old, directory.path()).contains("NewerVersion"));
    assert_eq!(run(new, directory.path(), &["--migrate"]), format!("{all}rug: 25.50, shelf 7\n"));
}

#[test]
fn the_word_count_goes_on() {
    let licenses = ["GPL-3", "GPL-2", "LGPL-2.1", "Apache-2.0", "Artistic"];
    let paths: Vec<String> = licenses.iter().map(|name| format!("/usr/share/common-licenses/{name}")).collect();
    let there: Vec<&str> = paths.iter().map(String::as_str).filter(|path| Path::new(path).is_file()).collect();
    // Debian has them all; elsewhere our own license and the manual are text, too.
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../LICENSE-APACHE");
    let files: Vec<&str> = if there.is_empty() { vec![own] } else { there };

    let mut twin: BTreeMap<String, u64> = BTreeMap::new();
    for file in &files {
        let text = String::from_utf8_lossy(&std::fs::read(file).unwrap()).to_lowercase();
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.for_each(|word| *twin.entry(word.to_string()).or_default() += 1);
    }
    let mut order: Vec<(u64, &str)> = twin.iter().map(|(word, count)| (*count, word.as_str())).collect();
    order.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(other.1)));
    let best: String = order.iter().take(10).map(|(count, word)| format!("{count:7} {word}\n")).collect();
    let total: u64 = twin.values().sum();

    let (directory, count) = (tempfile::tempdir().unwrap(), env!("CARGO_BIN_EXE_word_count"));
    let stopped = run(count, directory.path(), &[&["--stop", "2"], &files[..]].concat());
    assert!(stopped.contains("2 chunks counted now"), "{stopped}");
    let whole = run(count, directory.path(), &[&["--consumers", "4"], &files[..]].concat());
    assert!(whole.starts_with(&best), "{whole}\nexpected:\n{best}");
    assert!(whole.ends_with(&format!("{} words, {total} in all\n", twin.len())), "{whole}");
    let again = run(count, directory.path(), &files);
    assert!(again.starts_with(&best) && again.contains("\n0 chunks counted now"), "{again}");
}

#[test]
fn the_search_finds_its_index_warm() {
    let (directory, search) = (tempfile::tempdir().unwrap(), env!("CARGO_BIN_EXE_search"));
    let run = |words: &[&str]| run(search, directory.path(), words);
    let found = "2.137 undo log\n1.432 redo log\n0.705 fence\n0.705 torn store\n";
    assert_eq!(run(&["find", "bytes", "crash"]), format!("warm: 0 documents, 0 terms\n{found}"));
    let warm = "warm: 6 documents, 49 terms\n";
    assert_eq!(run(&["find", "bytes", "crash"]), format!("{warm}{found}"));
    assert_eq!(run(&["phrase", "old", "bytes"]), format!("{warm}undo log\n"));
    assert_eq!(run(&["phrase", "bytes", "old"]), warm);
    assert_eq!(run(&["terms", "st"]), format!("{warm}store 3\nstores 1\n"));

    assert_eq!(run(&["put", "fence", "A", "fence", "waits"]), format!("{warm}Updated\n"));
    let warm = "warm: 6 documents, 44 terms\n";
    assert_eq!(run(&["put", "fence", "A", "fence", "waits"]), format!("{warm}Unchanged\n"));
    assert_eq!(run(&["find", "crash"]).lines().count(), 3, "the fence has no crash any more");
    assert_eq!(run(&["phrase", "fence", "waits"]), format!("{warm}fence\n"));
    assert_eq!(run(&["terms", "st"]), format!("{warm}store 2\n"));
    assert_eq!(run(&["put", "stone", "a", "stone"]), format!("{warm}Added\n"));
    assert!(run(&["remove", "stone", "caches", "nothing"]).ends_with("\n2 removed\n"));
    assert!(run(&["remove", "stone"]).ends_with("\nnot there\n"));
    assert!(run(&["titles"]).ends_with("\nflush\nfence\nundo log\nredo log\ntorn store\n"));
    check(directory.path(), "library");
}

/// Killed at any moment, a world goes on from its last whole tick and becomes the world of a run
/// that nothing has interrupted.
#[test]
fn the_game_goes_on_to_the_same_world() {
    let game = env!("CARGO_BIN_EXE_game");
    let [whole, parts, killed] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let end = run(game, whole.path(), &["--until", "400"]);
    assert!(end.starts_with("tick 400: ") && !end.contains(" 0 entities"), "{end}");

    let ticks: Vec<String> =
        (0..4).map(|_| run(game, parts.path(), &["60"])).map(|line| line[..line.find(':').unwrap()].into()).collect();
    assert_eq!(ticks, ["tick 60", "tick 120", "tick 180", "tick 240"]);
    assert_eq!(run(game, parts.path(), &["--until", "400"]), end);

    let store = killed.path().join("store.everbyte");
    let mut kills = 0;
    for delay in (5..).step_by(7) {
        let mut child = Command::new(game).arg(&store).args(["--until", "400"]).stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(delay));
        if child.try_wait().unwrap().is_some_and(|status| status.success()) {
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    assert!(kills > 0);
    assert_eq!(run(game, killed.path(), &["--until", "400"]), end);
    [whole, parts, killed].iter().for_each(|directory| check(directory.path(), "world"));
}

/// The deep check of a pool finds nothing, by its description alone.
fn check(directory: &Path, name: &str) {
    let store = Store::open(&directory.join("store.everbyte"), &Options::default()).unwrap();
    let report = UntypedPool::open(&store, name).unwrap().examine(&|_| ());
    assert_eq!(report.findings(), []);
}
