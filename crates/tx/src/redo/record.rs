//! What one transaction writes to its log: timestamp, operations of the heap, stores.
//!
//! A record that does not fit its log lies in extents, blocks reserved in the heap; the log then names them, with a checksum
//! of each. They are flushed and fenced before the log names them, and given back when the record is truncated; a crash gives
//! them back too, for nothing on media says that they are taken.

use super::layout::{self, EXTENT, HEAD, PADDING_MAX, SPILLED, TIMESTAMPS, WHOLE};
use super::stripe::Stripe;
use crate::Result;
use everbyte_heap as heap;
use everbyte_heap::{Block, Heap, Op};
use everbyte_media::Media;
use zerocopy::IntoBytes;

/// Words of the largest extent: 16 MiB.
const EXTENT_MAX: u64 = 2 << 20;
/// Bytes of the smallest that is worth naming.
const EXTENT_MIN: u64 = 4096;

/// A record read back.
#[derive(Debug)]
pub(super) struct Record {
    pub timestamp: u64,
    pub ops: Vec<Op>,
    /// Place and value, one after the other.
    pub stores: Vec<u64>,
}

impl Record {
    /// `None`: it is no record, or what it names does not fit its checksum.
    pub(super) fn read(media: &Media, words: &[u64]) -> Option<Record> {
        let (&[first, counts], rest) = words.split_first_chunk::<HEAD>()?;
        let (timestamp, form) = (first & (TIMESTAMPS - 1), first & !(TIMESTAMPS - 1));
        let (ops, stores) = ((counts & 0xffff_ffff) as usize, (counts >> 32) as usize);
        let count = ops + 2 * stores;
        let spilled = match form {
            WHOLE => Vec::new(),
            SPILLED => read_extents(media, rest, count)?,
            _ => return None,
        };
        let body = if form == WHOLE { without_padding(rest, count)? } else { &spilled };
        let (ops, stores) = body.split_at(ops);
        Some(Record { timestamp, ops: ops.iter().map(|&op| Op::from(op)).collect(), stores: stores.to_vec() })
    }

    /// Each store: where, which bytes, value.
    pub(super) fn stores(&self) -> impl Iterator<Item = (u64, u8, u64)> {
        self.stores.chunks_exact(2).map(|store| {
            let (at, mask) = layout::unpack_place(store[0]);
            (at, mask, store[1])
        })
    }
}

/// The first `count` of words behind which nothing but padding may follow.
fn without_padding(words: &[u64], count: usize) -> Option<&[u64]> {
    let (body, padding) = words.split_at_checked(count)?;
    (padding.len() <= PADDING_MAX && padding.iter().all(|&word| word == 0)).then_some(body)
}

fn read_extents(media: &Media, names: &[u64], count: usize) -> Option<Vec<u64>> {
    let (mut body, mut rest) = (Vec::new(), names);
    while body.len() < count {
        let (&[at, words, sum], later) = rest.split_first_chunk::<EXTENT>()?;
        words.checked_mul(8).filter(|&size| at.is_multiple_of(8) && media.holds(at, size))?;
        if words == 0 || body.len() as u64 + words > count as u64 {
            return None;
        }
        let start = body.len();
        body.extend((0..words).map(|word| media.load(at + word * 8)));
        if u64::from(crc32c::crc32c(body[start..].as_bytes())) != sum {
            return None;
        }
        rest = later;
    }
    without_padding(rest, 0)?;
    Some(body)
}

/// Puts a record together, but for its timestamp.
pub(super) fn encode(ops: &[Op], stripes: &[Stripe], words: &mut Vec<u64>) {
    words.clear();
    words.extend([WHOLE, 0]);
    words.extend(ops.iter().map(|&op| u64::from(op)));
    for stripe in stripes {
        stripe.each(|at, mask, value| words.extend([layout::pack_place(at, mask), value]));
    }
    let stores = (words.len() - HEAD - ops.len()) / 2;
    words[1] = ops.len() as u64 | (stores as u64) << 32;
}

/// Moves the body of a record into extents; `words` becomes the record that names them. Fenced on return. The extents stay
/// reserved until the record is truncated, and are given back if there is no room for all of them.
#[cold]
pub(super) fn spill(from: &Heap, words: &mut Vec<u64>) -> Result<Vec<Block>> {
    let media = from.media();
    let (mut short, mut blocks) = (vec![words[0] ^ WHOLE ^ SPILLED, words[1]], Vec::new());
    let (mut rest, mut most) = (&words[HEAD..], EXTENT_MAX * 8);
    while !rest.is_empty() {
        let block = match from.reserve((rest.len() as u64 * 8).min(most)) {
            Ok(block) => block,
            // There may be room for several smaller ones.
            Err(error) if most > EXTENT_MIN && (error.is_full() || matches!(error, heap::Error::TooLarge { .. })) => {
                most /= 2;
                continue;
            }
            Err(error) => {
                blocks.into_iter().for_each(|block| from.cancel(block));
                return Err(error.into());
            }
        };
        let (now, later) = rest.split_at(rest.len().min(block.size as usize / 8));
        let _section = media.section();
        media.copy_nt(block.at, now.as_bytes());
        short.extend([block.at, now.len() as u64, u64::from(crc32c::crc32c(now.as_bytes()))]);
        blocks.push(block);
        rest = later;
    }
    media.fence();
    *words = short;
    Ok(blocks)
}
