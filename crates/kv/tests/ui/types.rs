//! Programs whose types are none of a table.
use everbyte_kv::{Kv, Typed};
use std::collections::HashMap;

//@ `HashMap<std::string::String, u64>` cannot be stored in a typed table
#[derive(Typed)]
struct Unordered {
    counts: HashMap<String, u64>,
}

//@ `usize` cannot be stored in a typed table
#[derive(Typed)]
struct OfThisMachine(u32, usize);

//@ `Box<Tree>` cannot be stored in a typed table
#[derive(Typed)]
enum Tree {
    Leaf,
    Node(Box<Tree>),
}

//@ `Instant` cannot be stored in a typed table
fn of_this_process(kv: &Kv) {
    let _ = kv.open_typed::<u64, std::time::Instant>("t");
}

struct Plain;

//@ `Plain` cannot be stored in a typed table
#[derive(Typed)]
struct Holder<T> {
    held: T,
}

fn held(kv: &Kv) {
    let _ = kv.open_typed::<Holder<Plain>, u64>("t");
}

//@ mismatched types
fn the_key_of_another_table(kv: &Kv) {
    let table = kv.open_typed::<u64, String>("t").unwrap();
    let _ = table.put(&"name".to_string(), &"value".to_string());
}

//@ cannot begin with `u64`
fn a_prefix_that_is_none(kv: &Kv) {
    let table = kv.open_typed::<(String, u64), u64>("t").unwrap();
    let _ = table.prefix(&7_u64);
}
