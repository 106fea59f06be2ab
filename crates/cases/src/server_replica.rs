//! A replica that applies patches of its primary, and is crashed at each step: its keys are those
//! of a position, or the mixture that a patch leaves, and its record says which. Then it goes on
//! from there to the primary's last version.

use crate::Case;
use crate::kv_tables::image_up_to;
use everbyte_kv::raw::Raw as _;
use everbyte_kv::{Kv, ManualClock, Snapshot};
use everbyte_media::Media;
use everbyte_server::{Options, ReplicaPatch, ServerScript, replica_patches};
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::FindingKind;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "server-replica",
        crate_name: "server",
        about: "a replica copies its primary and follows it: each patch and its position are one batch, told when settled",
        total: TOTAL,
        program: |explorer| follow(explorer, false),
    },
    Case {
        name: "server-replica-pending",
        crate_name: "server",
        about: "the same beside other clients: a position is told once another thread has settled it",
        total: TOTAL / 2,
        program: |explorer| follow(explorer, true),
    },
];

const TOTAL: u64 = 800;
const START: u64 = 1_000_000_000_000;
const MAX: u64 = 4 << 20;
/// Bytes of a part and of a patch: a transfer is several.
const PART_SIZE: usize = 600;
/// The tables that are sent; the first is the main one.
const TABLES: [&str; 5] = ["", "server/keys", "server/elements", "server/deadlines", "server/state"];

/// The pairs of the tables that are sent.
type Pairs = BTreeMap<(usize, Vec<u8>), Vec<u8>>;
/// The source of the keys, and the keys.
type State = (Vec<u8>, Pairs);

fn pairs(kv: &Kv, snapshot: &Snapshot) -> Result<Pairs, String> {
    let mut all = Pairs::new();
    for (place, name) in TABLES.iter().enumerate() {
        let range = match place {
            0 => snapshot.range::<[u8]>(..),
            _ => {
                let table = kv.open_table(name).and_then(|table| snapshot.table(&table));
                table.map_err(|error| error.to_string())?.range::<[u8]>(..)
            }
        };
        for pair in range {
            let (key, value) = pair.map_err(|error| error.to_string())?;
            all.insert((place, key), value);
        }
    }
    Ok(all)
}

fn open(kv: &Kv, settles_later: bool) -> Result<ServerScript, String> {
    let clock = ManualClock::default();
    clock.set(UNIX_EPOCH + Duration::from_millis(START));
    let options = Options { clock: Arc::new(clock), ..Options::default() };
    ServerScript::open(kv.clone(), 1, settles_later, options).map_err(|error| error.to_string())
}

/// A primary's versions as patches, and what the last one holds.
fn primary() -> (Vec<ReplicaPatch>, Pairs) {
    let made = RefCell::default();
    image_up_to(MAX, &|kv| {
        let mut server = open(kv, false).expect("room");
        let mut versions = Vec::new();
        for lines in [
            &["SET a 1", "SET b 2 PXAT 2000000000000", "HSET h f v g w", "RPUSH l x y z", "ZADD s 1 m 2 n"][..],
            &["SET a 3", "HSET h f other", "LPOP l", "DEL b", "XADD st 1-1 f v", "SWAPDB 0 5"],
            &["FLUSHALL", "SET c last", "SADD only one two"],
        ] {
            let bytes = lines.iter().flat_map(|line| format!("{line}\r\n").into_bytes()).collect();
            let replies = server.iteration(&[(0, bytes)]).expect("room");
            let replies = String::from_utf8_lossy(&replies[0]);
            assert!(!replies.lines().any(|line| line.starts_with('-')), "{replies}");
            versions.push(kv.snapshot());
        }
        let patches = replica_patches(kv, &versions, PART_SIZE).expect("whole tables");
        let last = pairs(kv, versions.last().expect("some")).expect("whole tables");
        *made.borrow_mut() = (patches, last);
    });
    made.into_inner()
}

/// A replica that has keys of its own and has applied nothing.
fn replica() -> Image {
    image_up_to(MAX, &|kv| {
        let mut server = open(kv, false).expect("room");
        server.iteration(&[(0, b"SET own gone\r\nRPUSH l other\r\n".to_vec())]).expect("room");
        server.become_replica().expect("room");
    })
}

