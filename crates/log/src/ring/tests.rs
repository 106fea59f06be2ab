//! The word log on plain memory: order, wrap, torn words in any subset, flipped bits, full rings,
//! two threads.

use super::*;
use everbyte_media::{LINE, Options};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const AT: u64 = 4096;

fn media() -> Media {
    Media::anonymous(1 << 20, &Options::default()).expect("memory")
}

fn range(words: u64) -> Range<u64> {
    AT..AT + RING_AT + words * 8
}

fn fresh(media: &Media, words: u64, form: Form) -> WordLog {
    WordLog::format(media, range(words), form, 7).expect("a good range");
    recover(media, words).1.log
}

fn recover(media: &Media, words: u64) -> (Vec<Vec<u64>>, Recovered) {
    let mut found = Vec::new();
    let recovered = WordLog::recover(media, range(words), Full::Error, |words| found.push(words.to_vec()));
    (found, recovered.expect("a whole log"))
}

fn payload(seed: u64, len: u64) -> Vec<u64> {
    (0..len).map(|i| (seed + i).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

/// Records of every length up to 10000 words come back, in both forms.
#[test]
fn records_of_every_length_come_back() {
    for form in [Form::Torn, Form::Base] {
        let media = media();
        let mut log = fresh(&media, 12_000, form);
        for len in (0..200).chain([999, 1000, 4096, 9_999, 10_000]) {
            log.producer.append(&payload(len, len)).unwrap();
            log.producer.flush();
            let (found, _) = recover(&media, 12_000);
            assert_eq!(found, [payload(len, len)], "{form:?} {len}");
            let mut words = Vec::new();
            let end = log.consumer.next(&mut words).unwrap().unwrap();
            assert_eq!(words, payload(len, len));
            log.consumer.truncate(end);
            assert_eq!(recover(&media, 12_000).1.records, 0);
        }
    }
}

/// Records of whole lines end where a line does, whatever their length; one that would be too long
/// stays as it is.
#[test]
fn records_of_whole_lines_share_none() {
    for form in [Form::Torn, Form::Base] {
        let media = media();
        let mut log = fresh(&media, 40_000, form);
        for len in 0..200 {
            let whole = log.producer.whole_lines(len);
            assert!((len..len + 8).contains(&whole), "{len} -> {whole}");
            log.producer.append(&payload(len, whole)).unwrap();
            assert_eq!(log.producer.tail % 8, 0, "{form:?} {len}");
        }
        let most = log.producer.payload_max();
        assert_eq!(log.producer.whole_lines(most), most);
    }
}

/// One fence a flush with torn bits, two in the base form, and none for nothing.
#[test]
fn a_flush_costs_one_fence_with_torn_bits_and_two_without() {
    for (form, fences) in [(Form::Torn, 1), (Form::Base, 2)] {
        let media = media();
        let mut log = fresh(&media, 256, form);
        let before = media.counts();
        for i in 0..3 {
            log.producer.append(&payload(i, 5)).unwrap();
        }
        assert_eq!((media.counts() - before).fences, 0);
        log.producer.flush();
        assert_eq!((media.counts() - before).fences, fences);
        log.producer.flush();
        assert_eq!((media.counts() - before).fences, fences);
        log.producer.append(&[1]).unwrap();
        log.producer.barrier().unwrap();
        let cost = media.counts() - before;
        assert_eq!((cost.fences, cost.barriers), (2 * fences, 1), "{form:?}");
        let before = media.counts();
        log.truncate_all();
        assert_eq!((media.counts() - before).fences, 1);
    }
}

/// A crash may leave any subset of the words of an append. Only the whole append is taken for a
/// record, earlier records stay, and nothing stale comes back once new records reach the place.
#[test]
fn torn_appends_are_discarded_in_every_subset() {
    const WORDS: u64 = 24;
    for skip in 0..3 * WORDS / 8 {
        // Records of three payload words take five ring words: the torn one lies across every seam
        // of the ring.
        let media = media();
        let mut log = fresh(&media, WORDS, Form::Torn);
        for i in 0..skip {
            log.producer.append(&payload(i, 3)).unwrap();
            log.producer.flush();
            log.truncate_all();
        }
        log.producer.append(&[77]).unwrap();
        log.producer.flush();
        let (old, tail) = (media.read_vec(0, 8192), log.producer.tail);
        log.producer.append(&payload(100, 3)).unwrap();
        log.producer.append(&payload(200, 3)).unwrap();
        let end = log.producer.tail;
        let ring = log.producer.ring.clone();
        let new = media.read_vec(0, 8192);
        let words = (end - tail) as u32;
        assert_eq!(words, 10);
        for subset in 0..1u32 << words {
            media.write(0, &old);
            for i in 0..words {
                if subset >> i & 1 == 1 {
                    let at = ring.offset(tail + u64::from(i)) as usize;
                    media.write(at as u64, &new[at..at + 8]);
                }
            }
            let (found, recovered) = recover(&media, WORDS);
            let whole = if subset == (1 << words) - 1 { 2 } else { u64::from(subset & 0x1f == 0x1f) };
            assert_eq!(recovered.records, 1 + whole, "subset {subset:#b} after {skip}");
            assert_eq!(found[0], [77]);
            assert_eq!(recovered.stop == Stop::Clean, whole == 2 || subset >> (5 * whole) & 1 == 0);
            // Append something of another length: what lay behind must stay dead.
            let mut log = recovered.log;
            log.producer.append(&payload(300, 3)).unwrap();
            log.producer.flush();
            let (found, recovered) = recover(&media, WORDS);
            assert_eq!(
                (recovered.records, recovered.stop),
                (2 + whole, Stop::Clean),
                "subset {subset:#b} after {skip}"
            );
            assert_eq!(found.last().unwrap(), &payload(300, 3));
        }
    }
}

/// A flipped bit anywhere in a record ends the scan before it.
#[test]
fn flipped_bits_are_detected() {
    for form in [Form::Torn, Form::Base] {
        let media = media();
        let mut log = fresh(&media, 256, form);
        log.producer.append(&payload(1, 70)).unwrap();
        let second = log.producer.flush().0;
        log.producer.append(&payload(2, 70)).unwrap();
        log.producer.flush();
        let (ring, whole) = (log.producer.ring.clone(), media.read_vec(0, 8192));
        for position in second..log.producer.tail {
            for bit in (0..64).filter(|bit| form == Form::Torn || *bit < 63 || position > second) {
                let at = ring.offset(position);
                media.store(at, media.load(at) ^ 1 << bit);
                let mut found = 0;
                match WordLog::recover(&media, range(256), Full::Error, |_| found += 1) {
                    Ok(recovered) => assert_ne!(form, Form::Base, "{:?}", recovered.stop),
                    Err(error) => assert!(form == Form::Base && matches!(error, Error::Damaged { .. }), "{error}"),
                }
                // The last piece has bits that carry nothing; all others must be noticed.
                let idle = form == Form::Torn && position + 1 == log.producer.tail && found == 2;
                assert!(found == 1 || idle, "{form:?}: bit {bit} of word {position}");
                media.write(0, &whole);
            }
        }
    }
}

#[test]
fn a_full_ring_is_an_error_and_room_comes_back_with_truncation() {
    for form in [Form::Torn, Form::Base] {
        let media = media();
        let mut log = fresh(&media, 64, form);
        let most = log.producer.payload_max();
        assert!(matches!(log.producer.append(&payload(0, most + 1)), Err(Error::TooLarge { .. })));
        for round in 0..10 {
            log.producer.append(&payload(round, most)).unwrap();
            assert!(matches!(log.producer.append(&[]), Err(Error::Full { needed: 8, .. })));
            log.producer.flush();
            assert_eq!(recover(&media, 64).0, [payload(round, most)]);
            log.truncate_all();
        }
    }
}

/// A truncation passes over records that were not read.
#[test]
fn records_that_are_truncated_unread_are_not_read() {
    let media = media();
    let WordLog { mut producer, mut consumer } = fresh(&media, 64, Form::Torn);
    producer.append(&[1]).unwrap();
    let first = producer.flush();
    producer.append(&[2]).unwrap();
    producer.flush();
    consumer.truncate(first);
    let mut words = Vec::new();
    consumer.next(&mut words).unwrap();
    assert_eq!(words, [2]);
}

/// Start-up truncation: nothing is dropped while running, everything at the next start.
#[test]
fn start_up_truncation_keeps_everything_until_the_next_start() {
    let media = media();
    let mut log = fresh(&media, 4096, Form::Torn);
    for i in 0..100 {
        log.producer.append(&payload(i, i % 7)).unwrap();
        log.producer.flush();
    }
    drop(log);
    let (found, mut recovered) = recover(&media, 4096);
    assert_eq!(found.len(), 100);
    assert!(found.iter().zip(0..).all(|(words, i)| *words == payload(i, i % 7)));
    recovered.log.truncate_all();
    assert_eq!(recover(&media, 4096).1.records, 0);
}

#[test]
fn blocking_ends_when_the_consumer_is_gone() {
    let media = media();
    WordLog::format(&media, range(64), Form::Torn, 7).unwrap();
    let log = WordLog::recover(&media, range(64), Full::Block, |_| {}).unwrap().log;
    let (mut producer, consumer) = log.split();
    drop(consumer);
    while producer.append(&[1, 2, 3]).is_ok() {}
    assert!(matches!(producer.append(&[1, 2, 3]), Err(Error::Full { .. })));
}

/// A producer that waits for room flushes what it has appended: the consumer could drop nothing
/// else.
#[test]
fn a_producer_that_waits_lets_its_records_be_seen() {
    let media = media();
    WordLog::format(&media, range(64), Form::Torn, 7).unwrap();
    let log = WordLog::recover(&media, range(64), Full::Block, |_| {}).unwrap().log;
    let (mut producer, mut consumer) = log.split();
    let (done, end) = (AtomicBool::new(false), Instant::now() + Duration::from_secs(60));
    std::thread::scope(|scope| {
        let done = &done;
        scope.spawn(move || {
            let mut words = Vec::new();
            // A consumer that has gone lets the producer end, with an error.
            while !done.load(Ordering::Acquire) && Instant::now() < end {
                match consumer.next(&mut words).unwrap() {
                    Some(end) => consumer.truncate(end),
                    None => std::thread::yield_now(),
                }
            }
        });
        let appended: Vec<_> = (0..40).map(|number| producer.append(&payload(number, 3))).collect();
        done.store(true, Ordering::Release);
        assert!(appended.iter().all(Result::is_ok), "the consumer sees what is in its way");
    });
}

/// Producer and consumer in two threads, a small ring, many passes: every record arrives, in order.
#[test]
fn two_threads_share_a_ring_without_locks() {
    for form in [Form::Torn, Form::Base] {
        let media = media();
        WordLog::format(&media, range(128), form, 7).unwrap();
        let (mut producer, mut consumer) =
            WordLog::recover(&media, range(128), Full::Block, |_| {}).unwrap().log.split();
        const COUNT: u64 = 20_000;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for i in 0..COUNT {
                    producer.append(&payload(i, i % 40)).unwrap();
                    if i % 3 == 0 {
                        producer.flush();
                    }
                }
                producer.barrier().unwrap();
            });
            scope.spawn(move || {
                let (mut words, mut seen) = (Vec::new(), 0);
                while seen < COUNT {
                    match consumer.next(&mut words).unwrap() {
                        Some(end) => {
                            assert_eq!(words, payload(seen, seen % 40));
                            seen += 1;
                            if seen % 5 == 0 {
                                consumer.truncate(end);
                            }
                        }
                        None => {
                            consumer.truncate(consumer.position());
                            std::thread::yield_now();
                        }
                    }
                }
                consumer.truncate(consumer.position());
            });
        });
        assert_eq!(recover(&media, 128).1.records, 0);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Append(u64),
    Flush,
    Next,
    Truncate,
    Reopen,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0u64..70).prop_map(Op::Append),
        3 => Just(Op::Flush),
        3 => Just(Op::Next),
        2 => Just(Op::Truncate),
        1 => Just(Op::Reopen),
    ];
    proptest::collection::vec(op, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The log does what a queue of vectors does, lap after lap; opening keeps all that was
    /// appended here, since this memory loses nothing.
    #[test]
    fn a_word_log_is_a_queue(ops in ops(), torn: bool) {
        let form = if torn { Form::Torn } else { Form::Base };
        let media = media();
        let mut log = fresh(&media, 104, form);
        // Records in the log, oldest first; how many of them are flushed; how many are read.
        let (mut model, mut flushed, mut read) = (VecDeque::<Vec<u64>>::new(), 0, 0);
        let mut words = Vec::new();
        for (step, op) in ops.into_iter().enumerate() {
            match op {
                Op::Append(len) => match log.producer.append(&payload(step as u64, len)) {
                    Ok(()) => model.push_back(payload(step as u64, len)),
                    Err(Error::Full { .. }) => {
                        let used: u64 = model.iter().map(|words| log.producer.ring.record_len(words.len() as u64)).sum();
                        prop_assert!(used + log.producer.ring.record_len(len) >= 104);
                    }
                    Err(other) => prop_assert!(false, "{}", other),
                },
                Op::Flush => {
                    log.producer.flush();
                    flushed = model.len();
                }
                Op::Next => {
                    let found = log.consumer.next(&mut words).unwrap();
                    prop_assert_eq!(found.is_some(), read < flushed);
                    if found.is_some() {
                        prop_assert_eq!(&words, &model[read]);
                        read += 1;
                    }
                }
                Op::Truncate => {
                    log.consumer.truncate(log.consumer.position());
                    model.drain(..read);
                    flushed -= read;
                    read = 0;
                }
                Op::Reopen => {
                    let (found, recovered) = recover(&media, 104);
                    let kept = if torn { model.len() } else { flushed };
                    prop_assert_eq!(&found[..], &model.make_contiguous()[..kept]);
                    prop_assert_eq!(recovered.stop, Stop::Clean);
                    model.truncate(kept);
                    (log, flushed, read) = (recovered.log, kept, 0);
                }
            }
        }
    }

    /// Recovery of any bytes ends, and never panics.
    #[test]
    fn recovery_survives_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 1024), keep in 0usize..200, torn: bool) {
        let media = media();
        let mut log = fresh(&media, 104, if torn { Form::Torn } else { Form::Base });
        for i in 0..5 {
            log.producer.append(&payload(i, 5)).unwrap();
            log.producer.flush();
        }
        let keep = keep as u64 / 8 * 8;
        media.write(AT + keep, &bytes[..(RING_AT + 104 * 8 - keep) as usize]);
        if let Ok(recovered) = WordLog::recover(&media, range(104), Full::Error, |_| {}) {
            let mut log = recovered.log;
            let _ = log.producer.append(&[1, 2, 3]);
            log.producer.flush();
            log.truncate_all();
        }
    }
}

