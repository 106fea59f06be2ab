//! One process with two libraries of persistent types, and with libeverbyte.

use super::{COMPILERS, build, command, compiler, generated, library, open, program, run, sanitized, text_of};
use everbyte_bridge::{describe_library, headers};
use everbyte_object::UntypedPool;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// libeverbyte, which cargo puts beside this test, as it does the library.
fn everything() -> PathBuf {
    let everything = library().with_file_name("libeverbyte_capi.so");
    assert!(everything.exists(), "{} is not built", everything.display());
    everything
}

/// Each opens one store in turn, then two stores at once; the program ends cleanly, and its second
/// run finds what the first left.
#[test]
fn two_libraries_and_libeverbyte_are_linked_into_one_program() {
    let place = library().parent().unwrap().to_path_buf();
    let everything = everything();
    for name in COMPILERS {
        let Some(mut compiler) = sanitized(name) else { continue }; // and what is left at the end
        let dir = tempfile::tempdir().unwrap();
        let made = headers::generate(&describe_library(&place.join("libdepot.so")).unwrap()).unwrap();
        headers::write(&made, &dir.path().join("depot")).unwrap();
        let (built, path) = (dir.path().join("program"), dir.path().join("store"));
        compiler.arg("-I").arg(dir.path()).arg(program("linked.cpp"));
        compiler.arg("-L").arg(&place).args(["-lstock", "-ldepot"]);
        symlink(&everything, dir.path().join("libeverbyte.so.0")).unwrap();
        compiler.arg(&everything);
        let paths = [dir.path(), &place].map(|one| format!("-Wl,-rpath,{}", one.display()));
        let output = compiler.args(paths).arg("-o").arg(&built).output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
        for round in ["1", "2"] {
            let ended = run(&built, &path, &[round]);
            assert!(ended.status.success(), "{:?} {}", ended.status, text_of(&ended));
        }
        let store = open(&path);
        let report = UntypedPool::open(&store, "stall").unwrap().examine(&|_| ());
        assert!(report.findings().is_empty(), "{:?}", report.findings());
    }
}

/// The second library is loaded by the program.
#[test]
fn two_libraries_and_libeverbyte_share_a_process() {
    let Some(mut compiler) = compiler("g++") else { return };
    let dir = tempfile::tempdir().unwrap();
    let headers = dir.path().join("depot");
    std::fs::create_dir(&headers).unwrap();
    for header in std::fs::read_dir(generated()).unwrap().map(Result::unwrap) {
        let text = std::fs::read_to_string(header.path()).unwrap();
        let text = text.replace("namespace stock", "namespace depot").replace("::stock::", "::depot::");
        let text = text.replace("(stock::", "(depot::");
        let text = text.replace("everbyte_bridge_stock", "everbyte_bridge_depot").replace("_5_stock_", "_5_depot_");
        std::fs::write(headers.join(header.file_name()), text).unwrap();
    }
    let second = dir.path().join("libdepot.so");
    std::fs::copy(library(), &second).unwrap();
    compiler.arg("-I").arg(dir.path());
    let (program, store) = (build(compiler, "together.cpp", dir.path()), dir.path().join("store"));
    let mut run = command(&program, &store, &[]);
    run.env("DEPOT", second).env("EVERBYTE_STORE", dir.path().join("words")).arg(everything());
    let output = run.output().unwrap();
    assert!(output.status.success(), "{:?} {}", output.status, text_of(&output));
}
