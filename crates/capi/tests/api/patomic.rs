//! Programs with patomic blocks: compiled in every way, conflicting, killed, and refused.
use crate::kills;
use crate::object_code;
use crate::programs::{pkg_config_of, prefix, root, run, succeed, text};
use everbyte_media::{BackendChoice, Options};
use everbyte_store::Store;
use everbyte_tx::Redo;
use everbyte_workload::history::{Seen, circle};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const LEVELS: [&str; 5] = ["-O0", "-O1", "-O2", "-O3", "-Os"];

/// Compiles a program of C, or C++, with these flags too.
fn compile(source: &str, into: &Path, words: &[&str]) -> Result<PathBuf, Output> {
    let program = into.join("program");
    let (compiler, standard) = if source.ends_with(".cc") { ("g++", "-std=c++20") } else { ("gcc", "-std=c11") };
    let mut command = Command::new(compiler);
    command.args([standard, "-g", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
    command.arg(root().join("crates/capi/tests/c").join(source)).args(words);
    command.arg(format!("-Wl,-rpath,{}", prefix().join("lib").display())).arg("-o").arg(&program);
    let output = command.output().expect("gcc");
    if output.status.success() { Ok(program) } else { Err(output) }
}

fn words() -> Vec<String> {
    pkg_config_of("everbyte-patomic", &["--cflags", "--libs"])
}

/// The same with the flags of pkg-config.
fn build(source: &str, into: &Path, words: &[&str]) -> PathBuf {
    let all = self::words();
    let all: Vec<&str> = words.iter().copied().chain(all.iter().map(String::as_str)).collect();
    compile(source, into, &all).unwrap_or_else(|output| panic!("{source} {words:?}: {}", text(&output)))
}

fn succeeds_at_every_level(source: &str, words: &[&str]) {
    for level in LEVELS {
        let dir = tempfile::tempdir().unwrap();
        let program = build(source, dir.path(), &[level]);
        for backend in if level == "-O2" { &["shm", "file"][..] } else { &["shm"] } {
            let store = dir.path().join(format!("{backend}.store"));
            succeed(&program, &store, backend, words);
        }
    }
}

/// Two threads over the same words, persistent and not, with one conflict that is certain: a block
/// that is run again begins with the registers, locals and memory of its first run, and what it
/// sees fits together.
#[test]
fn threads_in_each_others_way_lose_nothing_and_keep_their_locals() {
    succeeds_at_every_level("patomic_threads.c", &["300", "2"]);
}

/// Persistent words and others, which are changed in place: some order of the blocks that have
/// happened explains what all saw.
#[test]
fn histories_of_blocks_are_serialisable() {
    let dir = tempfile::tempdir().unwrap();
    let program = build("patomic_histories.c", dir.path(), &["-O2"]);
    for mode in ["sync", "async"] {
        let said = succeed(&program, &dir.path().join(mode), "shm", &[mode]);
        let seen = |line: &str| {
            let numbers: Vec<u64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
            let words = numbers.chunks(3).map(|step| (step[0], step[1], Some(step[2]).filter(|&stored| stored != 0)));
            Seen { words: words.collect() }
        };
        let history: Vec<Seen> = said.lines().map(seen).collect();
        assert_eq!(history.len(), 4500);
        let circle = circle(&history);
        let shown: Vec<_> = circle.iter().flatten().map(|&index| &history[index]).collect();
        assert!(circle.is_none(), "{mode}: no order explains {shown:?}");
    }
}

/// Blocks inside blocks, cancelled or left early; memory that comes and goes with them; one that
/// changes a megabyte.
#[test]
fn blocks_nest_and_are_cancelled() {
    succeeds_at_every_level("patomic_blocks.c", &[]);
}

/// An exception that leaves a block commits it; caught inside, cancelled or run again, it leaves
/// nothing.
#[test]
fn exceptions_commit_what_they_leave() {
    succeeds_at_every_level("patomic_exceptions.cc", &[]);
}

/// A hash table, killed at moments that its output decides: it is whole, and has what it said.
#[test]
fn a_table_is_whole_whenever_its_program_is_killed() {
    for mode in ["sync", "async"] {
        kills::killed_again_and_again(|into| build("patomic_table.c", into, &["-O2"]), &[mode]);
    }
}

/// Variables, regions and what blocks had settled first, then the functions that the program
/// registered, in order, then its first block.
#[test]
fn a_restart_goes_from_what_was_kept_to_the_first_block() {
    let dir = tempfile::tempdir().unwrap();
    let program = build("patomic_restart.c", dir.path(), &["-O2"]);
    let run = |backend: &str, mode: &str, word: &str| {
        let mut command = Command::new(&program);
        let store = dir.path().join(format!("{backend}-{mode}"));
        command.arg(word).env("EVERBYTE_STORE", store).env("EVERBYTE_BACKEND", backend);
        command.env("EVERBYTE_TRUNCATION", mode).output().unwrap()
    };
    for (backend, mode) in [("file", "async"), ("shm", "async"), ("file", "sync")] {
        let left = run(backend, mode, "leave");
        assert_eq!(left.status.signal(), Some(libc::SIGKILL), "{backend} {mode}: {}", text(&left));
        for _ in 0..2 {
            let found = run(backend, mode, "find");
            assert!(found.status.success(), "{backend} {mode}: {}", text(&found));
        }
    }
    let refused = run("shm", "seldom", "find");
    assert!(!refused.status.success() && text(&refused).contains("EVERBYTE_TRUNCATION"), "{}", text(&refused));
}

/// The variable of a mapped region had been changed by a block whose stores a restart repeats.
#[test]
fn a_region_keeps_its_address_when_an_earlier_block_is_stored_again() {
    let dir = tempfile::tempdir().unwrap();
    let program = build("patomic_restart.c", dir.path(), &["-O2"]);
    for (backend, mode) in [("file", "async"), ("shm", "async"), ("file", "sync"), ("shm", "sync")] {
        let run = |word: &str| {
            let mut command = Command::new(&program);
            let store = dir.path().join(format!("{backend}-{mode}"));
            command.arg(word).env("EVERBYTE_STORE", store).env("EVERBYTE_BACKEND", backend);
            command.env("EVERBYTE_TRUNCATION", mode).output().unwrap()
        };
        let left = run("map");
        assert_eq!(left.status.signal(), Some(libc::SIGKILL), "{backend} {mode}: {}", text(&left));
        let found = run("mapped");
        assert!(found.status.success(), "{backend} {mode}: {}", text(&found));
    }
}

/// Without a compiler's transactions: bodies are functions with explicit loads and stores; the next
/// run finds the committed values.
#[test]
fn compilers_without_transactions_say_each_load_and_store() {
    let libraries = pkg_config_of("everbyte", &["--cflags", "--libs"]);
    let run_path = format!("-Wl,-rpath,{}", prefix().join("lib").display());
    for (compiler, level) in [("clang", "-O0"), ("clang", "-O2"), ("gcc", "-O0"), ("gcc", "-O2")] {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        let mut command = Command::new(compiler);
        command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", level, "-pthread", &run_path]);
        command.arg(root().join("crates/capi/tests/c/atomically.c")).args(&libraries).arg("-o").arg(&program);
        let output = command.output().expect(compiler);
        assert!(output.status.success(), "{compiler} {level}: {}", text(&output));
        for backend in ["shm", "file"] {
            let store = dir.path().join(format!("{backend}.store"));
            let rounds = if backend == "shm" { "500" } else { "20" };
            for run in 1..3 {
                assert_eq!(
                    succeed(&program, &store, backend, &[rounds, "2"]),
                    format!("{run}\n"),
                    "{compiler} {level}"
                );
            }
        }
    }
}

/// A block that stores to too many lines ends the process with a message and has no effect.
#[test]
fn a_block_that_touches_too_much_ends_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let (program, store) = (build("patomic_blocks.c", dir.path(), &["-O2"]), dir.path().join("store"));
    let ended = run(&program, &store, "shm", &["gigabyte"]);
    assert!(!ended.status.success() && text(&ended).contains("divide it"), "{}", text(&ended));
    assert_eq!(succeed(&program, &store, "shm", &["after"]), "as it was\n");
}

/// A full heap: `pmalloc` returns NULL and its block goes on; a block whose commit finds no space
/// ends the process, and nothing of it has happened. Blocks freed in the next run are free space
/// again.
#[test]
fn a_full_heap_keeps_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let program = build("patomic_full.c", dir.path(), &["-O2"]);
    for (backend, choice) in [("shm", BackendChoice::Shm), ("file", BackendChoice::File)] {
        let store = dir.path().join(backend);
        succeed(&program, &store, backend, &["make"]);
        {
            let store = Store::open(&store, &Options { backend: choice, ..Options::default() }).unwrap();
            store.set_quota("pstatic/program", Some(100)).unwrap();
        }
        let ended = run(&program, &store, backend, &["full"]);
        assert!(!ended.status.success() && text(&ended).contains("quota is 100"), "{backend}: {}", text(&ended));
        succeed(&program, &store, backend, &["after"]);
        let store = Store::open(&store, &Options { backend: choice, ..Options::default() }).unwrap();
        let redo = Redo::open(store.object("pstatic/program").unwrap()).unwrap();
        assert_eq!(redo.check(None), [], "{backend}");
    }
}

