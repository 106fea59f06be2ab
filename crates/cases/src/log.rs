//! Cases of the log: a journaled transaction with and without operations, and the word log in both
//! forms.

use crate::{Case, TOTAL};
use everbyte_log::{Form, Full, Journal, Outcome, WordLog};
use everbyte_media::Media;
use everbyte_sim::{Explorer, Failure, Image, Oracle, Order, Report};
use std::ops::Range;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "log-journal",
        crate_name: "log",
        about: "transactions over three lines, undone by recovery unless retired: all of one, or nothing of it",
        total: TOTAL,
        program: journal,
    },
    Case {
        name: "log-journal-lines",
        crate_name: "log",
        about: "transactions whose entries fill a line, at places that earlier ones used: all of their words or none",
        total: 2000,
        program: journal_lines,
    },
    Case {
        name: "log-journal-ops",
        crate_name: "log",
        about: "operations valid by the commit word: data and operations happen together, however often recovery crashes",
        total: TOTAL,
        program: journal_ops,
    },
    Case {
        name: "log-journal-twice",
        crate_name: "log",
        about: "a range logged again after it was changed: undo goes back to the oldest value, not to the middle",
        total: TOTAL,
        program: journal_twice,
    },
    Case {
        name: "log-journal-reuse",
        crate_name: "log",
        about: "a transaction begins behind one that is retired and not fenced: its entries count for itself alone",
        total: TOTAL,
        program: journal_reuse,
    },
    Case {
        name: "log-ring-lazy",
        crate_name: "log",
        about: "records flushed, then a word stored: the word never survives without the record before it",
        total: TOTAL,
        program: ring_lazy,
    },
    Case {
        name: "log-ring-torn",
        crate_name: "log",
        about: "the word log with torn bits: appended records come back whole and in order, truncated ones do not",
        total: TOTAL,
        program: |explorer| ring(explorer, Form::Torn),
    },
    Case {
        name: "log-ring-base",
        crate_name: "log",
        about: "the word log with a tail word: appended records come back whole and in order, truncated ones do not",
        total: TOTAL,
        program: |explorer| ring(explorer, Form::Base),
    },
    Case {
        name: "log-ring-renew",
        crate_name: "log",
        about: "a word log is made where an older one of the same salt was: it is empty",
        total: 200,
        program: renew,
    },
];

const LEN: u64 = 64 << 10;
const LANE: Range<u64> = 0x1000..0x1400;
const DATA: u64 = 0x8000;
/// The words a transaction changes, on three lines.
const WORDS: [u64; 4] = [DATA, DATA + 8, DATA + 0x78, DATA + 0x80];

type Values = [u64; 4];

fn values(media: &Media) -> Values {
    WORDS.map(|at| media.load(at))
}

fn lane_image() -> Image {
    Image::build(LEN, |media| Journal::format(&media, LANE, 0x5eed).expect("a lane fits"))
}

/// Recovers the lane; operations set the word they name to the value they carry.
fn recover(media: &Media) -> Result<Journal, String> {
    let recovery = Journal::recover(media, LANE, 0..LEN).map_err(|error| error.to_string())?;
    match recovery.outcome() {
        Outcome::Idle => {}
        Outcome::Undo => recovery.undo(),
        Outcome::Redo => recovery.ops().iter().for_each(|&op| apply(media, op)),
    }
    Ok(recovery.finish())
}

fn apply(media: &Media, op: u64) {
    let at = DATA + (op >> 32);
    media.store(at, op & 0xffff_ffff);
    media.flush(at, 8);
}

fn set(media: &Media, at: u64, value: u64) {
    media.store(at, value);
    media.flush(at, 8);
}

