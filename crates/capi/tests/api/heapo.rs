//! C programs over `heapo.h`: compiled by the system's compiler, run, killed and run again.

use crate::kills::killed_again_and_again;
use crate::programs::{compile, link, pkg_config, pkg_config_of, prefix, root, run, succeed, text};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

#[test]
fn every_call_does_what_the_header_says() {
    for backend in ["file", "shm"] {
        let dir = tempfile::tempdir().unwrap();
        let program = compile("crates/capi/tests/c/heapo.c", dir.path());
        for part in ["objects", "chunks", "transactions"] {
            succeed(&program, &dir.path().join(part), backend, &[part]);
        }
    }
}

/// Linked with either kind of library.
#[test]
fn the_list_outlives_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("list.store");
    let run = |program: &Path| succeed(program, &store, "file", &[]);
    let program = compile("examples/c/list.c", dir.path());
    assert_eq!(run(&program), "1\n");
    assert_eq!(run(&program), "2 1\n");
    let library = prefix().join("lib/libeverbyte.a").display().to_string();
    let others = pkg_config(&["--libs", "--static"]).into_iter().filter(|word| word != "-leverbyte").collect();
    let program = link("examples/c/list.c", dir.path(), &[vec![library], others].concat());
    assert_eq!(run(&program), "3 2 1\n");
}

#[test]
fn a_killed_program_loses_nothing_it_was_told() {
    killed_again_and_again(|into| compile("crates/capi/tests/c/heapo.c", into), &[]);
}

/// In functions that run at exit and in destructors of keys, where thread-local values are gone.
#[test]
fn a_thread_that_is_ending_makes_calls_and_begins_nothing() {
    for backend in ["file", "shm"] {
        let dir = tempfile::tempdir().unwrap();
        let program = compile("crates/capi/tests/c/ending.c", dir.path());
        for part in ["exit", "thread"] {
            assert_eq!(succeed(&program, &dir.path().join("store"), backend, &[part]), "late\n", "{part} on {backend}");
        }
    }
}

/// Far more bytes than the limit in memory, by plain loads and stores.
#[test]
fn an_object_larger_than_its_memory_is_used_through_pointers() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile("crates/capi/tests/c/cold.c", dir.path());
    let store = dir.path().join("store");
    succeed(&program, &store, "shm", &["calls"]);
    let found: u64 = succeed(&program, &store, "shm", &["look"]).trim().parse().unwrap();
    assert!(found > 300, "{found}");
}

/// System calls do not wait for cold bytes; a program's handler receives its own faults; a cluster
/// that cannot be read back ends the program with a message.
#[test]
fn what_is_cold_is_not_for_system_calls_and_is_not_made_up() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile("crates/capi/tests/c/cold.c", dir.path());
    let store = dir.path().join("store");
    succeed(&program, &store, "shm", &["limits"]);
    let mut files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let backing = files.find(|path| path.to_string_lossy().contains(".swap-")).unwrap();
    let whole = std::fs::read(&backing).unwrap();
    let mut damaged = whole.clone();
    damaged[4096..].iter_mut().step_by(100).for_each(|byte| *byte ^= 1);
    std::fs::write(&backing, damaged).unwrap();
    let ended = run(&program, &store, "shm", &["look"]);
    assert_eq!(ended.status.signal(), Some(libc::SIGSEGV), "{}", text(&ended));
    let said = text(&ended);
    assert!(said.contains("`large`") && said.contains("not what was written") && said.contains("0x"), "{said}");
    std::fs::write(&backing, whole).unwrap();
    assert_eq!(succeed(&program, &store, "shm", &["look"]), "300\n", "nothing is lost");
}

#[test]
fn a_killed_program_whose_object_is_larger_than_its_memory_loses_nothing() {
    killed_again_and_again(|into| compile("crates/capi/tests/c/cold.c", into), &[]);
}

#[test]
fn a_killed_program_finds_every_pair_it_was_told_of() {
    for kind in ["hash", "tree"] {
        killed_again_and_again(|into| compile("crates/capi/tests/c/heapo_kv.c", into), &[kind]);
    }
}

#[test]
fn every_call_on_pairs_does_what_the_header_says() {
    for backend in ["file", "shm"] {
        let dir = tempfile::tempdir().unwrap();
        let program = compile("crates/capi/tests/c/heapo_kv.c", dir.path());
        for kind in ["hash", "tree"] {
            succeed(&program, &dir.path().join(kind), backend, &["calls", kind]);
            succeed(&program, &dir.path().join(kind), backend, &["ordered", kind]);
        }
    }
}