/// The keys of a replica after each patch, and before all.
fn states(patches: &[ReplicaPatch]) -> Vec<State> {
    let kv = crate::kv::open(&replica().media()).expect("a whole store");
    let mut server = open(&kv, false).expect("whole tables");
    server.become_replica().expect("room");
    let mut states = vec![(server.origin(), pairs(&kv, &kv.snapshot()).expect("whole tables"))];
    for patch in patches {
        server.apply(patch).expect("room");
        states.push((server.origin(), pairs(&kv, &kv.snapshot()).expect("whole tables")));
    }
    states
}

/// How many patches lead to an origin.
fn place(states: &[State], origin: &[u8]) -> Option<usize> {
    states.iter().position(|state| state.0 == origin)
}

fn follow(explorer: Explorer, settles_later: bool) -> Result<Report, Box<Failure>> {
    let (patches, last) = primary();
    assert!(patches.iter().any(ReplicaPatch::is_between), "a transfer is several patches");
    let states = states(&patches);
    assert_eq!(states.last().map(|state| &state.1), Some(&last), "the replica has what its primary has");
    let program = |media: Media, twin: &Twin<'_, State>| {
        let kv = crate::kv::open(&media).expect("a whole store");
        let mut server = open(&kv, settles_later).expect("whole tables");
        server.become_replica().expect("room");
        // The second run begins where the first one was crashed.
        let at = place(&states, &server.origin()).expect("the origin of a patch");
        for (patch, state) in patches.iter().zip(&states[1..]).skip(at) {
            let next = state.clone();
            let op = twin.begin("a patch", move |state: &mut State| *state = next.clone());
            twin.on_its_thread(|| server.apply(patch)).expect("sim barriers do not fail");
            if server.settled_origin() != Some(patch.origin()) {
                twin.on_its_thread(|| server.settle()).expect("sim barriers do not fail");
            }
            assert_eq!(server.settled_origin(), Some(patch.origin()));
            twin.acked(op);
        }
    };
    let observe = |media: Media, seen: &Seen| observe(&media, seen, &patches, &states);
    explorer.recovery(64, 2).floor(8).explore_twin(&replica(), &states[0], Order::InOrder, program, observe)
}

/// The keys after recovery; then the replica goes on.
fn observe(media: &Media, seen: &Seen, patches: &[ReplicaPatch], states: &[State]) -> Result<State, String> {
    let kv = crate::kv::open(media)?;
    let mut server = open(&kv, false)?;
    seen.recovered();
    let found = (server.origin(), pairs(&kv, &kv.snapshot())?);
    sound(&kv)?;
    server.become_replica().map_err(|error| error.to_string())?;
    let Some(at) = place(states, &found.0) else {
        return Err(format!("no patch leads to the origin {:?}", found.0));
    };
    // One that was made from another position changes nothing.
    if let Some(other) = patches.get(at + 1) {
        server.apply(other).map_err(|error| error.to_string())?;
        if found != (server.origin(), pairs(&kv, &kv.snapshot())?) {
            return Err("a patch was applied to keys from which it was not made".into());
        }
    }
    for patch in &patches[at..] {
        server.apply(patch).map_err(|error| error.to_string())?;
    }
    if states.last() != Some(&(server.origin(), pairs(&kv, &kv.snapshot())?)) {
        return Err("the replica has gone on, and has not what its primary has".into());
    }
    sound(&kv)?;
    let mut findings = kv.check();
    findings.extend(kv.store().check());
    findings.retain(|finding| finding.kind != FindingKind::Note);
    if findings.is_empty() { Ok(found) } else { Err(format!("check: {findings:?}")) }
}

fn sound(kv: &Kv) -> Result<(), String> {
    let mut findings = Vec::new();
    everbyte_server::check(kv, &mut |finding| findings.push(finding));
    // A mixture says so, and is not compared.
    findings.retain(|finding| finding.kind != FindingKind::Note);
    if findings.is_empty() { Ok(()) } else { Err(format!("check of the server's tables: {findings:?}")) }
}
