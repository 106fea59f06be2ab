//! Long explorations in two processes at once. One explorer keeps one and a half CPUs busy: its
//! recoveries run in children, and between them it records and chooses images on its own.

use std::process::{Command, Output, Stdio};

const HALF: &str = "EVERBYTE_HALF";

/// Passes every second item to `body` in each of two processes, which run the test of this name
/// alone.
///
/// # Panics
/// If `body` panics in one of them.
pub(crate) fn in_halves<T>(test: &str, items: Vec<T>, body: impl Fn(Vec<T>)) {
    if let Ok(half) = std::env::var(HALF) {
        let half: usize = half.parse().expect("a number");
        return body(items.into_iter().skip(half).step_by(2).collect());
    }
    let start = |half: usize| {
        let mut command = Command::new(std::env::current_exe().expect("a test program"));
        command.args([test, "--exact", "--nocapture"]).env(HALF, half.to_string());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start half of the items")
    };
    let halves = [start(0), start(1)].map(|child| std::thread::spawn(|| child.wait_with_output()));
    let ended = halves.map(|half| half.join().expect("no panic").expect("the output of a half"));
    for output in &ended {
        print!("{}", String::from_utf8_lossy(&output.stdout));
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let passed = |output: &Output| {
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains("test result: ok. 1 passed")
    };
    assert!(ended.iter().all(passed), "{test}: {:?}", ended.map(|output| output.status));
}
