//! Objects whose classes C++ declares, in pools of the bridge (docs/formats/bridge.md). To the
//! description of the pool they are bytes; the description of each class lies beside them.
//!
//! Steps:
//!   1. the walk notes each class and each object that it meets
//!   2. when it has met everything, each object is read by its class: a `pointer_t` is null or
//!      leads to an object of the class that it names, and a `bool` is one
//!
//! The texts may be anything. Objects of a class that cannot be understood are opaque.
//!
//! Invariants
//!   CPP-1  The parts of a class do not overlap: there are no more of them than it has bytes.

use crate::description::described::Described;
use crate::verify::deep::report::FaultKind;
use crate::verify::deep::types::{DEPTH, Id, Types};
use crate::verify::deep::walk::HeapWalk;
use std::collections::HashMap;

/// The lines of the types by which a pool of the bridge is known.
const LINES: [&str; 2] = [
    "CppObject 32 8 { of: u64 @0; bytes: PVec<u8> @8 }",
    "CppType 56 8 { name: PString @0; description: PString @24; has_destructor: bool @48 }",
];
/// Places in them, and in an entry of the map of objects.
const BYTES: u64 = 8;
const DESCRIPTION: u64 = 24;
const ENTRY_VALUE: u64 = 8;

/// The longest text of a class that is believed.
const TEXT: u64 = 1 << 20;

/// The types of the bridge in a description.
#[derive(Clone, Copy)]
pub(crate) struct CppTypes {
    object: Id,
    class: Id,
    entry: Option<Id>,
}

impl CppTypes {
    /// Those of a pool of the bridge.
    pub(crate) fn of(described: &Described, types: &Types<'_>) -> Option<CppTypes> {
        let is_there = described.root.starts_with("Roots<") && LINES.iter().all(|line| described.says(line));
        let find = |name| types.find(name);
        match is_there {
            true => Some(CppTypes {
                object: find("CppObject")?,
                class: find("CppType")?,
                entry: find("PBTreeMap<u64, CppObject>::Entry"),
            }),
            false => None,
        }
    }
}

/// A class of the pool's list.
struct Class {
    name: String,
    description: String,
}

struct CppObject {
    /// The place of its class in the list.
    of: u64,
    /// Its offset of the pool, and its bytes.
    offset: u64,
    len: u64,
    /// The way to it, if ways are kept.
    path: String,
}

/// The classes and objects that a walk has met.
#[derive(Default)]
pub(crate) struct CppObjects {
    classes: Vec<Class>,
    objects: Vec<CppObject>,
}

impl CppObjects {
    /// Notes the value of type `id` at `at`, if it is of the bridge.
    pub(crate) fn meet<V: Copy>(&mut self, types: CppTypes, id: Id, at: u64, walk: &mut HeapWalk<'_, V>) {
        if id == types.class {
            let (name, description) = (text(walk, at), text(walk, at + DESCRIPTION));
            self.classes.push(Class { name, description });
        } else if id == types.object {
            let [offset, len] = [0, 8].map(|word| walk.number(at + BYTES + word, 8));
            self.objects.push(CppObject { of: walk.number(at, 8), offset, len, path: walk.trail.path_if_kept() });
        } else if Some(id) == types.entry {
            let [key, offset] = [0, ENTRY_VALUE + BYTES].map(|word| walk.number(at + word, 8));
            if key != offset {
                walk.fault(FaultKind::Value, at, format!("an object of C++ that lies at {offset:#x}, not at its key"));
            }
        }
    }

