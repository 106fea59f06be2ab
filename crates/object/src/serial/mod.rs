//! Typed objects from and to the formats of serde (feature `serde`).
//!
//! Writing: every type here implements `serde::Serialize`, and types of programs derive it with
//! serde's own derive. Reading makes persistent values, which needs a journal, so it has a trait of
//! its own, [`PDeserialize`], with a derive of that name.
//!
//! | type | form |
//! |---|---|
//! | `Pbox`, `Prc`, `Parc`, `PCell`, `PRefCell` | as the value; a value that several `Prc` share is written at each, and read back as several |
//! | `POnceCell` | as an `Option` |
//! | `PVec`, `PVecDeque`, `PBinaryHeap`, sets | a sequence |
//! | maps | a map |
//! | `PString` | a string |
//! | `VCell`, `PhantomData` | nothing (a unit): what they hold does not persist |
//! | `PMutex`, `PRwLock`, weak pointers | none: serialise what a guard or `upgrade` gives |

mod fields;
mod read;
mod write;

pub use fields::{Defaulted, FieldList, Key, Variants, read_enum, read_named, read_newtype, read_tuple, read_unit};
pub use fields::{variant_named, variant_newtype, variant_tuple, variant_unit};

use crate::{Journal, MemPool};
use serde::de::{DeserializeSeed, Deserializer};
use std::marker::PhantomData;

/// A persistent value that can be read from a format of serde, inside a transaction.
///
/// ```
/// use everbyte_object::{Journal, MemPool, PDeserialize, PSafe, PString, PVec, Pool, pool};
/// use serde::Serialize;
/// pool!(P1);
///
/// #[derive(PSafe, PDeserialize, Serialize)]
/// #[repr(C)]
/// struct Album<P: MemPool> {
///     title: PString<P>,
///     years: PVec<u16, P>,
/// }
/// # use everbyte_media::{Media, Options};
/// # use everbyte_store::{FormatOptions, Store};
/// # let media = Media::anonymous(16 << 20, &Options::default())?;
/// # let store = Store::format(media, &FormatOptions::default())?;
///
/// let text = r#"[{"title":"Aqualung","years":[1971,1996]}]"#;
/// let albums = P1::create::<PVec<Album<P1>, P1>>(&store, "albums", |j| {
///     j.deserialize(&mut serde_json::Deserializer::from_str(text)).expect("a list of albums")
/// })?;
/// assert_eq!(albums[0].years[1], 1996);
/// assert_eq!(serde_json::to_string(&*albums)?, text);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `#[derive(PDeserialize)]` reads what serde's `#[derive(Serialize)]` writes, and honours
/// `#[serde(rename = "..")]`, `#[serde(default)]` and `#[serde(skip)]` of fields and `rename` of
/// variants; other attributes of serde are an error of the compiler. After an error the parts that
/// were read are freed, and the transaction can go on.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read in a transaction",
    note = "add `#[derive(PDeserialize)]` to a type of your own; locks and weak pointers are not read"
)]
pub trait PDeserialize<'de, P: MemPool>: Sized {
    /// Reads a value; blocks of the pool are allocated with `j`.
    ///
    /// # Errors
    /// Those of the format, and values that the type does not have.
    fn deserialize_in<D: Deserializer<'de>>(deserializer: D, j: &Journal<P>) -> Result<Self, D::Error>;

    /// The value of a field that is missing in the input; `None`: that is an error.
    fn absent() -> Option<Self> {
        None
    }
}

impl<P: MemPool> Journal<P> {
    /// Reads a persistent value from a format of serde: see [`PDeserialize`].
    ///
    /// # Errors
    /// Those of the format; what was read so far is freed.
    pub fn deserialize<'de, T: PDeserialize<'de, P>, D: Deserializer<'de>>(
        &self,
        deserializer: D,
    ) -> Result<T, D::Error> {
        T::deserialize_in(deserializer, self)
    }
}

/// Carries the journal to the parts of a value.
pub struct Seed<'j, T, P: MemPool> {
    journal: &'j Journal<P>,
    of: PhantomData<fn() -> T>,
}

impl<'j, T, P: MemPool> Seed<'j, T, P> {
    /// The seed of one value.
    pub fn new(journal: &'j Journal<P>) -> Seed<'j, T, P> {
        Seed { journal, of: PhantomData }
    }
}

impl<'de, T: PDeserialize<'de, P>, P: MemPool> DeserializeSeed<'de> for Seed<'_, T, P> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::deserialize_in(deserializer, self.journal)
    }
}
