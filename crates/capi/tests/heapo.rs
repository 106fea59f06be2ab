//! Programs of C over `heapo.h`: compiled by the system's compiler, run, killed and run again.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace").into()
}

/// Where the library is installed, as `make install` does it: from where cargo has put it with this test.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prefix");
        let test = std::env::current_exe().unwrap();
        let mut install = Command::new(root().join("ci/install"));
        let output = install.arg(test.parent().expect("the directory of tests")).arg(&prefix).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        prefix
    })
}

/// The words that pkg-config gives programs.
fn pkg_config(words: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(words).arg("everbyte").env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    let output = command.output().expect("pkg-config");
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(String::from).collect()
}

/// Compiles a program as C11, with every warning an error, and links it as its users would.
fn compile(source: &str, into: &Path) -> PathBuf {
    let run_path = format!("-Wl,-rpath,{}", prefix().join("lib").display());
    link(source, into, &[pkg_config(&["--libs"]), vec![run_path]].concat())
}

fn link(source: &str, into: &Path, libraries: &[String]) -> PathBuf {
    let program = into.join("program");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
    cc.args(pkg_config(&["--cflags"])).arg(root().join(source)).args(libraries).arg("-o").arg(&program);
    let output = cc.output().expect("a C compiler");
    assert!(output.status.success(), "{}", text(&output));
    program
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn run(program: &Path, store: &Path, backend: &str, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(words).env("EVERBYTE_STORE", store).env("EVERBYTE_BACKEND", backend);
    command.output().unwrap()
}

fn succeed(program: &Path, store: &Path, backend: &str, words: &[&str]) -> String {
    let output = run(program, store, backend, words);
    assert!(output.status.success(), "{words:?} on {backend}: {:?} {}", output.status, text(&output));
    String::from_utf8(output.stdout).unwrap()
}

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

/// Killed at moments that the output decides, so each kill comes at another point of a transaction.
fn killed_again_and_again(source: &str) {
    for backend in ["file", "shm"] {
        let dir = tempfile::tempdir().unwrap();
        let (program, store) = (compile(source, dir.path()), dir.path().join("store"));
        let mut told = 0;
        for round in 0..20 {
            let mut filler = Command::new(&program);
            filler.arg("fill").env("EVERBYTE_STORE", &store).env("EVERBYTE_BACKEND", backend);
            let mut filler = filler.stdout(Stdio::piped()).spawn().unwrap();
            let mut lines = BufReader::new(filler.stdout.take().unwrap()).lines();
            for _ in 0..=round * 7 % 60 {
                told = lines.next().expect("it writes until it is killed").unwrap().parse().unwrap();
            }
            filler.kill().unwrap();
            filler.wait().unwrap();
            for line in lines.map_while(Result::ok) {
                told = line.parse().unwrap_or(told); // what it was told before it died, and the rest of a line
            }
            let found: u64 = succeed(&program, &store, backend, &["look"]).trim().parse().unwrap();
            assert!(found == told || found == told + 1, "round {round} on {backend}: told {told}, found {found}");
            told = found;
        }
    }
}

#[test]
fn a_killed_program_loses_nothing_it_was_told() {
    killed_again_and_again("crates/capi/tests/c/heapo.c");
}

#[test]
fn a_killed_program_finds_every_pair_it_was_told_of() {
    killed_again_and_again("crates/capi/tests/c/heapo_kv.c");
}

#[test]
fn every_call_on_pairs_does_what_the_header_says() {
    for backend in ["file", "shm"] {
        let dir = tempfile::tempdir().unwrap();
        let program = compile("crates/capi/tests/c/heapo_kv.c", dir.path());
        succeed(&program, &dir.path().join("store"), backend, &["calls"]);
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
    for header in ["heapo.h", "heapo_kv.h"] {
        let header = root().join("include/everbyte").join(header);
        for (compiler, standard) in [("cc", "c11"), ("cc", "c99"), ("c++", "c++20")] {
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
            let output = check.arg(language).arg(&header).output().expect("a compiler");
            assert!(output.status.success(), "{standard}: {}", text(&output));
        }
    }
}
