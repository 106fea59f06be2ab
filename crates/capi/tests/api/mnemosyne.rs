//! Programs with persistent variables: compiled in several ways, run again, killed, rebuilt.

use crate::kills;
use crate::programs::{compile, copy, pkg_config, prefix, root, run, succeed, text};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = "crates/capi/tests/c/pstatic.c";
const MORE: &str = "crates/capi/tests/c/pstatic_more.c";

/// Compiles the files of a program and links them: as C or, if `words` say so, the last one as C++.
fn build(files: &[&str], words: &[&str], program: &Path) {
    let (languages, words): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| **word == "c++");
    let compile = |file: &&str| {
        let (compiler, options) = match languages.is_empty() || (files.len() > 1 && *file == files[0]) {
            true => ("cc", ["-std=c11", "-xc"]),
            false => ("c++", ["-std=c++20", "-xc++"]),
        };
        let object = program.with_extension(file.replace('/', "-") + ".o");
        let mut command = Command::new(compiler);
        command.args(["-g", "-Wall", "-Wextra", "-Werror", "-pedantic"]).args(options).args(&words);
        command.args(pkg_config(&["--cflags"])).arg("-c").arg(root().join(file)).arg("-o").arg(&object);
        done(command);
        object
    };
    let mut link = Command::new("cc");
    link.args(&words).args(files.iter().map(compile)).args(pkg_config(&["--libs"]));
    link.arg(format!("-Wl,-rpath,{}", prefix().join("lib").display())).arg("-o").arg(program);
    done(link);
}

fn done(mut command: Command) {
    let output = command.output().expect("a compiler");
    assert!(output.status.success(), "{command:?}: {}", text(&output));
}

#[test]
fn variables_keep_their_values_however_the_program_is_built() {
    for (index, words) in [
        &["-O2"][..],
        &["-O0", "-no-pie"],
        &["-O2", "c++"],
        &["-O2", "-flto"],
        &["-O2", "-Wl,--gc-sections"],
        &["-O1", "-fsanitize=address"],
    ]
    .iter()
    .enumerate()
    {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        build(&[PROGRAM, MORE], words, &program);
        for backend in if index == 0 { &["file", "shm"][..] } else { &["shm"] } {
            let store = dir.path().join(format!("{backend}.store"));
            for run in 41..44 {
                assert_eq!(succeed(&program, &store, backend, &["count"]), format!("{run}\n"), "{words:?} {backend}");
            }
            let killed = crate::programs::run(&program, &store, backend, &["flushed"]);
            assert_eq!(String::from_utf8_lossy(&killed.stdout), "44\n", "{}", text(&killed));
            assert_eq!(succeed(&program, &store, backend, &["count"]), "45\n", "{words:?} {backend}, after a kill");
            std::fs::remove_file(&store).unwrap();
            assert_eq!(succeed(&program, &store, backend, &["count"]), "41\n", "begins anew without its store");
        }
    }
}

/// The transaction is on an object of `heapo.h`, which has the same store.
#[test]
fn a_program_that_ends_while_a_thread_is_in_a_transaction_keeps_its_variables() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    build(&[PROGRAM, MORE], &["-O2"], &program);
    for backend in ["file", "shm"] {
        let store = dir.path().join(backend);
        for (run, part) in (41..).zip(["count", "beside", "count"]) {
            assert_eq!(succeed(&program, &store, backend, &[part]), format!("{run}\n"), "{part} on {backend}");
        }
    }
}

#[test]
fn blocks_are_allocated_into_words_and_freed_from_them() {
    for (backend, words) in [("file", &["-O2"][..]), ("shm", &["-O2", "-fsanitize=address"])] {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        build(&[PROGRAM, MORE], words, &program);
        let store = dir.path().join("store");
        succeed(&program, &store, backend, &["heap"]);
        succeed(&program, &store, backend, &["again"]);
    }
}

