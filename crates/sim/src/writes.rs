//! The stores of a program, step by step: for profiles of writes by address and over time.

use crate::Image;
use crate::tape::{Event, Settling};
use everbyte_media::{LINE, Media};

/// One thing that a step did to its media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// So many bytes were stored at this offset.
    Store {
        /// The offset.
        at: u64,
        /// Bytes.
        len: u64,
    },
    /// So many lines were flushed.
    Flush {
        /// Lines.
        lines: u64,
    },
    /// A fence.
    Fence,
}

/// Runs `steps` steps of a program on media with the bytes of `image` and passes on what each one
/// writes. The preparation is not passed on.
///
/// ```
/// use everbyte_sim::{Image, Write, each_write};
/// let mut seen = Vec::new();
/// let step = |media: &everbyte_media::Media, step| media.store(8 * step, 1);
/// each_write(&Image::zeroed(4096), |media| media, 2, step, |step, write| seen.push((step, write)));
/// assert_eq!(seen, [(0, Write::Store { at: 0, len: 8 }), (1, Write::Store { at: 8, len: 8 })]);
/// ```
pub fn each_write<T>(
    image: &Image,
    prepare: impl FnOnce(Media) -> T,
    steps: u64,
    mut step: impl FnMut(&T, u64),
    mut each: impl FnMut(u64, Write),
) {
    let (media, tape) = image.open(Settling::Fence);
    let len = media.len();
    let prepared = prepare(media);
    for number in 0..steps {
        tape.start(len);
        step(&prepared, number);
        for event in tape.take().events {
            match event {
                Event::Store { at, len, .. } => each(number, Write::Store { at, len }),
                Event::Flush { at, len, .. } => {
                    let lines = ((at + len).next_multiple_of(LINE) - (at & !(LINE - 1))) / LINE;
                    each(number, Write::Flush { lines });
                }
                Event::Fence { .. } => each(number, Write::Fence),
                _ => {}
            }
        }
    }
}
