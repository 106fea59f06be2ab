//! [`Types`]: a description prepared for a walk: each type with its kind, and the types it holds by
//! number.
//!
//! The text may be anything. A type that cannot be understood, or contradicts itself, is opaque; so
//! is one that a newer program may have written.
//!
//! Invariants
//!   TYPES-1  Values hold each other without a cycle and to a bounded depth, and fields of a value
//!            do not overlap: looking at a value costs no more than its bytes, and no deep stack.

use crate::description::described::{Described, FieldPlace, Line, bare};
use crate::description::forms::Form;
use crate::description::node_shape::NodeShape;
use crate::verify::deep::cpp::CppTypes;
use std::collections::HashMap;

/// A type, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(usize);

/// The contents of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Value(Id),
    /// Two counts and a value.
    Counted(Id),
}

#[derive(Debug)]
pub(crate) struct Type<'d> {
    pub name: &'d str,
    /// Bytes of a value, if that is known.
    pub size: Option<u64>,
    pub kind: TypeKind<'d>,
    /// Values may hold pointers.
    pub has_pointers: bool,
    /// Values hold something to look at: pointers, or bits that may be wrong.
    pub is_worth: bool,
}

#[derive(Debug)]
pub(crate) enum TypeKind<'d> {
    /// Any bits are a value.
    Any,
    Bool,
    Char,
    /// A number of so many bytes that is not 0.
    NonZero(u64),
    /// A number of four bytes below one second.
    Nanoseconds,
    /// Plain data that stands for a type of another crate.
    Form(Form),
    Fields(Vec<Field<'d>>),
    Variants(Tag, Vec<Variant<'d>>),
    Array(Id, u64),
    /// A value of another type.
    Same(Id),
    /// A word that owns one value.
    Owned(Id),
    /// A word that shares a counted value; `true`: strong.
    Counted(Id, bool),
    /// A word that owns a block of values, how many are alive, and how many have room.
    Vector(Id),
    /// A word that owns a ring of places, how many elements it holds, how many places there are,
    /// and the place of the first element.
    Ring(Id),
    /// A [`TypeKind::Vector`] of bytes that are text.
    Text,
    /// A hash map with such entries.
    Table(Id),
    /// An ordered map with such entries in nodes of a shape.
    Tree(Id, NodeShape),
    /// Opaque: it cannot be taken apart.
    Opaque,
}

/// A field of a value or of a variant.
#[derive(Debug)]
pub(crate) struct Field<'d> {
    pub label: &'d str,
    pub of: Id,
    pub at: u64,
}

/// Offset and size of the number that tells variants apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    pub at: u64,
    pub bytes: u64,
}

impl Tag {
    /// The variant of a value whose numbers `number` reads, by offset and bytes.
    pub(crate) fn variant<'v, 'd>(
        self,
        variants: &'v [Variant<'d>],
        number: impl Fn(u64, u64) -> u64,
    ) -> Option<&'v Variant<'d>> {
        let found = match self.bytes {
            // a number of 128 bits that is never 0: its upper half may say so
            16 => number(self.at, 8) | number(self.at + 8, 8),
            bytes => number(self.at, bytes),
        };
        let is_it = |variant: &&Variant<'_>| variant.tag == Some(found);
        variants.iter().find(is_it).or_else(|| variants.iter().find(|variant| variant.tag.is_none()))
    }
}

#[derive(Debug)]
pub(crate) struct Variant<'d> {
    #[cfg_attr(not(feature = "serde"), allow(dead_code))] // for dumps
    pub name: &'d str,
    /// `None`: any tag that is no other's.
    pub tag: Option<u64>,
    pub fields: Vec<Field<'d>>,
}

/// How deep values may hold each other; deeper ones are not taken apart.
pub(super) const DEPTH: u32 = 100;
/// The longest name that is believed.
const NAME: usize = 4096;

enum TypeState<'d> {
    /// Something points to it.
    Named,
    /// Being made ready: a value that holds itself comes by again.
    Busy,
    Ready(Type<'d>),
}

/// All types that a root is made of or points to.
pub(crate) struct Types<'d> {
    described: &'d Described,
    all: Vec<(&'d str, TypeState<'d>)>,
    by_name: HashMap<&'d str, Id>,
    /// Of a pool of the bridge.
    pub cpp: Option<CppTypes>,
}

impl<'d> Types<'d> {
    /// Every type, and the root's.
    pub(crate) fn new(described: &'d Described) -> (Types<'d>, Id) {
        let mut types = Types { described, all: Vec::new(), by_name: HashMap::new(), cpp: None };
        let root = types.named(&described.root);
        let mut next = 0;
        while next < types.all.len() {
            types.value(types.all[next].0, 0); // may name further ones
            next += 1;
        }
        types.cpp = CppTypes::of(described, &types);
        (types, root)
    }

