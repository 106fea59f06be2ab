//! Looks for the rivals that come as system packages. Absent ones are left out of the benches and
//! reported. The code for libpmemobj and Berkeley DB is C, and for Boost C++, as their manuals have
//! it.

use std::path::Path;

/// Name of the library, its header, and what of ours is compiled with it.
const RIVALS: [(&str, &str, &[&str]); 4] = [
    ("pmemobj", "libpmemobj.h", &["c/rows.c", "c/table.c", "c/workloads.c"]),
    ("rocksdb", "rocksdb/c.h", &[]),
    ("db", "db.h", &["c/bdb.c"]),
    ("boost_serialization", "boost/archive/binary_oarchive.hpp", &["c/boost.cc"]),
];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_pmemobj_cpp)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=c");
    for (name, header, sources) in RIVALS {
        println!("cargo::rustc-check-cfg=cfg(has_{name})");
        let header = Path::new("/usr/include").join(header);
        println!("cargo::rerun-if-changed={}", header.display());
        let library = format!("lib{name}.so");
        let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
        let folders = [format!("/usr/lib/{arch}-linux-gnu"), "/usr/lib64".into(), "/usr/lib".into()];
        let found = folders.iter().any(|folder| Path::new(folder).join(&library).exists());
        if header.exists() && found {
            if !sources.is_empty() {
                // Optimised in every build: a slow rival is no rival.
                let mut build = cc::Build::new();
                build.files(sources).cpp(sources[0].ends_with(".cc")).opt_level(2).warnings(true).extra_warnings(true);
                build.compile(&format!("ours_{name}"));
            }
            println!("cargo::rustc-cfg=has_{name}");
            println!("cargo::rustc-link-lib=dylib={name}");
            if name == "pmemobj" {
                pmemobj_cpp();
            }
        }
    }
}

/// libpmemobj-cpp, which is headers over libpmemobj: those of the system, or in the folder that
/// `LIBPMEMOBJ_CPP` names.
fn pmemobj_cpp() {
    println!("cargo::rerun-if-env-changed=LIBPMEMOBJ_CPP");
    let folder = std::env::var("LIBPMEMOBJ_CPP").unwrap_or_else(|_| "/usr/include".into());
    let header = Path::new(&folder).join("libpmemobj++/p.hpp");
    println!("cargo::rerun-if-changed={}", header.display());
    if header.exists() {
        let mut build = cc::Build::new();
        build.file("c/pmemobj_cpp.cc").cpp(true).std("c++17").opt_level(2).flag("-isystem").flag(&folder);
        build.compile("ours_pmemobj_cpp");
        println!("cargo::rustc-cfg=has_pmemobj_cpp");
    }
}
