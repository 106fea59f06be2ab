//! The tag of an `Option`: its place, which the compiler chooses, determined at compile time.
//!
//! `None` differs from every `Some` in a tag of its own, before the value, or in a number inside
//! the value that its type never holds: 0 in a pointer, 2 in a `bool`. The compiler chooses; here
//! its choice is predicted from the types, and the predicted bytes of a `None` are read while the
//! program is compiled, where reading an uninitialised byte is an error. So a description agrees
//! with this very compiler, or the program does not compile.
//!
//! Invariants
//!   NICHE-1  The bytes that a description names distinguish `None` from every `Some`. A program
//!            whose compiler chooses other bytes does not compile.

use std::mem::{ManuallyDrop, MaybeUninit};

/// The number in a type of which most values are never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Niche {
    /// All bits mean something, or the compiler must not look.
    None,
    /// A number at an offset, its bytes, and how many values it never takes.
    At(usize, usize, u128),
    /// There may be one: an `Option` as large as its value does not compile.
    Unknown,
}

impl Niche {
    /// Of a pointer.
    pub(crate) const WORD: Niche = Niche::At(0, 8, 1);

    /// Of a tuple with these fields, each with its offset: the compiler takes the one with most
    /// free values, the first of several.
    pub const fn of_tuple(fields: &[(usize, Niche)]) -> Niche {
        Niche::ends(fields).0
    }

    /// Of a struct of so many bytes with these fields, each with its offset. Of several niches with
    /// as many free values the compiler takes the first, unless the last is nearer to the end than
    /// the first to the beginning.
    pub const fn of_struct(size: usize, fields: &[(usize, Niche)]) -> Niche {
        match Niche::ends(fields) {
            (Niche::At(first, ..), last @ Niche::At(at, bytes, free)) if first > size - at - width(bytes, free) => last,
            (first, _) => first,
        }
    }

    /// The first and the last of the niches with most free values.
    const fn ends(fields: &[(usize, Niche)]) -> (Niche, Niche) {
        let (mut first, mut last, mut most, mut index) = ((Niche::None, 0), (Niche::None, 0), 0, 0);
        while index < fields.len() {
            match fields[index].1 {
                Niche::Unknown => return (Niche::Unknown, Niche::Unknown),
                Niche::At(inside, bytes, free) if free >= most => {
                    let at = fields[index].0 + inside;
                    let niche = (Niche::At(at, bytes, free), at);
                    if free > most || at < first.1 {
                        first = niche;
                    }
                    if free > most || at > last.1 {
                        last = niche;
                    }
                    most = free;
                }
                Niche::None | Niche::At(..) => {}
            }
            index += 1;
        }
        (first.0, last.0)
    }

    /// Of an enum whose tag comes first and has so many bytes, with these values.
    pub const fn of_tag(bytes: usize, tags: &[i128]) -> Niche {
        let (mut least, mut most, mut index) = (i128::MAX, i128::MIN, 0);
        while index < tags.len() {
            least = if tags[index] < least { tags[index] } else { least };
            most = if tags[index] > most { tags[index] } else { most };
            index += 1;
        }
        let all = 1u128 << (8 * bytes);
        match most - least + 1 {
            used if tags.is_empty() || used as u128 >= all => Niche::None,
            used => Niche::At(0, bytes, all - used as u128),
        }
    }
}

/// How `Option<T>` says `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// By a 0 in its first byte, and `Some` by a 1; where the value lies.
    Before { value: usize },
    /// By this number, at an offset and in so many bytes of the value.
    Inside { at: usize, bytes: usize, none: u128 },
}