    pub(crate) fn get(&self, id: Id) -> &Type<'d> {
        match &self.all[id.0].1 {
            TypeState::Ready(found) => found,
            TypeState::Named | TypeState::Busy => unreachable!("every type was made ready"),
        }
    }

    /// The type of that name.
    pub(crate) fn find(&self, name: &str) -> Option<Id> {
        self.by_name.get(name).copied()
    }

    /// Types of blocks that pointers lead to, by the names that programs know.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (String, What)> {
        self.all.iter().filter_map(|(name, state)| match state {
            TypeState::Ready(Type { kind: TypeKind::Owned(of), .. }) => {
                Some((self.get(*of).name.into(), What::Value(*of)))
            }
            TypeState::Ready(Type { kind: TypeKind::Counted(of, true), .. }) => {
                Some(((*name).into(), What::Counted(*of)))
            }
            _ => None,
        })
    }

    /// A type that something names: made ready later, if it is not needed before.
    fn named(&mut self, name: &'d str) -> Id {
        let next = Id(self.all.len());
        let id = *self.by_name.entry(name).or_insert(next);
        if id == next {
            self.all.push((name, TypeState::Named));
        }
        id
    }

    /// A type whose values lie inside of others: made ready now.
    fn value(&mut self, name: &'d str, depth: u32) -> Id {
        let id = self.named(name);
        if let TypeState::Named = self.all[id.0].1 {
            self.all[id.0].1 = TypeState::Busy;
            let made = if depth < DEPTH && name.len() <= NAME { self.make(name, depth) } else { None };
            let size = || self.described.line(name).map(|line| line.size as u64);
            let (size, kind) = made.unwrap_or_else(|| (size(), TypeKind::Opaque));
            let (has_pointers, is_worth) = if size == Some(0) { (false, false) } else { self.worth(&kind) };
            self.all[id.0].1 = TypeState::Ready(Type { name, size, kind, has_pointers, is_worth });
        }
        id
    }

    /// Size and kind; `None`: the type is opaque, and its size is not known.
    fn make(&mut self, name: &'d str, depth: u32) -> Option<(Option<u64>, TypeKind<'d>)> {
        if let Some(line) = self.described.line(name) {
            let kind = self.of_line(line, depth).unwrap_or(TypeKind::Opaque);
            return Some((Some(line.size as u64), kind));
        }
        if let Some(inner) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            let (of, count) = inner.rsplit_once("; ")?;
            let (of, count) = (self.value(of, depth + 1), count.parse().ok()?);
            return Some((Some(self.size(of)?.checked_mul(count)?), TypeKind::Array(of, count)));
        }
        let Some((head, inner)) = name.strip_suffix('>').and_then(|name| name.split_once('<')) else {
            let (size, kind) = plain(name)?;
            return Some((Some(size), kind));
        };
        let word = |kind| Some((Some(8), kind));
        match head {
            "Pbox" => word(TypeKind::Owned(self.named(inner))),
            "Prc" | "Parc" => word(TypeKind::Counted(self.named(inner), true)),
            "PrcWeak" | "ParcWeak" => word(TypeKind::Counted(self.named(inner), false)),
            "PCell" | "PRefCell" | "PMutex" | "PRwLock" | "POnceCell" | "Wrapping" | "Saturating" | "Reverse" => {
                let of = self.value(inner, depth + 1);
                Some((Some(self.size(of)?), TypeKind::Same(of)))
            }
            "VCell" => {
                let (size, align) = inner.split_once(' ')?;
                let (size, align): (u64, u64) = (size.parse().ok()?, align.parse().ok()?);
                let whole = 8u64.checked_next_multiple_of(align)?.checked_add(size)?;
                Some((Some(whole.checked_next_multiple_of(align.max(8))?), TypeKind::Any))
            }
            _ => None,
        }
    }

    /// The contents of a line; `None`: the line is impossible.
    fn of_line(&mut self, line: &'d Line, depth: u32) -> Option<TypeKind<'d>> {
        if line.size == 0 {
            return Some(TypeKind::Any);
        }
        if let Some(form) = Form::of(line) {
            return Some(TypeKind::Form(form));
        }
        if let Some(tag) = &line.tag {
            let tag = self.tag(tag, line.size as u64);
            return self.variants(line, tag, depth);
        }
        if !line.fields.is_empty() {
            return Some(TypeKind::Fields(self.fields(&line.fields, line.size, depth)?));
        }
        let (head, inner) = bare(&line.name).strip_suffix('>')?.split_once('<')?;
        match (head, line.size) {
            ("PVec", 24) => Some(TypeKind::Vector(self.named(inner))),
            ("PVecDeque", 32) => Some(TypeKind::Ring(self.named(inner))),
            // Formats 1 and 2 said no more.
            ("PHashMap", 48) => Some(TypeKind::Table(self.entry(line)?)),
            ("PBTreeMap", 16) => {
                Some(TypeKind::Tree(self.entry(line)?, NodeShape::described(self.described, &line.name)?))
            }
            // Format 1 said no more; of a pointer no more is needed.
            ("Option", 8) if is_pointer(inner) => {
                let some = Field { label: "", of: self.value(inner, depth + 1), at: 0 };
                let variants = vec![
                    Variant { name: "None", tag: Some(0), fields: Vec::new() },
                    Variant { name: "Some", tag: None, fields: vec![some] },
                ];
                Some(TypeKind::Variants(Tag { at: 0, bytes: 8 }, variants))
            }
            _ => None,
        }
    }

    /// The entries of the map that a line describes.
    fn entry(&mut self, map: &Line) -> Option<Id> {
        let line = self.described.line(&format!("{}::Entry", bare(&map.name)))?;
        Some(self.named(&line.name))
    }

    /// Fields at these places, if they have room beside each other in a value of `room` bytes.
    fn fields(
        &mut self,
        places: impl IntoIterator<Item = &'d FieldPlace>,
        room: usize,
        depth: u32,
    ) -> Option<Vec<Field<'d>>> {
        let mut fields = Vec::new();
        for place in places {
            let of = self.value(&place.of, depth + 1);
            fields.push(Field { label: &place.label, of, at: place.offset as u64 });
        }
        let mut places = Vec::new();
        for field in &fields {
            let size = self.size(field.of)?;
            places.push((field.at, field.at.checked_add(size)?));
        }
        places.sort_unstable();
        let fits = places.is_sorted_by(|one, other| one.1 <= other.0 || one.0 == one.1);
        (fits && places.iter().all(|place| place.1 <= room as u64)).then_some(fields)
    }

    fn variants(&mut self, line: &'d Line, tag: Option<Tag>, depth: u32) -> Option<TypeKind<'d>> {
        let is_option = line.name.starts_with("Option<");
        let mut places = HashMap::<_, Vec<_>>::new();
        for place in &line.fields {
            places.entry(place.label.split('.').next()).or_default().push(place);
        }
        let mut variants = Vec::new();
        for (name, value) in &line.variants {
            let places = places.remove(&Some(name.as_str())).unwrap_or_default();
            let mut fields = self.fields(places, line.size, depth)?;
            if is_option {
                // a path goes through without a word
                fields.iter_mut().for_each(|field| field.label = "");
            }
            let bits = tag.map_or(0, |tag| u64::MAX >> (64 - 8 * tag.bytes.min(8)));
            variants.push(Variant { name, tag: value.map(|value| value as u64 & bits), fields });
        }
        let all = variants.iter().flat_map(|variant| &variant.fields);
        if tag.is_none() && all.into_iter().all(|field| !self.has_pointers(field.of)) {
            return Some(TypeKind::Any);
        }
        Some(TypeKind::Variants(tag?, variants))
    }

    /// `u8`, `C`, `u64@8`; `None` if it is not known where the tag lies.
    fn tag(&self, text: &str, size: u64) -> Option<Tag> {
        let (word, at) = text.split_once('@').unwrap_or((text, "0"));
        let bytes = match word {
            "u8" | "i8" => 1,
            "u16" | "i16" => 2,
            "u32" | "i32" | "C" => 4,
            "u64" | "i64" | "usize" | "isize" => 8,
            "u128" => 16,
            _ => return None,
        };
        let at: u64 = at.parse().ok()?;
        (at.checked_add(bytes)? <= size).then_some(Tag { at, bytes })
    }

    fn size(&self, id: Id) -> Option<u64> {
        match &self.all[id.0].1 {
            TypeState::Ready(found) => found.size,
            TypeState::Named | TypeState::Busy => None, // TYPES-1: it holds itself
        }
    }

    fn has_pointers(&self, id: Id) -> bool {
        !matches!(&self.all[id.0].1, TypeState::Ready(found) if !found.has_pointers)
    }

    /// Whether values of a kind hold pointers, and whether there is anything to look at.
    fn worth(&self, kind: &TypeKind<'d>) -> (bool, bool) {
        let of = |id: &Id| match &self.all[id.0].1 {
            TypeState::Ready(found) => (found.has_pointers, found.is_worth),
            TypeState::Named | TypeState::Busy => (true, true),
        };
        let all = |ids: &mut dyn Iterator<Item = Id>| {
            ids.fold((false, false), |(pointers, worth), id| (pointers || of(&id).0, worth || of(&id).1))
        };
        match kind {
            TypeKind::Any => (false, false),
            TypeKind::Bool | TypeKind::Char | TypeKind::NonZero(_) | TypeKind::Nanoseconds | TypeKind::Form(_) => {
                (false, true)
            }
            TypeKind::Array(id, _) | TypeKind::Same(id) => of(id),
            TypeKind::Fields(fields) => all(&mut fields.iter().map(|field| field.of)),
            TypeKind::Variants(_, variants) => {
                let fields = variants.iter().flat_map(|variant| &variant.fields);
                (all(&mut fields.map(|field| field.of)).0, true)
            }
            TypeKind::Owned(_) | TypeKind::Counted(..) | TypeKind::Opaque => (true, true),
            TypeKind::Vector(_) | TypeKind::Ring(_) | TypeKind::Text | TypeKind::Table(_) | TypeKind::Tree(..) => {
                (true, true)
            }
        }
    }
}

