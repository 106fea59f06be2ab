//! A C++ program before the explorer, crashed anywhere in constructors, callbacks, destructors and
//! the first opening of its roots. The program is a shared object that is loaded here; it calls the
//! library that this test has, whose `open` hands out a pool of the explorer's store.

use super::{alone, compiler, is_whole, program, text_of};
use everbyte_bridge::hidden::handed_out;
use everbyte_bridge::{Description, Exported, Roots, RootsOf, describe_library};
use everbyte_media::{Media, museum};
use everbyte_object::{Pool, PoolOptions, UntypedPool};
use everbyte_sim::{Explorer, Failure, Image, Order, Report, Seen};
use everbyte_store::{CLUSTER, FormatOptions, Store};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use stock::{Shop, ShopTag};

type Entry = *const c_void;

#[repr(C)]
struct Text {
    bytes: *const u8,
    size: usize,
}

unsafe extern "C" {
    fn everbyte_bridge_stock(expected: Text, difference: *mut Text) -> *const Entry;
}

/// The file that stands between the program and the library's table.
const TABLE: &str = "static const void *const *table;\n\
    void crashed_table(const void *const *given) { table = given; }\n\
    struct text { const char *bytes; unsigned long size; };\n\
    const void *const *everbyte_bridge_stock(struct text expected, struct text *difference) {\n\
      return (void)expected, (void)difference, table;\n}\n";

thread_local! {
    /// The store of the next `open`.
    static NEXT: RefCell<Option<Media>> = const { RefCell::new(None) };
}

/// The library's `open`, but for the options: the pool of [`NEXT`].
unsafe extern "C" fn open(_: *const c_void, out: *mut *const c_void, base: *mut *const u8) -> u32 {
    let media = NEXT.take().expect("set by `Program::open`");
    let store = Store::attach(media).expect("a whole store");
    let pool = Shop::open::<RootsOf<Shop>>(&store, "shop").expect("a whole pool");
    let (handle, at) = handed_out::<<ShopTag as Exported>::Named, ShopTag>(pool);
    // SAFETY: the caller's: places of two results.
    unsafe { out.write(handle) };
    // SAFETY: as above.
    unsafe { base.write(at) };
    0
}

/// The table of this process's library, with [`open`] for the pool `shop`.
fn table(description: &Description) -> Vec<Entry> {
    let text = description.interface();
    let text = Text { bytes: text.as_ptr(), size: text.len() };
    // SAFETY: a text that lives during the call, and no place for a difference.
    let entries = unsafe { everbyte_bridge_stock(text, std::ptr::null_mut()) };
    assert!(!entries.is_null());
    let types = |pool: &everbyte_bridge::PoolLines| pool.types.iter().map(|one| 1 + one.methods.len()).sum::<usize>();
    let count = 3 + description.pools.iter().map(|pool| 9 + types(pool)).sum::<usize>();
    // SAFETY: as many functions as the description names, which stay there.
    let mut entries = unsafe { std::slice::from_raw_parts(entries, count) }.to_vec();
    assert_eq!(description.pools[0].name, "shop");
    entries[3] = open as Entry;
    entries
}

/// The program's functions. It stays loaded.
#[derive(Clone, Copy)]
struct Program {
    open: unsafe extern "C" fn(),
    close: unsafe extern "C" fn(),
    step: unsafe extern "C" fn(*const c_char) -> bool,
    found: unsafe extern "C" fn(*mut u64, usize) -> usize,
}

fn load(path: &Path) -> *mut c_void {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a name that ends with a zero byte, of a file that this test has made.
    let loaded = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    assert!(!loaded.is_null(), "{}", path.display());
    loaded
}

/// The function of that name.
///
/// # Safety
/// `F` is its type.
unsafe fn function<F: Copy>(of: *mut c_void, name: &CStr) -> F {
    // SAFETY: a library that is loaded, and stays so.
    let found = unsafe { libc::dlsym(of, name.as_ptr()) };
    assert!(!found.is_null() && size_of::<F>() == size_of::<*mut c_void>(), "{name:?}");
    // SAFETY: the caller's.
    unsafe { std::mem::transmute_copy(&found) }
}

impl Program {
    /// Compiles and loads it; `None` without a compiler.
    fn load(dir: &Path) -> Option<Program> {
        let (between, source) = (dir.join("libbetween.so"), dir.join("between.c"));
        std::fs::write(&source, TABLE).unwrap();
        let words = ["-shared", "-fPIC", "-o"];
        let built: [(_, &PathBuf, PathBuf); 2] = [
            (compiler("g++")?, &between, source),
            (compiler("g++")?, &dir.join("libcrashed.so"), program("crashed.cpp")),
        ];
        let loaded = built.map(|(mut compiler, into, source)| {
            if source.extension().is_some_and(|end| end == "c") {
                compiler = std::process::Command::new("gcc");
            }
            let output = compiler.args(words).arg(into).arg(source).output().unwrap();
            assert!(output.status.success(), "{}", text_of(&output));
            into.clone()
        });
        let between = load(&loaded[0]);
        let description = describe_library(&super::library()).unwrap();
        // SAFETY: as `TABLE` declares it.
        let given: unsafe extern "C" fn(*const Entry) = unsafe { function(between, c"crashed_table") };
        // SAFETY: a table that is never freed.
        unsafe { given(table(&description).leak().as_ptr()) };
        let of = load(&loaded[1]);
        // SAFETY: as the program declares it.
        let open = unsafe { function(of, c"crashed_open") };
        // SAFETY: as above.
        let close = unsafe { function(of, c"crashed_close") };
        // SAFETY: as above.
        let step = unsafe { function(of, c"crashed_step") };
        // SAFETY: as above.
        let found = unsafe { function(of, c"crashed_found") };
        Some(Program { open, close, step, found })
    }