/// Without the flags, or with GCC's own library of transactions, there is no program.
#[test]
fn programs_without_the_flags_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let include = pkg_config_of("everbyte", &["--cflags"]);
    let plain: Vec<&str> = include.iter().map(String::as_str).collect();
    let refused =
        text(&compile("patomic.c", dir.path(), &[&plain[..], &["-fgnu-tm", "-leverbyte"]].concat()).unwrap_err());
    assert!(refused.contains("pkg-config --cflags everbyte-patomic"), "{refused}");
    let libitm = [&plain[..], &["-fgnu-tm", "-DEVERBYTE_PATOMIC_FLAGS=12", "-litm", "-Wno-clobbered"]].concat();
    let refused = text(&compile("patomic.c", dir.path(), &libitm).unwrap_err());
    assert!(refused.contains("everbyte_patomic"), "{refused}");
}

/// The lines of a source that end with this comment.
fn lines_marked(source: &str, mark: &str) -> BTreeSet<usize> {
    let text = std::fs::read_to_string(root().join("crates/capi/tests/c").join(source)).unwrap();
    text.lines().zip(1..).filter(|(line, _)| line.ends_with(mark)).map(|(_, number)| number).collect()
}

/// Each of them is refused, at every level, in blocks and in called functions; no other line is.
#[test]
fn bit_fields_in_blocks_do_not_compile() {
    let (dir, words) = (tempfile::tempdir().unwrap(), words());
    for level in LEVELS {
        let words: Vec<&str> = words.iter().map(String::as_str).chain([level, "-fdiagnostics-color=never"]).collect();
        let refused = text(&compile("patomic_bits.c", dir.path(), &words).unwrap_err());
        let lines = refused.lines().filter_map(|line| line.split_once("error: "));
        let bits = lines.clone().filter(|(_, what)| what.contains("bit field"));
        let at = |(place, _): (&str, _)| place.split(':').nth(1).and_then(|line| line.parse().ok());
        let bits: BTreeSet<usize> = bits.filter_map(at).collect();
        assert_eq!(bits, lines_marked("patomic_bits.c", "/* refused */"), "{level}: {refused}");
        assert_eq!(lines.count(), bits.len(), "{level}: {refused}");
    }
}

