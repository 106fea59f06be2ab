//! [`PDeserialize`] of plain data and of the types of this crate.
//!
//! Containers grow as their elements come: a length that the input claims is not believed.

use super::{PDeserialize, Seed};
use crate::{
    Journal, MemPool, PBTreeMap, PBTreeSet, PBinaryHeap, PCell, PHashMap, PHashSet, POnceCell, PRefCell, PSafe,
    PString, PVec, PVecDeque, Parc, Pbox, Prc, ShortString, Storable, Stored, VCell,
};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::num::*;
use std::time::{Duration, SystemTime};

macro_rules! plain {
    ($($t:ty),* $(,)?) => { $(
        impl<'de, P: MemPool> PDeserialize<'de, P> for $t {
            fn deserialize_in<D: Deserializer<'de>>(deserializer: D, _: &Journal<P>) -> Result<$t, D::Error> {
                <$t>::deserialize(deserializer)
            }
        }
    )* };
}

plain!(
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    f32,
    f64,
    bool,
    char,
    (),
    NonZeroU8,
    NonZeroU16,
    NonZeroU32,
    NonZeroU64,
    NonZeroU128,
    NonZeroUsize,
    NonZeroI8,
    NonZeroI16,
    NonZeroI32,
    NonZeroI64,
    NonZeroI128,
    NonZeroIsize,
    Duration,
    SystemTime,
    IpAddr,
    Ipv4Addr,
    Ipv6Addr,
    SocketAddrV4,
);

#[cfg(feature = "uuid")]
plain!(uuid::Uuid);

impl<'de, P: MemPool, const N: usize> PDeserialize<'de, P> for ShortString<N> {
    fn deserialize_in<D: Deserializer<'de>>(deserializer: D, _: &Journal<P>) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl<'de, T: Storable + Deserialize<'de>, P: MemPool> PDeserialize<'de, P> for Stored<T> {
    fn deserialize_in<D: Deserializer<'de>>(deserializer: D, _: &Journal<P>) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Stored::new)
    }
}

macro_rules! wrapped {
    ($($Wrapper:path, $T:ident;)*) => { $(
        impl<'de, P: MemPool, $T: PSafe<P> + PDeserialize<'de, P>> PDeserialize<'de, P> for $Wrapper {
            fn deserialize_in<D: Deserializer<'de>>(deserializer: D, j: &Journal<P>) -> Result<Self, D::Error> {
                // as serde writes it: the value alone
                $T::deserialize_in(deserializer, j).map(Self)
            }
        }
    )* };
}

wrapped!(Wrapping<T>, T; Saturating<T>, T; std::cmp::Reverse<T>, T;);

macro_rules! ranges {
    ($($Range:ident),*) => { $(
        /// Of plain data.
        impl<'de, P: MemPool, T: PSafe<P> + Deserialize<'de>> PDeserialize<'de, P> for std::ops::$Range<T> {
            fn deserialize_in<D: Deserializer<'de>>(deserializer: D, _: &Journal<P>) -> Result<Self, D::Error> {
                Self::deserialize(deserializer)
            }
        }
    )* };
}

ranges!(Range, RangeFrom, RangeTo);

/// A visitor that carries the journal.
struct With<'j, T, P: MemPool> {
    journal: &'j Journal<P>,
    of: PhantomData<fn() -> T>,
}

impl<'j, T, P: MemPool> With<'j, T, P> {
    fn new(journal: &'j Journal<P>) -> With<'j, T, P> {
        With { journal, of: PhantomData }
    }

    fn seed<V>(&self) -> Seed<'j, V, P> {
        Seed::new(self.journal)
    }
}

/// `Option<T>`.
struct Maybe<'j, T, P: MemPool>(With<'j, T, P>);

impl<'de, T: PSafe<P> + PDeserialize<'de, P>, P: MemPool> Visitor<'de> for Maybe<'_, T, P> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an option")
    }

    fn visit_none<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        T::deserialize_in(deserializer, self.0.journal).map(Some)
    }
}

impl<'de, T: PSafe<P> + PDeserialize<'de, P>, P: MemPool> PDeserialize<'de, P> for Option<T> {
    fn deserialize_in<D: Deserializer<'de>>(deserializer: D, j: &Journal<P>) -> Result<Self, D::Error> {
        deserializer.deserialize_option(Maybe(With::<T, P>::new(j)))
    }

    fn absent() -> Option<Option<T>> {
        Some(None)
    }
}

