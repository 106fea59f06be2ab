//! Cases of what C programs keep.

use crate::{Case, TOTAL};
use everbyte_log::{Form, Full};
use everbyte_media::Media;
use everbyte_mnemosyne::{Log, LogOptions, Program, Variables};
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen};
use everbyte_store::{CLUSTER, FindingKind, FormatOptions, Store};
use std::collections::BTreeSet;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "mnemosyne-program",
        room: "mnemosyne",
        about: "a program's first run, and blocks allocated into its variables: all initial values or none, no block without its pointer",
        total: TOTAL,
        program: first_runs,
    },
    Case {
        name: "mnemosyne-log",
        room: "mnemosyne",
        about: "a named log is made, appended to, flushed and truncated: it is whole or absent, and records are whole",
        total: 6000,
        program: logged,
    },
];

const NAME: &str = "pstatic/program";
const MAX: u64 = 8 << 20;
const SPAN: u64 = 1 << 20;
/// Where the store would be mapped.
const BASE: u64 = 0x2000_0000_0000;
/// The first words of the variables are pointers, all behind them keep the value they begin with.
const POINTERS: u64 = 3;
const INITIAL: [u8; 8192] = {
    let mut initial = [0x5a; 8192];
    let mut at = 0;
    while at < POINTERS as usize * 8 {
        initial[at] = 0;
        at += 1;
    }
    initial
};

fn image() -> Image {
    Image::zeroed(CLUSTER).with_max(MAX).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        Store::format(media, &options).expect("a small store").close().expect("sim barriers do not fail");
    })
}

fn open(store: &Store, build: &[u8]) -> everbyte_mnemosyne::Result<Program> {
    let variables = Variables { initial: &INITIAL, build, layout: &|| Ok(Some(77)) };
    Program::open(store, NAME, SPAN, &variables)
}

/// Whether the program has run, and the fill of the block that each pointer leads to.
type Kept = Option<[Option<u8>; POINTERS as usize]>;

fn first_runs(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image(),
        &None,
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            let first = |kept: &mut Kept| *kept = Some([None; POINTERS as usize]);
            let program = twin.step("first run", first, || open(&store, b"one").expect("room for a program"));
            let heap = program.heap().based_at(BASE);
            for (pointer, size, fill) in [(0, 100, Some(7)), (2, 9000, Some(8)), (0, 0, None), (1, 64, Some(9))] {
                let at = program.variables().start + pointer * 8;
                let change = move |kept: &mut Kept| kept.as_mut().expect("it has run")[pointer as usize] = fill;
                twin.step(format!("pointer {pointer}: {fill:?}"), change, || match fill {
                    Some(fill) => drop(heap.alloc_set(size, at, fill).expect("room in the heap")),
                    None => heap.free_from(at).expect("a block"),
                });
            }
        },
        |media, seen| observe(&media, seen),
    )
}

fn observe(media: &Media, seen: &Seen) -> Result<Kept, String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    if store.objects().map_err(|error| error.to_string())?.is_empty() {
        return Ok(None);
    }
    // Another build whose variables lie where they did.
    let program = open(&store, b"two").map_err(|error| error.to_string())?;
    seen.recovered();
    let (variables, heap) = (program.variables(), program.heap());
    let root = heap.object().root();
    let mut reachable = BTreeSet::from([root, variables.start]);
    let rest = media.read_vec(variables.start, INITIAL.len());
    if rest[POINTERS as usize * 8..] != INITIAL[POINTERS as usize * 8..] {
        return Err("variables do not hold what they began with".into());
    }
    let mut kept = [None; POINTERS as usize];
    for (pointer, kept) in kept.iter_mut().enumerate() {
        let address = media.load(variables.start + pointer as u64 * 8);
        if address == 0 {
            continue;
        }
        let at = address.wrapping_sub(BASE);
        let size = heap.size_of(at).map_err(|error| error.to_string())?;
        let bytes = media.read_vec(at, size as usize);
        if bytes.iter().any(|byte| *byte != bytes[0]) {
            return Err(format!("the block of pointer {pointer} is not whole"));
        }
        *kept = Some(bytes[0]);
        reachable.insert(at);
    }
    let mut findings = heap.check(Some(&reachable));
    findings.extend(store.check());
    findings.retain(|finding| finding.kind != FindingKind::Note);
    if findings.is_empty() { Ok(Some(kept)) } else { Err(format!("check: {findings:?}")) }
}

fn open_log(store: &Store, records: &mut Vec<u64>) -> Result<Log, String> {
    let options = LogOptions { size: 1024, form: Form::Torn, full: Full::Error };
    let mut broken = None;
    let log = Log::open(store, "log", options, |words| {
        records.push(words[0]);
        broken = (words != [words[0]; 5]).then(|| format!("a record of {words:?}")).or(broken.take());
    });
    broken.map_or_else(|| log.map_err(|error| error.to_string()), Err)
}

/// The first words of the records in it, once there is a log.
fn logged(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &image(),
        &None,
        Order::InOrder,
        |media, twin| {
            let store = Store::attach(media).expect("a whole store");
            let made = |records: &mut Option<Vec<u64>>| *records = Some(Vec::new());
            let log = twin.step("make", made, || open_log(&store, &mut Vec::new()).expect("room for a log"));
            for number in 1..4 {
                let append = move |records: &mut Option<Vec<u64>>| records.as_mut().expect("made").push(number);
                twin.step(format!("append {number}"), append, || {
                    log.append(&[number; 5]).expect("room in the log");
                    log.flush().expect("sim barriers do not fail");
                });
                if number == 2 {
                    let empty = |records: &mut Option<Vec<u64>>| records.as_mut().expect("made").clear();
                    twin.step("truncate", empty, || log.truncate().expect("sim barriers do not fail"));
                }
            }
        },
        |media, seen| {
            let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
            if store.objects().map_err(|error| error.to_string())?.is_empty() {
                return Ok(None);
            }
            let mut records = Vec::new();
            open_log(&store, &mut records)?;
            seen.recovered();
            let findings = store.check();
            if findings.is_empty() { Ok(Some(records)) } else { Err(format!("check: {findings:?}")) }
        },
    )
}