/// Structs with bit fields are copied whole, at every level. A copy that the optimizer divides is
/// refused, and so is what GCC crashes on.
#[test]
fn copies_of_structs_stay_whole_or_do_not_compile() {
    succeeds_at_every_level("patomic_bits_whole.c", &[]);
    let (dir, words) = (tempfile::tempdir().unwrap(), words());
    let compiled = |more: &[&str]| {
        let words: Vec<&str> = more.iter().copied().chain(words.iter().map(String::as_str)).collect();
        compile("patomic_bits_whole.c", dir.path(), &words).map_err(|output| text(&output))
    };
    let divided = compiled(&["-O1", "-DDIVIDED"]).unwrap_err();
    assert!(divided.contains("which GCC has divided"), "{divided}");
    compiled(&["-O1", "-DDIVIDED", "-fno-tree-sra"]).unwrap();
    let variadic = compiled(&["-DVARIADIC"]).unwrap_err();
    assert!(variadic.contains("va_arg") && variadic.contains("take the arguments by a pointer"), "{variadic}");
}

/// GCC's code for bit fields, by its version, if the checker permits it: the reason for the
/// checker. A version that is right needs no refusal.
#[test]
fn bit_fields_in_blocks_are_compiled_wrongly() {
    let dir = tempfile::tempdir().unwrap();
    let version = Command::new("gcc").arg("-dumpversion").output().unwrap();
    let version = text(&version).trim().to_owned();
    let unchecked: Vec<String> = words().into_iter().filter(|word| !word.starts_with("-fplugin=")).collect();
    let said = |level| {
        let words: Vec<&str> = unchecked.iter().map(String::as_str).chain([level]).collect();
        let program =
            compile("patomic_bits.c", dir.path(), &words).unwrap_or_else(|output| panic!("{}", text(&output)));
        let store = dir.path().join(format!("store{level}"));
        succeed(&program, &store, "shm", &[])
    };
    let (plain, optimized) = (said("-O0"), said("-O2"));
    let right = "set: a 3, b 2, c 6, d 5; behind aaaaaaaaaaaaaaaa\n\
                 add: a 3, b 0, c 6, d 10; behind aaaaaaaaaaaaaaaa\n\
                 local: a 3, b 0, c 6, d 5; behind aaaaaaaaaaaaaaaa\n";
    assert!(plain != right || optimized != right, "GCC {version} is right: the checker may let bit fields pass");
    if version == "12" {
        let add = "add: a 3, b 0, c 6, d 5; behind aaaaaaaaaaaa0000";
        let local = "local: a 3, b 0, c 6, d 5; behind aaaaaaaaaaaaaaaa";
        assert_eq!(plain, format!("set: a 2, b 0, c 262, d 2; behind aaaaaaaaaaaa0000\n{add}\n{local}\n"));
        assert_eq!(optimized, format!("set: a 3, b 2, c 6, d 5; behind aaaaaaaaaaaaaaaa\n{add}\n{local}\n"));
    } else {
        panic!("GCC {version} says\n{plain}and at -O2\n{optimized}: add these numbers here");
    }
}

