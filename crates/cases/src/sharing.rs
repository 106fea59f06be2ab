//! Cases of objects that processes share: two members work on one object by turns, and after the
//! death of one the other goes on without opening the store again.

use crate::Case;
use crate::names::full;
use crate::store::{Names, WORD_AT, make};
use everbyte_hkv::{Kv, KvKind, SharedKv};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen, Twin};
use everbyte_store::{CLUSTER, Engine, FindingKind, FormatOptions, ObjectOpen, ObjectOptions, Store};
use everbyte_tx::{Error, Undo};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "tx-shared",
        crate_name: "tx",
        about: "two members allocate, replace and free in one object by turns; after the death of one the other recovers the object",
        total: 1_000,
        program: steps,
    },
    Case {
        name: "tx-shared-outlived",
        crate_name: "tx",
        about: "one of two members dies at each of its steps; the other, which has had the object open all along, goes on",
        total: 200,
        program: |explorer| steps_observed(explorer.recovery(1 << 40, 1), outlived),
    },
    Case {
        name: "store-names-shared",
        crate_name: "store",
        about: "two members make and remove objects by turns, in a trie that changes its form; after the death of one the other goes on",
        total: 1_500,
        program: names,
    },
    Case {
        name: "hkv-hash-outlived",
        crate_name: "hkv",
        about: "the same with a hash table",
        total: 100,
        program: |explorer| pairs_observed(explorer.recovery(1 << 40, 1), KvKind::Hash, outlived_pairs),
    },
    Case {
        name: "hkv-tree-outlived",
        crate_name: "hkv",
        about: "the same with a tree",
        total: 100,
        program: |explorer| pairs_observed(explorer.recovery(1 << 40, 1), KvKind::Tree, outlived_pairs),
    },
    Case {
        name: "hkv-hash-shared",
        crate_name: "hkv",
        about: "two members insert, update and delete in one hash table by turns; after the death of one the other goes on",
        total: 400,
        program: |explorer| pairs(explorer, KvKind::Hash),
    },
    Case {
        name: "hkv-tree-shared",
        crate_name: "hkv",
        about: "the same in a tree",
        total: 400,
        program: |explorer| pairs(explorer, KvKind::Tree),
    },
];

const MAX: u64 = 4 << 20;
/// Words that lead to blocks.
const WORDS: u64 = 6;
/// Offsets in the prime page, each in a line of its own.
const WORDS_AT: u64 = 2048 + 512;

/// The block of each word: so many bytes of one value.
type Model = BTreeMap<u64, (u8, usize)>;

fn image() -> Image {
    Image::zeroed(CLUSTER).with_max(MAX).then(|media| {
        let store =
            Store::format(media, &FormatOptions { log_len: 0, identity: Some([5; 16]) }).expect("a small store");
        let options = ObjectOptions { engine: Engine::Undo, fingerprint: 0, span: Some(2 << 20) };
        let format = |object: &_| Undo::format_with(object, 2, 1024);
        store.create_object("shared", options, format).expect("room for lanes");
        store.close().expect("sim barriers do not fail");
    })
}

/// One user: of several where memory is shared, the only one elsewhere.
fn user(media: &Media) -> Result<Undo, String> {
    let store = Store::attach_shared(media.clone()).map_err(|error| error.to_string())?;
    let object =
        store.open_object("shared", &ObjectOpen::shared(Engine::Undo, 0)).map_err(|error| error.to_string())?;
    Undo::open(object).map_err(|error| error.to_string())
}

fn word(undo: &Undo, index: u64) -> u64 {
    (undo.heap().object().prime() + WORDS_AT + index * 64).get()
}

/// Puts a new block of `len` times `value` in the place of what the word leads to.
fn replace(undo: &Undo, index: u64, value: u8, len: usize) -> Result<(), Error> {
    let _exclusive = undo.enter()?;
    let at = word(undo, index);
    let replaced = undo.run(|tx| {
        let block = tx.allocate(8 + len as u64)?;
        tx.media().store(block.at, len as u64);
        tx.media().write(block.at + 8, &vec![value; len]);
        let old = tx.media().load(at);
        tx.store(at, block.at.get())?;
        if old == 0 { Ok(()) } else { tx.free(old) }
    });
    replaced.map_err(|error| match error {
        everbyte_tx::TxError::Engine(error) | everbyte_tx::TxError::Aborted(error) => error,
        other => unreachable!("nothing is nested here: {other}"),
    })
}

