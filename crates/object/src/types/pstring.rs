//! [`PString`]: text in a block of the pool.

use crate::description::schema::{Schema, TypeName};
use crate::types::hints::WriteWithoutJournal;
use crate::{Journal, MemPool, PSafe, PVec, Tracer};
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

/// As `String`: dereferences to `str`; methods that change it take a journal.
#[repr(transparent)]
pub struct PString<P: MemPool> {
    bytes: PVec<u8, P>,
}

impl<P: MemPool> PString<P> {
    /// Empty text; allocates nothing.
    pub const fn new() -> PString<P> {
        PString { bytes: PVec::new() }
    }

    /// A copy of `text`, as [`PString::from_str`].
    pub fn from(text: impl AsRef<str>, j: &Journal<P>) -> PString<P> {
        PString::from_str(text.as_ref(), j)
    }

    /// A copy of `text` in the pool.
    pub fn from_str(text: &str, j: &Journal<P>) -> PString<P> {
        let mut string = PString::new();
        if !text.is_empty() {
            string.push_str(text, j);
        }
        string
    }

    /// Adds `text` at the end.
    pub fn push_str(&mut self, text: &str, j: &Journal<P>) {
        self.bytes.add_all(text.as_bytes(), j);
    }

    /// Adds a character at the end.
    pub fn push(&mut self, character: char, j: &Journal<P>) {
        self.push_str(character.encode_utf8(&mut [0; 4]), j);
    }

    /// Takes the last character off.
    pub fn pop(&mut self, j: &Journal<P>) -> Option<char> {
        let last = self.chars().next_back()?;
        self.bytes.truncate(self.len() - last.len_utf8(), j);
        Some(last)
    }

    /// Shortens to `len` bytes.
    ///
    /// # Panics
    /// If that is inside a character.
    #[track_caller]
    pub fn truncate(&mut self, len: usize, j: &Journal<P>) {
        assert!(len >= self.len() || self.is_char_boundary(len), "{len} lies inside a character");
        self.bytes.truncate(len, j);
    }

    /// Adds what `write!` is given: `write!(text.writer(j), "{number}")`.
    ///
    /// ```
    /// # use everbyte_media::{Media, Options};
    /// # use everbyte_store::{FormatOptions, Store};
    /// use everbyte_object::{PRefCell, PString, Pool, pool};
    /// use std::fmt::Write;
    /// pool!(P);
    /// # let store = Store::format(Media::anonymous(16 << 20, &Options::default())?, &FormatOptions::default())?;
    /// let text = P::create::<PRefCell<PString<P>, P>>(&store, "text", |_| PRefCell::default())?;
    /// text.tx(|j, text| write!(text.borrow_mut(j).writer(j), "{} of {}", 3, 4))??;
    /// assert_eq!(text.borrow().as_str(), "3 of 4");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn writer<'s>(&'s mut self, j: &'s Journal<P>) -> impl fmt::Write {
        Writer { text: self, j }
    }

    /// Refuses `write!` without a journal, with a message: see [`PString::writer`].
    #[doc(hidden)]
    pub fn write_fmt(&mut self, _: fmt::Arguments<'_>) -> fmt::Result
    where
        PString<P>: WriteWithoutJournal,
    {
        unreachable!("nothing implements `WriteWithoutJournal`")
    }

    /// Makes it empty; the block stays.
    pub fn clear(&mut self, j: &Journal<P>) {
        self.bytes.clear(j);
    }

    /// The text.
    #[inline(always)]
    pub fn as_str(&self) -> &str {
        // SAFETY: only whole characters are ever put in or taken off, also if the engine stops
        // the body in between (`add_all`).
        unsafe { std::str::from_utf8_unchecked(&self.bytes) }
    }

    /// A copy of the text in another block.
    pub fn pclone(&self, j: &Journal<P>) -> PString<P> {
        PString::from_str(self, j)
    }

    /// Bytes that fit without a larger block.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

/// See [`PString::writer`].
struct Writer<'s, P: MemPool> {
    text: &'s mut PString<P>,
    j: &'s Journal<P>,
}

impl<P: MemPool> fmt::Write for Writer<'_, P> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.push_str(text, self.j);
        Ok(())
    }
}

impl<P: MemPool> Deref for PString<P> {
    type Target = str;

    #[inline(always)]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl<P: MemPool> Borrow<str> for PString<P> {
    fn borrow(&self) -> &str {
        self
    }
}

impl<P: MemPool> AsRef<str> for PString<P> {
    fn as_ref(&self) -> &str {
        self
    }
}

impl<P: MemPool> Default for PString<P> {
    fn default() -> Self {
        PString::new()
    }
}

// SAFETY: as its bytes.
unsafe impl<P: MemPool> PSafe<P> for PString<P> {
    type At<'x> = PString<P::At<'x>>;
    type Outside = PString<P::Outside>;
    const CELLS: u8 = 0;
    const NICHE: crate::Niche = crate::Niche::None;

    fn describe(_: &mut Schema) -> TypeName {
        "PString".into()
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        // SAFETY: the caller's: any bits are three numbers.
        let words = unsafe { this.cast::<[u64; 3]>().read() };
        tracer.text::<P>(this.cast(), words);
    }
}

impl<P: MemPool> fmt::Debug for PString<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl<P: MemPool> fmt::Display for PString<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl<P: MemPool> PartialEq for PString<P> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl<P: MemPool> PartialEq<str> for PString<P> {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl<P: MemPool> PartialEq<&str> for PString<P> {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl<P: MemPool> PartialEq<String> for PString<P> {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl<P: MemPool> PartialEq<PString<P>> for str {
    fn eq(&self, other: &PString<P>) -> bool {
        self == other.as_str()
    }
}

impl<P: MemPool> PartialEq<PString<P>> for &str {
    fn eq(&self, other: &PString<P>) -> bool {
        *self == other.as_str()
    }
}

impl<P: MemPool> PartialEq<PString<P>> for String {
    fn eq(&self, other: &PString<P>) -> bool {
        self == other.as_str()
    }
}

impl<P: MemPool> Eq for PString<P> {}

impl<P: MemPool> PartialOrd for PString<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P: MemPool> Ord for PString<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl<P: MemPool> std::hash::Hash for PString<P> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}
