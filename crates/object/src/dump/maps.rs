//! Maps of a dump: their entries are read into bytes, and their blocks built of these.
//!
//! An ordered map keeps the order of the dump; where keys are numbers or text the order is checked.
//! A hash map is found by its program's hash where keys are numbers or text. For other keys its
//! dialect is 0: the program passes over all entries until it builds the table anew.

use super::load::Loader;
use super::plain::{Plain, Scalar};
use super::value::ValueSeed;
use super::{Entries, MapForm};
use crate::description::node_shape::NodeShape;
use crate::types::hash_map::{self, tags};
use crate::verify::deep::types::{Id, TypeKind};
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};

/// The entries of a map that is being read.
pub(super) struct MapParts<'l> {
    loader: &'l Loader<'l>,
    of: Id,
    entries: Entries<'l, 'l>,
    /// Entry after entry.
    bytes: Vec<u8>,
    /// The keys that can be compared without their program.
    keys: Option<Vec<Word>>,
}

/// A key that means the same in every program, and its bytes if it is a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    Unsigned(u128, usize),
    Signed(i128, usize),
    Text(String),
}

impl<'l> MapParts<'l> {
    pub(super) fn new(loader: &'l Loader<'l>, of: Id, entries: Entries<'l, 'l>) -> MapParts<'l> {
        let key = loader.types.get(entries.key.of);
        let is_number = matches!(Plain::of(key), Some(Plain::Unsigned(_) | Plain::Signed(_)));
        let is_word = is_number || matches!(key.kind, TypeKind::Text);
        MapParts { loader, of, entries, bytes: Vec::new(), keys: is_word.then(Vec::new) }
    }

    /// Makes space for the next entry; answers where its bytes begin.
    fn next<E: Error>(&mut self) -> Result<usize, E> {
        self.loader.add(self.of, &mut self.bytes)
    }

    fn seed(&mut self, from: usize, is_key: bool) -> ValueSeed<'l, '_> {
        let field = if is_key { self.entries.key } else { self.entries.value };
        let at = from + field.at as usize;
        let size = self.loader.types.get(field.of).size.unwrap_or_default() as usize;
        ValueSeed::new(self.loader, field.of, &mut self.bytes[at..at + size])
    }

    /// Keeps the key of the last entry.
    fn keep(&mut self, text: Option<&str>) {
        let (from, field) = (self.bytes.len() - self.entries.size as usize, self.entries.key);
        let of = self.loader.types.get(field.of);
        let Some(keys) = &mut self.keys else { return };
        let size = of.size.unwrap_or_default() as usize;
        let mut wide = [0; 16];
        let word = match Plain::of(of) {
            None => text.map(|text| Word::Text(text.into())),
            Some(plain) => {
                wide[..size].copy_from_slice(&self.bytes[from + field.at as usize..][..size]);
                let number = u128::from_le_bytes(wide);
                let unused = 128 - 8 * size as u32;
                Some(match plain {
                    Plain::Signed(_) => Word::Signed((number << unused).cast_signed() >> unused, size),
                    _ => Word::Unsigned(number, size),
                })
            }
        };
        match word {
            Some(word) => keys.push(word),
            None => self.keys = None,
        }
    }

    /// Reads keys, or pairs.
    pub(super) fn read_seq<'de, A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<(), A::Error> {
        while let Some(()) = seq.next_element_seed(EntrySeed(self))? {}
        Ok(())
    }

    /// Reads an object whose first key was read.
    pub(super) fn read_map<'de, A: MapAccess<'de>>(
        &mut self,
        first: Option<String>,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let mut next = first;
        while let Some(mut key) = next {
            if !matches!(self.entries.form, MapForm::Text) {
                return Err(A::Error::custom(format_args!("`{key}`: a map whose keys are not text is an array")));
            }
            if key.starts_with("$$") {
                key.remove(0);
            }
            let from = self.next()?;
            self.seed(from, true).scalar::<A::Error>(Scalar::Text(&key))?;
            self.keep(Some(&key));
            map.next_value_seed(self.seed(from, false))?;
            next = map.next_key()?;
        }
        Ok(())
    }

    /// Builds the map of type `of`, whose words are to lie at `to`.
    pub(super) fn build<E: Error>(self, of: Id, to: &mut [u8]) -> Result<(), E> {
        let name = self.loader.types.get(of).name;
        let keys = self.keys.as_deref().unwrap_or_default();
        match self.loader.types.get(of).kind {
            TypeKind::Tree(_, shape) => {
                if let Some(pair) = keys.windows(2).find(|pair| pair[0].cmp(&pair[1]) != Ordering::Less) {
                    let [before, after] = pair else { unreachable!("a pair") };
                    return Err(E::custom(format_args!("keys of `{name}` are not in order: {before}, then {after}")));
                }
                self.tree(shape, to)
            }
            _ => {
                let mut met = HashSet::new();
                if let Some(twice) = keys.iter().find(|key| !met.insert(*key)) {
                    return Err(E::custom(format_args!("key {twice} of `{name}` is there twice")));
                }
                drop(met);
                self.table(to)
            }
        }
    }

    fn table<E: Error>(self, to: &mut [u8]) -> Result<(), E> {
        let size = self.entries.size;
        let count = self.bytes.len() as u64 / size.max(1);
        if count == 0 {
            return Ok(());
        }
        let groups = count.div_ceil(tags::USED).next_power_of_two();
        let bytes = tags::bytes(groups, size).ok_or_else(|| E::custom("a map larger than memory"))?;
        let seed = self.loader.hash_seed();
        let hashes = (0..count).map(|index| match &self.keys {
            Some(keys) => hash_map::hash_of(seed, &keys[index as usize]),
            None => index,
        });
        let (words, places) = hash_map::places(groups, hashes);
        let mut block = vec![0; bytes as usize];
        for (word, to) in words.iter().zip(block.chunks_exact_mut(8)) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        for (entry, place) in self.bytes.chunks_exact(size as usize).zip(places) {
            block[(tags::before(groups) + place * size) as usize..][..size as usize].copy_from_slice(entry);
        }
        let (offset, _) = self.loader.store_block(&block)?;
        let left = groups * tags::USED - count;
        let dialect = if self.keys.is_some() { hash_map::dialect() } else { 0 };
        to[..8].copy_from_slice(&offset.to_le_bytes());
        to[8..12].copy_from_slice(&(groups as u32).to_le_bytes());
        to[12..16].copy_from_slice(&dialect.to_le_bytes());
        let words = [count, left, seed[0], seed[1]];
        words
            .iter()
            .enumerate()
            .for_each(|(index, word)| to[16 + index * 8..][..8].copy_from_slice(&word.to_le_bytes()));
        Ok(())
    }

    /// Level by level: entries are spread over nodes evenly, and the one between two nodes goes up.
    fn tree<E: Error>(self, shape: NodeShape, to: &mut [u8]) -> Result<(), E> {
        let size = shape.size as usize;
        let mut entries: Vec<&[u8]> = self.bytes.chunks_exact(size.max(1)).collect();
        let count = entries.len() as u64;
        let (mut edges, mut level) = (Vec::<u64>::new(), 0u32);
        while !entries.is_empty() {
            let nodes = (entries.len() + 1).div_ceil(shape.most as usize + 1);
            let spread = entries.len() - (nodes - 1);
            let (mut above, mut made) = (Vec::new(), Vec::new());
            let (mut from, mut edge) = (0, 0);
            for node in 0..nodes {
                let len = spread / nodes + usize::from(node < spread % nodes);
                let mut block = vec![0; if level == 0 { shape.leaf() } else { shape.inner() } as usize];
                block[..4].copy_from_slice(&(len as u32).to_le_bytes());
                block[4..8].copy_from_slice(&level.to_le_bytes());
                for (index, entry) in entries[from..from + len].iter().enumerate() {
                    block[shape.entries as usize + index * size..][..size].copy_from_slice(entry);
                }
                if level > 0 {
                    for (index, word) in edges[edge..=edge + len].iter().enumerate() {
                        block[shape.edges as usize + index * 8..][..8].copy_from_slice(&word.to_le_bytes());
                    }
                    edge += len + 1;
                }
                made.push(self.loader.store_block(&block)?.0);
                from += len;
                above.extend(entries.get(from));
                from += 1;
            }
            (entries, edges, level) = (above, made, level + 1);
        }
        let root = edges.first().copied().unwrap_or(0);
        to[..8].copy_from_slice(&root.to_le_bytes());
        to[8..16].copy_from_slice(&count.to_le_bytes());
        Ok(())
    }
}