#[test]
fn odd_ranges_and_foreign_bytes_are_told() {
    let media = media();
    for bad in [AT..AT + 256, AT + 8..AT + 4096, 0..2 << 20] {
        assert!(matches!(WordLog::format(&media, bad, Form::Torn, 1), Err(Error::BadRange { .. })));
    }
    let open = |range| WordLog::recover(&media, range, Full::Error, |_| {}).map(|_| ());
    assert!(matches!(open(range(104)), Err(Error::NotALog { .. })));
    fresh(&media, 104, Form::Torn);
    assert!(matches!(open(range(112)), Err(Error::Damaged { .. })));
    media.store(AT + 40, 1); // covered by the header's checksum alone
    assert!(matches!(open(range(104)), Err(Error::Damaged { .. })));
    media.store(AT + 40, 0);
    media.store(AT + LINE, 3);
    assert!(matches!(open(range(104)), Err(Error::Damaged { .. })));
}

/// One word of the ring is always free. A record that fills the whole ring is none, and neither is
/// a tail that says so.
#[test]
fn a_record_that_fills_the_ring_is_none() {
    const WORDS: u64 = 24;
    for (form, len, found) in [(Form::Torn, WORDS - 1, true), (Form::Torn, WORDS, false), (Form::Base, WORDS - 1, true)]
    {
        let media = media();
        let log = fresh(&media, WORDS, form);
        fill(&media, &log, form, len);
        assert_eq!(recover(&media, WORDS).0.len(), usize::from(found), "{form:?}, {len} words");
    }
    let media = media();
    let log = fresh(&media, WORDS, Form::Base);
    fill(&media, &log, Form::Base, WORDS);
    let error = WordLog::recover(&media, range(WORDS), Full::Error, |_| {}).unwrap_err().to_string();
    assert!(error.contains("the tail word contradicts the head"), "{error}");
}

