//! C++ programs over the library of this crate, by every compiler that is installed.

use compilers::{COMPILERS, compiler, has_libcxx, is_absent, sanitized};
use everbyte_bridge::{Roots, RootsOf, checker, headers};
use everbyte_object::{Pool, UntypedPool};
use everbyte_store::Store;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use stock::{Archive, Shop};

#[path = "programs/compilers.rs"]
mod compilers;

#[path = "programs/forms.rs"]
mod forms;

#[path = "programs/warnings.rs"]
mod warnings;

#[path = "programs/random.rs"]
mod random;

#[path = "programs/bad_days.rs"]
mod bad_days;

#[path = "programs/explored.rs"]
mod explored;

#[path = "programs/linked.rs"]
mod linked;

#[path = "programs/blocks.rs"]
mod blocks;

#[path = "programs/shared.rs"]
mod shared;

#[path = "programs/kept.rs"]
mod kept;

#[path = "programs/crashed.rs"]
mod crashed;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace").into()
}

/// The library, which cargo puts beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().expect("the directory of tests").join("libstock.so")
}

/// A soak tries what a usual run draws by seed.
fn is_whole() -> bool {
    std::env::var("EVERBYTE_CRASH_AGAIN").is_ok_and(|word| word == "whole")
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
            "btree8.hpp",
            "counter.hpp",
            "inventory.hpp",
            "kv_store.hpp",
            "list.hpp",
            "places.hpp",
            "prices.hpp",
            "search_tree.hpp",
            "std_deque.hpp",
            "std_hash_map.hpp",
            "std_hash_set.hpp",
            "std_map.hpp",
            "std_set.hpp",
            "std_vector.hpp",
            "tally.hpp",
            "visits.hpp",
            "weights.hpp",
            "word_count.hpp"
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

/// Held by a test that opens a pool `shop` in this process: one at a time is open under its type.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
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
    assert!(output.status.success(), "{compiler:?}: {}", text_of(&output));
    built
}

fn command(program: &Path, store: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.arg(store).args(words).env("EVERBYTE_BACKEND", "shm");
    command.env_remove("LD_LIBRARY_PATH"); // cargo's has the library of an earlier `cargo build`, too
    command
}

fn run(program: &Path, store: &Path, words: &[&str]) -> Output {
    command(program, store, words).output().unwrap()
}