#[test]
fn a_program_built_anew_keeps_its_variables_unless_they_moved() {
    let dir = tempfile::tempdir().unwrap();
    let (path, store) = (dir.path().join("program"), dir.path().join("store"));
    let count = |expected: &str| assert_eq!(succeed(&path, &store, "shm", &["count"]), expected);
    let refused = |words: &[&str], why: &str| {
        build(&[PROGRAM, MORE], words, &path);
        let output = run(&path, &store, "shm", &["count"]);
        assert_eq!(output.status.code(), Some(78), "{}", text(&output));
        assert!(text(&output).contains(why), "{}", text(&output));
    };
    build(&[PROGRAM, MORE], &["-O2"], &path);
    count("41\n");
    // another build, the same variables
    build(&[PROGRAM, MORE], &["-O2", "-DUNUSED", "-fno-inline"], &path);
    count("42\n");
    refused(&["-O2", "-DMORE"], "names, places or sizes have changed");
    refused(&["-O2", "-s", "-fno-inline-functions", "-fno-unroll-loops", "-DX"], "without its symbols");
    copy(&path, &dir.path().join("stripped"));
    build(&[PROGRAM, MORE], &["-O2"], &path);
    count("43\n");
    let other = dir.path().join("stripped");
    assert_eq!(succeed(&other, &store, "shm", &["count"]), "41\n", "another file, another set");
    assert_eq!(succeed(&other, &store, "shm", &["count"]), "42\n", "the same build needs no symbols");
}

#[test]
fn variables_that_begin_as_addresses_need_a_program_at_a_fixed_place() {
    let dir = tempfile::tempdir().unwrap();
    let (path, store) = (dir.path().join("program"), dir.path().join("store"));
    build(&[PROGRAM, MORE], &["-O2", "-DADDRESS"], &path);
    let output = run(&path, &store, "shm", &["count"]);
    assert_eq!(output.status.code(), Some(78), "{}", text(&output));
    assert!(text(&output).contains("`address` begins as an address"), "{}", text(&output));
    build(&[PROGRAM, MORE], &["-O2", "-no-pie", "-DADDRESS"], &path);
    assert_eq!(succeed(&path, &store, "shm", &["count"]), "41\n", "nothing was left behind");
}

/// A program compiled without -fPIC gets copies of a library's variables, which would not be kept.
#[test]
fn copies_of_a_librarys_variables_are_refused() {
    const SOURCE: &str = "crates/capi/tests/c/pstatic_library.c";
    let dir = tempfile::tempdir().unwrap();
    let run_path = format!("-Wl,-rpath,{}:{}", prefix().join("lib").display(), dir.path().display());
    let compile = |words: &[&str], name: &str, library: &[&str]| {
        let mut cc = Command::new("cc");
        cc.current_dir(dir.path()).args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", &run_path]).args(words);
        cc.args(pkg_config(&["--cflags"])).arg(root().join(SOURCE)).args(library).args(pkg_config(&["--libs"]));
        done({
            cc.args(["-o", name]);
            cc
        });
        dir.path().join(name)
    };
    compile(&["-DLIBRARY", "-shared", "-fPIC"], "libshown.so", &[]);
    let program = |words: &[&str], name: &str| compile(words, name, &["-L.", "-lshown"]);
    let store = dir.path().join("store");
    let refused = run(&program(&["-DNAMES", "-no-pie"], "copies"), &store, "shm", &[]);
    assert_eq!(refused.status.code(), Some(78), "{}", text(&refused));
    assert!(text(&refused).contains("`shown` of") && text(&refused).contains("-fPIC"), "{}", text(&refused));
    assert_eq!(succeed(&program(&["-no-pie"], "asks"), &store, "shm", &[]), "7\n");
    assert_eq!(succeed(&program(&["-DNAMES", "-fPIC"], "names"), &store, "shm", &[]), "8 8\n");
    assert_eq!(succeed(&dir.path().join("asks"), &store, "shm", &[]), "9\n");
}

#[test]
fn a_section_that_shares_its_pages_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (program, plain, store) = (dir.path().join("program"), dir.path().join("plain.c"), dir.path().join("store"));
    std::fs::write(&plain, "__attribute__((section(\"persistent\"))) int plain = 1;\n").unwrap();
    build(&[PROGRAM, MORE, plain.to_str().unwrap()], &["-O2"], &program); // without the header
    let refused = run(&program, &store, "shm", &["count"]);
    assert_eq!(refused.status.code(), Some(78), "{}", text(&refused));
    assert!(text(&refused).contains("is not whole pages"), "{}", text(&refused));
}

/// File names are bytes; a program whose file is deleted, which names its variables, ends before
/// main.
#[test]
fn the_file_of_a_program_may_have_any_name_but_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let (program, store) = (dir.path().join(OsStr::from_bytes(b"\xff \xfe")), dir.path().join("store"));
    let built = dir.path().join("built");
    build(&[PROGRAM, MORE], &["-O2"], &built);
    std::fs::rename(&built, &program).unwrap();
    for run in 41..43 {
        assert_eq!(succeed(&program, &store, "shm", &["count"]), format!("{run}\n"));
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 3<\"$1\"; rm \"$1\"; exec /proc/self/fd/3 count", "sh"]).arg(&program);
    let output = shell.env("EVERBYTE_STORE", &store).env("EVERBYTE_BACKEND", "shm").output().unwrap();
    assert!(output.status.code() == Some(78) && text(&output).contains("is gone"), "{}", text(&output));
}