fn journal(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &lane_image(),
        &[0; 4],
        Order::InOrder,
        |media, twin| {
            let mut lane = recover(&media).expect("a fresh lane");
            for round in 1..5_u64 {
                let after = WORDS.map(|at| round * 100 + at % 64);
                twin.step(
                    format!("transaction {round}"),
                    move |values: &mut Values| *values = after,
                    || {
                        // Two groups: the second is logged when the first has been changed already.
                        for group in [0..2, 2..4] {
                            group.clone().for_each(|word| lane.log(WORDS[word], 8).expect("room in the lane"));
                            lane.fence();
                            group.for_each(|word| set(&media, WORDS[word], after[word]));
                        }
                        // changes before the word that makes their old values nothing
                        media.fence();
                        lane.retire();
                        media.barrier().expect("sim barriers do not fail");
                        lane.fenced();
                    },
                );
            }
        },
        |media, seen| {
            let mut lane = recover(&media)?;
            let found = values(&media);
            seen.recovered();
            // The lane is usable again: an aborted transaction leaves the words as they were.
            lane.log(WORDS[0], 8).map_err(|error| error.to_string())?;
            lane.fence();
            set(&media, WORDS[0], 77);
            lane.rollback().map_err(|error| error.to_string())?;
            if values(&media) == found { Ok(found) } else { Err(format!("{:?} after a rollback", values(&media))) }
        },
    )
}

/// Entries that fill their line: a range of 48 bytes, or three pairs of a word and its place.
fn journal_lines(explorer: Explorer) -> Result<Report, Box<Failure>> {
    const SIX: [u64; 6] = [DATA, DATA + 8, DATA + 16, DATA + 24, DATA + 32, DATA + 40];
    explorer.explore_twin(
        &lane_image(),
        &[0; 6],
        Order::InOrder,
        |media, twin| {
            let mut lane = recover(&media).expect("a fresh lane");
            for round in 1..5_u64 {
                let after = SIX.map(|at| round * 100 + at % 64);
                let change = move |values: &mut [u64; 6]| *values = after;
                twin.step(format!("transaction {round}"), change, || {
                    match round % 2 {
                        0 => lane.log_words(&SIX).expect("room in the lane"),
                        _ => lane.log(DATA, 48).expect("room in the lane"),
                    }
                    lane.fence();
                    SIX.iter().zip(after).for_each(|(&at, value)| set(&media, at, value));
                    media.fence();
                    lane.retire();
                    media.barrier().expect("sim barriers do not fail");
                    lane.fenced();
                });
            }
        },
        |media, _| recover(&media).map(|_| SIX.map(|at| media.load(at))),
    )
}

fn journal_ops(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &lane_image(),
        &[0; 4],
        Order::InOrder,
        |media, twin| {
            let mut lane = recover(&media).expect("a fresh lane");
            for round in 1..4_u64 {
                let after = WORDS.map(|at| round * 100 + at % 64);
                twin.step(
                    format!("transaction {round}"),
                    move |values: &mut Values| *values = after,
                    || {
                        // Two words in place, two by operation.
                        (0..2).for_each(|word| lane.log(WORDS[word], 8).expect("room in the lane"));
                        let ops = [2, 3].map(|word: usize| (WORDS[word] - DATA) << 32 | after[word]);
                        lane.fence();
                        (0..2).for_each(|word| set(&media, WORDS[word], after[word]));
                        lane.log_ops(&ops).expect("room in the lane");
                        let ordered = lane.fence_ops();
                        lane.commit(&ordered);
                        media.fence(); // nothing is applied before the commit word
                        ops.into_iter().for_each(|op| apply(&media, op));
                        media.fence();
                        lane.retire();
                        media.barrier().expect("sim barriers do not fail");
                        lane.fenced();
                    },
                );
            }
        },
        |media, _| recover(&media).map(|_| values(&media)),
    )
}

