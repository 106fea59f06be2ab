//! Real input under real kills: the Debian package index, loaded by several clients through a
//! server process that is killed again and again.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use everbyte_kv::Kv;
use everbyte_media::{BackendChoice, Options};
use everbyte_store::{FindingKind, Store};
use everbyte_suite::debian;
use everbyte_suite::process::{Client, Process, command, everbyte};
use everbyte_suite::twin::{Twin, Write};
use everbyte_workload::Random;

const CLIENTS: usize = 4;
const KILLS_MIN: usize = 30;

/// Every package under its name. Some are drafted first, some leave something to be deleted:
/// overwriting and deleting are killed too.
fn writes(packages: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<Twin> {
    let mut writes = vec![Vec::new(); CLIENTS];
    for (index, (name, stanza)) in packages.iter().enumerate() {
        let list = &mut writes[index % CLIENTS];
        if index % 7 == 0 {
            list.push(Write::Set(name.clone(), [b"draft of ", &name[..]].concat()));
        }
        if index % 11 == 0 {
            list.push(Write::Set([b"tmp:", &name[..]].concat(), stanza.clone()));
        }
        list.push(Write::Set(name.clone(), stanza.clone()));
        if index % 11 == 0 {
            list.push(Write::Del([b"tmp:", &name[..]].concat()));
        }
    }
    writes.into_iter().map(Twin::new).collect()
}

/// Sends writes in bursts until all are acknowledged or the server is gone.
fn load(address: &str, twin: &mut Twin, mut random: Random, acknowledged: &AtomicUsize) -> io::Result<()> {
    let mut client = Client::connect(address)?;
    while twin.done < twin.writes.len() {
        let burst = (1 + random.below(48) as usize).min(twin.writes.len() - twin.done);
        let bytes: Vec<u8> = twin.writes[twin.done..twin.done + burst].iter().flat_map(Write::command).collect();
        twin.sent = twin.done + burst;
        client.send(&bytes)?;
        for _ in 0..burst {
            client.done()?;
            twin.acknowledge();
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Everything in the store, page by page, by client. The order is checked on the way.
fn found(process: &Process, packages: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<BTreeMap<Vec<u8>, Vec<u8>>> {
    let owners: BTreeMap<&[u8], usize> =
        packages.keys().enumerate().map(|(index, name)| (&name[..], index % CLIENTS)).collect();
    let mut client = process.client().expect("a connection");
    let mut found = vec![BTreeMap::new(); CLIENTS];
    let mut start = b"-".to_vec();
    loop {
        client.send(&command(&[b"RANGE", &start, b"+", b"LIMIT", b"2000"])).expect("the server lives");
        let mut page = client.list().expect("the server lives").into_iter();
        let mut last = None;
        while let (Some(key), Some(value)) = (page.next(), page.next()) {
            assert!(last.as_ref().is_none_or(|last| *last < key), "keys out of order");
            let name = key.strip_prefix(b"tmp:").unwrap_or(&key);
            let owner = *owners.get(name).unwrap_or_else(|| panic!("a key that no owner wrote: {key:?}"));
            found[owner].insert(key.clone(), value);
            last = Some(key);
        }
        match last {
            Some(last) => start = [b"(", &last[..]].concat(),
            None => return found,
        }
    }
}

/// TB02, TB04, TB05, and the whole way from a client to the disk and back.
#[test]
fn every_acknowledged_write_survives_kill_9() {
    let seed = everbyte_workload::seed(0x5eed, "-p everbyte-suite --test processes every_acknowledged");
    let mut random = Random::new(seed);
    let program = everbyte();
    let start = Instant::now();
    let packages = debian::packages();
    let size: usize = packages.values().map(Vec::len).sum();
    let mut twins = writes(&packages);
    let total: usize = twins.iter().map(|twin| twin.writes.len()).sum();
    println!("{} packages, {} MB, {total} writes", packages.len(), size >> 20);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("debian.store");

    let (mut kills, mut doubtful, mut untold, mut opening) = (0, 0, 0, Duration::ZERO);
    let mut process = Process::start(&program, &path);
    while twins.iter().any(|twin| twin.done < twin.writes.len()) {
        let done: usize = twins.iter().map(|twin| twin.done).sum();
        // So many acknowledgements from now the server dies; what is left is shared by the kills
        // that are left.
        let share = (total - done) / (KILLS_MIN + 2 - kills.min(KILLS_MIN + 1));
        let limit = if kills <= KILLS_MIN { 1 + random.below(2 * share.max(1) as u64) as usize } else { usize::MAX };
        let delay = Duration::from_micros(random.below(3000));
        let acknowledged = AtomicUsize::new(0);
        let seeds: Vec<u64> = twins.iter().map(|_| random.next()).collect();
        let address = process.address.clone();
        let killed = std::thread::scope(|scope| {
            let clients: Vec<_> = twins
                .iter_mut()
                .zip(seeds)
                .map(|(twin, seed)| {
                    let (address, acknowledged) = (&address, &acknowledged);
                    scope.spawn(move || load(address, twin, Random::new(seed), acknowledged))
                })
                .collect();
            while acknowledged.load(Ordering::Relaxed) < limit {
                if clients.iter().all(|client| client.is_finished()) {
                    return Some(process);
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            std::thread::sleep(delay);
            process.kill();
            None
        });
        process = match killed {
            Some(process) => process,
            None => {
                kills += 1;
                for _ in 0..random.below(3) {
                    Process::stillborn(&program, &path, Duration::from_micros(random.below(20_000)));
                }
                let before = Instant::now();
                let process = Process::start(&program, &path);
                opening = opening.max(before.elapsed());
                for (number, (twin, found)) in twins.iter_mut().zip(found(&process, &packages)).enumerate() {
                    doubtful += twin.sent - twin.done;
                    let more = twin.compare(&found);
                    untold +=
                        more.unwrap_or_else(|error| panic!("seed {seed:#x}, kill {kills}, client {number}: {error}"));
                }
                process
            }
        };
    }
    println!("{kills} kills; {doubtful} writes under way, {untold} of them found; slowest start {opening:?}");
    assert!(kills >= KILLS_MIN, "{kills} kills");

    let mut client = process.client().expect("a connection");
    client.send(&command(&[b"SHUTDOWN"])).expect("the server lives");
    assert!(process.wait(), "the server ends well");
    let check = Command::new(&program).arg("check").arg(&path).output().expect("everbyte check");
    assert!(check.status.success(), "everbyte check: {check:?}");
    let media = Options { backend: BackendChoice::File, ..Options::default() };
    let store = Store::open(&path, &media).expect("the store");
    let kv = Kv::open(&store, "kv").expect("its table");
    let mut entries = 0;
    for entry in kv.range::<[u8]>(..) {
        let (name, stanza) = entry.expect("an entry");
        assert_eq!(packages.get(&name), Some(&stanza), "{}", String::from_utf8_lossy(&name));
        entries += 1;
    }
    assert_eq!(entries, packages.len());
    let findings = [store.check(), kv.check()].concat();
    let bad: Vec<_> = findings.iter().filter(|finding| finding.kind != FindingKind::Note).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    println!("checked; {:?} in all", start.elapsed());
}
