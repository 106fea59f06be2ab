//! What the derive of `PDeserialize` calls: fields are nested pairs, `(A, (B, ()))`, so that one
//! function reads every struct.

use super::{PDeserialize, Seed};
use crate::{Journal, MemPool};
use serde::de::{Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, VariantAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// Names of fields or of variants.
type NamesOf = &'static [&'static str];

/// The index of a name; `None`: an unknown one.
pub struct Key(Option<usize>);

/// Reads a [`Key`].
struct KeyIn(NamesOf);

impl<'de> serde::de::DeserializeSeed<'de> for KeyIn {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for KeyIn {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field or of a variant")
    }

    fn visit_u64<E: Error>(self, index: u64) -> Result<Key, E> {
        Ok(Key(usize::try_from(index).ok().filter(|&index| index < self.0.len())))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Key, E> {
        Ok(Key(self.0.iter().position(|known| *known == name)))
    }

    fn visit_bytes<E: Error>(self, name: &[u8]) -> Result<Key, E> {
        Ok(Key(self.0.iter().position(|known| known.as_bytes() == name)))
    }
}

/// The fields of a struct or of a variant.
pub trait FieldList<'de, P: MemPool>: Sized {
    /// The fields that were met so far.
    type Slots: Default;

    /// Reads the value of field `index`.
    ///
    /// # Errors
    /// Those of the format; the field came before.
    fn put<A: MapAccess<'de>>(
        slots: &mut Self::Slots,
        index: usize,
        map: &mut A,
        names: NamesOf,
        j: &Journal<P>,
    ) -> Result<(), A::Error>;

    /// Reads the fields in order; `count` were read before.
    ///
    /// # Errors
    /// Those of the format; there are fewer.
    fn next<A: SeqAccess<'de>>(items: &mut A, count: usize, j: &Journal<P>) -> Result<Self, A::Error>;

    /// All fields.
    ///
    /// # Errors
    /// One is missing.
    fn done<E: Error>(slots: Self::Slots, names: NamesOf) -> Result<Self, E>;
}

impl<'de, P: MemPool> FieldList<'de, P> for () {
    type Slots = ();

    fn put<A: MapAccess<'de>>((): &mut (), _: usize, map: &mut A, _: NamesOf, _: &Journal<P>) -> Result<(), A::Error> {
        map.next_value::<IgnoredAny>().map(drop)
    }

    fn next<A: SeqAccess<'de>>(_: &mut A, _: usize, _: &Journal<P>) -> Result<(), A::Error> {
        Ok(())
    }

    fn done<E: Error>((): (), _: NamesOf) -> Result<(), E> {
        Ok(())
    }
}

impl<'de, P: MemPool, T: PDeserialize<'de, P>, R: FieldList<'de, P>> FieldList<'de, P> for (T, R) {
    type Slots = (Option<T>, R::Slots);

    fn put<A: MapAccess<'de>>(
        slots: &mut Self::Slots,
        index: usize,
        map: &mut A,
        names: NamesOf,
        j: &Journal<P>,
    ) -> Result<(), A::Error> {
        if index > 0 {
            return R::put(&mut slots.1, index - 1, map, &names[1..], j);
        }
        if slots.0.is_some() {
            return Err(A::Error::duplicate_field(names[0]));
        }
        slots.0 = Some(map.next_value_seed(Seed::new(j))?);
        Ok(())
    }

    fn next<A: SeqAccess<'de>>(items: &mut A, count: usize, j: &Journal<P>) -> Result<Self, A::Error> {
        let first = items.next_element_seed(Seed::new(j))?;
        let first = first.or_else(T::absent).ok_or_else(|| A::Error::invalid_length(count, &"more fields"))?;
        Ok((first, R::next(items, count + 1, j)?))
    }

    fn done<E: Error>(slots: Self::Slots, names: NamesOf) -> Result<Self, E> {
        let first = slots.0.or_else(T::absent).ok_or_else(|| E::missing_field(names[0]))?;
        Ok((first, R::done(slots.1, &names[1..])?))
    }
}

/// Reads fields by name or in order.
struct FieldsIn<'j, L, P: MemPool> {
    journal: &'j Journal<P>,
    names: NamesOf,
    name: &'static str,
    of: PhantomData<fn() -> L>,
}