fn succeed(program: &Path, store: &Path, words: &[&str]) -> String {
    let output = run(program, store, words);
    assert!(output.status.success(), "{words:?}: {:?} {}", output.status, text_of(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_face_keeps_its_promises_and_a_second_process_sees_what_the_first_left() {
    for name in COMPILERS {
        let Some(compiler) = sanitized(name) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (build(compiler, "face.cpp", dir.path()), dir.path().join("store"));
        for part in ["closed", "first", "second"] {
            succeed(&program, &store, &[part]);
        }
    }
}

/// Persistent containers of std: exceptions of keys, elements as arguments, walks, wrong roots; and
/// the tools walk what they hold.
#[test]
fn containers_of_std_keep_their_promises() {
    for name in COMPILERS {
        let Some(compiler) = sanitized(name) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let (program, path) = (build(compiler, "containers.cpp", dir.path()), dir.path().join("store"));
        for part in ["first", "second"] {
            succeed(&program, &path, &[part]);
        }
        let store = open(&path);
        let report = UntypedPool::open(&store, "shop").unwrap().examine(&|_| ());
        assert!(report.findings().is_empty(), "{:?}", report.findings());
    }
}

/// Classes of C++ in a pool: a list, its roll-back, its second process, and a changed class.
#[test]
fn classes_of_cpp_live_in_a_pool_and_a_changed_one_is_refused() {
    for name in COMPILERS {
        let (Some(now), Some(mut changed)) = (sanitized(name), compiler(name)) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (build(now, "classes.cpp", dir.path()), dir.path().join("store"));
        for part in ["first", "second"] {
            succeed(&program, &store, &[part]);
            let store = open(&store);
            let report = UntypedPool::open(&store, "shop").unwrap().examine(&|_| ());
            assert!(report.findings().is_empty(), "{:?}", report.findings());
        }
        changed.arg("-DCHANGED");
        succeed(&build(changed, "classes.cpp", dir.path()), &store, &["changed"]);
    }
}

/// A program that makes no object of a class has its destructor, for those that it finds.
#[test]
fn a_destructor_is_found_by_a_program_that_only_finds_its_objects() {
    for name in COMPILERS {
        let (Some(mut makes), Some(finds)) = (sanitized(name), sanitized(name)) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        makes.arg("-DMAKES");
        succeed(&build(makes, "later.cpp", dir.path()), &store, &[]);
        succeed(&build(finds, "later.cpp", dir.path()), &store, &[]);
    }
}

/// A template of C++ over the allocator of a pool; tools follow its pointers without its program.
#[test]
fn a_template_of_cpp_takes_the_allocator_of_a_pool() {
    for name in COMPILERS {
        let Some(compiler) = sanitized(name) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (build(compiler, "own_template.cpp", dir.path()), dir.path().join("store"));
        for part in ["first", "second"] {
            succeed(&program, &store, &[part]);
            let store = open(&store);
            let report = UntypedPool::open(&store, "shop").unwrap().examine(&|_| ());
            assert!(report.findings().is_empty(), "{:?}", report.findings());
        }
    }
}

/// A pool that C++ has made is a typed pool: Rust opens it by the library's types, and tools walk
/// it without them.
#[test]
fn what_cpp_wrote_rust_and_the_tools_read() {
    for name in COMPILERS {
        let Some(compiler) = compiler(name) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let (program, path) = (build(compiler, "inventory.cpp", dir.path()), dir.path().join("store"));
        succeed(&program, &path, &["put", "pears", "5"]);
        {
            let _alone = alone();
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
        let Some(compiler) = sanitized(name) else { continue }; // copies are given back
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
        assert!(refused.status.code() == Some(1) && text_of(&refused) == "only 3 are left\n", "{}", text_of(&refused));
        assert_eq!(succeed(&program, &store, &[]), "1 kinds, 2 changes, first: pears\n");
    }
}

/// The structures of the dissertation: each program runs twice, and finds what it left.
#[test]
fn trees_and_a_word_count_outlive_their_programs() {
    let text = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&text, "one two three two\nthree, Three!\n").unwrap();
    let text = text.path().to_str().unwrap();
    let programs: [(&str, &[&str], [&str; 2]); 4] = [
        ("search_tree.cpp", &[], ["1000 keys new, 500 removed, least 0\n", "500 keys new, 500 removed, least 0\n"]),
        ("btree.cpp", &[], ["1000 keys new, 4 levels\n", "0 keys new, 4 levels\n"]),
        ("lines.cpp", &[], ["", ""]),
        ("word_count.cpp", &[text, text], ["3 words, `three` 6 times\n", "3 words, `three` 12 times\n"]),
    ];
    for name in COMPILERS {
        let dir = tempfile::tempdir().unwrap();
        for (index, (source, words, said)) in programs.iter().enumerate() {
            let Some(mut compiler) = sanitized(name) else { continue };
            compiler.arg("-pthread");
            let program = build(compiler, source, dir.path());
            let store = dir.path().join(format!("store{index}"));
            for said in said {
                assert_eq!(succeed(&program, &store, words), *said, "{source}");
            }
            let store = open(&store);
            let report = UntypedPool::open(&store, "shop").unwrap().examine(&|_| ());
            assert!(report.findings().is_empty(), "{source}: {:?}", report.findings());
        }
    }
}

/// Pointers that are null, not aligned, or of nothing, given to the library's functions themselves.
#[test]
fn wrong_pointers_to_raw_functions_are_refused() {
    for name in COMPILERS {
        let Some(compiler) = sanitized(name) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (build(compiler, "raw.cpp", dir.path()), dir.path().join("store"));
        succeed(&program, &store, &[]);
    }
}

/// Programs that compile, and that the checker refuses, line by line; and right ones.
#[test]
fn the_checker_refuses_what_compilers_do_not() {
    if compiler("clang++").is_none() {
        return;
    }
    let (include, programs) = (root().join("include"), program(""));
    let words = ["-isystem".as_ref(), include.as_os_str(), "-isystem".as_ref(), generated().as_os_str()];
    let words = [&words[..], &["-I".as_ref(), programs.as_os_str()]].concat();
    let found = |file: &str| {
        let findings = checker::check("clang++".as_ref(), &words, &program(file)).unwrap();
        findings.into_iter().map(|one| (one.line as usize, one.rule.to_string())).collect::<Vec<_>>()
    };
    let source = std::fs::read_to_string(program("refused.cpp")).unwrap();
    let marked = |(line, at): (&str, usize)| Some((at, line.split_once("  //@ ")?.1.to_string()));
    let expected: Vec<(usize, String)> = source.lines().zip(1..).filter_map(marked).collect();
    assert!(expected.len() > 50);
    assert_eq!(found("refused.cpp"), expected);
    assert_eq!(found("classes.cpp"), []);
}

/// The program of the manual, twice: words of the input, and how often each came in both runs.
#[test]
fn the_program_of_the_manual_goes_on_where_it_was() {
    let Some(compiler) = compiler("g++") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (program, store) = (build(compiler, "word_list.cpp", dir.path()), dir.path().join("store"));
    for said in ["one 1\ntwo 2\n", "one 2\ntwo 4\n"] {
        let mut command = command(&program, &store, &[]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut running = command.spawn().unwrap();
        running.stdin.take().unwrap().write_all(b"two one two").unwrap();
        assert_eq!(text_of(&running.wait_with_output().unwrap()), said);
    }
}

/// Each marked program is refused by both compilers, by libc++ too, and the file without them
/// compiles, without exceptions and RTTI, too.
#[test]
fn wrong_programs_do_not_compile() {
    let (file, source) = ("does_not.cpp", std::fs::read_to_string(program("does_not.cpp")).unwrap());
    let lines = source.lines().zip(1..);
    let marks: Vec<(&str, usize)> = lines.filter_map(|(line, at)| Some((line.strip_prefix("//@ ")?, at))).collect();
    assert!(marks.len() > 20);
    let libcxx = has_libcxx().then_some(("clang++", Some("-stdlib=libc++")));
    for (name, form) in COMPILERS.map(|name| (name, None)).into_iter().chain(libcxx) {
        let compile = |words: &[&str]| {
            let mut command = compiler(name)?;
            command.arg("-fsyntax-only").args(form).args(words).arg(program(file)).output().ok()
        };
        let Some(right) = compile(&["-fno-exceptions", "-fno-rtti"]) else { continue };
        assert!(right.status.success(), "{name}: {}", text_of(&right));
        let limit = if name == "g++" { "-fmax-errors=0" } else { "-ferror-limit=0" };
        let said = text_of(&compile(&["-DWRONG", limit, "-Wno-error", "-w"]).unwrap());
        let (refusals, mut wrong) = (refusals(&said, file), Vec::new());
        for (index, (expected, from)) in marks.iter().enumerate() {
            let end = marks.get(index + 1).map_or(usize::MAX, |(_, next)| *next);
            let is_within = |one: &&Refusal| one.lines.iter().any(|at| (*from..end).contains(at));
            match refusals.iter().find(is_within).map(|one| one.message.replace(['‘', '’'], "'")) {
                None => wrong.push(format!("the program in line {from} compiles")),
                Some(said) => {
                    let is_said = |one: &str| one.split(" & ").all(|part| said.contains(part));
                    if !expected.split(" | ").any(is_said) {
                        wrong.push(format!("the program in line {from} is refused with `{said}`, not `{expected}`"));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{name} {form:?}: {}\n{said}", wrong.join("\n"));
    }
}

/// The table beside others has their rows as Table 3.2 does, and claims an S for Everbyte where
/// programs show it that do not compile.
#[test]
fn the_table_beside_others_claims_what_programs_show() {
    let page = std::fs::read_to_string(root().join("docs/semantics/cpp.md")).unwrap();
    let row = |name: &str| -> Vec<&str> {
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("| {name} | "))).expect(name);
        line.trim_end_matches(" |").split(" | ").collect()
    };
    assert_eq!(row("libpmemobj++"), ["M", "D", "M", "M", "M", "S", "M", "M"]);
    assert_eq!(row("Corundum (Rust)"), ["S", "S/D", "S", "D", "S", "S", "S", "RC"]);
    let source = std::fs::read_to_string(program("does_not.cpp")).unwrap();
    let shown: [(&str, &[&str]); 8] = [
        ("only persistent objects", &["a_class_that_lists_no_fields", "a_map_of_std_as_a_root", "a_union"]),
        ("between pools", &["a_root_of_another_pool", "a_pointer_of_another_pool", "pointers_of_two_pools"]),
        ("volatile pointers in pools", &["a_field_that_is_a_plain_pointer", "a_plain_pointer_made_persistent"]),
        ("pointers into closed pools", &[]),
        ("no races", &[]),
        ("atomicity", &["a_change_without_a_transaction", "an_object_changed_without_a_transaction"]),
        ("isolation", &[]),
        ("no leaks", &[]),
    ];
    assert_eq!(row("system"), shown.map(|(column, _)| column));
    for ((column, programs), claim) in shown.into_iter().zip(row("Everbyte from C++")) {
        assert_eq!(claim == "S", !programs.is_empty(), "{column}: {claim}");
        programs.iter().for_each(|one| assert!(source.contains(&format!("void {one}(")), "{one}"));
    }
}

/// An error of a compiler.
struct Refusal {
    message: String,
    /// The lines of the program that lead to it.
    lines: Vec<usize>,
}

/// The errors in what a compiler says of `file`, in order. g++ says before an error by which lines
/// of templates it came there, clang behind it.
fn refusals(said: &str, file: &str) -> Vec<Refusal> {
    let mut groups: Vec<Vec<&str>> = vec![Vec::new()];
    let is_error = |line: &str| line.contains(" error: ");
    for line in said.lines() {
        let before = [": In ", "required from", "required by", "In file included", "At global scope"];
        let is_begin = is_error(line) || !said.contains("clang") && before.iter().any(|words| line.contains(words));
        if is_begin && groups.last().is_some_and(|group| group.iter().any(|line| is_error(line))) {
            groups.push(Vec::new());
        }
        groups.last_mut().expect("never empty").push(line);
    }
    let place = |line: &&str| line.split_once(&format!("{file}:"))?.1.split(':').next()?.parse().ok();
    let refusal = |group: Vec<&str>| {
        let message = group.iter().find(|line| is_error(line))?.to_string();
        Some(Refusal { message, lines: group.iter().filter_map(place).collect() })
    };
    groups.into_iter().filter_map(refusal).collect()
}

/// `everbyte_bridge` of CMake compiles the crate before the program, makes its headers, and links
/// both: with the static library, where the crate makes one. Two programs of one crate compile it
/// once. A script stands for the command `everbyte bridge build`.
#[test]
fn cmake_builds_a_program_with_its_library() {
    if Command::new("cmake").arg("--version").output().is_err() {
        is_absent("cmake");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (shared, built) = (Path::new(env!("CARGO_MANIFEST_DIR")), dir.path().join("shared"));
    let program = cmake(shared, &format!("cp {} \"$CARGO_TARGET_DIR/release/\"", library().display()), &built);
    assert_eq!(succeed(&program, &dir.path().join("store"), &["put", "pears", "5"]), "5 of pears\n");

    let (made, built) = (dir.path().join("stock"), dir.path().join("static"));
    std::fs::create_dir(&made).unwrap();
    let manifest = "[package]\nname = \"stock\"\n\n[lib]\ncrate-type = [\"cdylib\", \"staticlib\"]\n";
    std::fs::write(made.join("Cargo.toml"), manifest).unwrap();
    // A file of the static library's name, which leads the linker to the shared one.
    let leads = format!("echo 'INPUT({})' >\"$CARGO_TARGET_DIR/release/libstock.a\"", library().display());
    let program = cmake(&made, &leads, &built);
    let mut run = command(&program, &dir.path().join("store"), &["put", "pears", "5"]);
    let output = run.env("LD_LIBRARY_PATH", library().parent().unwrap()).output().unwrap();
    assert_eq!(text_of(&output), "10 of pears\n");
}

/// Builds a program with the library of a crate, which the script `compile` makes, by CMake.
fn cmake(of: &Path, compile: &str, into: &Path) -> PathBuf {
    std::fs::create_dir(into).unwrap();
    let (script, root, of) = (into.join("everbyte"), root(), of.display());
    let calls = into.join("calls");
    let text = format!(
        "#!/bin/sh -e\necho >>{}\n[ \"$1 $2 $3 $4 $5\" = \"bridge build {of} --release --headers\" ]\n\
         mkdir -p \"$CARGO_TARGET_DIR/release\"\n{compile}\ncp {}/* \"$6\"\n",
        calls.display(),
        generated().display(),
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let project = format!(
        "cmake_minimum_required(VERSION 3.17)\nproject(programs CXX)\nadd_library(everbyte::everbyte INTERFACE IMPORTED)\n\
         set_target_properties(everbyte::everbyte PROPERTIES INTERFACE_INCLUDE_DIRECTORIES {root}/include)\n\
         include({root}/crates/bridge/EverbyteBridge.cmake)\nadd_executable(main {programs}/inventory.cpp)\n\
         everbyte_bridge(main {of})\nadd_executable(second second.cpp)\neverbyte_bridge(second {of})\n",
        root = root.display(),
        programs = program("").display(),
    );
    std::fs::write(into.join("CMakeLists.txt"), project).unwrap();
    std::fs::write(into.join("second.cpp"), "#include \"lib.h\"\nint main() {}\n").unwrap();
    let built = into.join("built");
    let cmake = |words: &[&std::ffi::OsStr]| {
        let output = Command::new("cmake").args(words).output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
    };
    let program = format!("-DEVERBYTE_PROGRAM={}", script.display());
    let generator = match Command::new("ninja").arg("--version").output() {
        Ok(_) => "Ninja", // it refuses one file of two rules
        Err(_) => "Unix Makefiles",
    };
    let words = ["-G".as_ref(), generator.as_ref(), "-S".as_ref(), into.as_ref(), "-B".as_ref(), built.as_ref()];
    cmake(&[&words[..], &[program.as_ref()]].concat());
    cmake(&["--build".as_ref(), built.as_ref()]);
    assert_eq!(std::fs::read_to_string(calls).unwrap(), "\n", "the crate is compiled once");
    built.join("main")
}

/// Names that look as if a header had them may be exported, and compile.
#[test]
fn names_of_the_headers_own_parts_may_be_exported() {
    let text = "everbyte-bridge 2\nlibrary odd\npool odd_pool\ntype lib<base, result>\n doc A /* and */ in it.\n \
        method read(read: u8, this_one: str) -> Option<u8>\n method classes() -> ()\n change change(raw: Gen<0>, status: \
        Gen<1>, hash: Hash<0>) -> Copied<1>\n method library(detail: Visit<0, 1>, wire: u64) -> String\ntype counter\n \
        method base() -> ()\ntype counter_in\n change self_(counter_in: i8) -> usize\ntype odd\n change detail() -> bool\n";
    let description = everbyte_bridge::Description::parse(text).unwrap();
    let dir = tempfile::tempdir().unwrap();
    headers::write(&headers::generate(&description).unwrap(), dir.path()).unwrap();
    let source = "#include \"odd_pool.hpp\"\nusing odd::odd_pool;\n\
        std::size_t use(const odd_pool& pool) {\n\
          auto lib = pool.root<odd_pool::lib<int, double>>(\"lib\");\n\
          lib.read(1, \"x\"), lib.classes(), lib.library([](int, double) {}, 2);\n\
          auto other = pool.root<odd_pool::counter_in>(\"in\");\n\
          pool.root<odd_pool::counter>(\"c\").base();\n\
          odd_pool::txn([&](auto& t) { return pool.root<odd_pool::odd>(\"odd\").detail(t); });\n\
          return odd_pool::txn([&](auto& t) { return other.self_(t, 2) + std::size_t(lib.change(t, 1, 2.0)); });\n}\n";
    std::fs::write(dir.path().join("odd.cpp"), source).unwrap();
    for name in COMPILERS {
        let Some(mut compiler) = compiler(name) else { continue };
        let output = compiler.arg("-fsyntax-only").arg(dir.path().join("odd.cpp")).output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
    }
}

/// Headers of two builds in one file do not compile; in two files of one program, the older ones
/// end it at the start.
#[test]
fn headers_of_two_builds_are_not_mixed() {
    let Some(mut mixed) = compiler("g++") else { return };
    let dir = tempfile::tempdir().unwrap();
    let text = everbyte_bridge::describe_library(&library()).unwrap().to_string();
    let older = text.replace("change add(by: i64) -> i64", "change add(by: i32) -> i64");
    let older = headers::generate(&everbyte_bridge::Description::parse(&older).unwrap()).unwrap();
    let [both, old] = ["both", "old"].map(|name| dir.path().join(name));
    headers::write(&generate(), &both).unwrap();
    let stale = older.iter().find(|header| header.name == "counter.hpp").unwrap();
    headers::write(std::slice::from_ref(stale), &both).unwrap();
    let refused = mixed.arg("-iquote").arg(&both).arg("-fsyntax-only").arg(program("inventory.cpp")).output().unwrap();
    let said = text_of(&refused);
    assert!(!refused.status.success() && said.contains("`lib.h` and `counter.hpp` are of different builds"), "{said}");

    headers::write(&older, &old).unwrap();
    let (object, source) = (dir.path().join("old.o"), dir.path().join("old.cpp"));
    std::fs::write(&source, "#include \"lib.h\"\n").unwrap();
    let mut first = compiler("g++").unwrap();
    first.arg("-iquote").arg(&old).args(["-c", "-o"]).arg(&object).arg(&source);
    assert!(first.status().unwrap().success());
    let mut second = compiler("g++").unwrap();
    second.arg(&object);
    let refused = run(&build(second, "inventory.cpp", dir.path()), &dir.path().join("store"), &[]);
    assert!(
        refused.status.code() == Some(78) && text_of(&refused).contains("`change add(by: i32) -> i64` in the header")
    );
}

/// A header in which a type or the place of a function was changed by hand.
#[test]
fn a_header_changed_by_hand_does_not_compile() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("main.cpp");
    let text = "#include \"shop.hpp\"\nusing stock::shop;\n\
        std::int64_t use(const shop::counter& one, const shop::kv_store<int, double>& all) {\n  all.get(1), all.size();\n\
          return one.value() + shop::txn([&](auto& t) { all.put(t, 1, 2.0); return one.add(t, 1); });\n}\n";
    std::fs::write(&source, text).unwrap();
    let cases = [
        ("g++", "counter.hpp", "std::int64_t", "std::int32_t"),
        ("clang++", "kv_store.hpp", "everbyte_change<3,", "everbyte_change<2,"),
        ("g++", "kv_store.hpp", "everbyte_read<1,", "everbyte_read<4,"),
        ("clang++", "kv_store.hpp", " first = ", " first = 1 + "),
    ];
    for (index, (name, file, from, to)) in cases.into_iter().enumerate() {
        let Some(mut compiler) = compiler(name) else { continue };
        let changed = dir.path().join(index.to_string());
        headers::write(&generate(), &changed).unwrap();
        let text = std::fs::read_to_string(changed.join(file)).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(changed.join(file), text.replace(from, to)).unwrap();
        let output = compiler.arg("-iquote").arg(&changed).arg("-fsyntax-only").arg(&source).output().unwrap();
        let is_said = text_of(&output).contains("this header was changed, or is of another build");
        assert!(!output.status.success() && is_said, "{name} {to}: {}", text_of(&output));
    }
}

/// A header of another library ends its program before anything is opened, with the difference.
#[test]
fn a_header_of_another_build_is_refused_at_the_start() {
    for name in COMPILERS {
        let Some(mut compiler) = compiler(name) else { continue };
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
        assert!(refused.status.code() == Some(78) && text_of(&refused).contains(said), "{}", text_of(&refused));
        assert!(!store.exists());
    }
}
