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
//!   CPP-2  A size that a text or an object claims costs no memory, and no byte is read by it until
//!          it has been compared with that of the block.

use crate::description::described::Described;
use crate::verify::deep::report::FaultKind;
use crate::verify::deep::trail::Trail;
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
/// Characters of it that a fault shows.
const SHOWN: usize = 200;

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
        let mut shapes: HashMap<u64, Option<Shapes>> = HashMap::new();
        for object in objects {
            let at = walk.place(object.offset);
            let Some(class) = classes.get(object.of as usize) else {
                walk.fault_on(FaultKind::Value, at, &object.path, "an object of a class that its pool does not have");
                continue;
            };
            // The pointer to a block that is absent or too short is a fault of its own.
            if !walk.is_met(object.offset) || walk.block(object.offset).map_or(true, |size| size < object.len) {
                continue;
            }
            let of = shapes.entry(object.of).or_insert_with(|| Shapes::of(&class.description, &names));
            let Some(of) = of else {
                walk.unread(&class.name, at, object.len);
                continue;
            };
            if of.size() != object.len {
                let detail = format!("{} bytes as a `{}`, which has {}", object.len, shown(&class.name), of.size());
                walk.fault_on(FaultKind::Value, at, &object.path, &detail);
                continue;
            }
            of.each(at, &mut |part, at, way| {
                let wrong = match part {
                    Part::Bool => (walk.number(at, 1) > 1).then(|| (FaultKind::Value, "not a `bool`".into())),
                    Part::Pointer(to) => {
                        let word = walk.number(at, 8);
                        wrong_pointer(objects, classes, word, to).map(|detail| (FaultKind::Pointer, detail))
                    }
                };
                if let Some((kind, detail)) = wrong {
                    walk.fault_on(kind, at, &format!("{}{}", object.path, shown(&way.inside())), &detail);
                }
            });
        }
    }
}

/// The fault of a `pointer_t` to an object of the class `to`.
fn wrong_pointer(objects: &[CppObject], classes: &[Class], word: u64, to: u64) -> Option<String> {
    if word == 0 {
        return None;
    }
    let name = |of: u64| classes.get(of as usize).map_or("?", |class| shown(&class.name));
    match objects.binary_search_by_key(&word, |object| object.offset) {
        Ok(found) if objects[found].of == to => None,
        Ok(found) => Some(format!("a pointer to a `{}` leads to a `{}`", name(to), name(objects[found].of))),
        Err(_) if to == NO_CLASS => Some("a pointer to an object of a class that its pool does not have".into()),
        Err(_) => Some(format!("a pointer to a `{}` leads to {word:#x}, where no object is", name(to))),
    }
}

/// The beginning of a text of a class, for a fault.
fn shown(text: &str) -> &str {
    text.char_indices().nth(SHOWN).map_or(text, |(end, _)| &text[..end])
}

/// The text of a `PString` that the walk is about to follow; an empty one if that leads to no block
/// of its size, or to one of another owner, which could be the text of any number of classes.
fn text<V: Copy>(walk: &HeapWalk<'_, V>, at: u64) -> String {
    let [offset, len, room] = [0, 8, 16].map(|word| walk.number(at + word, 8));
    let is_there = len <= room.min(TEXT) && walk.block(offset).is_ok_and(|size| size >= room);
    let is_alone = is_there && !walk.is_met(offset);
    let bytes = if is_alone { walk.media().read_vec(walk.place(offset), len as usize) } else { Vec::new() };
    String::from_utf8(bytes).unwrap_or_default()
}

/// The class of a pointer whose class the pool does not list: no object of it was ever made.
const NO_CLASS: u64 = u64::MAX;

/// A part of an object that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Bool,
    /// To an object of that class of the list.
    Pointer(u64),
}

/// A type in the description of a class.
struct Shape {
    size: u64,
    kind: ShapeKind,
    /// Types inside of each other, with this one.
    depth: u32,
}