/// Whether a type is a word that is never 0.
fn is_pointer(name: &str) -> bool {
    let head = name.split('<').next().unwrap_or_default();
    name.ends_with('>') && ["Pbox", "Prc", "Parc", "PrcWeak", "ParcWeak"].contains(&head)
}

/// Types whose names have no arguments.
fn plain(name: &str) -> Option<(u64, TypeKind<'static>)> {
    Some(match name {
        "u8" | "i8" => (1, TypeKind::Any),
        "u16" | "i16" => (2, TypeKind::Any),
        "u32" | "i32" | "f32" => (4, TypeKind::Any),
        "u64" | "i64" | "usize" | "isize" | "f64" => (8, TypeKind::Any),
        "u128" | "i128" => (16, TypeKind::Any),
        "()" | "PhantomData" => (0, TypeKind::Any),
        "bool" => (1, TypeKind::Bool),
        "char" => (4, TypeKind::Char),
        "Duration::Nanoseconds" => (4, TypeKind::Nanoseconds),
        "PString" => (24, TypeKind::Text),
        _ => {
            let bytes = match name.strip_prefix("std::num::NonZero")?.strip_prefix(['U', 'I'])? {
                "8" => 1,
                "16" => 2,
                "32" => 4,
                "64" | "size" => 8,
                "128" => 16,
                _ => return None,
            };
            (bytes, TypeKind::NonZero(bytes))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TYPES-1: however many a type says it holds.
    #[test]
    fn what_has_no_bytes_is_not_looked_at() {
        let text = "root A\nA 32 8 { none: [[PString; 0]; 1000000000000] @0; more: PVec<[bool; 0]> @8 }\nPVec<[bool; 0]> 24 8\n";
        let described = Described::parse(text).unwrap();
        let (types, root) = Types::new(&described);
        let TypeKind::Fields(fields) = &types.get(root).kind else { panic!("{:?}", types.get(root)) };
        let TypeKind::Vector(of) = types.get(fields[1].of).kind else { panic!("{fields:?}") };
        assert_eq!((types.get(fields[0].of).size, types.get(fields[0].of).is_worth), (Some(0), false));
        assert_eq!((types.get(of).size, types.get(of).is_worth), (Some(0), false));
    }

    /// The maps of a description that contradicts itself are opaque.
    #[test]
    fn maps_that_cannot_be_are_not_taken_apart() {
        let good = "root PBTreeMap<u8, u8>\nPBTreeMap<u8, u8> 16 8\nPBTreeMap<u8, u8>::Entry 2 1 { key: u8 @0; value: u8 @1 }\n\
            PBTreeMap<u8, u8>::Node 328 8 { entries: [PBTreeMap<u8, u8>::Entry; 31] @8; edges: [u64; 32] @72 }\n";
        let is_opaque = |text: &str| {
            let described = Described::parse(text).unwrap();
            let (types, root) = Types::new(&described);
            matches!(types.get(root).kind, TypeKind::Opaque)
        };
        assert!(!is_opaque(good));
        for (old, new) in [
            ("Entry; 31]", "Entry; 33]"), // more than there is room for
            ("Entry; 31]", "Entry; 0]"),
            ("@8; edges", "@4; edges"), // over the head
            ("32] @72", "32] @64"),     // over the entries
            ("::Node", "::Other"),
            ("::Entry 2", "::Other 2"),
        ] {
            assert!(good.contains(old) && is_opaque(&good.replace(old, new)), "{new}");
        }
    }
}
