//! The facade leads to no safe function that changes bytes of a pool by hand: the compiler refuses
//! each way to one.

use std::path::PathBuf;
use std::process::Command;

/// The library that this test was built with: cargo puts it beside the directory of tests.
fn library() -> (PathBuf, PathBuf) {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let newest = std::fs::read_dir(&deps)
        .unwrap()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libeverbyte-") && name.ends_with(".rlib")
        })
        .max_by_key(|path| path.metadata().and_then(|about| about.modified()).ok());
    (newest.expect("the test is built with the library"), deps)
}

/// Compiles a program of the facade alone, a function on a line for each of `bodies`; answers the
/// lines that the compiler refuses, with their codes.
fn refused(bodies: &[&str]) -> Vec<(usize, String)> {
    let (library, deps) = library();
    let out = tempfile::tempdir().unwrap();
    let mut program = String::from(
        "#![forbid(unsafe_code)] use everbyte::{broker::Domain, hkv::Hash, store::Object, *}; pool!(P1); type R = PRefCell<u64, P1>;\n",
    );
    for (number, body) in bodies.iter().enumerate() {
        let given = "store: Store, object: Object, root: Root<R, P1>, table: Kv, pairs: Hash, domain: Domain";
        program.push_str(&format!("#[allow(unused)] fn way{number}({given}) {{ {body} }}\n"));
    }
    let source = out.path().join("program.rs");
    std::fs::write(&source, program).unwrap();
    let manifest = "[package]\nname = \"program\"\n[dependencies]\neverbyte = \"*\"\n";
    std::fs::write(out.path().join("Cargo.toml"), manifest).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=lib", "--crate-name=program", "--emit=metadata", "--cap-lints=allow"])
        .args(["--error-format=short", "--out-dir"])
        .arg(out.path())
        .arg(&source)
        .arg("--extern")
        .arg(format!("everbyte={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", deps.display()))
        .env("CARGO_MANIFEST_DIR", out.path())
        .env("CARGO_PKG_NAME", "program")
        .env("CARGO_CRATE_NAME", "program")
        .output()
        .expect("rustc runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let at = |line: &str| {
        let (_, rest) = line.split_once("program.rs:")?;
        let (number, code) = (rest.split(':').next()?, rest.split_once("error[")?.1.split(']').next()?);
        Some((number.parse::<usize>().ok()? - 2, code.to_string()))
    };
    let lines: Vec<_> = said.lines().filter_map(at).collect();
    assert!(output.status.success() == lines.is_empty(), "{said}");
    lines
}

/// Every one of `ways` is refused, each for one of the reasons in `codes`.
fn all_refused(ways: &[&str], codes: &[&str]) {
    let found = refused(ways);
    for (number, way) in ways.iter().enumerate() {
        let mut errors = found.iter().filter(|(line, _)| *line == number).peekable();
        assert!(errors.peek().is_some(), "{way} compiles");
        assert!(errors.all(|(_, code)| codes.contains(&&**code)), "{way}: {found:?}");
    }
}

#[test]
fn no_safe_call_of_the_facade_changes_bytes_by_hand() {
    assert_eq!(
        refused(&["store.info();", "object.name();", "root.name();", "table.len();", "pairs.get(b\"x\").unwrap();"]),
        []
    );
    let calls = [
        "store.media().store(4096, 7);",
        "store.media().punch(0, 4096);",
        "store.create_object(\"y\", Default::default(), |_| Ok(())).unwrap();",
        "object.media().write(4096, &[7]);",
        "object.release(0..65536).unwrap();",
        "object.forget(0..65536);",
        "object.set_root(0);",
        "object.grow(1).unwrap();",
        "object.back(0..65536).unwrap();",
        "object.punch();",
        "root.store().media();",
        "table.store().media();",
        "pairs.object().media();",
        "domain.open(&Default::default()).unwrap().media();",
        "store.as_store().media();",
    ];
    all_refused(&calls, &["E0599", "E0616"]);
    let names = [
        "use everbyte::store::raw::AsStore;",
        "use everbyte::object::raw::Raw;",
        "use everbyte::object::copy_pool;",
        "use everbyte::media::Media;",
        "everbyte_store::Store::media(&store);",
    ];
    all_refused(&names, &["E0432", "E0433", "E0603"]);
}
