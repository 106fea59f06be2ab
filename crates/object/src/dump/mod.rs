//! Dumps: a pool as lines of JSON and back, by the description that lies in it, without the program
//! that made it. Format: docs/formats/dump.md.
//!
//! Writing, in two passes:
//!   1. all is formatted and thrown away, which finds the *pieces*: the root, each value that
//!      counted pointers lead to, and what a pointer leads to at a depth of more than [`NEST`]
//!   2. the pieces are written, the last one found first: what a piece owns precedes it
//!
//! Reading makes a pool: each value is built in volatile memory by its type, and is stored in a
//! block of one transaction, inside `Store::create_object`. A crash leaves the pool whole or
//! absent.
//!
//! Invariants
//!   DUMP-1  What a dump owns is taken by one place, and counts are those of the pointers read.

mod forms;
mod load;
mod maps;
mod plain;
mod value;
mod write;

pub use load::{Loaded, load};
pub use write::Dumped;

use crate::verify::deep::types::{Field, Id, Type, TypeKind, Types};

/// The version of dumps.
const VERSION: u32 = 1;
/// How deep the JSON of a piece nests: readers of JSON allow 128 levels, and a type nests by
/// itself.
const NEST: u32 = 24;
/// The key of a reference.
const BLOCK: &str = "$block";
/// How deep types that hold each other are looked at.
const DEPTH: u32 = 100;

/// The form of a map's entries in JSON.
enum MapForm {
    /// Keys alone.
    Set,
    /// An object.
    Text,
    /// An array of pairs.
    Pairs,
}

/// The entries of a map.
struct Entries<'t, 'd> {
    key: &'t Field<'d>,
    value: &'t Field<'d>,
    size: u64,
    form: MapForm,
}

impl<'t, 'd> Entries<'t, 'd> {
    /// `None`: the entries have no key or no value.
    fn of(types: &'t Types<'d>, entry: Id) -> Option<Entries<'t, 'd>> {
        let of = types.get(entry);
        let TypeKind::Fields(fields) = &of.kind else { return None };
        let [key, value] = &fields[..] else { return None };
        let form = match (types.get(key.of).name, types.get(value.of).name) {
            (_, "()") => MapForm::Set,
            ("PString" | "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize", _) => {
                MapForm::Text
            }
            _ => MapForm::Pairs,
        };
        Some(Entries { key, value, size: of.size?, form })
    }
}

/// The forms of a struct's or a variant's fields in JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldsForm {
    /// Nothing.
    Unit,
    /// The one value.
    Newtype,
    /// An array.
    Tuple,
    /// An object.
    Named,
}

impl FieldsForm {
    fn of(fields: &[Field<'_>]) -> FieldsForm {
        let is_tuple = fields.iter().enumerate().all(|(index, field)| label(field).parse() == Ok(index));
        match fields.len() {
            0 => FieldsForm::Unit,
            1 if is_tuple => FieldsForm::Newtype,
            _ if is_tuple => FieldsForm::Tuple,
            _ => FieldsForm::Named,
        }
    }
}

/// The name of a field; that of a variant's begins with the variant's.
fn label<'d>(field: &Field<'d>) -> &'d str {
    field.label.rsplit('.').next().unwrap_or_default()
}

/// Whether a field is left out: what it holds does not persist.
fn is_volatile(of: &Type<'_>) -> bool {
    of.name == "PhantomData" || of.name.starts_with("VCell<")
}

fn is_option(of: &Type<'_>) -> bool {
    of.name.starts_with("Option<")
}

/// Whether a value may be `null` in JSON, so that an `Option` of it needs another form.
fn may_be_null(types: &Types<'_>, id: Id, depth: u32) -> bool {
    let of = types.get(id);
    if of.size == Some(0) || is_option(of) || is_volatile(of) || depth > DEPTH {
        return true;
    }
    match &of.kind {
        TypeKind::Same(of) | TypeKind::Owned(of) => may_be_null(types, *of, depth + 1),
        TypeKind::Fields(fields) if FieldsForm::of(fields) == FieldsForm::Newtype => {
            may_be_null(types, fields[0].of, depth + 1)
        }
        _ => false,
    }
}
