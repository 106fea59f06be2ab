//! # everbyte-log: what is written down before it is done
//!
//! Two logs, both on a range of a [`Media`](everbyte_media::Media):
//!
//! - [`Journal`]: a lane of old bytes. A transaction notes what it is about to overwrite, fences
//!   once, and changes things in place; a crash before its end is undone from the notes. Operations
//!   that must happen *after* the end (set this bit, clear that one) ride along and become valid
//!   with the commit word.
//! - [`ring`]: a ring of 64-bit words between one producer and one consumer, Mnemosyne's raw word
//!   log: with torn bits one fence makes an append recoverable, in the base form two.
//!
//! Both are right under the media rule, where a fence orders and only a barrier completes, and
//! where the words of a torn write survive in any subset.
//!
//! Elsewhere: what to log and when to commit (`tx`), where ranges lie (`store`, `heap`).
//!
//! Design: docs/design/logs-and-dictionaries.md

#![forbid(unsafe_code)]

mod error;
pub mod journal;
pub mod ring;

pub use error::{Error, Result};
pub use journal::{Journal, Outcome, Recovery};
pub use ring::{Consumer, Form, Full, Producer, WordLog};
