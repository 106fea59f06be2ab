//! A root type's description: what is compared when a pool is opened, so that a changed layout is found and named.
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

use crate::{MemPool, PSafe};
use std::any::type_name;
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Deref;

/// The name of a type in a description, pool parameters left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName(String);

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

/// Size, alignment and fields of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    size: usize,
    align: usize,
    version: u32,
    fields: Vec<(String, String, usize)>,
}

impl Shape {
    /// The shape of `T`, fields to follow.
    pub fn of<T>() -> Shape {
        Shape { size: size_of::<T>(), align: align_of::<T>(), version: 1, fields: Vec::new() }
    }

    /// The shape of a type whose inside is this crate's.
    pub fn opaque<T>() -> Shape {
        Shape::of::<T>()
    }

    /// Adds a field.
    #[must_use]
    pub fn field(mut self, name: &str, of: &TypeName, offset: usize) -> Shape {
        self.fields.push((name.into(), of.0.clone(), offset));
        self
    }

    /// Sets the version that the program gave the type.
    #[must_use]
    pub fn version(mut self, version: u32) -> Shape {
        self.version = version;
        self
    }

    fn line(&self, name: &str) -> String {
        let mut line = format!("{name} {} {}", self.size, self.align);
        if self.version != 1 {
            let _ = write!(line, " v{}", self.version);
        }
        let fields: Vec<String> =
            self.fields.iter().map(|(name, of, offset)| format!("{name}: {of} @{offset}")).collect();
        if !fields.is_empty() {
            let _ = write!(line, " {{ {} }}", fields.join("; "));
        }
        line
    }
}

/// A description under way; see [`PSafe::describe`].
#[derive(Default)]
pub struct Schema {
    /// In the order in which they were first met.
    types: Vec<(String, Option<Shape>)>,
    /// By the compiler's name, which tells types of one name in two modules apart.
    known: HashMap<&'static str, TypeName>,
}

impl Schema {
    /// The description of a root type.
    pub(crate) fn of<R: PSafe<P>, P: MemPool>() -> Schema {
        let mut schema = Schema::default();
        let root = R::describe(&mut schema);
        schema.types.insert(0, (format!("root {root}"), None));
        schema
    }

    /// Adds type `T` under `name`, unless it is there; `shape` describes its fields. Answers the name it got.
    pub fn define<T>(&mut self, name: TypeName, shape: impl FnOnce(&mut Schema) -> Shape) -> TypeName {
        if let Some(known) = self.known.get(type_name::<T>()) {
            return known.clone();
        }
        let taken = self.types.iter().filter(|(other, _)| other.split('#').next() == Some(&name.0)).count();
        let name = if taken == 0 { name } else { TypeName(format!("{name}#{}", taken + 1)) };
        self.known.insert(type_name::<T>(), name.clone());
        let index = self.types.len();
        self.types.push((name.0.clone(), None));
        self.types[index].1 = Some(shape(self));
        name
    }

    /// The name of a type whose fields are being described by nobody yet, or `None`: for names that hold others' names.
    pub fn known<T>(&self) -> Option<TypeName> {
        self.known.get(type_name::<T>()).cloned()
    }

    /// A word that points to a `T`.
    pub(crate) fn pointer<T: PSafe<P>, P: MemPool>(&mut self, kind: &str) -> TypeName {
        format!("{kind}<{}>", T::describe(self)).into()
    }

    /// A type that is its value.
    pub(crate) fn wrapper<T: PSafe<P>, P: MemPool>(&mut self, kind: &str) -> TypeName {
        format!("{kind}<{}>", T::describe(self)).into()
    }

    /// The text.
    pub(crate) fn text(&self) -> String {
        let line = |(name, shape): &(String, Option<Shape>)| match shape {
            Some(shape) => shape.line(name) + "\n",
            None => format!("{name}\n"),
        };
        self.types.iter().map(line).collect()
    }
}

/// The number that stands for a description.
pub(crate) fn fingerprint(text: &str) -> u64 {
    let (mut low, mut high) = (0x4556_5242u32, 0x5459_5045u32);
    low = crc32c::crc32c_append(low, text.as_bytes());
    for byte in text.bytes().rev() {
        high = high.wrapping_mul(0x0100_0193) ^ u32::from(byte);
    }
    (u64::from(high) << 32 | u64::from(low)).max(1)
}

