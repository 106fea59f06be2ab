//! The record that one transaction writes to its log: timestamp, operations of the heap, stores.
//!
//! A record that does not fit its log lies in extents, blocks reserved in the heap; the log then
//! names them, with a checksum of each. They are flushed and fenced before the log names them, and
//! given back when the record is truncated; a crash gives them back too, for nothing on media says
//! that they are taken.

use super::layout::{self, EXTENT, HEAD, PADDING_MAX, RUN_MAX, RUN_ONE, SPILLED, TIMESTAMPS, WHOLE};
use super::stripe::Stripe;
use crate::Result;
use everbyte_heap as heap;
use everbyte_heap::{Block, Heap, Op};
use everbyte_media::{Media, Offset, seeded, sums_agree};
use zerocopy::IntoBytes;

/// Words of the largest extent: 16 MiB.
const EXTENT_MAX: u64 = 2 << 20;
/// Bytes of the smallest that is worth naming.
const EXTENT_MIN: u64 = 4096;

/// A record read back.
#[derive(Debug)]
pub(super) struct RedoRecord {
    pub timestamp: u64,
    pub ops: Vec<Op>,
    /// Each run's first word, and its values behind it.
    runs: Vec<u64>,
}

impl RedoRecord {
    /// `None`: it is no record, or what it names does not fit its checksum.
    pub(super) fn read(media: &Media, words: &[u64]) -> Option<RedoRecord> {
        let (&[first, counts], rest) = words.split_first_chunk::<HEAD>()?;
        let (timestamp, form) = (first & (TIMESTAMPS - 1), first & !(TIMESTAMPS - 1));
        let (ops, count) = ((counts & 0xffff_ffff) as usize, (counts & 0xffff_ffff) as usize + (counts >> 32) as usize);
        let spilled = match form {
            WHOLE => Vec::new(),
            SPILLED => read_extents(media, rest, count)?,
            _ => return None,
        };
        let body = if form == WHOLE { without_padding(rest, count)? } else { &spilled };
        let (ops, runs) = body.split_at(ops);
        let record = RedoRecord { timestamp, ops: ops.iter().map(|&op| Op::from(op)).collect(), runs: runs.to_vec() };
        (record.runs().map(|(.., values)| 1 + values.len()).sum::<usize>() == runs.len()).then_some(record)
    }

    /// Each run: where, which bytes of its words, values. It ends where a run is none, or not
    /// whole.
    fn runs(&self) -> impl Iterator<Item = (u64, u8, &[u64])> {
        let mut rest = &self.runs[..];
        std::iter::from_fn(move || {
            let (&first, later) = rest.split_first()?;
            let (at, mask, count) = layout::unpack_run(first);
            let (values, later) = later.split_at_checked(count as usize).filter(|_| count > 0)?;
            rest = later;
            Some((at, mask, values))
        })
    }