/// A block that stores to an object that is not its program's, or to a region, ends the process,
/// and the object stays as it was.
#[test]
fn a_block_that_stores_elsewhere_ends_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let (program, store) = (build("patomic_blocks.c", dir.path(), &["-O2"]), dir.path().join("store"));
    for place in ["elsewhere", "region"] {
        let ended = run(&program, &store, "shm", &[place]);
        assert!(!ended.status.success() && text(&ended).contains("not its program's"), "{place}: {}", text(&ended));
    }
    succeed(&program, &store, "shm", &[]);
}

/// Variables of a library, and `PDATA` beside `pstatic`, have an engine of their own: a block that
/// changes them with the program's ends the process, and nothing of it has happened. In a program
/// without variables a library's blocks change the library's.
#[test]
fn a_block_that_stores_to_variables_of_another_file_ends_the_process() {
    const SOURCE: &str = "patomic_sections.c";
    let dir = tempfile::tempdir().unwrap();
    let words = words();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let built = compile(SOURCE, dir.path(), &[&["-DLIBRARY", "-shared", "-fPIC"], &words[..]].concat());
    let library = dir.path().join("libkeeps.so");
    std::fs::rename(built.unwrap_or_else(|output| panic!("{}", text(&output))), &library).unwrap();
    let linked = [library.to_str().unwrap()];
    let program = build(SOURCE, dir.path(), &linked);
    for backend in ["shm", "file"] {
        let store = dir.path().join(backend);
        for place in ["library", "pdata", "inside"] {
            let ended = run(&program, &store, backend, &[place]);
            assert!(text(&ended).contains("not its program's"), "{place} on {backend}: {}", text(&ended));
        }
        assert_eq!(succeed(&program, &store, backend, &["look"]), "0 0\n", "{backend}");
    }
    let bare = build(SOURCE, dir.path(), &[linked[0], "-DBARE"]);
    for backend in ["shm", "file"] {
        let store = dir.path().join(format!("bare-{backend}"));
        let ended = run(&bare, &store, backend, &["inside"]);
        assert_eq!(ended.status.signal(), Some(libc::SIGKILL), "{backend}: {}", text(&ended));
        assert_eq!(succeed(&bare, &store, backend, &["look"]), "1 0\n", "{backend}");
    }
}

/// A body that is left by a jump, and a block in a signal handler that interrupted a step of
/// another, end the process at the next begin or commit, before it acknowledges anything more;
/// every acknowledged block is kept.
#[test]
fn a_body_that_is_left_by_a_jump_or_interrupted_by_a_block_ends_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let program = build("patomic_ends.c", dir.path(), &["-O2", "-pthread"]);
    let left = "left without ending it";
    let step = "inside a step of another";
    let (all, file) = (&["shm", "file"][..], &["file"][..]);
    for (what, sentence, backends) in [
        ("jump", left, all),
        ("jump-deeper", left, all),
        ("jump-inner", left, all),
        ("jump-block-again", left, file),
        ("jump-block-below", left, file),
        ("jump-block", step, file),
        ("fault", step, file),
        ("fault-exit", "a thread ends inside a step", file),
    ] {
        for backend in backends {
            let store = dir.path().join(format!("{what}-{backend}"));
            let ended = run(&program, &store, backend, &[what]);
            assert_eq!(ended.status.signal(), Some(libc::SIGABRT), "{what} on {backend}: {}", text(&ended));
            assert!(text(&ended).contains(sentence), "{what} on {backend}: {}", text(&ended));
            assert_eq!(succeed(&program, &store, backend, &["look"]), "0 0 no block\n", "{what} on {backend}");
        }
    }
    for what in ["handler-first", "handler"] {
        let ended = run(&program, &dir.path().join(what), "shm", &[what]);
        assert!(text(&ended).contains(step), "{what}: {}", text(&ended));
    }
}

