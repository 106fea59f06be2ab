//! The name that programs look for at run time: its number changes when what they were compiled
//! against no longer fits.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libeverbyte.so.0");
}