enum ShapeKind {
    /// Any bytes are a value.
    Any,
    Part(Part),
    /// So many of a type, by its place in the list.
    Array(usize, u64),
    /// The fields that hold parts: their places, labels and types.
    Fields(Vec<(u64, String, usize)>),
}

/// The types of a class, each once, the class last: a multiple of its text (CPP-2).
struct Shapes(Vec<Shape>);

impl Shapes {
    /// `None` if the description is not understood.
    fn of(description: &str, names: &HashMap<&str, u64>) -> Option<Shapes> {
        let described = Described::parse(description)?;
        described.line(&described.root)?;
        let mut finder = Finder { described: &described, names, known: HashMap::new(), shapes: Vec::new() };
        finder.shape(&described.root, 0)?;
        Some(Shapes(finder.shapes))
    }

    fn size(&self) -> u64 {
        self.0.last().map_or(0, |class| class.size)
    }

    /// Calls `look` with each part of the object at `at`, its place, and the way to it.
    fn each<'s>(&'s self, at: u64, look: &mut impl FnMut(Part, u64, &Trail<'s>)) {
        if let Some(class) = self.0.last() {
            self.each_of(class, at, &mut Trail::new(false), look);
        }
    }

    fn each_of<'s>(
        &'s self,
        of: &'s Shape,
        at: u64,
        way: &mut Trail<'s>,
        look: &mut impl FnMut(Part, u64, &Trail<'s>),
    ) {
        match &of.kind {
            ShapeKind::Any => {}
            ShapeKind::Part(part) => look(*part, at, way),
            ShapeKind::Array(inner, count) => {
                let inner = &self.0[*inner];
                for index in 0..*count {
                    way.enter_index(index);
                    self.each_of(inner, at + index * inner.size, way, look);
                    way.leave();
                }
            }
            ShapeKind::Fields(fields) => {
                for (offset, label, inner) in fields {
                    way.enter(label);
                    self.each_of(&self.0[*inner], at + offset, way, look);
                    way.leave();
                }
            }
        }
    }
}

/// Takes a class apart.
struct Finder<'f> {
    described: &'f Described,
    names: &'f HashMap<&'f str, u64>,
    /// `None`: that type is being taken apart.
    known: HashMap<&'f str, Option<usize>>,
    shapes: Vec<Shape>,
}

impl<'f> Finder<'f> {
    /// The place of a type in the list; `None` if it is not understood, or holds itself.
    fn shape(&mut self, of: &'f str, depth: u32) -> Option<usize> {
        if depth > DEPTH {
            return None;
        }
        if let Some(known) = self.known.get(of) {
            return *known;
        }
        self.known.insert(of, None);
        let shape = self.new_shape(of, depth).filter(|shape| shape.size > 0 && shape.depth <= DEPTH)?;
        self.shapes.push(shape);
        let place = self.shapes.len() - 1;
        self.known.insert(of, Some(place));
        Some(place)
    }

