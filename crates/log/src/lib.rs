//! # everbyte-log: records that are written before the change they describe
//!
//! Two logs, both on a range of a [`Media`](everbyte_media::Media):
//!
//! - [`Journal`]: a lane of old bytes. A transaction logs the bytes that it is about to overwrite,
//!   fences
//!   once, and changes them in place; after a crash before its end recovery restores them.
//!   Operations
//!   that must happen *after* the end (set this bit, clear that one) are logged too and become
//!   valid
//!   with the commit word.
//! - [`ring`]: a ring of 64-bit words between one producer and one consumer, Mnemosyne's raw word
//!   log: with torn bits one fence makes an append recoverable, in the base form two.
//!
//! Both are right under the media rule: a fence orders, only a barrier completes, and the words of
//! a torn write survive in any subset.
//!
//! Elsewhere: the bytes to log and the time to commit (`tx`), the places of ranges (`store`,
//! `heap`).

#![forbid(unsafe_code)]

mod error;
pub mod journal;
pub mod ring;

pub use error::{Error, Result};
pub use journal::{Journal, Outcome, Recovery};
pub use ring::{Consumer, Form, Full, Producer, WordLog};