/// A thread that exits, or is cancelled, inside a body: memory, persistent or not, is as it was,
/// locks are free, and other threads go on.
#[test]
fn a_thread_that_ends_inside_a_body_leaves_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let program = build("patomic_ends.c", dir.path(), &["-O2", "-pthread"]);
    for backend in ["shm", "file"] {
        let store = dir.path().join(backend);
        succeed(&program, &store, backend, &["threads"]);
        assert_eq!(succeed(&program, &store, backend, &["look"]), "1 1 no block\n", "{backend}");
    }
}

/// `pmalloc` outside of blocks, to a pointer that a block has just stored to: a recovery that
/// stores again what the block did does not store over it.
#[test]
fn what_is_allocated_after_a_block_stays_when_the_block_is_stored_again() {
    let dir = tempfile::tempdir().unwrap();
    let program = build("patomic_ends.c", dir.path(), &["-O2", "-pthread"]);
    for backend in ["shm", "file"] {
        let store = dir.path().join(backend);
        let mut mixed = Command::new(&program);
        mixed.arg("mixed").env("EVERBYTE_STORE", &store).env("EVERBYTE_BACKEND", backend);
        let killed = mixed.env("EVERBYTE_TRUNCATION", "async").output().unwrap();
        assert_eq!(killed.status.signal(), Some(libc::SIGKILL), "{backend}: {}", text(&killed));
        assert_eq!(succeed(&program, &store, backend, &["look"]), "1 1 a block\n", "{backend}");
    }
}

/// A flush across the border of two lines settles both, also if variables are copied to the store.
#[test]
fn what_is_flushed_across_two_lines_is_settled_in_both() {
    let dir = tempfile::tempdir().unwrap();
    let (program, store) = (build("patomic_ends.c", dir.path(), &["-O2", "-pthread"]), dir.path().join("store"));
    let killed = run(&program, &store, "file", &["straddle"]);
    assert_eq!(killed.status.signal(), Some(libc::SIGKILL), "{}", text(&killed));
    succeed(&program, &store, "file", &["look-straddle"]);
}

/// In a child of a fork inside a body the body's function answers that nothing has happened, with
/// `EPERM`, and so does each later one; a block ends the child with a sentence. The parent's goes
/// on.
#[test]
fn a_child_of_a_fork_inside_a_body_runs_no_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let program = build("patomic_ends.c", dir.path(), &["-O2", "-pthread"]);
    for backend in ["shm", "file"] {
        let store = dir.path().join(backend);
        let output = run(&program, &store, backend, &["fork"]);
        assert!(output.status.success() && text(&output).contains("child of fork"), "{backend}: {}", text(&output));
        assert_eq!(succeed(&program, &store, backend, &["look"]), "3 3 no block\n", "{backend}");
    }
}

/// As outside of blocks, the place of a pointer is persistent and aligned: nothing else would lead
/// to the block.
#[test]
fn blocks_are_allocated_into_persistent_pointers_inside_transactions_too() {
    let dir = tempfile::tempdir().unwrap();
    let program = build("patomic_ends.c", dir.path(), &["-O2", "-pthread"]);
    succeed(&program, &dir.path().join("store"), "shm", &["pointers"]);
}

/// The counter of the header's example goes on from run to run, on every backend and in both modes.
#[test]
fn a_counter_goes_on_from_run_to_run() {
    let dir = tempfile::tempdir().unwrap();
    let program = build("patomic.c", dir.path(), &["-O2"]);
    for backend in ["shm", "file"] {
        let store = dir.path().join(format!("{backend}.store"));
        for (run, mode) in ["sync", "async", "async", "sync"].iter().enumerate() {
            let mut counter = Command::new(&program);
            counter.arg("50").env("EVERBYTE_STORE", &store).env("EVERBYTE_BACKEND", backend);
            let output = counter.env("EVERBYTE_TRUNCATION", mode).output().unwrap();
            assert_eq!(text(&output), format!("{}\n", (run + 1) * 50));
        }
    }
}

