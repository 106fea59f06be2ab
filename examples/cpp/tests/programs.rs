//! C++ programs over the library of this crate, by every compiler that is installed.

use everbyte_bridge::{Roots, RootsOf, headers};
use everbyte_object::{Pool, UntypedPool};
use everbyte_store::Store;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use stock::{Archive, Shop};

const COMPILERS: [&str; 2] = ["g++", "clang++"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace").into()
}

/// The library, which cargo puts beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().expect("the directory of tests").join("libstock.so")
}

/// The headers of the library.
fn generated() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bridge-headers");
        headers::write(&generate(), &made).unwrap();
        made
    })
}

fn generate() -> Vec<headers::Header> {
    headers::generate(&everbyte_bridge::describe_library(&library()).unwrap()).unwrap()
}

#[test]
fn headers_are_made_of_a_library_and_compared_with_it() {
    let (made, dir) = (generate(), tempfile::tempdir().unwrap());
    let names: Vec<&str> = made.iter().map(|header| header.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "lib.h",
            "shop.hpp",
            "archive.hpp",
            "counter.hpp",
            "inventory.hpp",
            "kv_store.hpp",
            "prices.hpp",
            "visits.hpp"
        ]
    );
    let difference = || headers::difference(&made, dir.path());
    assert!(difference().unwrap().ends_with("lib.h: it is absent"));
    headers::write(&made, dir.path()).unwrap();
    assert_eq!(difference(), None);
    let path = dir.path().join("counter.hpp");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("/* The number of events. */\n  std::int64_t value() const"), "{text}");
    std::fs::write(&path, text.replace("std::int64_t by", "std::int32_t by")).unwrap();
    assert!(difference().unwrap().contains("counter.hpp: line "), "{:?}", difference());
    headers::write(&made, dir.path()).unwrap();
    assert_eq!(difference(), None);
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The compiler with the words that every program gets; `None` where it is not installed.
fn compiler(name: &str) -> Option<Command> {
    if Command::new(name).arg("--version").output().is_err() {
        eprintln!("skipped: no compiler `{name}`; ci/setup test installs it");
        return None;
    }
    let mut command = Command::new(name);
    command.args(["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]);
    command.arg("-I").arg(root().join("include")).arg("-I").arg(generated());
    Some(command)
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name)
}

/// Compiles and links a program.
fn build(mut compiler: Command, source: &str, into: &Path) -> PathBuf {
    let built = into.join("program");
    let place = library().parent().unwrap().to_path_buf();
    compiler.arg(program(source)).arg("-L").arg(&place).arg("-lstock");
    compiler.arg(format!("-Wl,-rpath,{}", place.display())).arg("-o").arg(&built);
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{compiler:?}: {}", text(&output));
    built
}

fn run(program: &Path, store: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.arg(store).args(words).env("EVERBYTE_BACKEND", "shm").output().unwrap()
}

fn succeed(program: &Path, store: &Path, words: &[&str]) -> String {
    let output = run(program, store, words);
    assert!(output.status.success(), "{words:?}: {:?} {}", output.status, text(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_face_keeps_its_promises_and_a_second_process_sees_what_the_first_left() {
    for name in COMPILERS {
        let Some(mut compiler) = compiler(name) else { continue };
        if name == "g++" {
            compiler.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
        }
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (build(compiler, "face.cpp", dir.path()), dir.path().join("store"));
        for part in ["closed", "first", "second"] {
            succeed(&program, &store, &[part]);
        }
    }
}

/// Classes of C++ in a pool: a list, its roll-back, its second process, and a changed class.
#[test]
fn classes_of_cpp_live_in_a_pool_and_a_changed_one_is_refused() {
    for name in COMPILERS {
        let (Some(now), Some(mut changed)) = (compiler(name), compiler(name)) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (build(now, "classes.cpp", dir.path()), dir.path().join("store"));
        for part in ["first", "second"] {
            succeed(&program, &store, &[part]);
        }
        if name == "g++" {
            changed.arg("-DCHANGED");
            succeed(&build(changed, "classes.cpp", dir.path()), &store, &["changed"]);
        }
    }
}

/// A pool that C++ has made is a typed pool: Rust opens it by the library's types, and tools walk
/// it without them.
#[test]
fn what_cpp_wrote_rust_and_the_tools_read() {
    let Some(compiler) = compiler("g++") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (program, path) = (build(compiler, "inventory.cpp", dir.path()), dir.path().join("store"));
    succeed(&program, &path, &["put", "pears", "5"]);
    {
        let store = open(&path);
        let root = Shop::open::<RootsOf<Shop>>(&store, "shop").unwrap();
        let count = root.tx(|j, roots| {
            let counted = roots.with("goods", |goods: &stock::Inventory<_>| {
                goods.put(j, "pears", 2);
                goods.count("pears")
            });
            counted.unwrap()
        });
        assert_eq!(count.unwrap(), Some(7));
        assert_eq!(root.with("changes", |counter: &stock::Counter<_>| counter.value()), Some(1));
        assert!(root.with("goods", |_: &stock::Counter<_>| ()).is_none());
    }
    assert_eq!(succeed(&program, &path, &["put", "pears", "1"]), "8 of pears\n");
    let store = open(&path);
    let report = UntypedPool::open(&store, "shop").unwrap().examine(&|_| ());
    assert!(report.findings().is_empty(), "{:?}", report.findings());
}

/// docs/formats/bridge.md has the description of a pool.
#[test]
fn the_format_page_has_the_description_of_a_pool() {
    let page = std::fs::read_to_string(root().join("docs/formats/bridge.md")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = everbyte_store::CreateOptions { max: 1 << 30, ..Default::default() };
    let store = Store::create(&dir.path().join("store"), &options).unwrap();
    drop(Archive::create::<RootsOf<Archive>>(&store, "archive", |_| Roots::default()).unwrap());
    let pool = UntypedPool::open(&store, "archive").unwrap();
    assert!(page.contains(pool.description()), "{}", pool.description());
}

fn open(path: &Path) -> Store {
    let options = everbyte_media::Options { backend: everbyte_media::BackendChoice::Shm, ..Default::default() };
    Store::open(path, &options).unwrap()
}

/// Types that only C++ knows, in a structure of Rust.
#[test]
fn a_hash_table_holds_classes_that_only_cpp_knows() {
    for name in COMPILERS {
        let Some(compiler) = compiler(name) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (build(compiler, "kv_store.cpp", dir.path()), dir.path().join("store"));
        assert_eq!(succeed(&program, &store, &["put", "one", "1", "put", "two", "2", "put", "one", "3"]), "");
        assert_eq!(
            succeed(&program, &store, &["get", "one", "get", "three", "burst", "put", "20", "get", "key7"]),
            "3\nnone\n7\n"
        );
        let printed = succeed(&program, &store, &["print", "clear", "print"]);
        assert_eq!((printed.lines().count(), printed.contains("one = 3\n")), (22, true), "{printed}");
        assert_eq!(succeed(&program, &store, &["check"]), "");
    }
}

#[test]
fn an_inventory_outlives_its_program() {
    for name in COMPILERS {
        let Some(compiler) = compiler(name) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (build(compiler, "inventory.cpp", dir.path()), dir.path().join("store"));
        assert_eq!(succeed(&program, &store, &["put", "pears", "5"]), "5 of pears\n");
        assert_eq!(succeed(&program, &store, &["take", "pears", "2"]), "3 of pears\n");
        let refused = run(&program, &store, &["take", "pears", "4"]);
        assert!(refused.status.code() == Some(1) && text(&refused) == "only 3 are left\n", "{}", text(&refused));
        assert_eq!(succeed(&program, &store, &[]), "1 kinds, 2 changes, first: pears\n");
    }
}

/// Each marked program is refused by both compilers, and the file without them compiles, without
/// exceptions and RTTI, too.
#[test]
fn wrong_programs_do_not_compile() {
    let (file, source) = ("does_not.cpp", std::fs::read_to_string(program("does_not.cpp")).unwrap());
    let lines = source.lines().zip(1..);
    let marks: Vec<(&str, usize)> = lines.filter_map(|(line, at)| Some((line.strip_prefix("//@ ")?, at))).collect();
    assert!(marks.len() > 20);
    for name in COMPILERS {
        let compile = |words: &[&str]| {
            let mut command = compiler(name)?;
            command.arg("-fsyntax-only").args(words).arg(program(file)).output().ok()
        };
        let Some(right) = compile(&["-fno-exceptions", "-fno-rtti"]) else { continue };
        assert!(right.status.success(), "{name}: {}", text(&right));
        let limit = if name == "g++" { "-fmax-errors=0" } else { "-ferror-limit=0" };
        let said = text(&compile(&["-DWRONG", limit, "-Wno-error", "-w"]).unwrap());
        for (index, (expected, from)) in marks.iter().enumerate() {
            let end = marks.get(index + 1).map_or(usize::MAX, |(_, next)| *next);
            let is_within = |line: &str| {
                let place = line.split_once(&format!("{file}:")).map(|(_, place)| place);
                place
                    .and_then(|place| place.split(':').next()?.parse().ok())
                    .is_some_and(|at: usize| (*from..end).contains(&at))
            };
            assert!(said.lines().any(is_within), "{name}: the program in line {from} compiles");
            let alike = marks.iter().filter(|(other, _)| other == expected).count();
            let found: usize = expected.split('|').map(|one| said.matches(one).count()).sum();
            assert!(
                found >= alike,
                "{name}: {alike} programs should be refused with `{expected}`, {found} are:\n{said}"
            );
        }
    }
}

/// A header of another library ends its program before anything is opened, with the difference.
#[test]
fn a_header_of_another_build_is_refused_at_the_start() {
    let Some(mut compiler) = compiler("g++") else { return };
    let dir = tempfile::tempdir().unwrap();
    for header in std::fs::read_dir(generated()).unwrap().map(Result::unwrap) {
        let text = std::fs::read_to_string(header.path()).unwrap();
        let text = text.replace("change add(by: i64) -> i64", "change add(by: i32) -> i64");
        std::fs::write(dir.path().join(header.file_name()), text).unwrap();
    }
    compiler.arg("-iquote").arg(dir.path());
    let program = build(compiler, "inventory.cpp", dir.path());
    let store = dir.path().join("store");
    let refused = run(&program, &store, &[]);
    let said = "method `shop::counter::add` is `change add(by: i32) -> i64` in the header and `change add(by: i64) -> i64` in the library";
    assert!(refused.status.code() == Some(78) && text(&refused).contains(said), "{}", text(&refused));
    assert!(!store.exists());
}
