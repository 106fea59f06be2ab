//! Output of a derive: the name of a type, its version, and each field or variant with its offset.

use crate::description::schema::{Schema, TypeName};
use crate::migrate::PlanOf;
use crate::{MemPool, PSafe};

/// Implemented by `#[derive(PSafe)]`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no version to migrate from",
    label = "not derived",
    note = "`from` names the type as it was before: keep it in the source under another name, with `#[derive(PSafe)]` and `#[persist(version = .., name = \"..\")]`"
)]
pub trait Derived<P: MemPool>: PSafe<P> {
    /// As descriptions say it, without arguments.
    const NAME: &'static str;
    /// Of its layout, as the program numbers it.
    const VERSION: u32;

    /// The descriptions of its type arguments, and its constants.
    fn arguments(schema: &mut Schema) -> Vec<String>;

    /// Its fields or variants, in order.
    fn parts() -> Parts<P>;

    /// The type that it is made from where the pool has an older version.
    fn older() -> Option<Older<P>> {
        None
    }
}

/// See [`Derived::older`].
#[doc(hidden)]
pub struct Older<P: MemPool> {
    pub(crate) version: u32,
    pub(crate) plan: PlanOf<P>,
}

impl<P: MemPool> Older<P> {
    /// The type `T`.
    pub fn of<T: Derived<P>>() -> Older<P> {
        Older { version: T::VERSION, plan: T::plan }
    }
}

/// The parts of a type.
#[doc(hidden)]
pub enum Parts<P: MemPool> {
    /// Of a struct.
    Fields(Vec<Field<P>>),
    /// Of an enum, and the integer that its tag is: `u8` and the like, or `C`.
    Variants(&'static str, Vec<Variant<P>>),
}

/// A field of a struct, of a tuple, or of a variant.
#[doc(hidden)]
pub struct Field<P: MemPool> {
    pub(crate) label: String,
    pub(crate) offset: usize,
    size: usize,
    align: usize,
    pub(crate) describe: fn(&mut Schema) -> TypeName,
    pub(crate) plan: PlanOf<P>,
}

impl<P: MemPool> Field<P> {
    /// The field called `label`, of type `T`.
    pub fn new<T: PSafe<P>>(label: &str, offset: usize) -> Field<P> {
        Field {
            label: label.into(),
            offset,
            size: size_of::<T>(),
            align: align_of::<T>(),
            describe: T::describe,
            plan: T::plan,
        }
    }
}

/// A variant of an enum.
#[doc(hidden)]
pub struct Variant<P: MemPool> {
    pub(crate) name: &'static str,
    pub(crate) tag: i128,
    pub(crate) fields: Vec<Field<P>>,
}

impl<P: MemPool> Variant<P> {
    /// Offsets of its fields are left to [`Parts::of_enum`].
    pub fn new(name: &'static str, tag: i128, fields: Vec<Field<P>>) -> Variant<P> {
        Variant { name, tag, fields }
    }
}

/// The place of an enum's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnumLayout {
    /// `repr(u8)` and its kind: a struct of tag and fields for each variant.
    Structs,
    /// `repr(C)`: the tag, and behind it a union of structs.
    Union,
}

/// Bytes of a tag.
pub(crate) fn tag_size(tag: &str) -> usize {
    match tag {
        "u8" | "i8" => 1,
        "u16" | "i16" => 2,
        "u64" | "i64" | "usize" | "isize" => 8,
        _ => 4, // `u32`, `i32` and C's `int`
    }
}

impl<P: MemPool> Parts<P> {
    /// The variants of an enum, each field where the `repr` puts it.
    pub fn of_enum(tag: &'static str, layout: EnumLayout, mut variants: Vec<Variant<P>>) -> Parts<P> {
        let align = variants.iter().flat_map(|variant| &variant.fields).map(|field| field.align).max().unwrap_or(1);
        let first = match layout {
            EnumLayout::Union => tag_size(tag).next_multiple_of(align),
            EnumLayout::Structs => tag_size(tag),
        };
        for variant in &mut variants {
            let mut end = first;
            for field in &mut variant.fields {
                field.offset = end.next_multiple_of(field.align);
                end = field.offset + field.size;
            }
        }
        Parts::Variants(tag, variants)
    }
}