/// A constructor would run at every start.
#[test]
fn variables_that_need_a_constructor_do_not_compile() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("variables.cc");
    std::fs::write(
        &source,
        "#include <everbyte/pdata.h>\n#include <everbyte/pstatic.h>\nint f(); pstatic int one = f(); PDATA int two = f();\n",
    )
    .unwrap();
    for compiler in ["g++", "clang++"] {
        let mut command = Command::new(compiler);
        let output = command.args(pkg_config(&["--cflags"])).arg("-fsyntax-only").arg(&source).output().unwrap();
        assert_eq!(text(&output).matches("does not have a constant initializer").count(), 2, "{}", text(&output));
    }
}

/// Runs an example on `words`, kills it after it has printed `count` of them, and returns the
/// number printed.
fn killed_after(count: usize, program: &Path, store: &Path, backend: &str, words: &[String]) -> usize {
    let mut command = Command::new(program);
    command.args(words).env("EVERBYTE_STORE", store).env("EVERBYTE_BACKEND", backend);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let told = lines.by_ref().take(count).count();
    child.kill().unwrap();
    child.wait().unwrap();
    told + lines.map_while(Result::ok).filter(|line| line.contains(' ')).count()
}

/// Each run is killed after another number of insertions.
#[test]
fn the_tree_survives_kills() {
    for backend in ["file", "shm"] {
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (compile("examples/c/bst.c", dir.path()), dir.path().join("store"));
        let numbers: Vec<u64> = (1..=400).map(|n: u64| n * 7919 % 1009).collect();
        let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let mut added = 0;
        for round in 0..12 {
            let told = added + killed_after(1 + round * 7 % 19, &program, &store, backend, &words[added..]);
            let found = succeed(&program, &store, backend, &[]);
            let found: Vec<u64> = found.lines().map(|line| line.parse().unwrap()).collect();
            let mut expected = numbers[..found.len()].to_vec();
            expected.sort_unstable();
            assert_eq!(found, expected, "round {round} on {backend}");
            assert!((told.saturating_sub(1)..=told + 1).contains(&found.len()), "told {told}, found {}", found.len());
            added = found.len();
        }
    }
}

#[test]
fn the_hash_table_survives_kills() {
    for backend in ["file", "shm"] {
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (compile("examples/c/hash.c", dir.path()), dir.path().join("store"));
        let words: Vec<String> = (0..600).map(|n: u64| format!("word-{}", n * n % 89)).collect();
        let mut counted = 0;
        for round in 0..12 {
            let told = counted + killed_after(1 + round * 7 % 19, &program, &store, backend, &words[counted..]);
            let found = succeed(&program, &store, backend, &[]);
            let mut found: Vec<(u64, &str)> = found
                .lines()
                .map(|line| line.split_once(' ').map(|(count, word)| (count.parse().unwrap(), word)).unwrap())
                .collect();
            counted = found.iter().map(|(count, _)| *count as usize).sum();
            assert!((told.saturating_sub(1)..=told + 1).contains(&counted), "told {told}, found {counted}");
            let mut expected = std::collections::BTreeMap::<&str, u64>::new();
            words[..counted].iter().for_each(|word| *expected.entry(word).or_default() += 1);
            let mut expected: Vec<_> = expected.into_iter().map(|(word, count)| (count, word)).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "round {round} on {backend}");
        }
    }
}

#[test]
fn the_store_is_where_the_environment_says() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile("examples/c/bst.c", dir.path());
    let run = |variables: &[(&str, &Path)], number: &str| {
        let mut command = Command::new(&program);
        command.current_dir(dir.path()).arg(number).env_remove("EVERBYTE_STORE").env_remove("MNEMOSYNE_REGION_PATH");
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    std::fs::create_dir(&one).unwrap();
    std::fs::create_dir(&two).unwrap();
    assert_eq!(run(&[], "1"), "1\n");
    assert_eq!(run(&[("MNEMOSYNE_REGION_PATH", &one)], "2"), "2\n");
    assert_eq!(run(&[("MNEMOSYNE_REGION_PATH", &two)], "3"), "3\n");
    assert_eq!(run(&[("MNEMOSYNE_REGION_PATH", &one), ("EVERBYTE_STORE", &two.join("everbyte.store"))], "4"), "3\n4\n");
    let nothing = Path::new("");
    assert_eq!(run(&[("MNEMOSYNE_REGION_PATH", nothing), ("EVERBYTE_STORE", nothing)], "5"), "1\n5\n");
    assert!(dir.path().join("everbyte.store").exists() && one.join("everbyte.store").exists());
}

