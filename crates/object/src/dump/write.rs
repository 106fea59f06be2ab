//! Writing of dumps: [`UntypedPool::dump`].

use super::plain::Plain;
use super::{BLOCK, Entries, FieldsForm, MapForm, NEST, VERSION, is_option, is_volatile, label, may_be_null};
use crate::description::described::Described;
use crate::description::node_shape::NodeShape;
use crate::types::hash_map::tags;
use crate::verify::deep::types::{Field, Id, Tag, TypeKind, Types, Variant};
use crate::{Error, Result, UntypedPool};
use everbyte_media::{Damage, Media};
use everbyte_store::Finding;
use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, Write};

/// The size of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dumped {
    /// Lines.
    pub lines: u64,
    /// Values behind counted pointers.
    pub shared: u64,
}

impl UntypedPool {
    /// Writes the pool as lines of JSON (docs/formats/dump.md), of which [`load`](crate::load)
    /// makes a pool again. Contents of `VCell`s are left out. The pool is checked first; `progress`
    /// is called now and then with the number of blocks met.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the check has found damage, [`Error::Opaque`] if the description does
    /// not explain a type; [`Error::Output`] if `out` fails.
    pub fn dump(&self, out: &mut dyn Write, progress: &dyn Fn(u64)) -> Result<Dumped> {
        let report = self.examine(progress);
        if let Some(Finding { at, detail, .. }) = report.findings().into_iter().find(Finding::is_damage) {
            return Err(Damage::at(at, detail).of_object(self.name()).into());
        }
        let described = Described::parse(&self.description).unwrap_or_default();
        let (types, root) = Types::new(&described);
        let prime = self.inner.object.prime().get();
        let writer = Writer::new(self.inner.media(), &types, prime);
        writer.pieces.borrow_mut().push(Piece { at: prime + self.header.root.get(), of: root, kind: PieceKind::Root });
        let written = writer.measure().and_then(|()| writer.write(self, out));
        match (written, writer.opaque.into_inner()) {
            (_, Some((of, at))) => Err(Error::Opaque { object: self.name().into(), of, at: at.into() }),
            (Err(error), None) => Err(Error::Output { object: self.name().into(), source: error.into() }),
            (Ok(dumped), None) => Ok(dumped),
        }
    }
}

/// A part of a dump: a line.
#[derive(Clone, Copy)]
struct Piece {
    at: u64,
    of: Id,
    kind: PieceKind,
}

#[derive(Clone, Copy)]
enum PieceKind {
    Root,
    /// The value of the pointer at `at`, which owns it.
    Owned,
    /// The value in the counted block at `at`.
    Shared,
}

struct Writer<'d> {
    media: &'d Media,
    types: &'d Types<'d>,
    prime: u64,
    pieces: RefCell<Vec<Piece>>,
    /// Numbers of pieces, by place.
    numbers: RefCell<HashMap<u64, usize>>,
    /// A type that cannot be written, and where a value of it lies.
    opaque: Cell<Option<(String, u64)>>,
}

