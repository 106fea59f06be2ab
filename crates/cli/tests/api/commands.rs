//! Each command as a user or a script runs it.

use crate::common::Place;
use serde_json::Value;

#[test]
fn help_is_the_map() {
    let help = Place::new().good(&["--help"]);
    let commands =
        "create info check grow ls stat rm chmod chown mv store kv serve broker domain media crash inspect completion";
    for command in commands.split(' ') {
        assert!(help.contains(command), "{help}");
    }
    assert!(help.contains("Exit codes"), "{help}");
}

#[test]
fn create_info_and_check_speak_to_people_and_to_programs() {
    let place = Place::new();
    let created = place.good(&["create", "a.store", "--max", "1GiB", "--log", "1MiB"]);
    assert!(created.contains("a.store") && created.contains("1 GiB"), "{created}");
    let info = place.good(&["info", "a.store"]);
    assert!(info.contains("1 GiB") && info.contains("identity"), "{info}");
    assert!(place.good(&["check", "a.store"]).contains("no damage"), "a new store is whole");

    let created: Value = serde_json::from_str(&place.good(&["create", "b.store", "--max", "1GiB", "--json"])).unwrap();
    assert_eq!(created["max"], 1 << 30);
    let info: Value = serde_json::from_str(&place.good(&["--json", "info", "b.store"])).unwrap();
    assert_eq!((info["max"].as_u64(), info["objects"].as_array().map(Vec::len)), (Some(1 << 30), Some(0)));
    let file = ["--backend", "file", "--json"];
    place.good(&[&["create", "c.store", "--max", "1GiB"], &file[..]].concat());
    let info: Value = serde_json::from_str(&place.good(&[&["info", "c.store"], &file[..]].concat())).unwrap();
    assert_eq!((info["log_room"].as_u64(), info["log_len"].as_u64()), (Some(16 << 20), Some(64 << 20)));
    let checked: Value = serde_json::from_str(&place.good(&["check", "b.store", "--json"])).unwrap();
    assert_eq!(checked["wrong"], 0);
}

#[test]
fn failures_are_json_too_where_that_is_asked() {
    let said = Place::new().bad(&["info", "--json"], 5, &["everbyte create"]);
    let error: Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(error["code"], 5);
    assert_eq!(said.out, "", "nothing on standard output");
}

#[test]
fn the_environment_names_the_store() {
    let place = Place::new();
    let out = place.command(&["create", "--max", "1GiB"]).env("EVERBYTE_STORE", "env.store").output().unwrap();
    assert!(out.status.success());
    assert!(place.path("env.store").exists());
}

#[test]
fn names_are_listed_changed_moved_and_removed() {
    let place = Place::new();
    place.good(&["create", "everbyte.store", "--max", "64GiB", "--log", "1MiB"]);
    assert_eq!(place.good(&["ls"]), "");
    for table in ["shop/orders", "shop/users", "log"] {
        place.good(&["kv", "put", "--table", table, "key", "value"]);
    }
    assert_eq!(place.good(&["ls"]), "log\nshop/orders\nshop/users\n");
    assert_eq!(place.good(&["ls", "shop/"]), "shop/orders\nshop/users\n");
    let named: Value = serde_json::from_str(&place.good(&["ls", "log", "--json"])).unwrap();
    assert_eq!(named["name"], "log");
    let long = place.good(&["ls", "--long", "log"]);
    assert!(long.contains("rwrw--") && long.contains("cdds"), "{long}");

    place.good(&["mv", "log", "shop/log"]);
    assert_eq!(place.good(&["kv", "get", "--table", "shop/log", "key"]), "value\n");
    assert!(place.good(&["chmod", "640", "shop/log", "shop/users"]).contains("rwr---"));
    let stat: Value = serde_json::from_str(&place.good(&["stat", "shop/log", "--json"])).unwrap();
    assert_eq!((&stat["mode"], &stat["engine"]), (&"640".into(), &"cdds".into()));
    let owner = stat["owner"].to_string();
    assert!(place.good(&["chown", &owner, "shop/log"]).contains(&format!("{owner}:")));
    assert!(place.good(&["stat", "shop/log"]).contains("rwr---"));

    assert_eq!(place.good(&["rm", "shop/log", "shop/users"]), "removed shop/log\nremoved shop/users\n");
    assert_eq!(place.good(&["ls"]), "shop/orders\n");
    place.bad(&["rm", "shop/log"], 1, &["shop/log"]);
    place.bad(&["stat", "shop/log"], 1, &["shop/log"]);
    // what a terminal would obey is shown, not sent
    place.bad(&["stat", "\u{1b}[31m"], 1, &["`\\u{1b}[31m`"]);
    place.bad(&["mv", "shop/orders", "\u{7}"], 2, &["`\\u{7}` cannot name"]);
    place.bad(&["mv", "shop/orders", "shop/orders"], 2, &["exists already"]);
    place.bad(&["mv", "shop/orders", "a//b"], 2, &["between slashes"]);
    place.bad(&["chmod", "777", "shop/orders"], 2, &["such as 640"]);
    place.bad(&["chown", "jane", "shop/orders"], 2, &["not the number"]);
    assert!(place.good(&["check"]).contains("no damage"));
}

