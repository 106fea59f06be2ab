//! [`Checked`]: a header on media that carries its own checksum.

use crate::sums_agree;
use zerocopy::{Immutable, IntoBytes};

/// A header whose field `checksum` is the CRC-32C of its fixed bytes, with that field as zeros.
///
/// ```
/// use everbyte_media::Checked;
/// use zerocopy::{Immutable, IntoBytes};
///
/// #[derive(Clone, Copy, IntoBytes, Immutable)]
/// #[repr(C)]
/// struct Head {
///     checksum: u32,
///     format: u32,
/// }
///
/// impl Checked for Head {
///     fn checksum(&mut self) -> &mut u32 {
///         &mut self.checksum
///     }
/// }
///
/// let head = Head { checksum: 0, format: 3 }.sealed();
/// assert!(head.checksum_agrees());
/// assert!(!Head { format: 4, ..head }.checksum_agrees());
/// ```
pub trait Checked: IntoBytes + Immutable + Copy {
    /// Bytes from the start that the checksum covers. The fields behind them change by single
    /// words.
    const COVERED: usize = size_of::<Self>();

    /// The field of the checksum.
    fn checksum(&mut self) -> &mut u32;

    /// The header with zeros in each covered field that changes by a store of its own.
    fn fixed(self) -> Self {
        self
    }

    /// The checksum of the fixed bytes.
    fn sum(&self) -> u32 {
        let mut plain = self.fixed();
        *plain.checksum() = 0;
        crc32c::crc32c(&plain.as_bytes()[..Self::COVERED])
    }

    /// The header with its checksum set.
    fn sealed(mut self) -> Self {
        *self.checksum() = self.sum();
        self
    }

    /// Whether the header's checksum is that of its bytes: the header is neither torn nor rotten.
    #[track_caller]
    fn checksum_agrees(&self) -> bool {
        let mut found = *self;
        sums_agree(*found.checksum(), self.sum())
    }
}