    fn new_shape(&mut self, of: &'f str, depth: u32) -> Option<Shape> {
        let described = self.described;
        let simple = |size, kind| Some(Shape { size, kind, depth: 1 });
        if let Some(line) = described.line(of) {
            let (size, mut end, mut deepest, mut fields) = (line.size as u64, 0, 0, Vec::new());
            for field in &line.fields {
                let place = self.shape(&field.of, depth + 1)?;
                let (offset, inner) = (field.offset as u64, &self.shapes[place]);
                if offset < end {
                    return None; // CPP-1
                }
                end = offset.checked_add(inner.size)?;
                deepest = deepest.max(inner.depth);
                if !matches!(inner.kind, ShapeKind::Any) {
                    fields.push((offset, field.label.clone(), place));
                }
            }
            let kind = if fields.is_empty() { ShapeKind::Any } else { ShapeKind::Fields(fields) };
            return (end <= size && line.tag.is_none()).then_some(Shape { size, kind, depth: deepest + 1 });
        }
        if let Some(inner) = of.strip_prefix('[').and_then(|of| of.strip_suffix(']')) {
            let (of, count) = inner.rsplit_once("; ")?;
            let (count, place) = (count.parse::<u64>().ok()?, self.shape(of, depth + 1)?);
            let inner = &self.shapes[place];
            let kind = match inner.kind {
                ShapeKind::Any => ShapeKind::Any,
                _ => ShapeKind::Array(place, count),
            };
            return Some(Shape { size: inner.size.checked_mul(count)?, kind, depth: inner.depth + 1 });
        }
        if let Some(to) = of.strip_prefix("pointer_t<").and_then(|of| of.strip_suffix('>')) {
            let to = self.names.get(to).copied().unwrap_or(NO_CLASS);
            return simple(8, ShapeKind::Part(Part::Pointer(to)));
        }
        match of {
            "bool" => simple(1, ShapeKind::Part(Part::Bool)),
            "u8" | "i8" => simple(1, ShapeKind::Any),
            "u16" | "i16" => simple(2, ShapeKind::Any),
            "u32" | "i32" | "f32" => simple(4, ShapeKind::Any),
            "u64" | "i64" | "f64" => simple(8, ShapeKind::Any),
            "u128" | "i128" => simple(16, ShapeKind::Any),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(description: &str) -> Option<Vec<(u64, String)>> {
        let names = HashMap::from([("node", 0), ("leaf", 1)]);
        let (shapes, mut parts) = (Shapes::of(description, &names)?, Vec::new());
        shapes.each(0, &mut |part, at, way| parts.push((at, format!("{} {part:?}", way.inside()))));
        Some(parts)
    }

    #[test]
    fn the_parts_of_a_class_are_its_pointers_and_truths() {
        let text = "root node\n\
            node 80 16 { size: u64 @0; pair: [leaf; 2] @8; is_red: bool @40; next: pointer_t<node> @48; \
            wide: [i128; 1] @64 }\n\
            leaf 16 8 { marks: [i16; 4] @0; to: pointer_t<other> @8 }\n";
        let found = parts(text).unwrap();
        let expected = [
            (16, format!(".pair[0].to Pointer({NO_CLASS})")),
            (32, format!(".pair[1].to Pointer({NO_CLASS})")),
            (40, ".is_red Bool".into()),
            (48, ".next Pointer(0)".into()),
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
        // 60 types in each other, whose last one holds as many.
        let mut types: String = (1..60).map(|one| format!("b{one} 1 1 {{ b: b{} @0 }}\n", one - 1)).collect();
        types += &(1..60).map(|one| format!("a{one} 1 1 {{ a: a{} @0 }}\n", one - 1)).collect::<String>();
        types += "b0 1 1 { b: bool @0 }\na0 1 1 { b: b59 @0 }\n";
        assert_eq!(parts(&format!("root node\nnode 8 8 {{ b: b59 @0; a: a59 @1 }}\n{types}")), None);
        assert!(parts(&format!("root node\nnode 8 8 {{ b: b59 @0 }}\n{types}")).is_some());
    }

    /// CPP-2: sizes of the text alone.
    #[test]
    fn a_class_of_any_size_is_taken_apart() {
        let names = HashMap::new();
        let size = |text: &str| Shapes::of(text, &names).map(|shapes| shapes.size());
        let (huge, all) = (1u64 << 40, "all: [bool; 1099511627776] @0");
        assert_eq!(size(&format!("root x\nx {huge} 8 {{ {all} }}\n")), Some(huge));
        assert_eq!(size(&format!("root x\nx 8 8 {{ {all} }}\n")), None);
        assert_eq!(size("root x\nx 16 8 { all: [u64; 2305843009213693952] @0 }\n"), None);
        // Each type holds the one before it twice: 2^40 parts.
        let mut types: String = (1..=40)
            .map(|one| {
                format!(
                    "t{one} {} 1 {{ a: t{before} @0; b: t{before} @{} }}\n",
                    1u64 << one,
                    1u64 << (one - 1),
                    before = one - 1
                )
            })
            .collect();
        types += "t0 1 1 { is: bool @0 }\n";
        assert_eq!(size(&format!("root t40\n{types}")), Some(huge));
    }
}