    /// Reads each object by its class.
    pub(crate) fn check<V: Copy>(mut self, walk: &mut HeapWalk<'_, V>) {
        self.objects.sort_unstable_by_key(|object| object.offset);
        let CppObjects { classes, objects } = &self;
        let names: HashMap<&str, u64> = classes.iter().zip(0..).map(|(class, index)| (&*class.name, index)).collect();
        let mut parts: HashMap<u64, Option<Parts>> = HashMap::new();
        for object in objects {
            let at = walk.place(object.offset);
            let Some(class) = classes.get(object.of as usize) else {
                walk.fault_on(FaultKind::Value, at, &object.path, "an object of a class that its pool does not have");
                continue;
            };
            if !walk.is_met(object.offset) {
                continue; // no block: the walk has said so
            }
            let of = parts.entry(object.of).or_insert_with(|| Parts::of(&class.description, &names));
            let Some(of) = of else {
                walk.unread(&class.name, at, object.len);
                continue;
            };
            if of.size != object.len {
                let detail = format!("{} bytes as a `{}`, which has {}", object.len, class.name, of.size);
                walk.fault_on(FaultKind::Value, at, &object.path, &detail);
                continue;
            }
            for part in &of.parts {
                let at = at + part.at;
                let wrong = match part.kind {
                    PartKind::Bool => (walk.number(at, 1) > 1).then(|| (FaultKind::Value, "not a `bool`".into())),
                    PartKind::Pointer(to) => {
                        let word = walk.number(at, 8);
                        wrong_pointer(objects, classes, word, to).map(|detail| (FaultKind::Pointer, detail))
                    }
                };
                if let Some((kind, detail)) = wrong {
                    walk.fault_on(kind, at, &format!("{}.{}", object.path, part.label), &detail);
                }
            }
        }
    }
}

/// The fault of a `pointer_t` to an object of the class `to`.
fn wrong_pointer(objects: &[CppObject], classes: &[Class], word: u64, to: u64) -> Option<String> {
    if word == 0 {
        return None;
    }
    let name = |of: u64| classes.get(of as usize).map_or("?", |class| &*class.name);
    match objects.binary_search_by_key(&word, |object| object.offset) {
        Ok(found) if objects[found].of == to => None,
        Ok(found) => Some(format!("a pointer to a `{}` leads to a `{}`", name(to), name(objects[found].of))),
        Err(_) if to == NO_CLASS => Some("a pointer to an object of a class that its pool does not have".into()),
        Err(_) => Some(format!("a pointer to a `{}` leads to {word:#x}, where no object is", name(to))),
    }
}

/// The text of a `PString`; an empty one if that leads to no block of its size.
fn text<V: Copy>(walk: &HeapWalk<'_, V>, at: u64) -> String {
    let [offset, len] = [0, 8].map(|word| walk.number(at + word, 8));
    let is_there = len <= TEXT && walk.block(offset).is_ok_and(|size| size >= len);
    let bytes = if is_there { walk.media().read_vec(walk.place(offset), len as usize) } else { Vec::new() };
    String::from_utf8(bytes).unwrap_or_default()
}

/// The class of a pointer whose class the pool does not list: no object of it was ever made.
const NO_CLASS: u64 = u64::MAX;

#[derive(Debug, PartialEq, Eq)]
enum PartKind {
    Bool,
    /// To an object of that class of the list.
    Pointer(u64),
}

/// A part of an object that is looked at.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    at: u64,
    label: String,
    kind: PartKind,
}

/// The parts of a class.
struct Parts {
    size: u64,
    parts: Vec<Part>,
}

impl Parts {
    /// `None` if the description is not understood.
    fn of(description: &str, names: &HashMap<&str, u64>) -> Option<Parts> {
        let described = Described::parse(description)?;
        let size = described.line(&described.root)?.size as u64;
        let mut finder = Finder { described: &described, names, parts: Vec::new() };
        finder.value(&described.root, 0, "", size, 0)?;
        Some(Parts { size, parts: finder.parts })
    }
}

/// Takes a class apart.
struct Finder<'f> {
    described: &'f Described,
    names: &'f HashMap<&'f str, u64>,
    parts: Vec<Part>,
}