#[test]
fn what_cannot_be_opened_is_named_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile("crates/capi/tests/c/heapo.c", dir.path());
    let refused = |name: &str, errno: i32| {
        let path = dir.path().join(name);
        succeed(&program, &path, "shm", &["open", path.to_str().unwrap(), &errno.to_string()])
    };
    std::fs::write(dir.path().join("foreign"), [7; 70_000]).unwrap();
    assert!(refused("foreign", libc::EMEDIUMTYPE).contains("not an Everbyte store"));
    assert!(refused("no/such/place", libc::ENOENT).contains("cannot create"));
    let options = everbyte_store::CreateOptions { max: 1 << 30, ..Default::default() };
    drop(everbyte_store::Store::create(&dir.path().join("unbound"), &options).unwrap());
    assert!(refused("unbound", libc::ENOTSUP).contains("create --bound"));
    let bound = everbyte_store::CreateOptions { bound: true, ..options };
    let held = everbyte_store::Store::create(&dir.path().join("held"), &bound).unwrap();
    assert!(refused("held", libc::EBUSY).contains(&format!("pid {}", std::process::id())));
    drop(held);
}

#[test]
fn the_headers_are_c_and_cpp() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    std::fs::write(&program, "int main(void) { return 0; }\n").unwrap();
    for header in std::fs::read_dir(root().join("include/everbyte")).unwrap() {
        let header = header.unwrap().path();
        let is_cpp = header.extension().is_some_and(|extension| extension == "hpp");
        for (compiler, standard) in [("cc", "c11"), ("cc", "c99"), ("c++", "c++20")] {
            if is_cpp && compiler == "cc" {
                continue;
            }
            let language = if compiler == "cc" { "c" } else { "c++" };
            let mut check = Command::new(compiler);
            check.args([
                &format!("-std={standard}"),
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pedantic",
                "-fsyntax-only",
                "-x",
            ]);
            check.arg(language).arg("-I").arg(root().join("include"));
            check.arg("-include").arg(&header).arg(&program);
            if header.ends_with("patomic.h") {
                // it is refused without
                check.args(pkg_config_of("everbyte-patomic", &["--cflags"]));
            }
            let output = check.output().expect("a compiler");
            assert!(output.status.success(), "{standard}: {}", text(&output));
        }
    }
}

/// Each call has a man page, which is generated from the headers; groff accepts each without a
/// warning.
#[test]
fn every_call_has_a_page_of_the_manual() {
    let (pages, headers) = (prefix().join("share/man/man3"), root().join("include/everbyte"));
    let declared: String = std::fs::read_dir(headers)
        .unwrap()
        .map(|header| std::fs::read_to_string(header.unwrap().path()).unwrap())
        .collect();
    let exported = Command::new("nm").args(["-D", "--defined-only"]).arg(prefix().join("lib/libeverbyte.so")).output();
    let exported = text(&exported.expect("nm"));
    let names = exported.lines().filter_map(|line| line.split_whitespace().nth(2));
    let calls: Vec<&str> = names.filter(|name| declared.contains(&format!("{name}("))).collect();
    assert!(calls.len() > 60, "{calls:?}");
    for name in calls.into_iter().chain(["patomic", "pstatic", "heapo"]) {
        let page =
            std::fs::read_to_string(pages.join(format!("{name}.3"))).unwrap_or_else(|_| panic!("no page: {name}"));
        let page = std::fs::read_to_string(pages.join(page.trim().trim_start_matches(".so man3/")))
            .unwrap_or_else(|error| panic!("{name}: {page}: {error}"));
        assert!(page.contains(".SH NAME") && page.contains(name), "{name}: {page}");
    }
    for page in std::fs::read_dir(&pages).unwrap().map(|page| page.unwrap().path()) {
        if !page.file_name().is_some_and(|name| name.to_string_lossy().starts_with("everbyte-")) {
            continue; // a link
        }
        let mut groff = Command::new("groff");
        let output =
            groff.args(["-man", "-ww", "-z", "-Tutf8"]).arg(&page).current_dir(pages.parent().unwrap()).output();
        let output = output.expect("groff, which ci/setup test installs");
        assert!(output.status.success() && text(&output).is_empty(), "{}: {}", page.display(), text(&output));
    }
}