#[test]
fn what_the_environment_asks_for_counts_and_nonsense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (program, store) = (compile("examples/c/bst.c", dir.path()), dir.path().join("store"));
    let run = |variables: &[(&str, &str)], number: &str| {
        let mut command = Command::new(&program);
        command.arg(number).env("EVERBYTE_STORE", &store).envs(variables.iter().copied()).output().unwrap()
    };
    for (variable, nonsense) in
        [("EVERBYTE_BACKEND", "tape"), ("EVERBYTE_DURABILITY", "sometimes"), ("EVERBYTE_FLUSH", "clean")]
    {
        let refused = run(&[(variable, nonsense)], "1");
        assert_eq!(refused.status.code(), Some(78), "{}", text(&refused));
        assert!(text(&refused).contains(variable) && text(&refused).contains(nonsense), "{}", text(&refused));
        assert!(!store.exists(), "nothing is made for a program that is refused");
    }
    let nowhere = run(&[("EVERBYTE_STORE", "/no/such/place/store")], "1");
    assert_eq!(nowhere.status.code(), Some(78), "{}", text(&nowhere));
    assert!(text(&nowhere).contains("/no/such/place"), "{}", text(&nowhere));
    let mut added = String::new();
    for (number, durability) in ["always", "interval:5", "process"].iter().enumerate() {
        let output = run(&[("EVERBYTE_BACKEND", "file"), ("EVERBYTE_DURABILITY", durability)], &number.to_string());
        added += &format!("{number}\n");
        assert_eq!(String::from_utf8_lossy(&output.stdout), added, "{durability}: {}", text(&output));
    }
}

#[test]
fn logs_give_back_what_was_flushed_whole_and_in_order() {
    for backend in ["file", "shm"] {
        let dir = tempfile::tempdir().unwrap();
        let program = compile("crates/capi/tests/c/log.c", dir.path());
        for part in ["calls", "threads", "restart"] {
            succeed(&program, &dir.path().join("store"), backend, &[part]);
        }
    }
}

#[test]
fn a_killed_program_finds_every_record_it_was_told_of() {
    kills::killed_again_and_again(|into| compile("crates/capi/tests/c/log.c", into), &[]);
}

#[test]
fn the_acceptor_keeps_its_word() {
    let dir = tempfile::tempdir().unwrap();
    let (program, store) = (compile("examples/c/paxos.c", dir.path()), dir.path().join("store"));
    let answer = |words: &[&str]| String::from_utf8(run(&program, &store, "file", words).stdout).unwrap();
    assert_eq!(answer(&["promise", "7"]), "yes: accepted 0 in ballot 0\n");
    assert_eq!(answer(&["promise", "5"]), "no: promised 7\n");
    assert_eq!(answer(&["accept", "7", "42"]), "yes: accepted 42 in ballot 7\n");
    assert_eq!(answer(&["promise", "9"]), "yes: accepted 42 in ballot 7\n");
    assert_eq!(answer(&["accept", "7", "43"]), "no: promised 9\n");
    assert_eq!(answer(&["accept", "9", "42"]), "yes: accepted 42 in ballot 9\n");
    for nonsense in [&["accept", "11"][..], &["promise"], &["promise", "11", "42"], &["forget", "11"]] {
        let refused = run(&program, &store, "file", nonsense);
        assert!(refused.status.code() == Some(2) && text(&refused).contains("usage"), "{}", text(&refused));
    }
    assert_eq!(answer(&["promise", "10"]), "yes: accepted 42 in ballot 9\n");
}

/// A tree of sorted numbers is a list: it is recovered and printed on a stack too small for its
/// depth.
#[test]
fn a_tree_may_be_deeper_than_the_stack() {
    let dir = tempfile::tempdir().unwrap();
    let (program, store) = (compile("examples/c/bst.c", dir.path()), dir.path().join("store"));
    let numbers: Vec<String> = (1..=12_000).rev().map(|number| number.to_string()).collect();
    succeed(&program, &store, "shm", &numbers.iter().map(String::as_str).collect::<Vec<_>>());
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -s 128; exec \"$0\" 0"]).arg(&program);
    let output = limited.env("EVERBYTE_STORE", &store).env("EVERBYTE_BACKEND", "shm").output().unwrap();
    assert!(output.status.success(), "{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let printed = (0..=12_000).map(|number| format!("{number}\n")).collect::<String>();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), printed);
}