impl Finder<'_> {
    /// The bytes of a value of type `of` that lies at `at`, `room` at most; its parts are noted.
    fn value(&mut self, of: &str, at: u64, label: &str, room: u64, depth: u32) -> Option<u64> {
        if depth > DEPTH {
            return None;
        }
        let described = self.described;
        let size = if let Some(line) = described.line(of) {
            let (size, mut end) = (line.size as u64, 0);
            if size > room || line.tag.is_some() {
                return None;
            }
            for field in &line.fields {
                let offset = field.offset as u64;
                let left = size.checked_sub(offset).filter(|_| offset >= end)?; // CPP-1
                let label = if label.is_empty() { field.label.clone() } else { format!("{label}.{}", field.label) };
                end = offset + self.value(&field.of, at + offset, &label, left, depth + 1)?;
            }
            size
        } else if let Some(inner) = of.strip_prefix('[').and_then(|of| of.strip_suffix(']')) {
            self.array(inner, at, label, room, depth)?
        } else if let Some(to) = of.strip_prefix("pointer_t<").and_then(|of| of.strip_suffix('>')) {
            let to = self.names.get(to).copied().unwrap_or(NO_CLASS);
            self.note(at, label, PartKind::Pointer(to))
        } else {
            match of {
                "bool" => self.note(at, label, PartKind::Bool),
                "u8" | "i8" => 1,
                "u16" | "i16" => 2,
                "u32" | "i32" | "f32" => 4,
                "u64" | "i64" | "f64" => 8,
                _ => return None,
            }
        };
        (1..=room).contains(&size).then_some(size)
    }

    fn array(&mut self, inner: &str, at: u64, label: &str, room: u64, depth: u32) -> Option<u64> {
        let (of, count) = inner.rsplit_once("; ")?;
        let (count, before) = (count.parse::<u64>().ok()?, self.parts.len());
        let size = self.value(of, at, &format!("{label}[0]"), room, depth + 1)?;
        let whole = size.checked_mul(count).filter(|whole| *whole <= room)?;
        if self.parts.len() > before {
            for index in 1..count {
                self.value(of, at + index * size, &format!("{label}[{index}]"), size, depth + 1)?;
            }
        }
        Some(whole)
    }

    fn note(&mut self, at: u64, label: &str, kind: PartKind) -> u64 {
        let size = if kind == PartKind::Bool { 1 } else { 8 };
        self.parts.push(Part { at, label: label.into(), kind });
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(description: &str) -> Option<Vec<(u64, String)>> {
        let names = HashMap::from([("node", 0), ("leaf", 1)]);
        let parts = Parts::of(description, &names)?.parts;
        Some(parts.into_iter().map(|part| (part.at, format!("{} {:?}", part.label, part.kind))).collect())
    }

    #[test]
    fn the_parts_of_a_class_are_its_pointers_and_truths() {
        let text = "root node\n\
            node 56 8 { size: u64 @0; pair: [leaf; 2] @8; is_red: bool @40; next: pointer_t<node> @48 }\n\
            leaf 16 8 { marks: [i16; 4] @0; to: pointer_t<other> @8 }\n";
        let found = parts(text).unwrap();
        let expected = [
            (16, format!("pair[0].to Pointer({NO_CLASS})")),
            (32, format!("pair[1].to Pointer({NO_CLASS})")),
            (40, "is_red Bool".into()),
            (48, "next Pointer(0)".into()),
        ];
        assert_eq!(found, expected);
    }

    /// CPP-1, and no deep stack.
    #[test]
    fn impossible_classes_are_not_taken_apart() {
        for text in [
            "",
            "root node\n",
            "root node\nnode 8 8 { next: node @0 }\n",
            "root node\nnode 8 8 { next: pointer_t<node> @8 }\n",
            "root node\nnode 8 8 { one: u64 @0; two: u64 @0 }\n",
            "root node\nnode 8 8 { all: [bool; 9] @0 }\n",
            "root node\nnode 8 8 { all: [[bool; 1000000000000]; 1000000000000] @0 }\n",
            "root node\nnode 8 8 { none: [bool; 0] @0 }\n",
            "root node\nnode 8 8 { wide: leaf @0 }\nleaf 16 8 { a: u64 @0; b: u64 @8 }\n",
            "root node\nnode 8 8 { table: fn @0 }\n",
        ] {
            assert_eq!(parts(text), None, "{text}");
        }
        let deep = format!("root node\nnode 8 8 {{ a: {}u8{} @0 }}\n", "[".repeat(5000), "; 1]".repeat(5000));
        assert_eq!(parts(&deep), None);
    }
}