/// Pairs of transactions, of which the first is ordered by the second, and settled with it. A lane
/// has one thread between two fences.
fn journal_reuse(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &lane_image(),
        &[0; 4],
        Order::InOrder,
        |media, twin| {
            let mut lane = recover(&media).expect("a fresh lane");
            for pair in 1..3_u64 {
                let begun = [0, 1].map(|second| {
                    let after = WORDS.map(|at| pair * 1000 + second * 100 + at % 64);
                    let name = format!("transaction {second} of pair {pair}");
                    let op = twin.begin(name, move |values: &mut Values| *values = after);
                    WORDS.iter().for_each(|&at| lane.log(at, 8).expect("room in the lane"));
                    lane.fence();
                    WORDS.iter().zip(after).for_each(|(&at, value)| set(&media, at, value));
                    media.fence();
                    lane.retire();
                    op
                });
                media.barrier().expect("sim barriers do not fail");
                lane.fenced();
                begun.into_iter().for_each(|op| twin.acked(op));
            }
        },
        |media, _| recover(&media).map(|_| values(&media)),
    )
}

fn journal_twice(explorer: Explorer) -> Result<Report, Box<Failure>> {
    explorer.explore_twin(
        &lane_image(),
        &[0; 4],
        Order::InOrder,
        |media, twin| {
            let mut lane = recover(&media).expect("a fresh lane");
            let after = WORDS.map(|at| 7000 + at % 64);
            twin.step(
                "one transaction, two changes",
                move |values: &mut Values| *values = after,
                || {
                    for change in [5000, 7000] {
                        WORDS.iter().for_each(|&at| lane.log(at, 8).expect("room in the lane"));
                        lane.fence();
                        WORDS.iter().for_each(|&at| set(&media, at, change + at % 64));
                    }
                    media.fence();
                    lane.retire();
                    media.barrier().expect("sim barriers do not fail");
                },
            );
        },
        |media, _| recover(&media).map(|_| values(&media)),
    )
}

fn ring_lazy(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let image = Image::build(LEN, |media| WordLog::format(&media, RING, Form::Torn, 0x5eed).expect("a log fits"));
    explorer.explore(
        &image,
        |media, _| {
            let log = WordLog::recover(&media, RING, Full::Error, |_| {}).expect("a fresh log").log;
            let mut producer = log.producer;
            for number in 1..4 {
                producer.append(&[number]).expect("room in the ring");
                producer.flush();
                set(&media, DATA, number);
            }
            media.barrier().expect("sim barriers do not fail");
        },
        |media, _| {
            let mut newest = 0;
            WordLog::recover(&media, RING, Full::Error, |record| newest = record[0])
                .map_err(|error| error.to_string())?;
            let stored = media.load(DATA);
            if stored <= newest {
                Ok(())
            } else {
                Err(format!("word {stored} survived, record {newest} is the newest"))
            }
        },
    )
}

const RING: Range<u64> = 0x1000..0x1000 + 192 + 40 * 8;

/// Records of one to nine words, with bits where the torn-bit form has its own.
fn record(number: u64) -> Vec<u64> {
    (0..1 + number * 7 % 9).map(|word| number << 32 | word | 1 << 63).collect()
}

fn number_of(record: &[u64]) -> u64 {
    record[0] << 1 >> 33
}

fn renew(explorer: Explorer) -> Result<Report, Box<Failure>> {
    let format = |media: &Media| WordLog::format(media, RING, Form::Torn, 0x5eed).expect("a log fits");
    let recover = |media: &Media, records: &mut Vec<Vec<u64>>| {
        WordLog::recover(media, RING, Full::Error, |record| records.push(record.to_vec())).map(|found| found.log)
    };
    let image = Image::build(LEN, |media| {
        format(&media);
        let mut log = recover(&media, &mut Vec::new()).expect("a fresh log");
        log.producer.append(&record(1)).expect("room in the ring");
        log.producer.barrier().expect("sim barriers do not fail");
    });
    let program = |media: Media, oracle: &Oracle| {
        oracle.step("format", || {
            format(&media);
            media.barrier().expect("sim barriers do not fail");
        });
    };
    explorer.explore(&image, program, |media, seen| {
        let mut records = Vec::new();
        let found = recover(&media, &mut records);
        match found {
            _ if seen.acked_count() == 0 => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) if records.is_empty() => Ok(()),
            Ok(_) => Err(format!("a new log has the records {records:?}")),
        }
    })
}