impl<'de, T: PSafe<P> + PDeserialize<'de, P>, P: MemPool> PDeserialize<'de, P> for POnceCell<T, P> {
    fn deserialize_in<D: Deserializer<'de>>(deserializer: D, j: &Journal<P>) -> Result<Self, D::Error> {
        let cell = POnceCell::new();
        if let Some(value) = Option::<T>::deserialize_in(deserializer, j)? {
            assert!(cell.set(value, j).is_ok(), "a new cell is not set");
        }
        Ok(cell)
    }

    fn absent() -> Option<POnceCell<T, P>> {
        Some(POnceCell::new())
    }
}

macro_rules! boxed {
    ($($Pointer:ident),*) => { $(
        impl<'de, T: PSafe<P> + PDeserialize<'de, P>, P: MemPool> PDeserialize<'de, P> for $Pointer<T, P> {
            fn deserialize_in<D: Deserializer<'de>>(deserializer: D, j: &Journal<P>) -> Result<Self, D::Error> {
                Ok($Pointer::new(T::deserialize_in(deserializer, j)?, j))
            }
        }
    )* };
}

boxed!(Pbox, Prc, Parc);

macro_rules! cells {
    ($($Cell:ident),*) => { $(
        impl<'de, T: PSafe<P> + PDeserialize<'de, P>, P: MemPool> PDeserialize<'de, P> for $Cell<T, P> {
            fn deserialize_in<D: Deserializer<'de>>(deserializer: D, j: &Journal<P>) -> Result<Self, D::Error> {
                T::deserialize_in(deserializer, j).map($Cell::new)
            }

            fn absent() -> Option<Self> {
                T::absent().map($Cell::new)
            }
        }
    )* };
}

cells!(PCell, PRefCell);

/// A unit: what the cell holds does not persist.
impl<'de, T: Copy + 'static, P: MemPool> PDeserialize<'de, P> for VCell<T, P> {
    fn deserialize_in<D: Deserializer<'de>>(deserializer: D, _: &Journal<P>) -> Result<Self, D::Error> {
        <()>::deserialize(deserializer).map(|()| VCell::new())
    }

    fn absent() -> Option<Self> {
        Some(VCell::new())
    }
}

impl<'de, T: 'static, P: MemPool> PDeserialize<'de, P> for PhantomData<T> {
    fn deserialize_in<D: Deserializer<'de>>(deserializer: D, _: &Journal<P>) -> Result<Self, D::Error> {
        PhantomData::deserialize(deserializer)
    }

    fn absent() -> Option<Self> {
        Some(PhantomData)
    }
}

impl<'de, P: MemPool> PDeserialize<'de, P> for PString<P> {
    fn deserialize_in<D: Deserializer<'de>>(deserializer: D, j: &Journal<P>) -> Result<Self, D::Error> {
        struct Text<'j, P: MemPool>(&'j Journal<P>);

        impl<P: MemPool> Visitor<'_> for Text<'_, P> {
            type Value = PString<P>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<PString<P>, E> {
                Ok(PString::from_str(text, self.0))
            }
        }

        deserializer.deserialize_str(Text(j))
    }
}

macro_rules! sequences {
    ($($Sequence:ident: [$($bound:path),*], $add:ident;)*) => { $(
        impl<'de, T: PSafe<P> + PDeserialize<'de, P> $(+ $bound)*, P: MemPool> Visitor<'de> for With<'_, $Sequence<T, P>, P> {
            type Value = $Sequence<T, P>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut all = $Sequence::<T, P>::default();
                while let Some(item) = items.next_element_seed(self.seed::<T>())? {
                    all.$add(item, self.journal);
                }
                Ok(all)
            }
        }

        impl<'de, T: PSafe<P> + PDeserialize<'de, P> $(+ $bound)*, P: MemPool> PDeserialize<'de, P> for $Sequence<T, P> {
            fn deserialize_in<D: Deserializer<'de>>(deserializer: D, j: &Journal<P>) -> Result<Self, D::Error> {
                deserializer.deserialize_seq(With::<Self, P>::new(j))
            }
        }
    )* };
}

sequences! {
    PVec: [], push;
    PVecDeque: [], push_back;
    PBinaryHeap: [Ord], push;
    PHashSet: [Hash, Eq], insert;
    PBTreeSet: [Ord], insert;
}