/// One line, taken apart.
struct Line<'t> {
    name: &'t str,
    /// Size, alignment, version.
    numbers: &'t str,
    fields: Vec<(&'t str, &'t str)>,
}

fn parse(line: &str) -> Option<Line<'_>> {
    let (head, fields) = match line.split_once(" { ") {
        Some((head, fields)) => (head, fields.strip_suffix(" }")?),
        None => (line, ""),
    };
    // Names hold spaces, as in `(i32, u8)`: the numbers are what follows the last bracket or word of the name.
    let cut = head
        .match_indices(' ')
        .map(|(at, _)| at)
        .find(|&at| head[at + 1..].split(' ').all(|word| word.trim_start_matches('v').parse::<u64>().is_ok()))?;
    let fields = fields.split("; ").filter(|field| !field.is_empty());
    let fields = fields.filter_map(|field| field.split_once(": ")).collect();
    Some(Line { name: &head[..cut], numbers: &head[cut + 1..], fields })
}

/// The first difference between what a pool says (`found`) and what the program asks for.
pub(crate) fn difference(found: &str, wanted: &str) -> String {
    let root = |text: &str| text.lines().next().unwrap_or_default().trim_start_matches("root ").to_string();
    let (found_root, wanted_root) = (root(found), root(wanted));
    if found_root != wanted_root {
        return format!("its root is `{found_root}`, the program's is `{wanted_root}`");
    }
    let lines: Vec<Line<'_>> = found.lines().skip(1).filter_map(parse).collect();
    for line in wanted.lines().skip(1).filter_map(parse) {
        let name = line.name;
        let Some(old) = lines.iter().find(|old| old.name == name) else { continue };
        for (index, (field, what)) in line.fields.iter().enumerate() {
            match old.fields.iter().position(|(name, _)| name == field) {
                None => return format!("field `{field}` of `{name}` is new in the program"),
                Some(place) if old.fields[place].1 != *what || place != index => {
                    let before = old.fields[place].1;
                    return format!(
                        "field `{field}` of `{name}` is `{before}` in the pool and `{what}` in the program"
                    );
                }
                Some(_) => {}
            }
        }
        if let Some((gone, _)) = old.fields.iter().find(|(name, _)| line.fields.iter().all(|(field, _)| field != name))
        {
            return format!("field `{gone}` of `{name}` is in the pool and not in the program");
        }
        if old.numbers != line.numbers {
            let (before, now) = (old.numbers, line.numbers);
            return format!(
                "`{name}` has size, alignment and version `{before}` in the pool and `{now}` in the program"
            );
        }
    }
    "a type that its root points to is another".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "root A\nA 16 8 { x: u32 @0; y: Pbox<B> @8 }\nB 4 4 { z: (i32, u8) @0 }\n(i32, u8) 8 4 { 0: i32 @0; 1: u8 @4 }\n";

    #[test]
    fn a_difference_names_the_field() {
        let check = |wanted: &str, expect: &str| assert_eq!(difference(OLD, wanted), expect);
        check("root C\n", "its root is `A`, the program's is `C`");
        check(&OLD.replace("x: u32", "x: u64"), "field `x` of `A` is `u32 @0` in the pool and `u64 @0` in the program");
        check(
            &OLD.replace("x: u32 @0; ", ""),
            "field `y` of `A` is `Pbox<B> @8` in the pool and `Pbox<B> @8` in the program",
        );
        check(&OLD.replace("; y: Pbox<B> @8", ""), "field `y` of `A` is in the pool and not in the program");
        check(&OLD.replace("{ z", "{ w: u8 @1; z"), "field `w` of `B` is new in the program");
        check(
            &OLD.replace("B 4 4", "B 8 4"),
            "`B` has size, alignment and version `4 4` in the pool and `8 4` in the program",
        );
        check(
            &OLD.replace("1: u8 @4", "1: u8 @5"),
            "field `1` of `(i32, u8)` is `u8 @4` in the pool and `u8 @5` in the program",
        );
    }

    #[test]
    fn descriptions_of_any_text_are_compared_without_a_panic() {
        for text in ["", "root", "\n\n{ }", " { a: b", "A  { ; : }", "x 1 2 { a: b @0 }"] {
            let _ = difference(text, OLD);
            let _ = difference(OLD, text);
        }
    }
}