/// As the key's program hashes it.
impl Hash for Word {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let number = |number: u128, bytes: usize, state: &mut H| match bytes {
            1 => (number as u8).hash(state),
            2 => (number as u16).hash(state),
            4 => (number as u32).hash(state),
            8 => (number as u64).hash(state),
            _ => number.hash(state),
        };
        match self {
            Word::Unsigned(value, bytes) => number(*value, *bytes, state),
            Word::Signed(value, bytes) => number(value.cast_unsigned(), *bytes, state),
            Word::Text(text) => text.hash(state),
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Unsigned(number, _) => number.fmt(f),
            Word::Signed(number, _) => number.fmt(f),
            Word::Text(text) => write!(f, "`{text}`"),
        }
    }
}

/// Reads an element of a set, or a pair of a map.
struct EntrySeed<'m, 'l>(&'m mut MapParts<'l>);

impl<'de> DeserializeSeed<'de> for EntrySeed<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let from = self.0.next()?;
        if !matches!(self.0.entries.form, MapForm::Set) {
            return deserializer.deserialize_seq(self);
        }
        match self.0.loader.types.get(self.0.entries.key.of).kind {
            TypeKind::Text => {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                self.0.seed(from, true).scalar::<D::Error>(Scalar::Text(&text))?;
                self.0.keep(Some(&text));
            }
            _ => {
                self.0.seed(from, true).deserialize(deserializer)?;
                self.0.keep(None);
            }
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for EntrySeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pair of a key and its value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let from = self.0.bytes.len() - self.0.entries.size as usize;
        if seq.next_element_seed(self.0.seed(from, true))?.is_none() {
            return Err(A::Error::invalid_length(0, &self));
        }
        self.0.keep(None);
        if seq.next_element_seed(self.0.seed(from, false))?.is_none() {
            return Err(A::Error::invalid_length(1, &self));
        }
        match seq.next_element::<serde::de::IgnoredAny>()? {
            Some(_) => Err(A::Error::invalid_length(3, &self)),
            None => Ok(()),
        }
    }
}