macro_rules! maps {
    ($($Map:ident: [$($bound:path),*];)*) => { $(
        impl<'de, K, V, P: MemPool> Visitor<'de> for With<'_, $Map<K, V, P>, P>
        where
            K: PSafe<P> + PDeserialize<'de, P> $(+ $bound)*,
            V: PSafe<P> + PDeserialize<'de, P>,
        {
            type Value = $Map<K, V, P>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut all = $Map::<K, V, P>::default();
                while let Some((key, value)) = items.next_entry_seed(self.seed::<K>(), self.seed::<V>())? {
                    all.insert(key, value, self.journal); // of a key that comes twice the last value
                }
                Ok(all)
            }
        }

        impl<'de, K, V, P: MemPool> PDeserialize<'de, P> for $Map<K, V, P>
        where
            K: PSafe<P> + PDeserialize<'de, P> $(+ $bound)*,
            V: PSafe<P> + PDeserialize<'de, P>,
        {
            fn deserialize_in<D: Deserializer<'de>>(deserializer: D, j: &Journal<P>) -> Result<Self, D::Error> {
                deserializer.deserialize_map(With::<Self, P>::new(j))
            }
        }
    )* };
}

maps! {
    PHashMap: [Hash, Eq];
    PBTreeMap: [Ord];
}

/// An array: exactly as many elements.
impl<'de, T: PSafe<P> + PDeserialize<'de, P>, P: MemPool, const N: usize> PDeserialize<'de, P> for [T; N] {
    fn deserialize_in<D: Deserializer<'de>>(deserializer: D, j: &Journal<P>) -> Result<Self, D::Error> {
        struct Array<'j, T, P: MemPool, const N: usize>(With<'j, T, P>);

        impl<'de, T: PSafe<P> + PDeserialize<'de, P>, P: MemPool, const N: usize> Visitor<'de> for Array<'_, T, P, N> {
            type Value = [T; N];

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an array of {N}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<[T; N], A::Error> {
                let mut all = Vec::new();
                while all.len() < N {
                    match items.next_element_seed(self.0.seed::<T>())? {
                        Some(item) => all.push(item),
                        None => return Err(A::Error::invalid_length(all.len(), &self)),
                    }
                }
                Ok(all.try_into().ok().expect("as many were read"))
            }
        }

        deserializer.deserialize_tuple(N, Array::<T, P, N>(With::new(j)))
    }
}

macro_rules! tuples {
    ($($len:literal: $($T:ident)*;)*) => { $(
        impl<'de, P: MemPool, $($T: PSafe<P> + PDeserialize<'de, P>),*> PDeserialize<'de, P> for ($($T,)*) {
            fn deserialize_in<D: Deserializer<'de>>(deserializer: D, j: &Journal<P>) -> Result<Self, D::Error> {
                struct Tuple<'j, T, P: MemPool>(With<'j, T, P>);

                impl<'de, P: MemPool, $($T: PSafe<P> + PDeserialize<'de, P>),*> Visitor<'de> for Tuple<'_, ($($T,)*), P> {
                    type Value = ($($T,)*);

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "a tuple of {}", $len)
                    }

                    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                        let mut count = 0;
                        Ok(($({
                            let item = items.next_element_seed(self.0.seed::<$T>())?;
                            let item = item.ok_or_else(|| A::Error::invalid_length(count, &self))?;
                            count += 1;
                            let _ = count;
                            item
                        },)*))
                    }
                }

                deserializer.deserialize_tuple($len, Tuple(With::<Self, P>::new(j)))
            }
        }
    )* };
}

tuples! {
    1: A0;
    2: A0 A1;
    3: A0 A1 A2;
    4: A0 A1 A2 A3;
    5: A0 A1 A2 A3 A4;
    6: A0 A1 A2 A3 A4 A5;
    7: A0 A1 A2 A3 A4 A5 A6;
    8: A0 A1 A2 A3 A4 A5 A6 A7;
    9: A0 A1 A2 A3 A4 A5 A6 A7 A8;
    10: A0 A1 A2 A3 A4 A5 A6 A7 A8 A9;
    11: A0 A1 A2 A3 A4 A5 A6 A7 A8 A9 A10;
    12: A0 A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11;
}
