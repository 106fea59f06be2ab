//! `Serialize` of everything that lies in pools.

use crate::{
    In, MemPool, Out, PBTreeMap, PBTreeSet, PBinaryHeap, PCell, PHashMap, PHashSet, POnceCell, PRefCell, PSafe,
    PString, PVec, PVecDeque, Parc, Pbox, PoolTag, Prc, VCell,
};
use serde::ser::{Error, Serialize, Serializer};

/// Pool types have no content. Serde's derive asks this of every parameter that fields mention.
impl<G: PoolTag> Serialize for Out<G> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

/// As outside of a transaction.
impl<G: PoolTag> Serialize for In<'_, G> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

macro_rules! pointers {
    ($($Pointer:ident),*) => { $(
        impl<T: PSafe<P> + Serialize, P: MemPool> Serialize for $Pointer<T, P> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                (**self).serialize(serializer)
            }
        }
    )* };
}

macro_rules! sequences {
    ($($Sequence:ident),*) => { $(
        impl<T: PSafe<P> + Serialize, P: MemPool> Serialize for $Sequence<T, P> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.iter())
            }
        }
    )* };
}

macro_rules! maps {
    ($($Map:ident),*) => { $(
        impl<K: PSafe<P> + Serialize, V: PSafe<P> + Serialize, P: MemPool> Serialize for $Map<K, V, P> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.iter())
            }
        }
    )* };
}

pointers!(Pbox, Prc, Parc);
sequences!(PVec, PVecDeque, PBinaryHeap, PHashSet, PBTreeSet);
maps!(PHashMap, PBTreeMap);

impl<P: MemPool> Serialize for PString<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<T: PSafe<P> + Copy + Serialize, P: MemPool> Serialize for PCell<T, P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

/// A cell that is borrowed mutably is an error.
impl<T: PSafe<P> + Serialize, P: MemPool> Serialize for PRefCell<T, P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.try_borrow() {
            Some(value) => value.serialize(serializer),
            None => Err(S::Error::custom("a `PRefCell` is borrowed mutably: end the borrow first")),
        }
    }
}

impl<T: PSafe<P> + Serialize, P: MemPool> Serialize for POnceCell<T, P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

impl<T: Copy, P: MemPool> Serialize for VCell<T, P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}