impl<'d> Writer<'d> {
    fn new(media: &'d Media, types: &'d Types<'d>, prime: u64) -> Writer<'d> {
        let (pieces, numbers, opaque) = Default::default();
        Writer { media, types, prime, pieces, numbers, opaque }
    }

    /// Finds the pieces.
    fn measure(&self) -> serde_json::Result<()> {
        let mut next = 0;
        loop {
            let Some(piece) = self.pieces.borrow().get(next).copied() else { return Ok(()) };
            serde_json::to_writer(io::sink(), &Content { writer: self, piece })?;
            next += 1;
        }
    }

    fn write(&self, pool: &UntypedPool, out: &mut dyn Write) -> serde_json::Result<Dumped> {
        let mut line = |line: &dyn Fn(&mut dyn Write) -> serde_json::Result<()>| {
            line(out)?;
            out.write_all(b"\n").map_err(serde_json::Error::io)
        };
        let (name, format) = (pool.name(), pool.header.format);
        let description: Vec<&str> = pool.description.lines().collect();
        let head = json!({ "everbyte": "object dump", "version": VERSION, "format": format, "name": name, "description": description });
        line(&|out| serde_json::to_writer(out, &head))?;
        let pieces = self.pieces.borrow().clone();
        for (number, piece) in pieces.iter().enumerate().rev() {
            line(&|out| {
                serde_json::to_writer(out, &Line { number, content: Content { writer: self, piece: *piece } })
            })?;
        }
        let shared = pieces.iter().filter(|piece| matches!(piece.kind, PieceKind::Shared)).count();
        Ok(Dumped { lines: pieces.len() as u64 + 1, shared: shared as u64 })
    }

    fn number(&self, at: u64, bytes: u64) -> u64 {
        let mut word = [0; 8];
        self.media.read(at, &mut word[..bytes as usize]);
        u64::from_le_bytes(word)
    }

    /// The place of an offset of the pool.
    fn place(&self, offset: u64) -> u64 {
        self.prime.wrapping_add(offset)
    }

    /// The number of the piece at a place.
    fn piece(&self, at: u64, of: Id, kind: PieceKind) -> usize {
        let mut pieces = self.pieces.borrow_mut();
        *self.numbers.borrow_mut().entry(at).or_insert_with(|| {
            pieces.push(Piece { at, of, kind });
            pieces.len() - 1
        })
    }

    /// Places of the entries of the hash map at `at`.
    fn table(&self, at: u64, size: u64) -> Vec<u64> {
        let (word, groups) = (self.number(at, 8), self.number(at + 8, 4));
        if word == 0 {
            return Vec::new();
        }
        let block = self.place(word);
        let is_entry = |place: &u64| tags::is_entry(self.number(block + place, 1) as u8);
        let places = (0..groups * tags::GROUP).filter(is_entry);
        places.map(|place| block + tags::before(groups) + place * size).collect()
    }

    /// Places of the entries of the ordered map at `at`, in order.
    fn tree(&self, at: u64, shape: NodeShape) -> Vec<u64> {
        let mut places = Vec::new();
        // nodes on the way down, and the next edge or entry of each
        let mut path = Vec::new();
        let node = |word: u64| (self.place(word), 0);
        path.extend(Some(self.number(at, 8)).filter(|&root| root != 0).map(node));
        while let Some((at, next)) = path.last_mut() {
            let (len, level) = (self.number(*at, 4), self.number(*at + 4, 4));
            let here = *next;
            *next += 1;
            let entry = |index: u64| *at + shape.entries + index * shape.size;
            if level == 0 {
                places.extend((0..len).map(entry));
                path.pop();
                continue;
            }
            if here > 0 && here <= len {
                places.push(entry(here - 1));
            }
            if here > len {
                path.pop();
            } else {
                let edge = self.number(*at + shape.edges + here * 8, 8);
                path.push(node(edge));
            }
        }
        places
    }
}

/// A line of a dump.
struct Line<'w> {
    number: usize,
    content: Content<'w>,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Content { writer, piece } = self.content;
        let mut map = serializer.serialize_map(None)?;
        match piece.kind {
            PieceKind::Root => {
                map.serialize_entry("root", &self.content)?;
                return map.end();
            }
            PieceKind::Owned => {
                map.serialize_entry("block", &self.number)?;
                map.serialize_entry("owned", writer.types.get(piece.of).name)?;
            }
            PieceKind::Shared => {
                map.serialize_entry("block", &self.number)?;
                map.serialize_entry("shared", writer.types.get(piece.of).name)?;
                if writer.number(piece.at, 8) == 0 {
                    // a block that weak pointers keep
                    map.serialize_entry("dropped", &true)?;
                    return map.end();
                }
            }
        }
        map.serialize_entry("value", &self.content)?;
        map.end()
    }
}

