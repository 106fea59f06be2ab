//! A typed pool, its blocks patched and its description replaced: the deep check of it, without its
//! program and, where the description is that of the program, with it, too. Both find the same.
//!
//! An input: how many patches, the patches, and the description; none is the good one.

use crate::class;
use crate::patch::{Image, PATCH, store};
use everbyte_object::layout::{HEADER, Header, fingerprint};
use everbyte_object::{
    Error, Journal, MemPool, PBTreeMap, PCell, PHashMap, PRefCell, PSafe, PString, PVec, Pbox, Pool, PoolOptions, Prc,
    Report, UntypedPool, VCell, pool, prc,
};
use everbyte_store::Store;
use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

const LEN: u64 = 2 << 20;
/// The longest description that an input may bring.
const ROOM: usize = 16 << 10;

pool!(Fuzzed);

#[derive(PSafe)]
#[repr(C)]
struct World<P: MemPool> {
    list: PRefCell<Option<Pbox<Link<P>, P>>, P>,
    shapes: PVec<Shape<P>, P>,
    weak: Option<prc::PWeak<u64, P>>,
    words: PHashMap<PString<P>, Prc<u64, P>, P>,
    boxes: PBTreeMap<u32, Pbox<u64, P>, P>,
    folders: PBTreeMap<u8, PHashMap<u8, bool, P>, P>,
    grid: [(char, u16, PCell<bool, P>); 3],
    volatile: VCell<u64, P>,
}

#[derive(PSafe)]
#[repr(C)]
struct Link<P: MemPool> {
    next: PRefCell<Option<Pbox<Link<P>, P>>, P>,
}

#[derive(PSafe)]
#[repr(u8)]
enum Shape<P: MemPool> {
    Empty,
    Named { name: PString<P>, like: Option<bool> },
    Boxed(Pbox<u16, P>, u32),
}

impl<P: MemPool> World<P> {
    fn new(boxes: u32, j: &Journal<P>) -> World<P> {
        let text = |number: u64| PString::from_str(&number.to_string(), j);
        let list = (0..3).fold(None, |next, _| Some(Pbox::new(Link { next: PRefCell::new(next) }, j)));
        let named = Shape::Named { name: text(7), like: Some(true) };
        let shared = Prc::new(9, j);
        World {
            list: PRefCell::new(list),
            shapes: PVec::from_iter([Shape::Empty, named, Shape::Boxed(Pbox::new(1, j), 2)], j),
            weak: Some(shared.downgrade(j)),
            words: PHashMap::from_iter((0..9).map(|number| (text(number), shared.pclone(j))), j),
            boxes: PBTreeMap::from_iter((0..boxes).map(|number| (number, Pbox::new(number.into(), j))), j),
            folders: PBTreeMap::from_iter((0..3).map(|number| (number, PHashMap::from_iter([(1, true)], j))), j),
            grid: ['x', 'y', 'z'].map(|letter| (letter, 1, PCell::new(false))),
            volatile: VCell::new(),
        }
    }
}

/// A pool, and the offset of an unused block, for a description.
fn good() -> &'static (Image, u64) {
    static GOOD: OnceLock<(Image, u64)> = OnceLock::new();
    GOOD.get_or_init(|| {
        let store = store(LEN);
        let options = PoolOptions { span: Some((1 << 20).into()), lanes: Some(2) };
        let world =
            Fuzzed::create_with::<World<Fuzzed>>(&store, "world", &options, |j| World::new(60, j)).expect("room");
        world.tx(|j, _| std::mem::forget(PVec::<u8, _>::with_capacity(ROOM, j))).expect("room");
        let spare = world.examine(&|_| ()).expect("a pool").leaks().next().expect("a block that was forgotten").at;
        drop(world);
        store.media().barrier().expect("a barrier");
        (Image::new(store.media().read_vec(0, LEN as usize), Vec::new()), spare.get())
    })
}

/// The result of `look` on the good pool.
pub(super) fn world<T>(look: impl FnOnce(UntypedPool) -> T) -> T {
    let store = Store::attach(good().0.media(&[])).expect("a whole store");
    look(UntypedPool::open(&store, "world").expect("a whole pool"))
}

/// An input of the good description.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let described = world(|pool| [&[0][..], pool.description().as_bytes()].concat());
    let patched = crate::patch::seeds().into_iter().map(|mut seed| {
        seed[0] = ((seed.len() - 1) / PATCH) as u8;
        seed
    });
    patched.chain([described]).collect()
}

pub(crate) fn run(input: &[u8]) -> String {
    static ALONE: Mutex<()> = Mutex::new(()); // one pool is open under a tag
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (patches, rest) = input.split_first().unwrap_or((&0, &[]));
    let (patches, text) = rest.split_at(rest.len().min(usize::from(*patches) * PATCH));
    let (image, spare) = good();
    let media = image.media(&[&[0][..], patches].concat());
    let store = match Store::attach(media) {
        Ok(store) => store,
        Err(error) => return format!("store: {}", class(&error.to_string())),
    };
    if !text.is_empty()
        && let Err(said) = describe(&store, *spare, &text[..text.len().min(ROOM)])
    {
        return said;
    }
    let by_text = match UntypedPool::open(&store, "world") {
        Ok(pool) => pool.examine(&|_| ()),
        Err(error) => return variant(&error),
    };
    match Fuzzed::open::<World<Fuzzed>>(&store, "world") {
        Ok(world) => {
            let by_types = world.examine(&|_| ()).expect("open");
            assert_eq!(by_types.faults, by_text.faults, "by the types, and by the description");
            assert_eq!(by_types.reached, by_text.reached, "by the types, and by the description");
            said(&by_text)
        }
        Err(error) => said(&by_text) + &variant(&error),
    }
}

/// Lets `text` be the description of the pool.
fn describe(store: &Store, spare: u64, text: &[u8]) -> Result<(), String> {
    let object = store.object("world").map_err(|error| class(&error.to_string()))?;
    let at = object.prime() + HEADER;
    let mut header: Header = store.media().get(at);
    let text = String::from_utf8_lossy(text);
    let text = &text.as_bytes()[..text.len().min(ROOM)];
    (header.schema, header.schema_len) = ((spare - object.prime().get()).into(), (text.len() as u64).into());
    header.fingerprint = fingerprint(&String::from_utf8_lossy(text));
    header.root_checksum = header.root_sum();
    let _section = store.media().section();
    store.media().write(spare, text);
    store.media().put(at, &header);
    Ok(())
}

/// An error without its text, which quotes the description.
fn variant(error: &Error) -> String {
    let text = format!("{error:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().into()
}

/// The last kind of what was found: each combination is no class of its own.
fn said(report: &Report) -> String {
    let details = report.faults.iter().map(|fault| &fault.detail);
    let details = details.chain(report.heap.iter().map(|finding| &finding.detail));
    // The names of types, which an input may bring, come later.
    let kinds: BTreeSet<String> =
        details.map(|detail| class(detail).split_inclusive(' ').take(3).collect::<String>()).collect();
    let unread = if report.unread.is_empty() { "" } else { "unread " };
    kinds.into_iter().next_back().unwrap_or_default() + unread
}
