//! Cases of what C programs keep.

use crate::{Case, TOTAL};
use everbyte_log::{Form, Full};
use everbyte_media::Media;
use everbyte_mnemosyne::{Log, LogOptions, Program, Regions, Variables};
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen};
use everbyte_store::{CLUSTER, FindingKind, FormatOptions, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "mnemosyne-program",
        crate_name: "mnemosyne",
        about: "a program's first run, and blocks allocated into its variables: all initial values or none, no block without its pointer",
        total: TOTAL,
        program: first_runs,
    },
    Case {
        name: "mnemosyne-regions",
        crate_name: "mnemosyne",
        about: "regions are mapped, cut in the middle and at both ends, and unmapped: each is whole or gone, with the word that leads to it",
        total: 10_000,
        program: regions,
    },
    Case {
        name: "mnemosyne-log",
        crate_name: "mnemosyne",
        about: "a named log is made, appended to, flushed and truncated: it is whole or absent, and records are whole",
        total: 6000,
        program: logged,
    },
];

const NAME: &str = "pstatic/program";
const MAX: u64 = 8 << 20;
const SPAN: u64 = 1 << 20;
/// The address of the store.
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
            let run = || open(&store, b"one").expect("room for a program");
            let program = if twin.model().is_some() { run() } else { twin.step("first run", first, run) };
            let heap = program.heap().based_at(BASE);
            for (pointer, size, fill) in [(0, 100, Some(7)), (2, 9000, Some(8)), (0, 0, None), (1, 64, Some(9))] {
                let at = program.variables().start + pointer * 8;
                if twin.model().expect("it has run")[pointer as usize].is_some() == fill.is_some() {
                    continue; // the run before has done it
                }
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
    let mut findings = program.redo().check(Some(&reachable));
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
            let make = || open_log(&store, &mut Vec::new()).expect("room for a log");
            let log = if twin.model().is_some() { make() } else { twin.step("make", made, make) };
            if twin.model().is_some_and(|records| !records.is_empty()) {
                let empty = |records: &mut Option<Vec<u64>>| records.as_mut().expect("made").clear();
                twin.step("truncate what was left", empty, || log.truncate().expect("sim barriers do not fail"));
            }
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

const PAGE: u64 = 4096;

/// The pages that each pointer's region still has, and whether the pointer is set.
type Mapped = BTreeMap<u64, Vec<Range<u64>>>;

fn open_regions(media: &Media) -> Result<(Program, Regions), String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    let program = open(&store, b"one").map_err(|error| error.to_string())?;
    let regions = Regions::open(&program).map_err(|error| error.to_string())?;
    Ok((program, regions))
}

/// The parts of a piece that are left.
fn without(piece: &Range<u64>, gone: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let parts = [piece.start..piece.end.min(gone.start), piece.start.max(gone.end)..piece.end];
    parts.into_iter().filter(|part| !part.is_empty())
}

fn regions(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let image = image().then(|media| {
        let store = Store::attach(media.clone()).expect("a whole store");
        drop(open(&store, b"one").expect("room for a program"));
        store.close().expect("sim barriers do not fail");
    });
    explorer.explore_twin(
        &image,
        &Mapped::new(),
        Order::InOrder,
        |media, twin| {
            let (program, regions) = open_regions(&media).expect("a whole program");
            let word = |pointer: u64| program.variables().start + pointer * 8;
            for (pointer, pages) in [(0, 40), (1, 2)] {
                if twin.model().contains_key(&pointer) {
                    continue; // the run before has mapped it, and its word must be empty
                }
                let change = move |mapped: &mut Mapped| _ = mapped.insert(pointer, std::iter::once(0..pages).collect());
                twin.step(format!("map {pointer}"), change, || {
                    regions.map(&program, pages * PAGE, 3, word(pointer)).expect("room for a region");
                });
            }
            for (pointer, hit) in [(0, 16..32), (0, 0..4), (0, 36..40), (1, 0..2)] {
                let is_there = |piece: &Range<u64>| piece.contains(&hit.start);
                if !twin.model().get(&pointer).is_some_and(|pieces| pieces.iter().any(is_there)) {
                    continue; // the run before has cut it
                }
                let gone = hit.clone();
                let change = move |mapped: &mut Mapped| {
                    let pieces = mapped.entry(pointer).or_default();
                    *pieces = pieces.iter().flat_map(|piece| without(piece, &gone)).collect();
                };
                twin.step(format!("cut {hit:?} of {pointer}"), change, || {
                    let at = media.load(word(pointer)) + hit.start * PAGE;
                    assert!(regions.unmap(at, (hit.end - hit.start) * PAGE, &mut |_| {}).expect("room in the table"));
                });
            }
        },
        |media, seen| {
            let (program, regions) = open_regions(&media)?;
            seen.recovered();
            let (store, list) = (program.heap().object().store(), regions.list());
            let mut mapped = Mapped::new();
            let mut objects = BTreeSet::new();
            for pointer in 0..2 {
                let address = media.load(program.variables().start + pointer * 8);
                if address == 0 {
                    continue;
                }
                let span = store.objects().map_err(|error| error.to_string())?;
                let object = span.into_iter().find(|object| object.span.contains(&address));
                let inside = |at: u64| object.as_ref().is_some_and(|object| object.span.contains(&at));
                let pieces = list.iter().filter(|piece| inside(piece.at));
                let mut pieces: Vec<_> =
                    pieces.map(|piece| (piece.at - address) / PAGE..(piece.end() - address) / PAGE).collect();
                pieces.sort_by_key(|piece| piece.start);
                objects.extend(object.map(|object| object.id));
                mapped.insert(pointer, pieces);
            }
            let stray =
                list.iter().any(|piece| media.read_vec(piece.at, piece.len as usize).iter().any(|&byte| byte != 0));
            let count = store.objects().map_err(|error| error.to_string())?.len();
            let mut findings = store.check();
            findings.retain(|finding| finding.kind != FindingKind::Note);
            match stray || !findings.is_empty() || count != objects.len() + 1 {
                true => Err(format!("stray bytes: {stray}, {count} objects, {mapped:?}, check: {findings:?}")),
                false => Ok(mapped),
            }
        },
    )
}