/// The value of a piece.
#[derive(Clone, Copy)]
struct Content<'w> {
    writer: &'w Writer<'w>,
    piece: Piece,
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Content { writer, piece: Piece { at, of, kind } } = *self;
        match kind {
            PieceKind::Root => Value { writer, of, at, depth: 0 }.serialize(serializer),
            PieceKind::Owned => Value { writer, of, at, depth: 0 }.owned(serializer),
            PieceKind::Shared if writer.number(at, 8) == 0 => serializer.serialize_unit(),
            PieceKind::Shared => Value { writer, of, at: at + 16, depth: 0 }.serialize(serializer),
        }
    }
}

/// A value of type `of` at `at`.
#[derive(Clone, Copy)]
struct Value<'w> {
    writer: &'w Writer<'w>,
    of: Id,
    at: u64,
    /// Pieces nest so deep here.
    depth: u32,
}

impl<'w> Value<'w> {
    /// A part of it.
    fn part(self, of: Id, at: u64) -> Value<'w> {
        Value { of, at, depth: self.depth + 1, ..self }
    }

    fn opaque<S: Serializer>(self) -> S::Error {
        let name = self.writer.types.get(self.of).name.to_string();
        let error = S::Error::custom(format_args!("type `{name}` is opaque"));
        self.writer.opaque.set(Some((name, self.at)));
        error
    }

    /// A piece of its own, in place of a value.
    fn reference<S: Serializer>(self, at: u64, of: Id, kind: PieceKind, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(BLOCK, &self.writer.piece(at, of, kind))?;
        map.end()
    }

    /// The value that a pointer owns.
    fn owned<S: Serializer>(self, serializer: S) -> Result<S::Ok, S::Error> {
        let (writer, types, at) = (self.writer, self.writer.types, self.at);
        let word = |index: u64| writer.number(at + index * 8, 8);
        let block = writer.place(word(0));
        match &types.get(self.of).kind {
            TypeKind::Owned(target) => self.part(*target, block).serialize(serializer),
            TypeKind::Vector(of) => match types.get(*of).size {
                Some(0) => serializer.serialize_u64(word(1)),
                Some(size) => serializer.collect_seq((0..word(1)).map(|index| self.part(*of, block + index * size))),
                None => Err(self.opaque::<S>()),
            },
            TypeKind::Ring(of) => match types.get(*of).size {
                Some(0) => serializer.serialize_u64(word(1)),
                Some(size) => {
                    let (cap, first) = (word(2), word(3));
                    let place = |index| (first + index) % cap;
                    serializer.collect_seq((0..word(1)).map(|index| self.part(*of, block + place(index) * size)))
                }
                None => Err(self.opaque::<S>()),
            },
            TypeKind::Table(entry) => {
                let size = types.get(*entry).size.unwrap_or_default();
                self.map(*entry, &writer.table(at, size), serializer)
            }
            TypeKind::Tree(entry, shape) => self.map(*entry, &writer.tree(at, *shape), serializer),
            _ => Err(self.opaque::<S>()),
        }
    }

    fn map<S: Serializer>(self, entry: Id, places: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
        let types = self.writer.types;
        let Some(entries) = Entries::of(types, entry) else { return Err(self.opaque::<S>()) };
        let key = |at: u64| self.part(entries.key.of, at + entries.key.at);
        let value = |at: u64| self.part(entries.value.of, at + entries.value.at);
        match entries.form {
            MapForm::Set => serializer.collect_seq(places.iter().map(|&at| key(at))),
            MapForm::Pairs => serializer.collect_seq(places.iter().map(|&at| (key(at), value(at)))),
            MapForm::Text => serializer.collect_map(places.iter().map(|&at| (Key(key(at)), value(at)))),
        }
    }

    fn fields<S: Serializer>(self, fields: &[Field<'_>], serializer: S) -> Result<S::Ok, S::Error> {
        let value = |field: &Field<'_>| self.part(field.of, self.at + field.at);
        match FieldsForm::of(fields) {
            FieldsForm::Unit => serializer.serialize_unit(),
            FieldsForm::Newtype => value(&fields[0]).serialize(serializer),
            FieldsForm::Tuple => serializer.collect_seq(fields.iter().map(value)),
            FieldsForm::Named => {
                let kept = fields.iter().filter(|field| !is_volatile(self.writer.types.get(field.of)));
                serializer.collect_map(kept.map(|field| (label(field), value(field))))
            }
        }
    }

    fn variant<S: Serializer>(self, tag: Tag, variants: &[Variant<'_>], serializer: S) -> Result<S::Ok, S::Error> {
        let (writer, of) = (self.writer, self.writer.types.get(self.of));
        let Some(variant) = tag.variant(variants, |at, bytes| writer.number(self.at + at, bytes)) else {
            return Err(S::Error::custom(format_args!("not a variant of `{}`", of.name)));
        };
        match &variant.fields[..] {
            [] if is_option(of) => serializer.serialize_none(),
            [some] if is_option(of) => {
                let some_value = self.part(some.of, self.at + some.at);
                match may_be_null(writer.types, some.of, 0) {
                    true => serializer.collect_seq([some_value]),
                    false => some_value.serialize(serializer),
                }
            }
            [] => serializer.serialize_str(variant.name),
            fields => serializer.collect_map([(variant.name, Fields { value: self, fields })]),
        }
    }

    fn text<S: Serializer>(self, escaped: bool, serializer: S) -> Result<S::Ok, S::Error> {
        let (word, len) = (self.writer.number(self.at, 8), self.writer.number(self.at + 8, 8));
        let bytes = match len {
            0 => Vec::new(),
            len => self.writer.media.read_vec(self.writer.place(word), len as usize),
        };
        match String::from_utf8(bytes) {
            Ok(text) if escaped && text.starts_with('$') => serializer.collect_str(&format_args!("${text}")),
            Ok(text) => serializer.serialize_str(&text),
            Err(_) => Err(S::Error::custom("text that is not UTF-8")),
        }
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (writer, of) = (self.writer, self.writer.types.get(self.of));
        if let Some(plain) = Plain::of(of) {
            let bytes = writer.media.read_vec(self.at, of.size.unwrap_or_default() as usize);
            return plain.write(&bytes, serializer);
        }
        match &of.kind {
            TypeKind::Any if is_volatile(of) => serializer.serialize_unit(),
            TypeKind::Same(of) => Value { of: *of, ..*self }.serialize(serializer),
            TypeKind::Array(of, count) => {
                let size = writer.types.get(*of).size.unwrap_or_default();
                serializer.collect_seq((0..*count).map(|index| self.part(*of, self.at + index * size)))
            }
            TypeKind::Fields(fields) => self.fields(fields, serializer),
            TypeKind::Variants(tag, variants) => self.variant(*tag, variants, serializer),
            TypeKind::Text => self.text(false, serializer),
            TypeKind::Counted(target, _) => {
                let block = writer.place(writer.number(self.at, 8));
                self.reference(block, *target, PieceKind::Shared, serializer)
            }
            TypeKind::Owned(_) | TypeKind::Vector(_) | TypeKind::Ring(_) | TypeKind::Table(_) | TypeKind::Tree(..) => {
                let is_empty = writer.number(self.at, 8) == 0;
                if self.depth < NEST || is_empty {
                    return self.owned(serializer);
                }
                self.reference(self.at, self.of, PieceKind::Owned, serializer)
            }
            _ => Err(self.opaque::<S>()),
        }
    }
}

/// A value as the key of an object.
struct Key<'w>(Value<'w>);

impl Serialize for Key<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.writer.types.get(self.0.of).kind {
            TypeKind::Text => self.0.text(true, serializer),
            _ => self.0.serialize(serializer),
        }
    }
}

/// The fields of a variant.
struct Fields<'w, 'f> {
    value: Value<'w>,
    fields: &'f [Field<'f>],
}

impl Serialize for Fields<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.fields(self.fields, serializer)
    }
}