    fn open(self, media: &Media) {
        NEXT.set(Some(media.clone()));
        // SAFETY: no pool is open.
        unsafe { (self.open)() };
    }

    fn close(self) {
        // SAFETY: it has no conditions.
        unsafe { (self.close)() };
    }

    /// Whether the transaction has committed.
    fn step(self, name: &str) -> bool {
        let name = CString::new(name).unwrap();
        // SAFETY: the pool is open; a name that lives during the call.
        unsafe { (self.step)(name.as_ptr()) }
    }

    fn found(self) -> Vec<u64> {
        let mut found = vec![0; 64];
        // SAFETY: the pool is open; a place for that many numbers.
        let count = unsafe { (self.found)(found.as_mut_ptr(), found.len()) };
        found.truncate(count);
        found
    }
}

fn image() -> Image {
    Image::zeroed(CLUSTER).with_max(4 << 20).then(|media| {
        let options = FormatOptions { log_len: 0, identity: Some([7; 16]) };
        let store = Store::format(media, &options).expect("a small store");
        let options = PoolOptions { span: Some((2 << 20).into()), lanes: Some(2) };
        drop(Shop::create_with::<RootsOf<Shop>>(&store, "shop", &options, |_| Roots::default()).expect("room"));
        store.close().expect("sim barriers do not fail");
    })
}

/// The state that the program finds: [`Program::found`].
#[derive(Clone, Debug, PartialEq)]
struct Model {
    links: Vec<u64>,
    guards: Vec<u64>,
    /// The values of two keys, then what the hash and the visitor have left.
    rest: [u64; 4],
}

impl Model {
    fn of(found: &[u64]) -> Option<Model> {
        let [links, rest] = found.splitn(2, |one| *one == 1000).collect::<Vec<_>>().try_into().ok()?;
        let [guards, rest] = rest.splitn(2, |one| *one == 1001).collect::<Vec<_>>().try_into().ok()?;
        Some(Model { links: links.into(), guards: guards.into(), rest: rest.try_into().ok()? })
    }

    fn destroyed(&mut self) {
        self.guards.clear();
        self.links.splice(0..0, [8, 7]);
    }
}

/// Every object that the pool owns, besides its roots, is a link or a guard that is reached.
fn recover(program: Program, media: &Media, seen: &Seen) -> Result<Model, String> {
    let attach = || Store::attach(media.clone()).map_err(|error| error.to_string());
    let store = attach()?;
    let report = UntypedPool::open(&store, "shop").map_err(|error| error.to_string())?.examine(&|_| ());
    if !report.is_clean() {
        return Err(format!("{report:?}"));
    }
    let owned = {
        let root = Shop::open::<RootsOf<Shop>>(&store, "shop").map_err(|error| error.to_string())?;
        root.read(|reader, roots| roots.owned.get(reader).objects.len()).map_err(|error| error.to_string())?
    };
    drop(store);
    program.open(media);
    seen.recovered();
    let found = Model::of(&program.found()).ok_or("no end of the links or guards")?;
    if owned != found.links.len() + found.guards.len() {
        return Err(format!("{owned} objects are owned: {found:?}"));
    }
    // Usable again; a later process than the one that made the guards destroys them.
    let mut expected = found.clone();
    if !found.guards.is_empty() {
        expected.destroyed();
        program.step("drop");
    }
    expected.links.splice(0..0, [1, 2, 3]);
    program.step("constructor");
    let now = Model::of(&program.found());
    program.close();
    match now.as_ref() == Some(&expected) {
        true => Ok(found),
        false => Err(format!("{now:?} after {found:?}")),
    }
}

/// Without a seeded bug, each transaction ends as it has to.
fn explore(program: Program, explorer: &Explorer, has_bug: bool) -> Result<Report, Box<Failure>> {
    let initial = Model { links: Vec::new(), guards: Vec::new(), rest: [0; 4] };
    explorer.explore_twin(
        &image(),
        &initial,
        Order::InOrder,
        |media, twin| {
            twin.step_here("open", |_| (), || program.open(&media));
            let step = |name: &str, change: fn(&mut Model)| {
                twin.step_here(name, change, || program.step(name) != name.starts_with("throw"))
            };
            let ended = [
                step("constructor", |all| all.links.splice(0..0, [1, 2, 3]).for_each(drop)),
                step("throw in a constructor", |_| ()),
                step("hash", |all| all.rest[..3].copy_from_slice(&[40, 50, 5])),
                step("throw in a hash", |_| ()),
                step("visit", |all| all.rest[3] += 90),
                step("guards", |all| all.guards = vec![7, 8]),
                step("throw after a drop", |_| ()),
                step("drop", Model::destroyed),
            ];
            program.close();
            assert!(has_bug || ended.iter().all(|is_right| *is_right), "{ended:?}");
        },
        |media, seen| recover(program, &media, seen),
    )
}

/// A quarter of the crash points, and all in a soak.
fn explorer() -> Explorer {
    let explorer = Explorer::new("bridge-program").total(40).floor(2).images(2).exhaustive_words(1).depth(1).once();
    if is_whole() { explorer } else { explorer.points(26) }
}

/// And two seeded bugs are found.
#[test]
fn a_program_of_cpp_is_whole_after_a_crash_anywhere() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = Program::load(dir.path()) else { return };
    println!("{}", explore(program, &explorer(), false).unwrap_or_else(|failure| panic!("{failure}")));
    for bug in ["bridge-change-unlogged", "bridge-destructor-skipped"] {
        let is_found = museum::with(bug, || explore(program, &explorer().unshrunk(), true).is_err());
        assert!(is_found, "the seeded bug `{bug}` is not found");
    }
}
