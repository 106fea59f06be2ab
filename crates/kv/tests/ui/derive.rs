//! Programs that the derive refuses.
use everbyte_kv::Typed;

//@ write `String` in place of `&str`
#[derive(Typed)]
struct Borrowed<'a> {
    name: &'a str,
}

//@ an enum of a table has 1 to 256 variants
#[derive(Typed)]
enum Nothing {}

//@ remove the discriminant
#[derive(Typed)]
enum Numbered {
    One = 1,
    Two = 2,
}

//@ a union has no order: write an enum
#[derive(Typed)]
union Either {
    one: u32,
    other: f32,
}