    /// Each store: where, which bytes, value.
    pub(super) fn stores(&self) -> impl Iterator<Item = (u64, u8, u64)> {
        self.runs().flat_map(|(at, mask, values)| {
            let values = if seeded("redo-run-cut-short") { &values[..1] } else { values };
            values.iter().zip((at..).step_by(8)).map(move |(&value, at)| (at, mask, value))
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
        if !sums_agree(u64::from(crc32c::crc32c(body[start..].as_bytes())), sum) {
            return None;
        }
        rest = later;
    }
    without_padding(rest, 0)?;
    Some(body)
}

/// Puts a record together, but for its timestamp. Adjacent words of which the same bytes are stored
/// become one run.
#[inline]
pub(super) fn encode(ops: &[Op], stripes: &[Stripe], words: &mut Vec<u64>) {
    words.clear();
    words.extend([WHOLE, 0]);
    words.extend(ops.iter().map(|&op| u64::from(op)));
    let start = words.len();
    // Start of the newest run, and the first word that would continue it.
    let (mut run, mut next) = (start, u64::MAX);
    let mut put = |at, mask, values: &[u64]| {
        let first = layout::pack_run(at, mask);
        if first == next && layout::unpack_run(words[run]).2 + values.len() as u64 <= RUN_MAX {
            words[run] += RUN_ONE * values.len() as u64;
        } else {
            run = words.len();
            words.push(first + RUN_ONE * (values.len() as u64 - 1));
        }
        words.extend_from_slice(values);
        next = first + values.len() as u64 * 8;
    };
    for stripe in stripes {
        match stripe.whole() {
            Some(values) => put(stripe.base, 0xff, values),
            None => stripe.each(|at, mask, value| put(at, mask, &[value])),
        }
    }
    words[1] = ops.len() as u64 | ((words.len() - start) as u64) << 32;
}

/// Moves the body of a record into extents; `words` becomes the record that names them. Fenced on
/// return. The extents stay reserved until the record is truncated, and are given back if there is
/// no room for all of them.
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
        let (now, later) = rest.split_at(rest.len().min(block.size.get() as usize / 8));
        let _section = media.section();
        media.copy_nt(block.at, now.as_bytes());
        short.extend([
            block.at.get(),
            (Offset::new(now.len() as u64)).get(),
            Offset::new(u64::from(crc32c::crc32c(now.as_bytes()))).get(),
        ]);
        blocks.push(block);
        rest = later;
    }
    media.fence();
    *words = short;
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::super::locks::{STRIPE, Word};
    use super::*;
    use everbyte_media::Options;

    fn stripes(stores: &[(u64, u8, u64)]) -> Vec<Stripe> {
        let mut stripes: Vec<Stripe> = Vec::new();
        for &(at, mask, value) in stores {
            let base = at & !(STRIPE - 1);
            let index = stripes.iter().position(|stripe| stripe.base == base).unwrap_or_else(|| {
                stripes.push(Stripe::new(base, 0, Word::free(0), true));
                stripes.len() - 1
            });
            stripes[index].put(Stripe::word(at), mask, value);
        }
        stripes
    }

    fn encoded(stores: &[(u64, u8, u64)]) -> Vec<u64> {
        let mut words = Vec::new();
        encode(&[], &stripes(stores), &mut words);
        words
    }

    fn decoded(words: &[u64]) -> Option<Vec<(u64, u8, u64)>> {
        let media = Media::anonymous(1 << 20, &Options::default()).unwrap();
        Some(RedoRecord::read(&media, words)?.stores().collect())
    }

    fn check(stores: &[(u64, u8, u64)], words: usize) {
        let record = encoded(stores);
        assert_eq!(decoded(&record).as_deref(), Some(stores));
        assert_eq!(record.len() - HEAD, words, "{record:x?}");
    }

    #[test]
    fn adjacent_words_take_one_place() {
        let run = |from: u64, to: u64| (from..to).map(|word| (word * 8, 0xff, !word)).collect::<Vec<_>>();
        check(&run(7, 8), 2);
        check(&run(2, 3), 2);
        check(&run(3, 21), 1 + 18);
        check(&run(0, 255), 1 + 255);
        check(&run(0, 256), 2 + 256);
        check(&run(1, 300), 2 + 299);
        check(&[run(9, 11), run(4, 8), run(21, 22)].concat(), 3 + 7);
    }

    #[test]
    fn words_of_which_other_bytes_are_stored_begin_anew() {
        check(&[(0, 0x0f, 1), (8, 0x0f, 2), (16, 0xff, 3), (24, 0xff, 4), (32, 0x80, 5 << 56)], 3 + 5);
    }

    #[test]
    fn runs_that_do_not_fill_their_record_are_none() {
        let whole = encoded(&[(64, 0xff, 1), (72, 0xff, 2)]);
        assert!(decoded(&whole).is_some());
        let run = HEAD;
        for count in [0, 1, 3, 255] {
            let mut words = whole.clone();
            words[run] = words[run] & !(RUN_MAX << 56) | count << 56;
            assert_eq!(decoded(&words), None, "{count} words");
        }
        assert_eq!(decoded(&whole[..whole.len() - 1]), None);
        assert_eq!(decoded(&[whole, vec![0; PADDING_MAX + 1]].concat()), None);
    }
}
