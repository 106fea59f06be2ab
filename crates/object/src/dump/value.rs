//! [`ValueSeed`]: a value of a description, read from JSON into its bytes.
//!
//! JSON says what it is, so one visitor reads scalars, arrays and objects, and each kind of type
//! decides what it takes. What lies around a value without a form of its own (a cell, a box, an
//! option, a struct of one field) passes on what was met.

use super::load::Loader;
use super::plain::{Plain, Scalar};
use super::{BLOCK, DEPTH, FieldsForm, is_option, is_volatile, label, may_be_null};
use crate::verify::deep::types::{Field, Id, Tag, TypeKind, Types, Variant};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Reads a value of type `of` into its bytes, zeros until then.
pub(super) struct ValueSeed<'l, 'v> {
    pub loader: &'l Loader<'l>,
    pub of: Id,
    pub to: &'v mut [u8],
    /// Boxes passed through that had no form of their own.
    pub depth: u32,
}

/// Places of a queue whose elements have no bytes.
const RING_MOST: u64 = u64::MAX >> 1;

/// A value inside of another.
enum Passed<'f> {
    /// It takes all bytes.
    Same(Id),
    Field(&'f Field<'f>),
    /// It lies in a block of its own.
    Boxed(Id),
    /// It is the value of an option, which has this tag.
    Some(Tag, Option<u64>, &'f Field<'f>),
}

impl<'l, 'v> ValueSeed<'l, 'v> {
    pub(super) fn new(loader: &'l Loader<'l>, of: Id, to: &'v mut [u8]) -> ValueSeed<'l, 'v> {
        ValueSeed { loader, of, to, depth: 0 }
    }