/// Appends records of one to nine words, consumes and truncates some, laps the ring twice.
fn ring(explorer: Explorer, form: Form) -> Result<Report, Box<Failure>> {
    let image = Image::build(LEN, |media| WordLog::format(&media, RING, form, 0x5eed).expect("a log fits"));
    // The model: records appended and not truncated.
    explorer.explore_twin(
        &image,
        &Vec::<Vec<u64>>::new(),
        Order::InOrder,
        |media, twin| {
            let log = WordLog::recover(&media, RING, Full::Error, |_| {}).expect("a fresh log").log;
            let (mut producer, mut consumer) = log.split();
            let mut flying = Vec::new();
            let left = twin.model();
            if !left.is_empty() {
                // Lasts only if what was left lasts, too.
                let more = record(number_of(&left[left.len() - 1]) + 1);
                let appended = more.clone();
                let append = move |records: &mut Vec<Vec<u64>>| records.push(appended.clone());
                twin.step("append behind what was left", append, || {
                    producer.append(&more).expect("room in the ring");
                    producer.barrier().expect("sim barriers do not fail");
                });
                twin.step(
                    "truncate what was left",
                    |records: &mut Vec<Vec<u64>>| records.clear(),
                    || {
                        let mut words = Vec::new();
                        let end = (0..=left.len()).map(|_| consumer.next(&mut words).expect("a whole record")).last();
                        consumer.truncate(end.flatten().expect("as many records as were found"));
                        media.barrier().expect("sim barriers do not fail");
                    },
                );
            }
            let first = left.last().map_or(0, |record| (number_of(record) + 2).next_multiple_of(2));
            for number in first..first + 10 {
                let record = record(number);
                let kept = record.clone();
                let append = move |records: &mut Vec<Vec<u64>>| records.push(kept.clone());
                flying.push(twin.begin(format!("append {number}"), append));
                producer.append(&record).expect("room in the ring");
                if number % 2 == 0 {
                    // two records share a barrier: the first may be torn where the second is whole
                    continue;
                }
                producer.barrier().expect("sim barriers do not fail");
                flying.drain(..).for_each(|op| twin.acked(op));
                let drop_two = |records: &mut Vec<Vec<u64>>| drop(records.drain(..2));
                twin.step(format!("truncate after {number}"), drop_two, || {
                    let mut words = Vec::new();
                    consumer.next(&mut words).expect("a whole record");
                    let end = consumer.next(&mut words).expect("a whole record").expect("two records");
                    consumer.truncate(end);
                    media.barrier().expect("sim barriers do not fail");
                });
            }
        },
        |media, seen| {
            let read = || {
                let mut records = Vec::new();
                let log = WordLog::recover(&media, RING, Full::Error, |record| records.push(record.to_vec()));
                log.map(|recovered| (recovered.log, records)).map_err(|error| error.to_string())
            };
            let (mut log, records) = read()?;
            seen.recovered();
            // The ring is usable again: a record appended now is the last one of the next recovery,
            // also where it takes exactly the place of one that was torn.
            let next = records.last().map_or(0, |record| number_of(record) + 1);
            let added = vec![5; record(next).len()];
            log.producer.append(&added).map_err(|error| error.to_string())?;
            log.producer.barrier().map_err(|error| error.to_string())?;
            drop(log);
            let again = read()?.1;
            match again.split_last() {
                Some((last, rest)) if *last == added && rest == records => Ok(records),
                _ => Err(format!("recovered {records:?}, then appended, then recovered {again:?}")),
            }
        },
    )
}
