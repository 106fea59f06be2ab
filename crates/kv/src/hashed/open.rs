//! Opening a hash table.
//!
//! Steps, each idempotent:
//!   1. the commit word chooses the state; its checksum must hold
//!   2. the ledger of the state is applied again, and the same version gets a state without one
//!
//! Nothing else is left of a version that did not commit: its entries lie in blocks that only
//! memory knew as taken. So the cost does not depend on how much the table holds.

use crate::error::{Error, Result, damaged};
use crate::hashed::layout::*;
use crate::hashed::shape::{BUCKETS_MAX, Shape, segment_len, segment_of};
use crate::hashed::table::{OpenHash, Seen, Writer};
use crate::tree::thread;
use everbyte_heap::{Heap, Op};
use everbyte_media::lock_order::{RankedMutex, RankedRwLock};
use everbyte_media::museum::unless;
use everbyte_media::{Checked, Format, Media, Offset, sums_agree};
use everbyte_store::{Engine, Object};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicU64;
use zerocopy::IntoBytes;

/// Opens the table of `object`.
pub(crate) fn open(object: Object) -> Result<OpenHash> {
    object.require_engine(Engine::Cdds)?;
    object.require_fingerprint(HASH_FINGERPRINT)?;
    let claim = object.claim()?;
    let (media, page_at) = (object.media().clone(), object.prime() + PAGE_AT);
    let header: HashHeader = media.get(page_at);
    if header.magic != HASH_MAGIC {
        return damaged(page_at.get(), "no hash table in this object");
    }
    if header.format > HASH_FORMAT {
        return Err(Error::NewerFormat { format: Format::new(header.format, HASH_FORMAT) });
    }
    if header.format < HASH_FORMAT || !header.checksum_agrees() {
        return damaged(page_at.get(), "the hash table's header fails its checksum");
    }
    if !header.area.is_aligned(8) || !media.holds(header.area, AREA) {
        return damaged(page_at.get(), "the hash table's ledgers lie outside the store");
    }
    // The death of a process, without the machine, may have left the commit in the caches: later
    // stores of recovery must not survive without it.
    media.reflush(page_at + COMMIT_AT, 8);
    media.fence();
    let commit = media.load(page_at + COMMIT_AT);
    let (version, chosen) = (commit >> 1, (commit & 1) as usize);
    let mut state: HashState = media.get(page_at + STATES_AT[chosen]);
    if !state.checksum_agrees() || state.version != version || version == 0 || version >= SUMMED_END {
        return damaged((page_at + COMMIT_AT).get(), "the commit word chooses a state that fails its checksum");
    }
    if state.buckets < FIRST_SEGMENT || state.buckets > BUCKETS_MAX {
        return damaged((page_at + STATES_AT[chosen]).get(), "a hash table has more or fewer buckets than can be");
    }
    let heap = Heap::open(object)?;
    let section = media.section();
    let chosen = replay(&media, &heap, &header, page_at, &mut state, chosen)?;
    drop(section);
    let shape = Shape { buckets: state.buckets, segments: segments(&media, &heap, page_at, state.buckets)? };
    let writer = Writer {
        state: chosen,
        long_ledgers: [None, None],
        unfinished: Vec::new(),
        applied: Vec::new(),
        applied_by: thread::NONE,
        graves: VecDeque::new(),
        sweep: Some(0),
        unsettled: None,
    };
    Ok(OpenHash {
        heap,
        media,
        page: page_at.get(),
        area: header.area.get(),
        seed: header.seed,
        seen: RankedRwLock::new(Seen { shape, version: state.version, keys: state.keys }),
        pins: Mutex::new(BTreeMap::new()),
        writer: RankedMutex::new(writer),
        holder: AtomicU64::new(thread::NONE),
        _claim: claim,
    })
}

/// The places of the segments that hold so many buckets.
fn segments(media: &Media, heap: &Heap, page_at: Offset, buckets: u64) -> Result<[u64; SEGMENTS]> {
    let mut segments = [0; SEGMENTS];
    for (index, segment) in segments.iter_mut().enumerate().take(segment_of(buckets - 1) + 1) {
        let at = page_at + SEGMENTS_AT + index as u64 * 8;
        match SummedWord(media.load(at)).number() {
            Some(place) if place.is_multiple_of(8) && heap.may_hold_blocks(place, segment_len(index)) => {
                *segment = place
            }
            _ => return damaged(at.get(), "the place of a segment of buckets is damaged"),
        }
    }
    Ok(segments)
}

/// Applies the ledger of `state` again: it may not have been applied when the crash came. Returns
/// the slot of the state that then counts, which has no ledger: this process may hand out what the
/// ledger freed, and where a long one lies.
fn replay(
    media: &Media,
    heap: &Heap,
    header: &HashHeader,
    page_at: Offset,
    state: &mut HashState,
    chosen: usize,
) -> Result<usize> {
    let count = u64::from(state.ops) + 2 * u64::from(state.stores);
    if count == 0 {
        return Ok(chosen);
    }
    if !state.ledger.is_aligned(8) || !media.holds(state.ledger, count * 8) {
        return damaged(state.ledger.get(), "the ledger leads outside the store");
    }
    let words: Vec<u64> = (0..count).map(|index| media.load(state.ledger + index * 8)).collect();
    media.require_readable(state.ledger, count * 8)?;
    if !sums_agree(crc32c::crc32c(words.as_bytes()), state.ledger_sum) {
        return damaged(state.ledger.get(), "the ledger fails its checksum");
    }
    let (ops, stores) = words.split_at(state.ops as usize);
    let ops: Vec<Op> = ops.iter().map(|&word| Op::from(word)).collect();
    for &op in &ops {
        heap.validate(op)?;
    }
    let (stores, _) = stores.as_chunks::<2>();
    let places = page_at.get() + SEGMENTS_AT..page_at.get() + size_of::<HashPage>() as u64;
    let is_place = |at: u64| at.is_multiple_of(8) && (places.contains(&at) || heap.may_hold_blocks(at, 8));
    if let Some(&[wild, _]) = stores.iter().find(|[at, _]| !is_place(*at)) {
        return damaged(wild, "the ledger stores outside of the table");
    }
    unless("hashed-ledger-not-replayed", || {
        heap.apply(&ops);
        for &[at, word] in stores {
            media.store(at, word);
            media.flush(at, 8);
        }
    });
    media.fence();
    let other = 1 - chosen;
    (state.ledger, state.ops, state.stores) = (header.area + (other * LEDGER_WORDS * 8) as u64, 0, 0);
    state.ledger_sum = crc32c::crc32c(&[]);
    *state = state.sealed();
    media.copy_nt(page_at + STATES_AT[other], state.as_bytes());
    let ordered = media.fence_after(*state);
    let word = ordered.version.commit_word(other);
    everbyte_media::PublishWord::new(page_at + COMMIT_AT).publish(media, word, &ordered);
    media.fence();
    heap.finish(&ops);
    Ok(other)
}