/// The sets of variables that a store keeps for files.
fn sets(store: &Path) -> usize {
    let media = everbyte_media::Options { backend: everbyte_media::BackendChoice::Shm, ..Default::default() };
    let objects = everbyte_store::Store::open(store, &media).unwrap().objects().unwrap();
    objects.iter().filter(|object| object.name.starts_with("pdata/")).count()
}

#[test]
fn each_executable_file_has_variables_of_its_own_until_it_is_gone() {
    const SOURCE: &str = "crates/capi/tests/c/pdata.c";
    let dir = tempfile::tempdir().unwrap();
    let (one, store) = (dir.path().join("one"), dir.path().join("store"));
    let runs = |program: &Path, expected: &str| {
        assert_eq!(succeed(program, &store, "shm", &[]).trim_end(), expected, "{}", program.display());
    };
    build(&[SOURCE], &["-O2", "-DBEGIN=10", "c++"], &one);
    runs(&one, "11 11");
    runs(&one, "12 12");
    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let copy = other.join("one");
    crate::programs::copy(&one, &copy);
    runs(&copy, "11 13"); // a file of its own, of the same program
    runs(&one, "13 14");
    assert_eq!(sets(&store), 2);
    let renamed = dir.path().join("renamed");
    std::fs::rename(&one, &renamed).unwrap();
    runs(&copy, "12 15");
    assert_eq!(sets(&store), 2, "it is beside where it was");
    runs(&renamed, "14 11"); // another program, by its name
    std::fs::remove_file(&renamed).unwrap();
    runs(&copy, "13 16");
    assert_eq!(sets(&store), 1, "what is gone is given up");
    // Another build in the very same file.
    build(&[SOURCE], &["-O2", "-DBEGIN=20"], &one);
    crate::programs::copy(&one, &copy);
    runs(&copy, "21 17");
    assert_eq!(sets(&store), 1, "the build that was written over is gone");
    std::fs::remove_dir_all(&other).unwrap();
    runs(&one, "21 18");
    assert_eq!(sets(&store), 1, "a directory that is gone takes its files with it");
    // The variables of a file that is deleted while it runs are removed after its end.
    let next = dir.path().join("next");
    crate::programs::copy(&one, &next);
    let mut running = Command::new(&one);
    running.arg("wait").env("EVERBYTE_STORE", &store).env("EVERBYTE_BACKEND", "shm");
    let mut running = running.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(running.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "22 19");
    std::fs::remove_file(&one).unwrap();
    runs(&next, "21 21");
    drop(running.stdin.take());
    assert_eq!(said.next().unwrap().unwrap(), "22");
    assert!(running.wait().unwrap().success());
    runs(&next, "22 22");
    assert_eq!(sets(&store), 1, "it has ended");
    let disk = dir.path().join("disk");
    for run in 21..24 {
        assert!(succeed(&next, &disk, "file", &[]).starts_with(&run.to_string()), "on a disk");
    }
}

#[test]
fn regions_are_mapped_cut_and_unmapped_and_lie_where_they_did() {
    for backend in ["file", "shm"] {
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (compile("crates/capi/tests/c/regions.c", dir.path()), dir.path().join("store"));
        for part in ["first", "second", "third", "fill", "look"] {
            succeed(&program, &store, backend, &[part]);
        }
    }
}

#[test]
fn cmake_finds_the_library() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, counter) = (root().join("examples/c/bst.c"), root().join("crates/capi/tests/c/patomic.c"));
    let project = format!(
        "cmake_minimum_required(VERSION 3.16)
project(programs C)
find_package(Everbyte 0.1 REQUIRED)
add_executable(tree {})
target_link_libraries(tree everbyte::everbyte)
add_executable(counter {})
target_link_libraries(counter everbyte::patomic)
",
        tree.display(),
        counter.display()
    );
    std::fs::write(dir.path().join("CMakeLists.txt"), project).unwrap();
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(dir.path()).arg("-B").arg(dir.path()).env("CMAKE_PREFIX_PATH", prefix());
    done(configure);
    let mut make = Command::new("cmake");
    make.arg("--build").arg(dir.path());
    done(make);
    let store = dir.path().join("store");
    assert_eq!(succeed(&dir.path().join("tree"), &store, "shm", &["2", "1"]), "1\n2\n");
    let store = dir.path().join("counted");
    assert_eq!(succeed(&dir.path().join("counter"), &store, "shm", &["50"]), "50\n");
    assert_eq!(succeed(&dir.path().join("counter"), &store, "shm", &["50"]), "100\n");
}