/// Another process has had the store open since the dead one had opened it: a new process is not
/// alone, and recovers nothing by opening.
fn survivor(media: &Media, seen: &Seen) -> Option<impl Sized> {
    (seen.died() && seen.begun_count() > 0).then(|| media.lock_joining().and_then(|joining| Ok(joining.join(1 << 20)?)))
}

/// No second death: a process that dies while it opens the store leaves no other one that has
/// joined it, so there is no [`survivor`] of that death.
fn once_dead(explorer: Explorer) -> Explorer {
    explorer.further_deaths(0)
}

/// Makes the content of `media` that of `image`.
fn show(media: &Media, image: &Image) {
    let source = image.media();
    let pages = (0..media.len()).step_by(4096);
    for at in pages {
        let wanted = if at < source.len() { source.read_vec(at, 4096) } else { vec![0; 4096] };
        if media.read_vec(at, 4096) != wanted {
            media.write(at, &wanted);
        }
    }
}

/// The number of the step in which the second member has died and the first has not; they work by
/// turns.
fn second_died(seen: &Seen) -> Option<usize> {
    let flying = seen.begun_count() > seen.acked_count();
    (seen.died() && flying && seen.acked_count() % 2 == 1).then(|| seen.acked_count())
}

/// The survivor of a death: both users live through the steps before it, then memory is what the
/// dead one left, and the other goes on with all that it remembers. Of this nothing is recorded:
/// power stays on.
fn outlived(media: Media, seen: &Seen) -> Result<Model, String> {
    let Some(steps) = second_died(seen) else { return observe(media, seen) };
    const OWN: u64 = WORDS - 1; // a word that no step uses
    seen.recovered();
    let left = Image::of(&media);
    show(&media, &image());
    let (one, other) = (user(&media)?, user(&media)?);
    for (step, (index, len)) in STEPS.into_iter().enumerate().take(steps) {
        let who = if step % 2 == 0 { &one } else { &other };
        replace(who, index, step as u8 + 1, len).map_err(|error| error.to_string())?;
    }
    drop(other);
    show(&media, &left);
    replace(&one, OWN, 99, 300).map_err(|error| format!("the survivor cannot go on: {error}"))?;
    let mut model = read_out(&media, &one)?;
    match model.remove(&OWN) {
        Some((99, 300)) => Ok(model),
        other => Err(format!("the survivor's block is {other:?}")),
    }
}

/// Goes on as the heir of a dead process, or opens the store after a power cut, and reads out.
fn observe(media: Media, seen: &Seen) -> Result<Model, String> {
    let survivor = survivor(&media, seen);
    let undo = user(&media)?;
    let _exclusive = undo.enter().map_err(|error| error.to_string())?;
    seen.recovered();
    drop(survivor);
    read_out(&media, &undo)
}

/// The block behind each word, if all is sound.
fn read_out(media: &Media, undo: &Undo) -> Result<Model, String> {
    let _exclusive = undo.enter().map_err(|error| error.to_string())?;
    let findings = undo.check(Some(&pointed(undo)));
    if let Some(finding) = findings.into_iter().chain(undo.heap().object().store().check()).next() {
        return Err(finding.to_string());
    }
    let read = |index: u64| {
        let at = media.load(word(undo, index));
        (at != 0).then(|| (index, (media.read_vec(at + 8, 1)[0], media.read_vec(at + 8, media.load(at) as usize))))
    };
    let whole = |(index, (value, bytes)): (u64, (u8, Vec<u8>))| match bytes.iter().all(|&byte| byte == value) {
        true => Ok((index, (value, bytes.len()))),
        false => Err(format!("the block of word {index} is torn")),
    };
    (0..WORDS).filter_map(read).map(whole).collect()
}

fn pointed(undo: &Undo) -> BTreeSet<u64> {
    (0..WORDS).map(|index| undo.media().load(word(undo, index))).filter(|&at| at != 0).collect()
}

/// Word and length of each step: small blocks from one run, one that grows the heap, and places
/// that the other member has just freed.
const STEPS: [(u64, usize); 8] = [(0, 40), (1, 40), (2, 40), (0, 70_000), (1, 24), (2, 40), (3, 70_000), (0, 40)];