#[test]
fn limits_are_set_told_and_lifted() {
    let place = Place::new();
    place.good(&["create", "everbyte.store", "--max", "1GiB", "--log", "1MiB"]);
    place.good(&["kv", "put", "--table", "log", "key", "value"]);
    place.bad(&["limit", "log", "--resident", "20", "--backend", "file"], 2, &["backend `file`"]);
    let limit = ["limit", "log", "--resident", "20", "--quota", "30", "--backend", "shm"];
    assert!(place.good(&limit).starts_with("log: quota 30 clusters, "));
    place.bad(&["limit", "log", "--resident", "2", "--backend", "shm"], 2, &["at least"]);
    place.bad(&["limit", "log", "--resident", "many"], 2, &["or `all`"]);
    assert_eq!(place.good(&["limit", "--each-user", "500"]), "each user: quota 500 clusters\n");
    assert!(place.good(&["info"]).contains("quota 500 clusters"));
    let stat: Value = serde_json::from_str(&place.good(&["stat", "log", "--json"])).unwrap();
    assert_eq!((&stat["quota"], &stat["limit"], &stat["cold"]), (&30.into(), &20.into(), &0.into()));
    assert!(place.good(&["stat", "log"]).contains("of at most 20"));
    place.bad(&["store", "clone", "everbyte.store", "other.store"], 2, &["backing file"]);
    assert!(place.good(&["check"]).contains("no damage"));
    let lift = ["limit", "log", "--resident", "all", "--quota", "all", "--backend", "shm"];
    assert_eq!(place.good(&lift), "log: quota none, all in memory\n");
    assert_eq!(place.good(&["kv", "get", "--table", "log", "key"]), "value\n");
}