/// Every name of GCC's library of transactions is there.
#[test]
fn every_name_of_libitm_is_there() {
    let names = |library: &Path| -> BTreeSet<String> {
        let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().expect("nm");
        let text = String::from_utf8(output.stdout).unwrap();
        let names =
            text.lines().filter_map(|line| line.split_whitespace().nth(2)).filter_map(|name| name.split('@').next());
        names.filter(|name| !name.starts_with("LIBITM")).map(String::from).collect()
    };
    let place = Command::new("gcc").arg("-print-file-name=libitm.so").output().unwrap();
    let theirs = names(Path::new(text(&place).trim()));
    let ours = names(&prefix().join("lib/libeverbyte.so"));
    assert_eq!(theirs.len(), 173);
    assert_eq!(theirs.difference(&ours).collect::<Vec<_>>(), [""; 0]);
}

/// Compiles a file to an object.
fn object_of(source: &Path, into: &Path, words: &[&str]) -> PathBuf {
    let object = into.join("object.o");
    let (compiler, standard) = match source.extension().is_some_and(|extension| extension == "cc") {
        true => ("g++", "-std=c++20"),
        false => ("gcc", "-std=c11"),
    };
    let mut compile = Command::new(compiler);
    let output = compile.args([standard, "-c"]).args(words).arg(source).arg("-o").arg(&object).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    object
}

/// No store hides from the transaction in the instrumented code of any of the programs, blocks and
/// what they call; without one of the flags the check finds those that would.
#[test]
fn no_store_hides_in_instrumented_code() {
    let dir = tempfile::tempdir().unwrap();
    let flags = pkg_config_of("everbyte-patomic", &["--cflags"]);
    let all: Vec<&str> = flags.iter().map(String::as_str).collect();
    let hidden = |name: &str, words: &[&str]| {
        let source = root().join("crates/capi/tests/c").join(name);
        object_code::hidden(&object_of(&source, dir.path(), words))
    };
    let programs = ["patomic_loops.c", "patomic_blocks.c", "patomic_table.c", "patomic_threads.c"];
    for level in LEVELS {
        for program in programs {
            assert_eq!(hidden(program, &[&all[..], &[level]].concat()), [""; 0], "{program} {level}");
        }
    }
    assert_eq!(hidden("patomic_exceptions.cc", &[&all[..], &["-O2"]].concat()), [""; 0]);
    let without: Vec<&str> = all.iter().copied().filter(|flag| *flag != "-fno-tree-loop-distribute-patterns").collect();
    let found = hidden("patomic_loops.c", &[&without[..], &["-O2"]].concat());
    assert!(found.iter().any(|line| line.contains("memset")), "{found:?}");
    assert!(found.iter().any(|line| line.contains("memcpy")), "{found:?}");
}

/// The check finds a direct store in a clone, in a block, and behind one that was cancelled inside
/// it; and none where a block runs as it stands, after it, or on the stack.
#[test]
fn the_check_of_object_code_knows_where_a_transaction_runs() {
    let dir = tempfile::tempdir().unwrap();
    let hidden = |code: &str| {
        let source = dir.path().join("code.s");
        std::fs::write(&source, code).unwrap();
        object_code::hidden(&object_of(&source, dir.path(), &[])).len()
    };
    assert_eq!(hidden("_ZGTt4call: movq $1, 8(%rsp)\n incl (%rdi)\n fstps (%rdi)\n cmpl $1, (%rdi)\n ret\n"), 2);
    let block = |inside: &str| {
        let begin = "call _ITM_beginTransaction@PLT\n";
        hidden(&format!(
            "block: {begin} test $2, %al\n jne 1f\n {inside}\n 2: call _ITM_commitTransaction@PLT\n\
             movq $1, (%rdi)\n ret\n 1: movq $1, (%rdi)\n jmp 2b\n"
        ))
    };
    assert_eq!(block("mov %rdi, %rax"), 0);
    assert_eq!(block("addq $1, words(%rip)"), 1);
    assert_eq!(block("jmp memset@PLT"), 1);
    let inner = |after: &str| {
        format!(
            "call _ITM_beginTransaction@PLT\n test $16, %al\n jne 3f\n call _ITM_commitTransaction@PLT\n 3: {after}\n"
        )
    };
    assert_eq!((block(&inner("nop")), block(&inner("xchg %rax, (%rdi)"))), (0, 1));
}