fn steps(explorer: Explorer) -> Result<Report, Box<Failure>> {
    steps_observed(explorer, observe)
}

fn steps_observed(
    explorer: Explorer,
    observe: fn(Media, &Seen) -> Result<Model, String>,
) -> Result<Report, Box<Failure>> {
    once_dead(explorer).explore_twin(
        &image(),
        &Model::new(),
        Order::InOrder,
        |media, twin| {
            let one = user(&media).expect("a whole image");
            let other = if media.capabilities().shared { user(&media).expect("a whole image") } else { one.clone() };
            for (number, (index, len)) in STEPS.into_iter().enumerate() {
                let (who, value) = (if number % 2 == 0 { &one } else { &other }, number as u8 + 1);
                let change = move |model: &mut Model| _ = model.insert(index, (value, len));
                let step = || replace(who, index, value, len).expect("room");
                twin.step(format!("step {number}: word {index}"), change, step);
            }
        },
        observe,
    )
}

/// The pairs of a key-value store.
type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// One user of the key-value store.
fn user_of_pairs(media: &Media) -> Result<SharedKv, String> {
    let store = Store::attach_shared(media.clone()).map_err(|error| error.to_string())?;
    SharedKv::open(&store, "pairs").map_err(|error| error.to_string())
}

fn observe_pairs(media: &Media, seen: &Seen) -> Result<Pairs, String> {
    let survivor = survivor(media, seen);
    let kv = user_of_pairs(media)?;
    let mut pairs = Pairs::new();
    let read = |kv: &Kv| {
        seen.recovered();
        kv.scan(|key, value| pairs.insert(key.to_vec(), value.to_vec()).is_none())?;
        Ok::<_, everbyte_hkv::Error>(kv.check())
    };
    let findings = kv.look(read).map_err(|error| error.to_string())?;
    drop(survivor);
    findings.first().map_or(Ok(pairs), |finding| Err(finding.to_string()))
}

/// The pairs that the programs start from, and the first key that they insert.
const FILL: u8 = 68;

fn key(number: u8) -> Vec<u8> {
    vec![number.reverse_bits()]
}

fn value(number: u8) -> Vec<u8> {
    vec![number; 20]
}

fn first_pairs() -> Pairs {
    (0..FILL).map(|number| (key(number), value(number))).collect()
}

fn image_of_pairs(kind: KvKind) -> Image {
    Image::zeroed(CLUSTER).with_max(MAX).then(|media| {
        let store =
            Store::format(media, &FormatOptions { log_len: 0, identity: Some([6; 16]) }).expect("a small store");
        let kv = SharedKv::create(&store, "pairs", kind, Some(2 << 20)).expect("room for a store");
        for (key, value) in &first_pairs() {
            kv.change(|kv| kv.insert(key, value)).expect("room for a pair");
        }
        drop(kv);
        store.close().expect("sim barriers do not fail");
    })
}

/// As [`outlived`]. Each number is inserted and the one before deleted by the same user, so users
/// change every two steps.
fn outlived_pairs(media: &Media, seen: &Seen, kind: KvKind) -> Result<Pairs, String> {
    let flying = seen.begun_count() > seen.acked_count();
    let steps = seen.acked_count();
    if !(seen.died() && flying && steps / 2 % 2 == 1) {
        return observe_pairs(media, seen);
    }
    const OWN: u8 = 200; // a number that no step uses
    let text = |error: everbyte_hkv::Error| error.to_string();
    seen.recovered();
    let left = Image::of(media);
    show(media, &image_of_pairs(kind));
    let (one, other) = (user_of_pairs(media)?, user_of_pairs(media)?);
    for step in 0..steps {
        let number = FILL + (step / 2) as u8;
        let who = if number.is_multiple_of(2) { &one } else { &other };
        match step % 2 {
            0 => drop(who.change(|kv| kv.insert(&key(number), &value(number))).map_err(text)?),
            _ => drop(who.change(|kv| kv.delete(&key(number - 1))).map_err(text)?),
        }
    }
    drop(other);
    show(media, &left);
    let inserted = one.change(|kv| kv.insert(&key(OWN), &value(OWN)));
    inserted.map_err(|error| format!("the survivor cannot go on: {error}"))?;
    let mut pairs = read_pairs(&one)?;
    match pairs.remove(&key(OWN)) {
        Some(found) if found == value(OWN) => Ok(pairs),
        other => Err(format!("the survivor's value is {other:?}")),
    }
}