    fn name(&self) -> &'l str {
        self.loader.types.get(self.of).name
    }

    fn field<'p>(&'p mut self, field: &Field<'_>) -> ValueSeed<'l, 'p> {
        let size = self.loader.types.get(field.of).size.unwrap_or_default();
        self.part(field.of, field.at, size)
    }

    fn part<'p>(&'p mut self, of: Id, at: u64, size: u64) -> ValueSeed<'l, 'p> {
        ValueSeed { loader: self.loader, of, to: &mut self.to[at as usize..(at + size) as usize], depth: self.depth }
    }

    /// Stores a word.
    fn put(&mut self, index: usize, word: u64) {
        self.to[index * 8..][..8].copy_from_slice(&word.to_le_bytes());
    }

    fn put_all<const N: usize>(mut self, words: [u64; N]) {
        words.into_iter().enumerate().for_each(|(index, word)| self.put(index, word));
    }

    fn wrong<E: Error>(&self, met: &dyn fmt::Display) -> E {
        E::custom(format_args!("{met} is not a value of type `{}`", self.name()))
    }

    /// The value that takes what was met in place of this one.
    fn inner(&self) -> Option<Passed<'l>> {
        let of = self.loader.types.get(self.of);
        match &of.kind {
            TypeKind::Same(of) => Some(Passed::Same(*of)),
            TypeKind::Owned(of) => Some(Passed::Boxed(*of)),
            TypeKind::Fields(fields) if FieldsForm::of(fields) == FieldsForm::Newtype => {
                Some(Passed::Field(&fields[0]))
            }
            TypeKind::Variants(tag, variants) if is_option(of) => {
                let (value, field) = some(variants)?;
                (!may_be_null(self.loader.types, field.of, 0)).then_some(Passed::Some(*tag, value, field))
            }
            _ => None,
        }
    }

    /// Lets the inner value read.
    fn pass<E: Error>(
        mut self,
        inner: Passed<'_>,
        read: impl FnOnce(ValueSeed<'l, '_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match inner {
            Passed::Same(of) => read(ValueSeed { of, ..self }),
            Passed::Field(field) => read(self.field(field)),
            Passed::Some(tag, value, field) => {
                put_tag(tag, value, self.to);
                read(self.field(field))
            }
            Passed::Boxed(_) if self.depth >= DEPTH => Err(E::custom("boxes in boxes without end")),
            Passed::Boxed(of) => {
                let mut bytes = self.loader.zeros(of)?;
                read(ValueSeed { depth: self.depth + 1, ..ValueSeed::new(self.loader, of, &mut bytes) })?;
                let (offset, _) = self.loader.store_block(&bytes)?;
                self.put(0, offset);
                Ok(())
            }
        }
    }

    /// Reads a value without parts.
    pub(super) fn scalar<E: Error>(mut self, met: Scalar<'_>) -> Result<(), E> {
        let of = self.loader.types.get(self.of);
        if let Some(plain) = Plain::of(of) {
            return if plain.read(of, met, self.to) { Ok(()) } else { Err(self.wrong(&met)) };
        }
        match (&of.kind, met) {
            (TypeKind::Any, Scalar::Null) if is_volatile(of) => Ok(()),
            (TypeKind::Variants(tag, variants), Scalar::Null) if is_option(of) => {
                let none = variants.iter().find(|variant| variant.fields.is_empty()).ok_or_else(|| self.wrong(&met))?;
                put_tag(*tag, none.tag, self.to);
                Ok(())
            }
            (TypeKind::Variants(tag, variants), Scalar::Text(name)) if !is_option(of) => {
                let found = variants.iter().find(|variant| variant.name == name && variant.fields.is_empty());
                put_tag(*tag, found.ok_or_else(|| self.wrong(&met))?.tag, self.to);
                Ok(())
            }
            (TypeKind::Text, Scalar::Text(text)) => {
                let (offset, room) = self.loader.store(text.as_bytes())?;
                self.put_all([offset, text.len() as u64, room]);
                Ok(())
            }
            (TypeKind::Vector(of), Scalar::Unsigned(count)) if self.loader.types.get(*of).size == Some(0) => {
                self.put(1, count);
                Ok(())
            }
            (TypeKind::Ring(of), Scalar::Unsigned(count)) if self.loader.types.get(*of).size == Some(0) => {
                self.put(1, count.min(RING_MOST));
                self.put(2, RING_MOST);
                Ok(())
            }
            _ => match self.inner() {
                Some(inner) => self.pass(inner, |inner| inner.scalar(met)),
                None => Err(self.wrong(&met)),
            },
        }
    }

    /// Reads an array.
    fn array<'de, A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let types = self.loader.types;
        let of = types.get(self.of);
        match &of.kind {
            TypeKind::Array(of, count) => {
                let size = types.get(*of).size.unwrap_or_default();
                for index in 0..*count {
                    self.element(&mut seq, index, |seed| seed.part(*of, index * size, size))?;
                }
                self.ended(seq, *count)
            }
            TypeKind::Fields(fields) if FieldsForm::of(fields) == FieldsForm::Tuple => self.tuple(fields, seq),
            TypeKind::Variants(tag, variants) if is_option(of) && self.inner().is_none() => {
                // the value of an option that may be `null` itself
                let (value, field) = some(variants).ok_or_else(|| self.wrong(&"an array"))?;
                put_tag(*tag, value, self.to);
                self.tuple(std::slice::from_ref(field), seq)
            }
            TypeKind::Table(entry) | TypeKind::Tree(entry, _) => {
                let mut map = self.loader.map_of(*entry)?;
                map.read_seq(&mut seq)?;
                map.build(self.of, self.to)
            }
            TypeKind::Vector(of) | TypeKind::Ring(of) => {
                let size = types.get(*of).size.filter(|&size| size > 0);
                let size = size.ok_or_else(|| self.wrong(&"an array"))? as usize;
                let (mut bytes, mut count) = (Vec::new(), 0u64);
                loop {
                    let from = self.loader.add(*of, &mut bytes)?;
                    if seq.next_element_seed(ValueSeed::new(self.loader, *of, &mut bytes[from..]))?.is_none() {
                        bytes.truncate(from);
                        break;
                    }
                    count += 1;
                }
                let (offset, room) = self.loader.store(&bytes)?;
                self.put_all([offset, count, room / size as u64]);
                Ok(())
            }
            _ => match self.inner() {
                Some(inner) => self.pass(inner, |inner| inner.array(seq)),
                None => Err(self.wrong(&"an array")),
            },
        }
    }

    /// Reads the next element of an array into a part.
    fn element<'de, A: SeqAccess<'de>>(
        &mut self,
        seq: &mut A,
        index: u64,
        part: impl for<'p> FnOnce(&'p mut ValueSeed<'l, 'v>) -> ValueSeed<'l, 'p>,
    ) -> Result<(), A::Error> {
        match seq.next_element_seed(part(self))? {
            Some(()) => Ok(()),
            None => Err(self.wrong(&format_args!("an array of {index}"))),
        }
    }

    /// Refuses further elements.
    fn ended<'de, A: SeqAccess<'de>>(self, mut seq: A, count: u64) -> Result<(), A::Error> {
        match seq.next_element::<IgnoredAny>()? {
            Some(_) => Err(self.wrong(&format_args!("an array of more than {count}"))),
            None => Ok(()),
        }
    }

    fn tuple<'de, A: SeqAccess<'de>>(mut self, fields: &[Field<'_>], mut seq: A) -> Result<(), A::Error> {
        for (index, field) in fields.iter().enumerate() {
            self.element(&mut seq, index as u64, |seed| seed.field(field))?;
        }
        self.ended(seq, fields.len() as u64)
    }

    /// Reads an object whose first key was read.
    fn object<'de, A: MapAccess<'de>>(self, first: Option<String>, mut map: A) -> Result<(), A::Error> {
        let of = self.loader.types.get(self.of);
        if first.as_deref() == Some(BLOCK) {
            return self.reference(map);
        }
        match &of.kind {
            TypeKind::Fields(fields) if FieldsForm::of(fields) == FieldsForm::Named => self.named(fields, first, map),
            TypeKind::Table(entry) | TypeKind::Tree(entry, _) => {
                let mut entries = self.loader.map_of(*entry)?;
                entries.read_map(first, &mut map)?;
                entries.build(self.of, self.to)
            }
            TypeKind::Variants(tag, variants) if !is_option(of) => {
                let name = first.unwrap_or_default();
                let found = variants.iter().find(|variant| variant.name == name && !variant.fields.is_empty());
                let variant = found.ok_or_else(|| self.wrong(&format_args!("`{name}`")))?;
                put_tag(*tag, variant.tag, self.to);
                let seed = ValueSeed { to: &mut *self.to, ..self };
                map.next_value_seed(VariantSeed { seed, fields: &variant.fields })?;
                match map.next_key::<String>()? {
                    Some(key) => Err(A::Error::custom(format_args!("`{key}` behind the variant `{name}`"))),
                    None => Ok(()),
                }
            }
            _ => match self.inner() {
                Some(inner) => self.pass(inner, |inner| inner.object(first, map)),
                None => Err(self.wrong(&"an object")),
            },
        }
    }

    /// Reads the number of a piece, and takes what it stands for.
    fn reference<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let number: u64 = map.next_value()?;
        match map.next_key::<String>()? {
            Some(key) => Err(A::Error::custom(format_args!("`{key}` behind a reference"))),
            None => self.referred(number),
        }
    }

    fn referred<E: Error>(mut self, number: u64) -> Result<(), E> {
        let inner = self.inner();
        match (&self.loader.types.get(self.of).kind, inner) {
            (TypeKind::Counted(target, is_strong), _) => {
                let offset = self.loader.count(number, *target, *is_strong)?;
                self.put(0, offset);
                Ok(())
            }
            (
                TypeKind::Owned(_) | TypeKind::Vector(_) | TypeKind::Ring(_) | TypeKind::Table(_) | TypeKind::Tree(..),
                _,
            ) => {
                let bytes = self.loader.take(number, self.of)?;
                self.to.copy_from_slice(&bytes);
                Ok(())
            }
            (_, Some(inner)) => self.pass(inner, |inner| inner.referred(number)),
            (_, None) => Err(self.wrong(&"a reference")),
        }
    }

    fn named<'de, A: MapAccess<'de>>(
        mut self,
        fields: &[Field<'_>],
        first: Option<String>,
        mut map: A,
    ) -> Result<(), A::Error> {
        let (types, name) = (self.loader.types, self.name());
        let mut is_read = vec![false; fields.len()];
        let mut next = first;
        while let Some(key) = next {
            let found = fields.iter().position(|field| label(field) == key);
            let index = found.ok_or_else(|| A::Error::custom(format_args!("`{name}` has no field `{key}`")))?;
            if std::mem::replace(&mut is_read[index], true) {
                return Err(A::Error::custom(format_args!("field `{key}` of `{name}` is there twice")));
            }
            map.next_value_seed(self.field(&fields[index]))?;
            next = map.next_key()?;
        }
        for (field, _) in fields.iter().zip(is_read).filter(|(_, is_read)| !is_read) {
            if is_optional(types, field.of) {
                self.field(field).scalar(Scalar::Null)?;
            } else if !is_volatile(types.get(field.of)) {
                return Err(A::Error::custom(format_args!("field `{}` of `{name}` is missing", label(field))));
            }
        }
        Ok(())
    }
}