/// Writes the log's next record, of so many ring words, without asking whether it fits.
fn fill(media: &Media, log: &WordLog, form: Form, len: u64) {
    let (ring, tail) = (&log.producer.ring, log.producer.tail);
    let words = payload(1, len - if form == Form::Torn { 2 } else { 1 });
    let mut record = vec![0; len as usize];
    record[0] = layout::record_word(ring.salt, tail, &words);
    match form {
        Form::Torn => codec::encode(&words, ring.sense(tail), &mut record[1..]),
        Form::Base => record[1..].copy_from_slice(&words),
    }
    if form == Form::Torn {
        record[0] |= ring.sense(tail);
    }
    media.write(ring.offset(tail), zerocopy::IntoBytes::as_bytes(&record[..]));
    media.store(AT + layout::TAIL_AT, layout::position_word(ring.salt, tail + len));
}

/// A header with a right checksum that counts one word more or less than the log's range has.
#[test]
fn a_header_of_another_length_is_refused() {
    for words in [63, 65] {
        let media = media();
        let _log = fresh(&media, 64, Form::Torn);
        let header = layout::RingHeader { words, ..media.get(AT) };
        media.put(AT, &everbyte_media::Checked::sealed(header));
        let error = WordLog::recover(&media, range(64), Full::Error, |_| {}).unwrap_err().to_string();
        assert!(error.contains("differs from its owner's"), "{error}");
    }
}
