//! A store with a pool and a table is killed and cloned; original and clone are open at once, in
//! one process and in two, and go their own ways.

#![allow(clippy::redundant_closure)] // the function itself is not general enough in its brand

mod common;

use common::{BACKENDS, Shop, add, create, expected, found, holds, new_shop, options, put};
use everbyte::media::BackendChoice;
use everbyte::{Kv, Pool, pool};
use everbyte_store::Store;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pool!(One);
pool!(Two);

const JOB: &str = "EVERBYTE_CLONE_JOB";

/// This program again, doing one job; see [`child`].
fn spawn(job: &str, backend: BackendChoice, path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child", "--exact", "--nocapture"]).env(JOB, format!("{job}={backend:?}={}", path.display()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Reads lines up to the first that begins so, and returns its number.
fn hear(lines: &mut impl BufRead, word: &str) -> Option<u64> {
    lines.lines().map(Result::unwrap).find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
}

/// The request of the environment; nothing when the tests are run.
#[test]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let [job, backend, path] = job.splitn(3, '=').collect::<Vec<_>>()[..] else { panic!("{job}") };
    let backend = if backend == "File" { BackendChoice::File } else { BackendChoice::Shm };
    let store = Store::open(Path::new(path), &options(backend)).unwrap();
    let kv = Kv::open_or_create(&store, "table").unwrap();
    let shop = One::open_or_create::<Shop<One>>(&store, "shop", |j| new_shop(j)).unwrap();
    if job == "until killed" {
        for number in 0.. {
            put(&kv, number);
            shop.tx(|j, shop| add(shop, number, j)).unwrap();
            println!("\nacked {}", number + 1);
        }
    }
    // One change, made while the parent has the other store open.
    println!("\nopen {}", kv.len());
    std::io::stdin().read_exact(&mut [0]).unwrap();
    let number = kv.len();
    put(&kv, number);
    shop.tx(|j, shop| add(shop, number, j)).unwrap();
    println!("\nacked {}", number + 1);
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Runs a process on the store until it has acknowledged `changes`, and kills it; returns how many
/// it had acknowledged.
fn kill_after(changes: u64, backend: BackendChoice, path: &Path) -> u64 {
    let mut child = spawn("until killed", backend, path);
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut acked = 0;
    while acked < changes {
        acked = hear(&mut lines, "acked ").expect("it runs until it is killed");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    while let Some(more) = hear(&mut lines, "acked ") {
        acked = more; // its unread output from before it was killed
    }
    acked
}

#[test]
fn a_clone_of_a_killed_store_and_its_original_go_their_own_ways() {
    for backend in BACKENDS {
        let place = tempfile::tempdir().unwrap();
        let [source, target] = ["a.store", "b.store"].map(|name| place.path().join(name));
        drop(create(&source, backend, 1 << 30));
        let acked = kill_after(120, backend, &source);
        Store::clone_file(&source, &target, &options(backend), &mut |_, _| ()).unwrap();

        // In one process: each holds what was acknowledged, and perhaps the change that was under
        // way.
        let (one, two) =
            (Store::open(&source, &options(backend)).unwrap(), Store::open(&target, &options(backend)).unwrap());
        let tables = [&one, &two].map(|store| Kv::open(store, "table").unwrap());
        let shops = (One::open::<Shop<One>>(&one, "shop").unwrap(), Two::open::<Shop<Two>>(&two, "shop").unwrap());
        let count = tables[0].len();
        assert!(count >= acked && holds(&tables[0], count) && holds(&tables[1], count), "{backend:?}");
        let held = shops.0.tx(|j, shop| found(shop, j)).unwrap();
        assert!(held == expected(acked) || held == expected(acked + 1), "{backend:?}: {acked} acknowledged");
        assert_eq!(shops.1.tx(|j, shop| found(shop, j)).unwrap(), held);
        assert_eq!((shops.0.check().unwrap(), shops.1.check().unwrap()), (vec![], vec![]));
        put(&tables[0], count);
        shops.1.tx(|j, shop| add(shop, held.0.len() as u64, j)).unwrap();
        assert!(holds(&tables[0], count + 1) && holds(&tables[1], count));
        assert_eq!(shops.0.tx(|j, shop| found(shop, j)).unwrap(), held);
        assert_eq!(shops.1.tx(|j, shop| found(shop, j)).unwrap(), expected(held.0.len() as u64 + 1));
        drop((tables, shops, one, two));

        // In two: the child has the clone, and changes it while the parent changes the original.
        let mut child = spawn("change", backend, &target);
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(hear(&mut lines, "open "), Some(count));
        let one = Store::open(&source, &options(backend)).unwrap();
        let kv = Kv::open(&one, "table").unwrap();
        put(&kv, count + 1);
        child.stdin.as_mut().unwrap().write_all(b"!").unwrap();
        assert_eq!(hear(&mut lines, "acked "), Some(count + 1));
        put(&kv, count + 2);
        assert!(holds(&kv, count + 3));
        let refused = Store::clone_file(&target, &place.path().join("c.store"), &options(backend), &mut |_, _| ());
        assert!(refused.unwrap_err().to_string().contains(&format!("pid {}", child.id())), "held by the child");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        let two = Store::open(&target, &options(backend)).unwrap();
        assert!(holds(&Kv::open(&two, "table").unwrap(), count + 1));
        // Room that a killed process had prepared ahead may be left; it is a note.
        let damage = |store: &Store| store.check().into_iter().filter(|found| found.is_damage()).collect::<Vec<_>>();
        assert_eq!((damage(&one), damage(&two)), (vec![], vec![]));
    }
}