/// Whether a field may be left out: it is empty then.
fn is_optional(types: &Types<'_>, mut id: Id) -> bool {
    while let TypeKind::Same(of) = types.get(id).kind {
        id = of;
    }
    is_option(types.get(id))
}

/// The tag and the value of an option that is full.
fn some<'t, 'd>(variants: &'t [Variant<'d>]) -> Option<(Option<u64>, &'t Field<'d>)> {
    variants.iter().find_map(|variant| match &variant.fields[..] {
        [field] => Some((variant.tag, field)),
        _ => None,
    })
}

/// Stores a variant's tag; one that any other number means is told by its fields.
fn put_tag(tag: Tag, value: Option<u64>, to: &mut [u8]) {
    if let Some(value) = value {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        to[tag.at as usize..][..tag.bytes as usize].copy_from_slice(&bytes[..tag.bytes as usize]);
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value of type `{}`", self.name())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.scalar(Scalar::Null)
    }

    fn visit_bool<E: Error>(self, is: bool) -> Result<(), E> {
        self.scalar(Scalar::Bool(is))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.scalar(Scalar::Unsigned(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.scalar(Scalar::Signed(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.scalar(Scalar::Float(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.scalar(Scalar::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        self.array(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let first = map.next_key()?;
        self.object(first, map)
    }
}

/// Reads the fields of a variant.
struct VariantSeed<'l, 'v, 'f> {
    seed: ValueSeed<'l, 'v>,
    fields: &'f [Field<'f>],
}

impl<'de> DeserializeSeed<'de> for VariantSeed<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, deserializer: D) -> Result<(), D::Error> {
        match FieldsForm::of(self.fields) {
            FieldsForm::Newtype => self.seed.field(&self.fields[0]).deserialize(deserializer),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for VariantSeed<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the fields of a variant of `{}`", self.seed.name())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        match FieldsForm::of(self.fields) {
            FieldsForm::Tuple => self.seed.tuple(self.fields, seq),
            _ => Err(self.seed.wrong(&"an array")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        match FieldsForm::of(self.fields) {
            FieldsForm::Named => {
                let first = map.next_key()?;
                self.seed.named(self.fields, first, map)
            }
            _ => Err(self.seed.wrong(&"an object")),
        }
    }
}