#[test]
fn every_shell_gets_a_completion_script() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.good(&["completion", shell]);
        assert!(["everbyte", "create", "clone", "rebase"].iter().all(|word| script.contains(word)), "{shell}");
    }
    place.bad(&["completion", "cobol"], 2, &["possible values"]);
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let place = Place::with_store();
    let mut child = place.command(&["info"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_store_grows_to_four_times_its_maximum_and_never_shrinks() {
    let place = Place::with_store();
    assert!(place.good(&["grow", "--max", "4GiB"]).contains("4 GiB"));
    let info: Value = serde_json::from_str(&place.good(&["info", "--json"])).unwrap();
    assert_eq!(info["max"], 4u64 << 30);
    place.bad(&["grow", "--max", "1GiB"], 2, &["does not shrink"]);
    place.bad(&["grow", "--max", "1TiB"], 2, &["make a larger store"]);
    assert!(place.good(&["check"]).contains("no damage"));
    place.bad(&["grow", "absent.store", "--max", "1TiB"], 5, &["everbyte create"]);
}

#[test]
fn crash_explores_a_case_and_names_what_it_knows() {
    let place = Place::new();
    let list = place.good(&["crash", "--list", "--json"]);
    let cases: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.iter().any(|case| case["case"] == "media-publish"), "{list}");
    let words = ["crash", "media-publish", "--seed", "0x51ad", "--total", "200"];
    let said = place.good(&words);
    assert!(said.contains("media-publish: passes") && said.contains("crash points"), "{said}");
    let report: Value = serde_json::from_str(&place.good(&[&words[..], &["--json"]].concat())).unwrap();
    assert!(report["failure"].is_null() && report["images"].as_u64() > Some(10), "{report}");
    place.bad(&["crash", "no-such-case"], 2, &["no-such-case", "--list"]);
    place.bad(&["crash", "media-publish", "--profile", "pram"], 2, &["pram"]);
    place.bad(&["crash", "--image", "file@1.s"], 2, &["--image"]);
    place.bad(&["crash", "--run", "true"], 2, &["--check", "--store"]);
    let absent = ["crash", "--store", "absent.store", "--run", "true", "--check", "true"];
    place.bad(&absent, 1, &["absent.store"]);
}

#[test]
fn inspect_heat_draws_writes_by_address_and_over_time() {
    let place = Place::new();
    let words = ["inspect", "heat", "--workload", "ascending", "--operations", "300", "--columns", "10"];
    let said = place.good(&words);
    assert!(said.contains("stores by address") && said.contains("fences") && said.contains('@'), "{said}");
    let json: Value =
        serde_json::from_str(&place.good(&[&words[..], &["--json", "--svg", "heat.svg"]].concat())).unwrap();
    let operations: u64 = json["columns"].as_array().unwrap().iter().map(|of| of["operations"].as_u64().unwrap()).sum();
    assert_eq!((operations, json["workload"].as_str()), (300, Some("ascending")));
    assert!(std::fs::read_to_string(place.path("heat.svg")).unwrap().starts_with("<svg"));
    place.bad(&["inspect", "heat", "--operations", "3"], 2, &["at least one operation"]);
}

#[test]
fn probe_tells_what_a_place_gives() {
    let place = Place::new();
    let said = place.good(&["media", "probe", "."]);
    assert!(said.contains("backend") && said.contains("barrier") && said.contains("power loss"), "{said}");
    let probe: Value = serde_json::from_str(&place.good(&["media", "probe", ".", "--json"])).unwrap();
    assert!(["pmem", "file", "shm"].contains(&probe["backend"].as_str().unwrap()), "{probe}");
    assert!(probe["barrier_ns"].as_f64() > Some(0.0), "{probe}");
    assert_eq!(std::fs::read_dir(place.folder.path()).unwrap().count(), 0, "nothing is left behind");
    place.bad(&["media", "probe", "nowhere/at/all"], 5, &["nowhere"]);
}

#[test]
fn a_broker_serves_domains_until_it_is_stopped() {
    let place = Place::new();
    let mut broker = place.command(&["broker", "domains", "--quota", "4GiB"]);
    let mut broker = broker.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(broker.stdout.take().unwrap()), &mut said).unwrap();
    assert!(said.contains("domains.socket"), "{said}");
    let domain = |words: &[&'static str]| [&["domain", "--socket", "domains.socket"], words].concat();
    place.good(&domain(&["create", "shop/orders", "--mode", "640", "--max", "64MiB"]));
    place.good(&domain(&["chmod", "600", "shop/orders"]));
    let line: Value = serde_json::from_str(&place.good(&domain(&["ls", "--json"]))).unwrap();
    assert!(line["domain"] == "shop/orders" && line["mode"] == "600" && line["max"] == 64 << 20, "{line}");
    assert!(place.good(&domain(&["ls"])).contains("64 MiB"));
    place.bad(&domain(&["rm", "absent"]), 1, &["no domain `absent`"]);
    place.bad(&domain(&["chmod", "9", "shop/orders"]), 2, &["640"]);
    place.good(&domain(&["rm", "shop/orders"]));
    broker.kill().unwrap();
    broker.wait().unwrap();
    std::fs::remove_dir_all(place.path("domains")).unwrap();
    place.bad(&domain(&["ls"]), 5, &["everbyte broker"]);
}

/// The processes that serve the domains of a directory.
fn brokers(dir: &std::path::Path) -> Vec<rustix::process::Pid> {
    let serves = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = words.split(|&byte| byte == 0).collect();
        words.get(1..3) == Some(&[b"broker", dir.as_os_str().as_encoded_bytes()])
    };
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    all.filter(serves).filter_map(|pid| rustix::process::Pid::from_raw(pid as i32)).collect()
}

/// Any user who may enter the directory starts its broker; concurrent starts leave one broker, and
/// a killed broker is replaced.
#[test]
fn a_broker_starts_when_it_is_asked_for_and_several_end_as_one() {
    let place = Place::new();
    let dir = place.path("domains");
    std::fs::create_dir(&dir).unwrap();
    let dir = std::fs::canonicalize(dir).unwrap();
    let mut names = Vec::new();
    for round in 0..2 {
        let asked: Vec<_> = (0..4)
            .map(|number| {
                let name = format!("d/{round}{number}");
                let words = ["domain", "--socket", "domains.socket", "create", &name, "--max", "1MiB"];
                let asking = place.command(&words).spawn().unwrap();
                names.push(name);
                asking
            })
            .collect();
        asked.into_iter().for_each(|mut asking| assert!(asking.wait().unwrap().success()));
        let listed = place.good(&["domain", "--socket", "domains.socket", "ls"]);
        assert!(names.iter().all(|name| listed.contains(name)), "{listed}");
        // Brokers that start late end by themselves.
        while brokers(&dir).len() > 1 {
            std::thread::yield_now();
        }
        for broker in brokers(&dir) {
            rustix::process::kill_process(broker, rustix::process::Signal::KILL).unwrap();
        }
        while !brokers(&dir).is_empty() {
            std::thread::yield_now();
        }
    }
}
