//! [`PageSize`]: the size of the pages that a file asks for.

use crate::layout::{GIANT_PAGES, LARGE_PAGES, PAGE, STATE_GIANT, STATE_LARGE};

/// The size of a file's pages. All pages are multiples of 4 KiB; those of a file with larger ones
/// are taken as aligned runs, whole, while the volume has some, and else as smaller pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageSize {
    /// 4 KiB.
    #[default]
    Small,
    /// 2 MiB.
    Large,
    /// 1 GiB.
    Giant,
}

impl PageSize {
    /// All sizes.
    pub const ALL: [PageSize; 3] = [PageSize::Small, PageSize::Large, PageSize::Giant];

    /// Pages of 4 KiB.
    pub(crate) const fn pages(self) -> u64 {
        match self {
            PageSize::Small => 1,
            PageSize::Large => LARGE_PAGES,
            PageSize::Giant => GIANT_PAGES,
        }
    }

    /// Bytes.
    pub const fn bytes(self) -> u64 {
        self.pages() * PAGE
    }

    /// The size that a range of so many bytes hints at, in an empty file.
    pub(crate) fn hinted(len: u64) -> Option<PageSize> {
        PageSize::ALL.into_iter().rev().find(|size| *size != PageSize::Small && len >= size.bytes())
    }

    /// The flag of an inode's state.
    pub(crate) const fn flag(self) -> u16 {
        match self {
            PageSize::Small => 0,
            PageSize::Large => STATE_LARGE,
            PageSize::Giant => STATE_GIANT,
        }
    }

    /// The size that the flags of an inode's state say; `None` if they contradict each other.
    pub(crate) fn of_flags(flags: u16) -> Option<PageSize> {
        PageSize::ALL.into_iter().find(|size| size.flag() == flags & (STATE_LARGE | STATE_GIANT))
    }

    /// The word in the head of a volume.
    pub(crate) const fn word(self) -> u32 {
        match self {
            PageSize::Small => 0,
            size => size.bytes().trailing_zeros(),
        }
    }

    /// The size of such a word.
    pub(crate) fn of_word(word: u32) -> Option<PageSize> {
        PageSize::ALL.into_iter().find(|size| size.word() == word)
    }
}

impl std::fmt::Display for PageSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PageSize::Small => "4 KiB",
            PageSize::Large => "2 MiB",
            PageSize::Giant => "1 GiB",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_flags_and_hints_lead_to_their_sizes() {
        assert_eq!(PageSize::ALL.map(PageSize::word), [0, 21, 30]);
        for size in PageSize::ALL {
            assert_eq!(PageSize::of_word(size.word()), Some(size));
            assert_eq!(PageSize::of_flags(size.flag() | 0xff3), Some(size));
        }
        assert_eq!((PageSize::of_word(12), PageSize::of_flags(12)), (None, None));
        let hints = [(2 << 20) - 1, 2 << 20, (1 << 30) - 1, 1 << 30].map(PageSize::hinted);
        assert_eq!(hints, [None, Some(PageSize::Large), Some(PageSize::Large), Some(PageSize::Giant)]);
    }
}
