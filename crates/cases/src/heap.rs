//! Cases of the heap: atomic allocation and free into destination words, small, medium and large.

use crate::{Case, TOTAL};
use everbyte_heap::{Heap, layout};
use everbyte_media::Media;
use everbyte_media::sealed::unseal_for;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen};
use everbyte_store::{CLUSTER, Engine, FindingKind, FormatOptions, ObjectOptions, Store};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "heap-small",
        crate_name: "heap",
        about: "blocks of one class allocated into words and freed from them: both or neither, filled, no leak",
        total: TOTAL,
        program: |explorer| {
            explore(explorer, &[], &[Do::Set(0, 64, 7), Do::Alloc(1, 40), Do::Free(0), Do::Alloc(2, 64)])
        },
    },
    Case {
        name: "heap-pages",
        crate_name: "heap",
        about: "runs of pages: a block across clusters comes and goes whole, and its place serves smaller ones after",
        total: TOTAL,
        program: |explorer| {
            let ops = [Do::Alloc(0, 90_000), Do::Alloc(1, 9000), Do::Free(0), Do::Alloc(2, 700), Do::Alloc(3, 5000)];
            explore(explorer, &[], &ops)
        },
    },
    Case {
        name: "heap-growth",
        crate_name: "heap",
        about: "the heap takes more clusters from its object while it allocates: its end and its tables agree",
        total: TOTAL,
        program: |explorer| explore(explorer, &[], &[Do::Alloc(0, 200_000), Do::Alloc(1, 64), Do::Alloc(2, 150_000)]),
    },
    Case {
        name: "heap-zones",
        crate_name: "heap",
        about: "the heap grows into clusters that need a further table: the table is never handed out as space",
        total: TOTAL,
        program: |explorer| explore(explorer, &[Do::Alloc(3, 7_800_000)], &[Do::Alloc(0, 900_000), Do::Alloc(1, 64)]),
    },
    Case {
        name: "heap-release",
        crate_name: "heap",
        about: "free clusters go back to the store and come again: nothing allocated lies where nothing is backed",
        total: TOTAL,
        program: |explorer| {
            // A megabyte stays at hand; what is allocated after it is gone lies where clusters were
            // released.
            let ops = [Do::Free(3), Do::Alloc(0, 1 << 20), Do::Alloc(1, 70_000), Do::Set(2, 700, 9), Do::Free(0)];
            explore(explorer, &[Do::Alloc(3, 3 << 20)], &ops)
        },
    },
    Case {
        name: "heap-kinds",
        crate_name: "heap",
        about: "clusters that were runs of small blocks become pages, and a run again: bits and kinds agree",
        total: 1500,
        program: kinds,
    },
    Case {
        name: "heap-kinds-dead",
        crate_name: "heap",
        about: "the death of a process that turns runs into pages: its kinds last as long as blocks of a later process",
        total: 40,
        program: |explorer| kinds(crate::deaths::starts(explorer, u64::MAX, 200)),
    },
    Case {
        name: "heap-growth-stale",
        crate_name: "heap",
        about: "the heap grows where an interrupted growth has written: its records and tables begin as zeros",
        total: 600,
        program: |explorer| grow_again(explorer, &[]),
    },
    Case {
        name: "heap-growth-stale-dead",
        crate_name: "heap",
        about: "the death of a process that grows a heap where a growth was interrupted before",
        total: 40,
        program: |explorer| grow_again(crate::deaths::starts(explorer, u64::MAX, 200), &[]),
    },
    Case {
        name: "heap-zones-stale",
        crate_name: "heap",
        about: "the same where the growth needs a further table",
        total: 100,
        program: |explorer| grow_again(explorer, &[Do::Alloc(3, 7_800_000)]),
    },
];

const MAX: u64 = 128 << 20;
/// Words that blocks are allocated into, in a block that the object's root names.
const SLOTS: u64 = 4;

/// One operation; the first number is the slot.
#[derive(Clone, Copy, Debug)]
enum Do {
    Alloc(u64, u64),
    /// Allocates a block filled with a byte.
    Set(u64, u64, u8),
    Free(u64),
}

/// The contents of each slot: asked size, and the fill if there was one.
type Held = BTreeMap<u64, (u64, Option<u8>)>;

impl Do {
    fn run(self, heap: &Heap) {
        let slot_at = |slot: u64| heap.object().root() + slot * 8;
        let done = match self {
            Do::Alloc(slot, size) => heap.alloc_into(size, slot_at(slot)).map(drop),
            Do::Set(slot, size, fill) => heap.alloc_set(size, slot_at(slot), fill).map(drop),
            Do::Free(slot) => heap.free_from(slot_at(slot)),
        };
        done.expect("room in the heap");
    }

    fn change(self, held: &mut Held) {
        match self {
            Do::Alloc(slot, size) => held.insert(slot, (size, None)),
            Do::Set(slot, size, fill) => held.insert(slot, (size, Some(fill))),
            Do::Free(slot) => held.remove(&slot),
        };
    }
}

/// A store with a heap in which `ops` have been done.
fn image(ops: &[Do]) -> Image {
    Image::zeroed(CLUSTER).with_max(MAX).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        let options = ObjectOptions { engine: Engine::Heap, fingerprint: 0, span: Some(64 << 20) };
        let object = store.create_object("heap", options, Heap::format).expect("room for an object");
        let heap = Heap::open(object.clone()).expect("a fresh heap");
        heap.alloc_set(SLOTS * 8, object.root_at().get(), 0).expect("room in the heap");
        ops.iter().for_each(|op| op.run(&heap));
        drop((heap, object));
        store.close().expect("sim barriers do not fail");
    })
}