fn read_pairs(kv: &SharedKv) -> Result<Pairs, String> {
    let mut pairs = Pairs::new();
    let read = |kv: &Kv| {
        kv.scan(|key, value| pairs.insert(key.to_vec(), value.to_vec()).is_none())?;
        Ok::<_, everbyte_hkv::Error>(kv.check())
    };
    let findings = kv.look(read).map_err(|error| error.to_string())?;
    findings.first().map_or(Ok(pairs), |finding| Err(finding.to_string()))
}

/// Enough pairs for buckets, or leaves, to be split by one user while the other thinks they are
/// whole.
fn pairs(explorer: Explorer, kind: KvKind) -> Result<Report, Box<Failure>> {
    pairs_observed(explorer, kind, |media, seen, _| observe_pairs(media, seen))
}

fn pairs_observed(
    explorer: Explorer,
    kind: KvKind,
    observe: fn(&Media, &Seen, KvKind) -> Result<Pairs, String>,
) -> Result<Report, Box<Failure>> {
    let (first, image) = (first_pairs(), image_of_pairs(kind));
    let run = |media: Media, twin: &Twin<'_, Pairs>| {
        let one = user_of_pairs(&media).expect("a whole image");
        let other = media.capabilities().shared.then(|| user_of_pairs(&media).expect("a whole image"));
        for number in FILL..FILL + 8 {
            let who = if number.is_multiple_of(2) { &one } else { other.as_ref().unwrap_or(&one) };
            let new = move |pairs: &mut Pairs| _ = pairs.insert(key(number), value(number));
            let insert = || who.change(|kv| kv.insert(&key(number), &value(number))).map(drop).expect("room");
            twin.step(format!("insert {number}"), new, insert);
            let gone = move |pairs: &mut Pairs| drop(pairs.remove(&key(number - 1)));
            let is_there = twin.model().contains_key(&key(number - 1));
            let delete = || assert_eq!(who.change(|kv| kv.delete(&key(number - 1))).expect("whole"), is_there);
            twin.step(format!("delete {}", number - 1), gone, delete);
        }
    };
    once_dead(explorer).explore_twin(&image, &first, Order::InOrder, run, |media, seen| observe(&media, seen, kind))
}

/// The object that each step makes, or removes if it is there.
const NAME_STEPS: [&str; 6] = ["shop/q", "short", "shop/a", "short", "shop/a", "sh"];

fn names(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let (image, initial) = full();
    let user = |media: &Media| Store::attach_shared(media.clone()).expect("a whole image");
    once_dead(explorer).explore_twin(
        &image,
        &initial,
        Order::InOrder,
        |media, twin| {
            let one = user(&media);
            let other = if media.capabilities().shared { user(&media) } else { one.clone() };
            for (step, name) in NAME_STEPS.into_iter().enumerate() {
                let (who, word) = (if step % 2 == 0 { &one } else { &other }, step as u64 + 100);
                if twin.model().contains_key(name) {
                    let removed = |names: &mut Names| _ = names.remove(name);
                    twin.step(format!("remove {name}"), removed, || who.remove_object(name).expect("it is not open"));
                } else {
                    let made = move |names: &mut Names| _ = names.insert(name.into(), word);
                    twin.step(format!("make {name}"), made, || make(who, name, word));
                }
            }
        },
        |media, seen| {
            let survivor = survivor(&media, seen);
            let store = Store::attach_shared(media.clone()).map_err(|error| error.to_string())?;
            // under the shared lock: recovery of the dead member's changes
            let objects = store.objects().map_err(|error| error.to_string())?;
            seen.recovered();
            drop(survivor);
            let findings: Vec<_> =
                store.check().into_iter().filter(|finding| finding.kind != FindingKind::Note).collect();
            if !findings.is_empty() {
                return Err(format!("check: {findings:?}"));
            }
            let word = |span: std::ops::Range<u64>| media.load(span.start + WORD_AT);
            Ok(objects.into_iter().map(|info| (info.name, word(info.span))).collect())
        },
    )
}
