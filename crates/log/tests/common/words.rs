//! The program of a word log: records of many lengths through a small ring, several laps, truncated
//! now and then.

use everbyte_log::{Form, Full, WordLog};
use everbyte_media::Media;
use everbyte_sim::{Image, Oracle, Seen};
use std::ops::Range;

pub(crate) const RING: Range<u64> = 4096..4096 + 192 + 32 * 8;
/// A word stored after each flush: how many records are flushed.
const DEED: u64 = 8192;
const LEN: u64 = 12288;
const SALT: u64 = 0x1234;

/// One step: append the next record with so many payload words after its number; make durable; drop
/// so many records.
#[derive(Clone, Copy)]
enum Step {
    Append(u64),
    Flush,
    Barrier,
    Truncate(usize),
}

/// Fills, empties and wraps the ring of 32 words three times, with several records under one fence.
#[rustfmt::skip]
const STEPS: [Step; 38] = {
    use Step::*;
    [
        Append(0), Flush, Append(3), Append(1), Barrier, Truncate(2), Append(6), Flush, Append(2), Barrier, Truncate(3),
        Append(2), Append(2), Barrier, Truncate(1), Append(9), Flush, Truncate(1), Append(1), Append(1), Append(1), Barrier,
        Truncate(3), Append(5), Barrier, Truncate(1), Append(3), Flush, Append(4), Barrier, Truncate(3),
        // Full to the last word, then into the space that was just freed.
        Append(9), Append(9), Append(4), Barrier, Truncate(1), Append(8), Barrier,
    ]
};

pub(crate) fn record(number: u64, len: u64) -> Vec<u64> {
    (0..=len).map(|i| if i == 0 { number } else { (number * 100 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15) }).collect()
}

pub(crate) fn image(form: Form) -> Image {
    Image::build(LEN, |media| WordLog::format(&media, RING, form, SALT).unwrap())
}

pub(crate) fn recover(media: &Media) -> Result<(Vec<Vec<u64>>, everbyte_log::ring::Recovered), String> {
    let mut found = Vec::new();
    let recovered = WordLog::recover(media, RING, Full::Error, |words| found.push(words.to_vec()));
    Ok((found, recovered.map_err(|error| error.to_string())?))
}

/// Each step is one operation for the oracle; appends and flushes are acknowledged by the next
/// barrier.
pub(crate) fn program(media: Media, oracle: &Oracle) {
    let (_, recovered) = recover(&media).unwrap();
    let (mut producer, mut consumer) = recovered.log.split();
    let (mut number, mut pending, mut words) = (0, Vec::new(), Vec::new());
    for step in STEPS {
        match step {
            Step::Append(len) => {
                pending.push(oracle.begin(format!("append {number}")));
                producer.append(&record(number, len)).unwrap();
                number += 1;
            }
            Step::Flush => {
                pending.push(oracle.begin("flush"));
                producer.flush();
                // The change that depends on a record: it must not be found without the record.
                media.store(DEED, number);
                media.flush(DEED, 8);
            }
            Step::Barrier => {
                pending.push(oracle.begin("barrier"));
                producer.barrier().unwrap();
                pending.drain(..).for_each(|op| oracle.acked(op));
            }
            Step::Truncate(count) => {
                pending.push(oracle.begin(format!("truncate {count}")));
                for _ in 0..count {
                    let end = consumer.next(&mut words).unwrap().unwrap();
                    consumer.truncate(end);
                }
            }
        }
    }
}

/// Records dropped and records appended after the first `done` steps.
fn after(done: usize) -> (usize, usize) {
    STEPS[..done].iter().fold((0, 0), |(head, tail), step| match step {
        Step::Append(_) => (head, tail + 1),
        Step::Truncate(count) => (head + count, tail),
        Step::Flush | Step::Barrier => (head, tail),
    })
}

/// The records found are the whole ones of a stretch that the promises allow; then the log must
/// work, without stale records behind its tail.
pub(crate) fn check(media: Media, seen: &Seen) -> Result<(), String> {
    const MARK: u64 = 1 << 40;
    let (mut found, recovered) = recover(&media)?;
    while found.last().is_some_and(|words| words == &record(MARK, 1)) {
        found.pop(); // a crash inside an earlier check, after its recovery
    }
    let ((head_least, tail_acked), (head_most, tail_most)) = (after(seen.acked_count()), after(seen.begun_count()));
    let tail_least = tail_acked.max(media.load(DEED) as usize);
    let lengths = STEPS.iter().filter_map(|step| if let Step::Append(len) = step { Some(*len) } else { None });
    let all: Vec<Vec<u64>> = lengths.zip(0..).map(|(len, number)| record(number, len)).collect();
    let fits =
        (head_least..=head_most).any(|head| (tail_least.max(head)..=tail_most).any(|tail| found == all[head..tail]));
    if !fits {
        let numbers: Vec<u64> = found.iter().map(|words| words[0]).collect();
        return Err(format!(
            "records {numbers:?} found, allowed {head_least}..{head_most} to {tail_least}..{tail_most}; {seen:?}"
        ));
    }
    // New records of another length overwrite the space behind the tail.
    let mut log = recovered.log;
    let before = log.producer.flushed();
    for _ in 0..3 {
        if log.producer.append(&record(MARK, 1)).is_err() {
            break;
        }
        let end = log.producer.flush();
        let expect = recover(&media)?.1;
        if expect.log.producer.flushed() != end {
            return Err(format!(
                "after {before:?} a record ends at {end:?} and recovery goes on: stale words came back"
            ));
        }
    }
    Ok(())
}