impl Tag {
    /// The tag of an `Option` of a `T`, which has the niches `niche`.
    ///
    /// A type that does not say where its niche lies has no `Option` of its own size:
    ///
    /// ```compile_fail,E0080
    /// use everbyte_object::{MemPool, PRefCell, PSafe, Pool, Schema, Tracer, TypeName, pool};
    ///
    /// #[repr(C)]
    /// struct Word(std::num::NonZeroU64);
    ///
    /// // SAFETY: plain data.
    /// unsafe impl<P: MemPool> PSafe<P> for Word {
    ///     type At<'x> = Word;
    ///     type Outside = Word;
    ///     const CELLS: u8 = 0;
    ///     fn describe(_: &mut Schema) -> TypeName {
    ///         "Word".into()
    ///     }
    ///     unsafe fn trace(_: *const Word, _: &mut Tracer<'_>) {}
    /// }
    ///
    /// pool!(P1);
    /// let open = P1::open::<PRefCell<Option<Word>, P1>>;
    /// # let _: fn(&everbyte_store::Store, &str) -> _ = open;
    /// ```
    pub(crate) const fn of<T>(niche: Niche) -> Tag {
        if size_of::<Option<T>>() > size_of::<T>() {
            return Tag::Before { value: value_behind_tag::<T>() };
        }
        match niche {
            Niche::At(at, bytes, _) => Tag::Inside { at, bytes, none: none_of::<T>(at, bytes) },
            Niche::None | Niche::Unknown => {
                panic!(
                    "NICHE-1: a description cannot say how this `Option` tells `None`: derive `PSafe` for what it holds"
                )
            }
        }
    }

    /// The niches left for an `Option` around this one, whose value has the niches `of_value`.
    pub(crate) const fn niche(self, of_value: Niche) -> Niche {
        match (self, of_value) {
            // The tag fills the bytes before the value; its lowest one tells all of its values.
            (Tag::Before { value: 16 }, _) => Niche::At(0, 1, u128::MAX - 1),
            (Tag::Before { value }, _) if value > 0 && value < 16 => Niche::At(0, 1, (1 << (8 * value)) - 2),
            (Tag::Before { .. }, _) => Niche::Unknown,
            (Tag::Inside { .. }, Niche::At(at, bytes, free)) if free > 1 => Niche::At(at, bytes, free - 1),
            (Tag::Inside { .. }, _) => Niche::None,
        }
    }
}

/// The offset of the value in an `Option` with a tag of its own.
const fn value_behind_tag<T>() -> usize {
    let none = ManuallyDrop::new(None::<T>);
    let at = (&raw const none).cast::<u8>();
    // SAFETY: `ManuallyDrop` is its value, which is alive.
    let value = unsafe { &*(&raw const none).cast::<Option<T>>() }.as_slice().as_ptr().cast::<u8>();
    // SAFETY: both lie in `none`; while a constant is made, that is checked.
    let offset = unsafe { value.offset_from(at) } as usize;
    // laid out as if any bits were a value, so it has a tag too
    let some = Some(MaybeUninit::<T>::uninit());
    assert!(size_of::<Option<MaybeUninit<T>>>() == size_of::<Option<T>>(), "NICHE-1");
    // SAFETY: a byte of `none`; while a constant is made, it is checked that it is set.
    assert!(unsafe { number(at, 1) } == 0, "NICHE-1: the tag comes first");
    // SAFETY: likewise of `some`.
    assert!(unsafe { number((&raw const some).cast(), 1) } == 1, "NICHE-1: the tag comes first");
    offset
}

/// The bytes of a number with so many free values, of which `bytes` tell `None`.
const fn width(bytes: usize, free: u128) -> usize {
    let mut width = bytes;
    while width < 16 && free >> (8 * width) != 0 {
        width *= 2;
    }
    width
}

/// The number that `None` has there.
const fn none_of<T>(at: usize, bytes: usize) -> u128 {
    let none = ManuallyDrop::new(None::<T>);
    // SAFETY: inside `none`, foretold; while a constant is made, it is checked that the bytes are
    // set.
    unsafe { number((&raw const none).cast::<u8>().wrapping_add(at), bytes) }
}

/// # Safety
/// `bytes` set bytes, 16 at most, lie at `at`.
pub(crate) const unsafe fn number(at: *const u8, bytes: usize) -> u128 {
    let (mut number, mut index) = (0, 0);
    while index < bytes {
        // SAFETY: the caller's.
        let byte = unsafe { at.wrapping_add(index).read() };
        number |= (byte as u128) << (8 * index);
        index += 1;
    }
    number
}
