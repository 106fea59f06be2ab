//! Golden persistence traces: the stores, flushes and fences of each path, in order. A fence gained
//! or lost is a reviewed line of `testdata/`.

use everbyte_log::{Form, Full, Journal, WordLog};
use everbyte_media::Media;
use everbyte_sim::{Image, Tracer, assert_golden};
use std::ops::Range;

const LANE: Range<u64> = 4096..4096 + 448;
const HOME: u64 = 16384;

fn lane(program: impl FnOnce(Media, Journal)) -> String {
    let image = Image::build(32768, |media| Journal::format(&media, LANE, 7).unwrap());
    let tracer = Tracer::new(&image).label("lane.word", 4160..4168).label("lane", 4224..4544);
    let tracer = tracer.label("extra", 8192..12288).label("home", HOME..32768);
    tracer.run_after(|media| Journal::recover(&media, LANE, 0..media.len()).unwrap().finish(), program)
}

#[test]
fn one_word_changed() {
    let text = lane(|media, mut journal| {
        journal.log(HOME, 8).unwrap();
        journal.fence();
        media.store(HOME, 1);
        media.flush(HOME, 8);
        media.fence();
        journal.retire();
        media.barrier().unwrap();
    });
    assert_golden("testdata/journal-one-word.trace", &text);
}

#[test]
fn ranges_named_in_advance_and_operations() {
    let text = lane(|media, mut journal| {
        journal.log(HOME, 8).unwrap();
        journal.log(HOME + 128, 60).unwrap();
        journal.fence();
        media.write(HOME, &[1; 188]);
        media.flush(HOME, 188);
        journal.log_ops(&[1, 2]).unwrap();
        let ordered = journal.fence_ops();
        journal.commit(&ordered);
        media.barrier().unwrap();
        media.store(HOME + 512, 1); // the owner applies its operations
        media.flush(HOME + 512, 8);
        media.fence();
        journal.retire();
        journal.fence();
    });
    assert_golden("testdata/journal-operations.trace", &text);
}

#[test]
fn a_lane_chained_and_rolled_back() {
    let text = lane(|media, mut journal| {
        journal.extend(8192..12288).unwrap();
        journal.log_words(&[HOME, HOME + 64, HOME + 128, HOME + 192]).unwrap();
        journal.log(HOME + 256, 16).unwrap();
        journal.log(HOME + 320, 8).unwrap();
        journal.log(HOME + 384, 8).unwrap();
        journal.fence();
        media.store(HOME, 1);
        journal.rollback().unwrap();
    });
    assert_golden("testdata/journal-rollback.trace", &text);
}

#[test]
fn a_lane_recovered() {
    let image = Image::build(32768, |media| {
        Journal::format(&media, LANE, 7).unwrap();
        let mut journal = Journal::recover(&media, LANE, 0..media.len()).unwrap().finish();
        journal.log(HOME, 8).unwrap();
        journal.fence();
        media.store(HOME, 1);
    });
    let tracer = Tracer::new(&image).label("lane.word", 4160..4168).label("home", HOME..32768);
    let text = tracer.run(|media| {
        let found = Journal::recover(&media, LANE, 0..media.len()).unwrap();
        found.undo();
        found.finish();
    });
    assert_golden("testdata/journal-recovery.trace", &text);
}

fn words(form: Form) -> String {
    let range = 4096..4096 + 192 + 16 * 8;
    let image = Image::build(8192, |media| WordLog::format(&media, range.clone(), form, 7).unwrap());
    let tracer = Tracer::new(&image).label("head", 4160..4168).label("tail", 4224..4232).label("ring", 4288..4416);
    let prepare = |media: Media| WordLog::recover(&media, range.clone(), Full::Error, |_| {}).unwrap().log;
    tracer.run_after(prepare, |_, mut log| {
        log.producer.append(&[1, 2, 3]).unwrap();
        log.producer.append(&[4]).unwrap();
        log.producer.flush();
        log.truncate_all();
        log.producer.append(&[5, 6, 7, 8, 9]).unwrap();
        log.producer.append(&[10]).unwrap(); // across the seam
        log.producer.barrier().unwrap();
    })
}

#[test]
fn a_word_log_with_torn_bits() {
    assert_golden("testdata/words-torn.trace", &words(Form::Torn));
}

#[test]
fn a_word_log_in_the_base_form() {
    assert_golden("testdata/words-base.trace", &words(Form::Base));
}