impl<'de, L: FieldList<'de, P>, P: MemPool> Visitor<'de> for FieldsIn<'_, L, P> {
    type Value = L;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<L, A::Error> {
        let mut slots = L::Slots::default();
        while let Some(Key(index)) = map.next_key_seed(KeyIn(self.names))? {
            match index {
                Some(index) => L::put(&mut slots, index, &mut map, self.names, self.journal)?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        L::done(slots, self.names)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<L, A::Error> {
        L::next(&mut items, 0, self.journal)
    }
}

/// Reads numbered fields, in order alone.
struct TupleIn<'j, L, P: MemPool>(&'static str, &'j Journal<P>, PhantomData<fn() -> L>);

impl<'de, L: FieldList<'de, P>, P: MemPool> Visitor<'de> for TupleIn<'_, L, P> {
    type Value = L;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<L, A::Error> {
        L::next(&mut items, 0, self.1)
    }
}

fn fields<'j, L, P: MemPool>(name: &'static str, names: NamesOf, journal: &'j Journal<P>) -> FieldsIn<'j, L, P> {
    FieldsIn { journal, names, name, of: PhantomData }
}

/// A struct with named fields.
///
/// # Errors
/// Those of the format.
pub fn read_named<'de, P: MemPool, D: Deserializer<'de>, L: FieldList<'de, P>>(
    deserializer: D,
    name: &'static str,
    names: NamesOf,
    j: &Journal<P>,
) -> Result<L, D::Error> {
    deserializer.deserialize_struct(name, names, fields(name, names, j))
}

/// A struct with numbered fields, of which there are `len`.
///
/// # Errors
/// Those of the format.
pub fn read_tuple<'de, P: MemPool, D: Deserializer<'de>, L: FieldList<'de, P>>(
    deserializer: D,
    name: &'static str,
    len: usize,
    j: &Journal<P>,
) -> Result<L, D::Error> {
    deserializer.deserialize_tuple_struct(name, len, TupleIn(name, j, PhantomData))
}

/// A struct with one numbered field: as that field.
///
/// # Errors
/// Those of the format.
pub fn read_newtype<'de, P: MemPool, D: Deserializer<'de>, T: PDeserialize<'de, P>>(
    deserializer: D,
    name: &'static str,
    j: &Journal<P>,
) -> Result<T, D::Error> {
    struct One<'j, T, P: MemPool>(&'static str, &'j Journal<P>, PhantomData<fn() -> T>);

    impl<'de, T: PDeserialize<'de, P>, P: MemPool> Visitor<'de> for One<'_, T, P> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "`{}`", self.0)
        }

        fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
            T::deserialize_in(deserializer, self.1)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<T, A::Error> {
            let item = items.next_element_seed(Seed::new(self.1))?;
            item.ok_or_else(|| A::Error::invalid_length(0, &self))
        }
    }

    deserializer.deserialize_newtype_struct(name, One(name, j, PhantomData))
}

/// A struct without fields.
///
/// # Errors
/// Those of the format.
pub fn read_unit<'de, D: Deserializer<'de>>(deserializer: D, name: &'static str) -> Result<(), D::Error> {
    struct Unit(&'static str);

    impl Visitor<'_> for Unit {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "`{}`", self.0)
        }

        fn visit_unit<E: Error>(self) -> Result<(), E> {
            Ok(())
        }
    }

    deserializer.deserialize_unit_struct(name, Unit(name))
}

/// The variants of an enum.
pub trait Variants<'de, P: MemPool>: Sized {
    /// Reads the content of variant `index`.
    ///
    /// # Errors
    /// Those of the format.
    fn variant<A: VariantAccess<'de>>(index: usize, access: A, j: &Journal<P>) -> Result<Self, A::Error>;
}

/// An enum, whose variant is named before its content.
///
/// # Errors
/// Those of the format; an unknown variant.
pub fn read_enum<'de, P: MemPool, D: Deserializer<'de>, T: Variants<'de, P>>(
    deserializer: D,
    name: &'static str,
    names: NamesOf,
    j: &Journal<P>,
) -> Result<T, D::Error> {
    struct EnumIn<'j, T, P: MemPool>(&'static str, NamesOf, &'j Journal<P>, PhantomData<fn() -> T>);

    impl<'de, T: Variants<'de, P>, P: MemPool> Visitor<'de> for EnumIn<'_, T, P> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a variant of `{}`", self.0)
        }

        fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<T, A::Error> {
            let (Key(index), content) = access.variant_seed(KeyIn(self.1))?;
            let index = index.ok_or_else(|| {
                A::Error::custom(format_args!("unknown variant of `{}`; it has {}", self.0, self.1.join(", ")))
            })?;
            T::variant(index, content, self.2)
        }
    }

    deserializer.deserialize_enum(name, names, EnumIn(name, names, j, PhantomData))
}

/// A variant without content.
///
/// # Errors
/// Those of the format.
pub fn variant_unit<'de, A: VariantAccess<'de>>(access: A) -> Result<(), A::Error> {
    access.unit_variant()
}

/// A variant with one numbered field.
///
/// # Errors
/// Those of the format.
pub fn variant_newtype<'de, P: MemPool, A: VariantAccess<'de>, T: PDeserialize<'de, P>>(
    access: A,
    j: &Journal<P>,
) -> Result<T, A::Error> {
    access.newtype_variant_seed(Seed::new(j))
}

/// A variant with numbered fields.
///
/// # Errors
/// Those of the format.
pub fn variant_tuple<'de, P: MemPool, A: VariantAccess<'de>, L: FieldList<'de, P>>(
    access: A,
    len: usize,
    j: &Journal<P>,
) -> Result<L, A::Error> {
    access.tuple_variant(len, TupleIn("a variant", j, PhantomData))
}

/// A variant with named fields.
///
/// # Errors
/// Those of the format.
pub fn variant_named<'de, P: MemPool, A: VariantAccess<'de>, L: FieldList<'de, P>>(
    access: A,
    names: NamesOf,
    j: &Journal<P>,
) -> Result<L, A::Error> {
    access.struct_variant(names, fields("a variant", names, j))
}

/// A field that has `#[serde(default)]`.
pub struct Defaulted<T>(pub T);

impl<'de, P: MemPool, T: PDeserialize<'de, P> + Default> PDeserialize<'de, P> for Defaulted<T> {
    fn deserialize_in<D: Deserializer<'de>>(deserializer: D, j: &Journal<P>) -> Result<Self, D::Error> {
        T::deserialize_in(deserializer, j).map(Defaulted)
    }

    fn absent() -> Option<Defaulted<T>> {
        Some(Defaulted(T::default()))
    }
}
