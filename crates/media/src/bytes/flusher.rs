//! [`Flusher`]: flushes ranges together if they share or adjoin lines.

use crate::units::{Length, Offset};
use crate::{LINE, Media};

/// Flushes ranges line by line; a line that several neighbouring ranges share is flushed once. All
/// ranges are flushed when the value is dropped, at the latest.
pub struct Flusher<'m> {
    media: &'m Media,
    /// Whole lines not flushed yet.
    start: u64,
    end: u64,
}

impl<'m> Flusher<'m> {
    /// A flusher without ranges.
    #[inline]
    pub fn new(media: &'m Media) -> Flusher<'m> {
        Flusher { media, start: 0, end: 0 }
    }

    /// Adds the lines of `at..at+len`.
    #[inline]
    pub fn touch(&mut self, at: impl Into<Offset>, len: impl Into<Length>) {
        let (at, len) = (at.into().get(), len.into().get());
        let (start, end) = (at & !(LINE - 1), (at + len).next_multiple_of(LINE));
        if start < self.start || start > self.end {
            self.flush();
            (self.start, self.end) = (start, end);
        }
        self.end = self.end.max(end);
    }

    #[inline]
    fn flush(&self) {
        if self.start < self.end {
            self.media.flush(self.start, self.end - self.start);
        }
    }
}

impl Drop for Flusher<'_> {
    #[inline]
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn neighbours_share_their_lines() {
        let media = Media::anonymous(1 << 20, &Options::default()).unwrap();
        let lines = |ranges: &[(u64, u64)]| {
            let before = media.counts().lines;
            let mut flusher = Flusher::new(&media);
            ranges.iter().for_each(|&(at, len)| flusher.touch(at, len));
            drop(flusher);
            media.counts().lines - before
        };
        assert_eq!(lines(&[]), 0);
        assert_eq!(lines(&[(65536, 16), (65552, 16), (65568, 48), (65616, 16)]), 2);
        assert_eq!(lines(&[(65536, 64), (65600, 64)]), 2, "the next line goes with it");
        assert_eq!(lines(&[(65536, 8), (65800, 8), (65536, 8)]), 3, "apart, and back again");
        assert_eq!(lines(&[(65536, 200), (65600, 8)]), 4, "inside");
    }
}
