//! [`Image`]: the first content of the media a program runs on, settled before anything is
//! recorded.

use crate::tape::{Settling, Tape};
use everbyte_media::Media;
use std::sync::Arc;

/// Bytes of media at rest: where a recorded program starts, or what a crash left.
#[derive(Clone)]
pub struct Image {
    max: u64,
    bytes: Arc<Vec<u8>>,
}

impl Image {
    /// `len` zero bytes, all backed, without capacity to grow. `len` is rounded up to whole pages.
    pub fn zeroed(len: u64) -> Image {
        let len = len.next_multiple_of(4096);
        Image { max: len, bytes: Arc::new(vec![0; len as usize]) }
    }

    /// The same bytes under a larger declared maximum: the media can grow.
    pub fn with_max(self, max: u64) -> Image {
        Image { max: max.next_multiple_of(4096).max(self.max), ..self }
    }

    /// The image that `format` leaves on zeroed media; all of it counts as settled, nothing of it
    /// is explored.
    pub fn build(len: u64, format: impl FnOnce(Media)) -> Image {
        Image::zeroed(len).then(format)
    }

    /// The image that `change` leaves on media with this image.
    pub fn then(self, change: impl FnOnce(Media)) -> Image {
        let (media, _tape) = self.open(Settling::Barrier);
        change(media.clone());
        Image::of(&media)
    }

    /// The bytes that `media` shows now.
    pub fn of(media: &Media) -> Image {
        let mut bytes = vec![0; media.len() as usize]; // zeros that are never stored take no memory
        for (page, into) in bytes.chunks_mut(4096).enumerate() {
            let found = media.read_vec(page as u64 * 4096, into.len());
            if found.iter().any(|&byte| byte != 0) {
                into.copy_from_slice(&found);
            }
        }
        Image { max: media.max(), bytes: Arc::new(bytes) }
    }

    /// Media with these bytes, of which nothing is recorded. For looking at an image in a test.
    pub fn media(&self) -> Media {
        self.open(Settling::Barrier).0
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes backed.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether nothing is backed.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Media with these bytes and the tape it tells, which is not running yet.
    pub(crate) fn open(&self, settling: Settling) -> (Media, Tape) {
        let tape = Tape::new(&self.bytes, settling);
        let media = Media::recorded(self.max, &self.bytes, tape.recorder()).expect("memory for an image");
        (media, tape)
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({} of {} bytes)", self.len(), self.max)
    }
}
