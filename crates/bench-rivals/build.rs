//! Looks for the rivals that come as system packages. Absent ones are left out of the benches, and said to be. What
//! libpmemobj is to do is written in C, as its manual has it.

use std::path::Path;

/// The workloads of libpmemobj.
const SOURCES: [&str; 2] = ["c/rows.c", "c/workloads.c"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=c");
    for (name, header) in [("pmemobj", "libpmemobj.h"), ("rocksdb", "rocksdb/c.h")] {
        println!("cargo::rustc-check-cfg=cfg(has_{name})");
        let header = Path::new("/usr/include").join(header);
        println!("cargo::rerun-if-changed={}", header.display());
        let library = format!("lib{name}.so");
        let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
        let folders = [format!("/usr/lib/{arch}-linux-gnu"), "/usr/lib64".into(), "/usr/lib".into()];
        let found = folders.iter().any(|folder| Path::new(folder).join(&library).exists());
        if header.exists() && found {
            if name == "pmemobj" {
                // Optimised in every build: a slow rival is no rival.
                cc::Build::new().files(SOURCES).opt_level(2).warnings(true).extra_warnings(true).compile("rows");
            }
            println!("cargo::rustc-cfg=has_{name}");
            println!("cargo::rustc-link-lib=dylib={name}");
        }
    }
}
