//! Errors of a heap. Each text names the event, the place and the way out.

use everbyte_media as media;
use everbyte_store as store;
use media::{Damage, ErrorInfo, ErrorKind, Format};

/// An error of the heap. Unless it says otherwise nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed or refused: a full span, a full disk.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The media failed: the outcome is unknown until the store is opened again.
    #[error(transparent)]
    Media(#[from] media::Error),
    /// The offset is not the start of a block of this heap.
    #[error(
        "{at:#x} is not a block of object `{object}`: {detail}; only what the heap handed out can be freed or measured"
    )]
    NotABlock {
        /// The offset given.
        at: u64,
        /// The heap's object.
        object: String,
        /// The use of that place.
        detail: &'static str,
    },
    /// The block is free: it was freed before, or never allocated.
    #[error("the block at {at:#x} of object `{object}` is not allocated: freed twice, or reserved and never committed")]
    NotAllocated {
        /// The offset given.
        at: u64,
        /// The heap's object.
        object: String,
    },
    /// Another operation is freeing the block.
    #[error("the block at {at:#x} of object `{object}` is being freed by another operation; free it once")]
    BeingFreed {
        /// The offset given.
        at: u64,
        /// The heap's object.
        object: String,
    },
    /// The cluster cannot be given back.
    #[error(
        "the cluster at {at:#x} of object `{object}` is not free: free the blocks in it first; the heap's own stay"
    )]
    NotFree {
        /// Offset of its first byte.
        at: u64,
        /// The heap's object.
        object: String,
    },
    /// No object is large enough.
    #[error("a block of {size} bytes is larger than the span of object `{object}` ({span} bytes)")]
    TooLarge {
        /// The requested bytes.
        size: u64,
        /// The heap's object.
        object: String,
        /// Bytes of its span.
        span: u64,
    },
    /// A destination that the heap's log may not store to.
    #[error(
        "{at:#x} cannot receive a block of object `{object}`: it must be an aligned word of the same object, outside the heap's own bytes"
    )]
    BadDestination {
        /// The offset given.
        at: u64,
        /// The heap's object.
        object: String,
    },
    /// A number that is not an operation on this heap.
    #[error("{op:#018x} is not an operation on the heap of object `{object}`: {detail}")]
    BadOp {
        /// The number.
        op: u64,
        /// The heap's object.
        object: String,
        /// The reason.
        detail: &'static str,
    },
    /// The object holds no heap.
    #[error("object `{object}` holds no heap; it was not created with one")]
    NoHeap {
        /// The object.
        object: String,
    },
    /// The heap was made by a newer Everbyte.
    #[error("the heap of object `{object}` {format}; use a newer Everbyte")]
    NewerFormat {
        /// The object.
        object: String,
        /// The format on media, and the one that this program reads.
        format: Format,
    },
    /// Bytes on media contradict themselves.
    #[error("{0}; `everbyte check` tells what is affected")]
    Damaged(Box<Damage>),
}

impl Error {
    /// Whether the cause is a lack of space: in the span, on the disk, or in the quota.
    pub fn is_full(&self) -> bool {
        use store::Error::{OutOfSpace, QuotaExceeded, SpanFull, UserQuotaExceeded};
        matches!(
            self,
            Error::Store(SpanFull { .. } | OutOfSpace { .. } | QuotaExceeded { .. } | UserQuotaExceeded { .. })
        )
    }
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Error {
        Error::Damaged(damage.into())
    }
}

impl ErrorInfo for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Store(error) => error.kind(),
            Error::Media(error) => error.kind(),
            Error::NotABlock { .. }
            | Error::NotAllocated { .. }
            | Error::BeingFreed { .. }
            | Error::BadDestination { .. }
            | Error::BadOp { .. } => ErrorKind::Invalid,
            Error::NotFree { .. } => ErrorKind::Busy,
            Error::TooLarge { .. } => ErrorKind::TooLarge,
            Error::NoHeap { .. } => ErrorKind::Foreign,
            Error::NewerFormat { .. } => ErrorKind::Newer,
            Error::Damaged { .. } => ErrorKind::Damaged,
        }
    }

    fn damage(&self) -> Option<Damage> {
        match self {
            Error::Store(error) => error.damage(),
            Error::Media(error) => error.damage(),
            Error::Damaged(damage) => Some(Damage::clone(damage)),
            _ => None,
        }
    }
}

/// Shorthand for this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