fn open(media: &Media) -> Result<(Store, Heap), String> {
    let store = Store::attach(media.clone()).map_err(|error| error.to_string())?;
    let object = store.object("heap").map_err(|error| error.to_string())?;
    let heap = Heap::open(object).map_err(|error| error.to_string())?;
    Ok((store, heap))
}

fn explore(explorer: Explorer, before: &[Do], ops: &[Do]) -> Result<Report, Box<Failure>> {
    explore_on(explorer, &image(before), before, ops)
}

/// Three clusters are runs without blocks.
fn kinds(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let runs = [Do::Set(0, 64, 7), Do::Set(1, 128, 7), Do::Set(2, 256, 7), Do::Free(0), Do::Free(1), Do::Free(2)];
    explore(explorer, &runs, &[Do::Alloc(3, 60_000), Do::Set(0, 64, 7), Do::Free(3)])
}

/// Allocations for which the heap grows into clusters and records that are no zeros (HEAP-2).
fn grow_again(explorer: Explorer, before: &[Do]) -> Result<Report, Box<Failure>> {
    let stale = image(before).then(|media| {
        let (store, heap) = open(&media).expect("a whole heap");
        let object = heap.object().clone();
        let prime = object.prime().get();
        let first = unseal_for(layout::END, media.load(prime + layout::END)).expect("a whole heap");
        let end = prime + u64::from(first) * CLUSTER;
        object.grow(9 * CLUSTER).expect("room in the span");
        let garbage = |at: u64, len: u64| {
            media.write(at, &vec![0xa5; len as usize]);
            media.flush(at, len);
        };
        garbage(end, object.backed().get() - end);
        let clusters = u64::from(first)..((object.backed().get() - prime) / CLUSTER).min(layout::ZONE_CLUSTERS);
        clusters.for_each(|cluster| garbage(prime + layout::FIRST_TABLE + cluster * layout::RECORD, layout::RECORD));
        drop((heap, object));
        store.close().expect("sim barriers do not fail");
    });
    explore_on(explorer, &stale, before, &[Do::Alloc(0, 900_000), Do::Alloc(1, 64)])
}

fn explore_on(explorer: Explorer, image: &Image, before: &[Do], ops: &[Do]) -> Result<Report, Box<Failure>> {
    let mut initial = Held::new();
    before.iter().for_each(|op| op.change(&mut initial));
    let all = [before, ops].concat();
    explorer.explore_twin(
        image,
        &initial,
        Order::InOrder,
        |media, twin| {
            let (_store, heap) = open(&media).expect("a whole heap");
            for &op in ops {
                let is_free = |slot: u64| !twin.model().contains_key(&slot);
                let applies = match op {
                    Do::Alloc(slot, _) | Do::Set(slot, ..) => is_free(slot),
                    Do::Free(slot) => !is_free(slot),
                };
                if !applies {
                    continue; // the run before has done it
                }
                twin.step(format!("{op:?}"), move |held: &mut Held| op.change(held), || op.run(&heap));
            }
        },
        |media, seen| observe(&media, seen, &all),
    )
}

/// Which slots hold a block, as the operations asked for it.
fn observe(media: &Media, seen: &Seen, ops: &[Do]) -> Result<Held, String> {
    let (store, heap) = open(media)?;
    seen.recovered();
    let root = heap.object().root();
    let mut held = Held::new();
    let mut reachable = BTreeSet::from([root]);
    for slot in 0..SLOTS {
        let at = media.load(root + slot * 8);
        if at == 0 {
            continue;
        }
        reachable.insert(at);
        let usable = heap.size_of(at).map_err(|error| error.to_string())?;
        let asked = ops.iter().find_map(|&op| match op {
            Do::Alloc(to, size) if to == slot => Some((size, None)),
            Do::Set(to, size, fill) if to == slot => Some((size, Some(fill))),
            _ => None,
        });
        let asked = asked.ok_or_else(|| format!("slot {slot} holds {at:#x} and nothing was allocated into it"))?;
        let filled = asked.1.is_none_or(|fill| media.read_vec(at, usable as usize).iter().all(|&byte| byte == fill));
        if usable < asked.0 || !filled {
            return Err(format!("slot {slot}: {usable} bytes at {at:#x}, filled: {filled}, asked: {asked:?}"));
        }
        held.insert(slot, asked);
    }
    let mut findings = heap.check(Some(&reachable));
    findings.extend(store.check());
    findings.retain(|finding| finding.kind != FindingKind::Note);
    if !findings.is_empty() {
        return Err(format!("check: {findings:?}"));
    }
    // Of use again: a new allocation has one owner.
    for size in [64, 700, 9000] {
        let block = heap.reserve(size).map_err(|error| error.to_string())?;
        let overlaps =
            |&at: &u64| at < block.end().get() && heap.size_of(at).is_ok_and(|len| at + len > block.at.get());
        if let Some(at) = reachable.iter().find(|at| overlaps(at)) {
            return Err(format!("{} bytes at {:#x} are handed out, and {at:#x} is in use", block.size, block.at));
        }
    }
    Ok(held)
}
