//! The description of a root type. Opening a pool compares it with the program's, which finds and
//! names a changed layout.
//!
//! The description is text, one line for each type that the root is made of or points to:
//!
//! ```text
//! Node<i32> 16 8 { val: i32 @0; next: PRefCell<Option<Pbox<Node<i32>>>> @8 }
//! ```
//!
//! name, size, alignment, fields with their types and places. Its hash is the fingerprint.
//!
//! Invariants
//!   SCHEMA-1  Equal descriptions mean that the bytes of one program are valid for the other.

use crate::description::niche::Tag;
use crate::description::node_shape::NodeShape;
use crate::types::entry::MapEntry;
use std::any::TypeId;
use std::collections::HashMap;
use std::fmt::Write;
use std::mem::offset_of;
use std::ops::Deref;

/// The name of a type in a description, pool parameters left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName(pub(super) String);

impl From<&str> for TypeName {
    fn from(name: &str) -> TypeName {
        TypeName(name.into())
    }
}

impl From<String> for TypeName {
    fn from(name: String) -> TypeName {
        TypeName(name)
    }
}

impl Deref for TypeName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for TypeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Size, alignment, version and fields of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    size: usize,
    align: usize,
    /// The integer that an enum's tag is.
    pub(super) tag: Option<String>,
    pub(super) version: u32,
    pub(super) fields: Vec<String>,
    is_option: bool,
    /// The first format whose descriptions have this line.
    since: u32,
}

impl Shape {
    /// The shape of `T`, fields to follow.
    pub fn of<T>() -> Shape {
        let (size, align) = (size_of::<T>(), align_of::<T>());
        Shape { size, align, tag: None, version: 1, fields: Vec::new(), is_option: false, since: 1 }
    }

    /// The shape of plain data of that size and alignment, fields to follow.
    pub(super) fn plain(size: usize, align: usize) -> Shape {
        Shape { size, align, ..Shape::of::<()>() }
    }

    /// Bytes of a value.
    #[cfg(all(test, feature = "serde"))]
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Whether it has the size and the alignment of `T`.
    pub(super) fn is_of<T>(&self) -> bool {
        (self.size, self.align) == (size_of::<T>(), align_of::<T>())
    }

    /// The shape of an `Option` of `value`: of an enum whose tag lies where the compiler has put
    /// it.
    pub(crate) fn of_option<T>(tag: Tag, value: &TypeName) -> Shape {
        let (tag, none, some, at) = match tag {
            Tag::Before { value } => ("u8".into(), "0".into(), "1", value),
            Tag::Inside { at: 0, bytes, none } => (format!("u{}", 8 * bytes), none.to_string(), "else", 0),
            Tag::Inside { at, bytes, none } => (format!("u{}@{at}", 8 * bytes), none.to_string(), "else", 0),
        };
        let fields = vec![format!("None = {none}"), format!("Some = {some}")];
        Shape { tag: Some(tag), fields, is_option: true, ..Shape::of::<T>() }.field("Some.0", value, at)
    }

    /// The shape of a type whose inside is this crate's.
    pub fn opaque<T>() -> Shape {
        Shape::of::<T>()
    }

    /// The shape of the entries of a map.
    pub(super) fn of_entry<K, V>(key: &TypeName, value: &TypeName) -> Shape {
        let shape = Shape { since: 3, ..Shape::of::<MapEntry<K, V>>() };
        shape.field("key", key, 0).field("value", value, offset_of!(MapEntry<K, V>, value))
    }

    /// The shape of the nodes of an ordered map whose entries are called `entry`.
    pub(crate) fn of_node(shape: &NodeShape, align: usize, entry: &str) -> Shape {
        let (entries, edges) = (format!("[{entry}; {}]", shape.most), format!("[u64; {}]", shape.most + 1));
        let node = Shape { size: shape.inner() as usize, align, since: 3, ..Shape::of::<()>() };
        let node = node.field("len", &"u32".into(), 0).field("level", &"u32".into(), 4);
        node.field("entries", &entries.into(), shape.entries as usize).field(
            "edges",
            &edges.into(),
            shape.edges as usize,
        )
    }

    /// Makes it the shape of an enum with this tag and these variants; their fields follow.
    pub(crate) fn tagged(mut self, tag: &str, variants: &[(&str, i128)]) -> Shape {
        self.tag = Some(tag.into());
        self.fields.extend(variants.iter().map(|(name, value)| format!("{name} = {value}")));
        self
    }

    /// Adds a field.
    #[must_use]
    pub fn field(mut self, name: &str, of: &TypeName, offset: usize) -> Shape {
        self.fields.push(format!("{name}: {of} @{offset}"));
        self
    }

    pub(crate) fn line(&self, name: &str, format: u32) -> String {
        let mut line = format!("{name} {} {}", self.size, self.align);
        if format == 1 && self.is_option {
            return line;
        }
        if let Some(tag) = &self.tag {
            let _ = write!(line, " {tag}");
        }
        if self.version != 1 {
            let _ = write!(line, " v{}", self.version);
        }
        if !self.fields.is_empty() {
            let _ = write!(line, " {{ {} }}", self.fields.join("; "));
        }
        line
    }
}

/// A description that is being made; see [`crate::PSafe::describe`].
#[derive(Default)]
pub struct Schema {
    /// In the order in which they were first met.
    pub(super) types: Vec<(String, Option<Shape>)>,
    pub(super) known: HashMap<TypeId, TypeName>,
}

impl Schema {
    /// Adds a part that is no type of the program; descriptions refer to it by name.
    pub(crate) fn part(&mut self, name: String, shape: Shape) {
        self.types.push((name, Some(shape)));
    }

    /// The text, as pools of `format` have it.
    pub(crate) fn text(&self, format: u32) -> String {
        let line = |(name, shape): &(String, Option<Shape>)| match shape {
            Some(shape) => shape.line(name, format) + "\n",
            None => format!("{name}\n"),
        };
        let is_told = |(_, shape): &&(String, Option<Shape>)| shape.as_ref().is_none_or(|shape| shape.since <= format);
        self.types.iter().filter(is_told).map(line).collect()
    }
}
