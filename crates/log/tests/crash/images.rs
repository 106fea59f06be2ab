//! Crash images of both logs: every profile, torn words in any subset, crashes inside recovery.

use crate::common::{lane, words};
use everbyte_log::Form;
use everbyte_media::Media;
use everbyte_sim::{Explorer, Oracle, Profile, Seen};

/// All settling and tear models: neither log relies on more than the rule, so all must do.
const PROFILES: [Profile; 5] = [Profile::PMEM, Profile::FILE, Profile::PMEM_LINES, Profile::FILE_LINES, Profile::EADR];

/// Each transaction is there whole or not at all, every acknowledged one is there, no rolled back
/// one is.
#[test]
fn a_lane_survives_crashes_anywhere() {
    Explorer::new("log-lane").profiles(&PROFILES).total(8_000).run(&lane::image(), lane::program, lane::check);
}

/// Records come back whole and in order, from the durable head to at least the last barrier.
#[test]
fn a_torn_bit_log_survives_crashes_anywhere() {
    Explorer::new("log-torn").profiles(&PROFILES).total(8_000).run(
        &words::image(Form::Torn),
        words::program,
        words::check,
    );
}

#[test]
fn a_base_log_survives_crashes_anywhere() {
    Explorer::new("log-base").profiles(&PROFILES).total(8_000).run(
        &words::image(Form::Base),
        words::program,
        words::check,
    );
}

/// A power cut has left a torn record and a whole one behind it. A recovery inverted the words of
/// both and died before its fence; the next one has nothing left to invert, and the record of its
/// process ends where the whole one begins.
#[test]
fn words_that_a_dead_recovery_has_inverted_stay_inverted() {
    let ring = || (words::RING.start + 192..words::RING.end).step_by(8);
    let image = words::image(Form::Torn).then(|media| {
        let mut producer = words::recover(&media).unwrap().1.log.producer;
        producer.append(&words::record(1, 2)).unwrap();
        producer.append(&words::record(2, 2)).unwrap();
        media.store(words::RING.start + 192, 0);
    });
    let program = |media: Media, oracle: &Oracle| {
        // In the first lap the other sense is that of a zero.
        ring().filter(|&at| media.load(at) != 0).for_each(|at| media.store(at, 0));
        let (found, recovered) = words::recover(&media).unwrap();
        assert_eq!(found, [[0; 0]; 0]);
        let mut producer = recovered.log.producer;
        oracle.step("append", || {
            producer.append(&words::record(3, 2)).unwrap();
            producer.barrier().unwrap();
        });
    };
    let check = |media: Media, seen: &Seen| {
        let (found, _) = words::recover(&media)?;
        let fits = found == [words::record(3, 2)] || found.is_empty() && seen.acked_count() == 0;
        if fits { Ok(()) } else { Err(format!("{found:?}, {seen:?}")) }
    };
    Explorer::new("log-inverted").profiles(&[Profile::PMEM]).total(4_000).run(&image, program, check);
}

/// A process died after an append that goes around the end of the ring, before it flushed it. The
/// record that the next process appends does not survive without that one, whose second part lies
/// at the beginning of the ring.
#[test]
fn a_record_around_the_end_that_a_dead_process_left_stays() {
    let before = words::image(Form::Torn).then(|media| {
        let mut log = words::recover(&media).unwrap().1.log;
        for number in 0..2 {
            log.producer.append(&words::record(number, 11)).unwrap();
        }
        log.producer.flush();
        log.truncate_all();
    });
    let after = before.clone().then(|media| {
        let mut producer = words::recover(&media).unwrap().1.log.producer;
        producer.append(&words::record(2, 11)).unwrap();
        producer.flush();
    });
    let after = after.media();
    let program = |media: Media, oracle: &Oracle| {
        for at in words::RING.step_by(8).filter(|&at| media.load(at) != after.load(at)) {
            media.store(at, after.load(at));
        }
        let (found, recovered) = words::recover(&media).unwrap();
        assert_eq!(found, [words::record(2, 11)]);
        let mut producer = recovered.log.producer;
        oracle.step("append", || {
            producer.append(&words::record(3, 1)).unwrap();
            producer.barrier().unwrap();
        });
    };
    let check = |media: Media, seen: &Seen| {
        let (found, _) = words::recover(&media)?;
        let whole = found == [words::record(2, 11), words::record(3, 1)];
        if whole || seen.acked_count() == 0 { Ok(()) } else { Err(format!("{found:?}, {seen:?}")) }
    };
    Explorer::new("log-wrapped").profiles(&[Profile::PMEM]).total(4_000).run(&before, program, check);
}
