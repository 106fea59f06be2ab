//! Creation of objects: each engine's format is crashed while it runs and after it was
//! acknowledged. The object is there, sound and usable, or the store has no such name;
//! acknowledged changes stay.

use crate::Case;
use everbyte_heap::Heap;
use everbyte_hkv::KvKind;
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Twin};
use everbyte_store::{CLUSTER, Engine, FindingKind, FormatOptions, ObjectOptions, Store};
use everbyte_tx::{Error, Redo, TxError, Undo};

pub(crate) const CASES: &[Case] = &[
    case("heap-create", "heap", "a heap is made and used: it is there whole, or not at all", |explorer| {
        explore(explorer, Thing { create: heap_create, put: heap_put, read: heap_read })
    }),
    case(
        "tx-create",
        "tx",
        "an object with undo lanes is made and used: it is there whole, or not at all",
        |explorer| explore(explorer, Thing { create: undo_create, put: undo_put, read: undo_read }),
    ),
    case(
        "tx-redo-create",
        "tx",
        "an object with redo logs is made and used: it is there whole, or not at all",
        |explorer| explore(explorer, Thing { create: redo_create, put: redo_put, read: redo_read }),
    ),
    case("hkv-hash-create", "hkv", "a hash table is made and used: it is there whole, or not at all", |explorer| {
        explore(explorer, Thing { create: |store| hkv_create(store, KvKind::Hash), put: hkv_put, read: hkv_read })
    }),
    case("hkv-tree-create", "hkv", "a tree is made and used: it is there whole, or not at all", |explorer| {
        explore(explorer, Thing { create: |store| hkv_create(store, KvKind::Tree), put: hkv_put, read: hkv_read })
    }),
    case("kv-create", "kv", "a versioned table is made and used: it is there whole, or not at all", |explorer| {
        explore(explorer, Thing { create: kv_create, put: kv_put, read: kv_read })
    }),
];

const fn case(
    name: &'static str,
    crate_name: &'static str,
    about: &'static str,
    program: fn(Explorer) -> Result<Report, Box<Failure>>,
) -> Case {
    Case { name, crate_name, about, total: 3000, program }
}

const NAME: &str = "thing";
const SPAN: u64 = 2 << 20;
const MAX: u64 = 8 << 20;
/// Changes after the creation.
const PUTS: u64 = 3;

type Said<T> = Result<T, String>;

/// One kind of object that holds a number.
#[derive(Clone, Copy)]
struct Thing {
    create: fn(&Store) -> Said<()>,
    put: fn(&Store, u64) -> Said<()>,
    /// Opens it, checks it, and reads the number; 0 if none was put.
    read: fn(&Store) -> Said<u64>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A store in which such an object lived before, so that the new one does not begin with zeros
/// everywhere.
fn image(thing: Thing) -> Image {
    Image::zeroed(CLUSTER).with_max(MAX).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        (thing.create)(&store).expect("room for an object");
        (1..4).for_each(|number| (thing.put)(&store, number * 1000).expect("room in the object"));
        store.remove_object(NAME).expect("an object that is not in use");
        store.close().expect("sim barriers do not fail");
    })
}

fn attach(media: &Media) -> Said<Store> {
    Store::attach(media.clone()).map_err(text)
}

/// Nothing without the object; the object's number and one otherwise.
fn explore(explorer: Explorer, thing: Thing) -> Result<Report, Box<Failure>> {
    explorer.recovery(24, 8).explore_twin(
        &image(thing),
        &0_u64,
        Order::InOrder,
        |media, twin: &Twin<'_, u64>| {
            let store = attach(&media).expect("a whole store");
            if twin.model() == 0 {
                twin.step("create", |held| *held = 1, || (thing.create)(&store).expect("room for an object"));
            }
            for number in twin.model()..=PUTS {
                let put = || (thing.put)(&store, number).expect("room in the object");
                twin.step(format!("put {number}"), move |held| *held = number + 1, put);
            }
        },
        |media, seen| {
            let store = attach(&media)?;
            if !store.objects().map_err(text)?.iter().any(|object| object.name == NAME) {
                seen.recovered();
                (thing.create)(&store)?; // the name and its space are usable
                return if (thing.read)(&store)? == 0 { Ok(0) } else { Err("a new object is not empty".into()) };
            }
            let number = (thing.read)(&store)?;
            seen.recovered();
            (thing.put)(&store, 77)?;
            let again = (thing.read)(&store)?;
            let findings: Vec<_> =
                store.check().into_iter().filter(|finding| finding.kind != FindingKind::Note).collect();
            if again != 77 || !findings.is_empty() {
                return Err(format!("77 was put after recovery, {again} is there; {findings:?}"));
            }
            Ok(number + 1)
        },
    )
}

fn options(engine: Engine) -> ObjectOptions {
    ObjectOptions { engine, fingerprint: 0, span: Some(SPAN) }
}

fn sound(heap: &Heap) -> Said<()> {
    let findings: Vec<_> = heap.check(None).into_iter().filter(|finding| finding.kind != FindingKind::Note).collect();
    if findings.is_empty() { Ok(()) } else { Err(format!("check: {findings:?}")) }
}

/// The number of the block that the object's root names, which is filled with it.
fn number_of(heap: &Heap) -> Said<u64> {
    sound(heap)?;
    let at = heap.media().load(heap.object().root_at());
    if at == 0 {
        return Ok(0);
    }
    let (number, words) = (heap.media().load(at), heap.size_of(at).map_err(text)? / 8);
    let whole = (0..words.min(8)).all(|word| heap.media().load(at + word * 8) == number);
    if whole { Ok(number) } else { Err(format!("the block at {at:#x} is torn")) }
}

