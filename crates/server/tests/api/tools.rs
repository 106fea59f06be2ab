//! The tools that users have: redis-cli and redis-benchmark, unmodified.

use crate::common::Ours;
use std::process::{Command, Output};

fn run(us: &Ours, tool: &str, words: &[&str]) -> Output {
    Command::new(tool)
        .args(["-h", "127.0.0.1", "-p", &us.address.port().to_string()])
        .args(words)
        .output()
        .unwrap_or_else(|error| panic!("{tool} cannot be started ({error}): apt-get install redis-tools"))
}

fn cli(us: &Ours, words: &[&str]) -> String {
    let output = run(us, "redis-cli", words);
    assert!(output.status.success(), "redis-cli {words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_string()
}

#[test]
fn redis_cli_works() {
    let us = Ours::start();
    assert_eq!(cli(&us, &["PING"]), "PONG");
    assert_eq!(cli(&us, &["SET", "greeting", "hello world"]), "OK");
    assert_eq!(cli(&us, &["GET", "greeting"]), "hello world");
    assert_eq!(cli(&us, &["-3", "MGET", "greeting", "nosuch"]), "hello world");
    assert_eq!(cli(&us, &["INCR", "n"]), "1");
    let mut keys: Vec<String> = cli(&us, &["--scan", "--pattern", "*e*"]).lines().map(str::to_string).collect();
    keys.sort();
    assert_eq!(keys, ["greeting"]);
    assert!(cli(&us, &["INFO"]).contains("everbyte_version"));
    assert!(cli(&us, &["-3", "HELLO", "3"]).contains("standalone"));
    assert!(cli(&us, &["COMMAND", "DOCS", "range"]).contains("open ends"));
    assert!(cli(&us, &["--bigkeys"]).contains("Biggest string found"));
    assert!(cli(&us, &["RANGE", "g", "h"]).contains("hello world"));
}

/// Mass insertion as Redis's manual describes it.
#[test]
fn redis_cli_pipe_loads() {
    use std::io::Write;
    use std::process::Stdio;
    let us = Ours::start();
    let mut child = Command::new("redis-cli")
        .args(["-p", &us.address.port().to_string(), "--pipe"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("redis-cli: apt-get install redis-tools");
    let mut input = child.stdin.take().unwrap();
    for number in 0..20_000 {
        input.write_all(&crate::common::command(&["SET", &format!("key:{number}"), "value"])).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("errors: 0, replies: 20000"), "{text}");
    assert_eq!(cli(&us, &["DBSIZE"]), "20000");
}

#[test]
fn redis_benchmark_works() {
    let us = Ours::start();
    for depth in ["1", "16"] {
        let words = [
            "-q",
            "--csv",
            "-n",
            "5000",
            "-c",
            "20",
            "-r",
            "1000",
            "-d",
            "100",
            "-P",
            depth,
            "-t",
            "ping,set,get,incr,mset",
        ];
        let output = run(&us, "redis-benchmark", &words);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{output:?}");
        for name in ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET"] {
            assert!(text.lines().any(|line| line.starts_with(&format!("\"{name}"))), "no {name} in {text}");
        }
        assert!(!text.contains("Error"), "{text}");
    }
}