fn heap_create(store: &Store) -> Said<()> {
    store.create_object(NAME, options(Engine::Heap), Heap::format).map(drop).map_err(text)
}

fn heap(store: &Store) -> Said<Heap> {
    Heap::open(store.object(NAME).map_err(text)?).map_err(text)
}

fn heap_put(store: &Store, number: u64) -> Said<()> {
    let heap = heap(store)?;
    let root = heap.object().root_at();
    if heap.media().load(root) == 0 {
        heap.alloc_set(64, root.get(), 0).map_err(text)?;
    }
    let at = heap.media().load(root);
    heap.alloc_set(64 + number % 8 * 100, at, number as u8).map(drop).map_err(text)?;
    Ok(())
}

fn heap_read(store: &Store) -> Said<u64> {
    let heap = heap(store)?;
    sound(&heap)?;
    let slot = heap.media().load(heap.object().root_at());
    if slot == 0 {
        return Ok(0);
    }
    let at = heap.media().load(slot);
    if at == 0 {
        return Ok(0);
    }
    let size = heap.size_of(at).map_err(text)?;
    let bytes = heap.media().read_vec(at, size as usize);
    if bytes.iter().all(|byte| *byte == bytes[0]) { Ok(bytes[0].into()) } else { Err(format!("{at:#x} is torn")) }
}

fn undo_create(store: &Store) -> Said<()> {
    let format = |object: &_| Undo::format_with(object, 2, 1024);
    store.create_object(NAME, options(Engine::Undo), format).map(drop).map_err(text)
}

fn undo(store: &Store) -> Said<Undo> {
    Undo::open(store.object(NAME).map_err(text)?).map_err(text)
}

fn undo_put(store: &Store, number: u64) -> Said<()> {
    let undo = undo(store)?;
    let root = undo.heap().object().root_at();
    let outcome: Result<(), TxError<Error>> = undo.run(|tx| {
        if tx.media().load(root) == 0 {
            let block = tx.allocate(64)?;
            tx.store(root.get(), block.at.get())?;
        }
        let at = tx.media().load(root);
        (0..8).try_for_each(|word| tx.store(at + word * 8, number))?;
        Ok(())
    });
    outcome.map_err(|error| format!("{error:?}"))
}

fn undo_read(store: &Store) -> Said<u64> {
    number_of(undo(store)?.heap())
}

fn redo_create(store: &Store) -> Said<()> {
    let format = |object: &_| Redo::format_with(object, 2, 4096);
    store.create_object(NAME, options(Engine::Redo), format).map(drop).map_err(text)
}

fn redo(store: &Store) -> Said<Redo> {
    Redo::open(store.object(NAME).map_err(text)?).map_err(text)
}

fn redo_put(store: &Store, number: u64) -> Said<()> {
    let redo = redo(store)?;
    let root = redo.heap().object().root_at();
    // one of its own: a thread's kept worker would keep the object open
    let mut worker = redo.worker();
    worker.begin().map_err(text)?;
    let mut put = || {
        let mut at = worker.load(root.get())?;
        if at == 0 {
            at = (worker.allocate(64)?.at).get();
            worker.store(root.get(), at)?;
        }
        (0..8).try_for_each(|word| worker.store(at + word * 8, number))?;
        worker.commit()
    };
    put().map_err(text)
}

fn redo_read(store: &Store) -> Said<u64> {
    number_of(redo(store)?.heap())
}

fn hkv_create(store: &Store, kind: KvKind) -> Said<()> {
    everbyte_hkv::Kv::create(store, NAME, kind, Some(SPAN)).map(drop).map_err(text)
}

fn hkv(store: &Store) -> Said<everbyte_hkv::Kv> {
    everbyte_hkv::Kv::open(store.object(NAME).map_err(text)?).map_err(text)
}

fn hkv_put(store: &Store, number: u64) -> Said<()> {
    let (kv, value) = (hkv(store)?, number.to_le_bytes());
    if kv.insert(b"number", &value).map_err(text)? {
        Ok(())
    } else {
        kv.update(b"number", &value).map(drop).map_err(text)
    }
}

fn hkv_read(store: &Store) -> Said<u64> {
    let kv = hkv(store)?;
    if let Some(finding) = kv.check().first() {
        return Err(finding.to_string());
    }
    let mut found = 0;
    let each = |_: &[u8], value: &[u8]| {
        found = value.try_into().map_or(u64::MAX, u64::from_le_bytes);
        true
    };
    kv.scan(each).map_err(text)?;
    Ok(found)
}

fn kv_create(store: &Store) -> Said<()> {
    everbyte_kv::Kv::create(store, NAME).map(drop).map_err(text)
}

fn kv(store: &Store) -> Said<everbyte_kv::Kv> {
    everbyte_kv::Kv::open(store, NAME).map_err(text)
}

fn kv_put(store: &Store, number: u64) -> Said<()> {
    kv(store)?.put(b"number", &number.to_le_bytes()).map(drop).map_err(text)
}

fn kv_read(store: &Store) -> Said<u64> {
    let kv = kv(store)?;
    let findings: Vec<_> = kv.check().into_iter().filter(|finding| finding.kind != FindingKind::Note).collect();
    if !findings.is_empty() {
        return Err(format!("check: {findings:?}"));
    }
    let found = kv.get(b"number").map_err(text)?;
    Ok(found.map_or(0, |value| value[..].try_into().map_or(u64::MAX, u64::from_le_bytes)))
}
