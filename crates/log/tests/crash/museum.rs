//! Seeded bugs: each makes a log wrong in one way, and the explorer must find it.

use crate::common::{lane, words};
use everbyte_log::Form;
use everbyte_media::museum;
use everbyte_sim::{Explorer, Failure};

fn lane_with(bug: &'static str) -> Result<(), Box<Failure>> {
    museum::with(bug, || {
        Explorer::new(bug).explore(&lane::image(), lane::program, lane::check).map(|report| println!("{report}"))
    })
}

fn words_with(bug: &'static str, form: Form) -> Result<(), Box<Failure>> {
    museum::with(bug, || {
        let explorer = Explorer::new(bug);
        explorer.explore(&words::image(form), words::program, words::check).map(|report| println!("{report}"))
    })
}

fn found(bug: &str, outcome: Result<(), Box<Failure>>) {
    let failure = outcome.expect_err(&format!("{bug}: not found"));
    println!("{bug}: {failure}");
}

#[test]
fn a_missing_fence_between_entry_and_change_is_found() {
    found("log-journal-no-fence", lane_with("log-journal-no-fence"));
}

#[test]
fn entries_believed_by_their_generation_alone_are_found() {
    found("log-journal-no-checksum", lane_with("log-journal-no-checksum"));
}

#[test]
fn undoing_oldest_first_is_found() {
    found("log-journal-undo-forward", lane_with("log-journal-undo-forward"));
}

#[test]
fn reusing_a_lane_before_its_retirement_is_ordered_is_found() {
    found("log-journal-reuse-unfenced", lane_with("log-journal-reuse-unfenced"));
}

#[test]
fn opening_an_idle_lane_without_retiring_it_is_found() {
    found("log-journal-idle-unretired", lane_with("log-journal-idle-unretired"));
}

#[test]
fn retiring_before_the_undone_bytes_are_ordered_is_found() {
    found("log-journal-finish-unfenced", lane_with("log-journal-finish-unfenced"));
}

#[test]
fn a_flush_without_its_fence_is_found() {
    found("log-ring-no-fence", words_with("log-ring-no-fence", Form::Torn));
}

#[test]
fn a_tail_word_stored_with_its_records_is_found() {
    found("log-ring-tail-unfenced", words_with("log-ring-tail-unfenced", Form::Base));
}

#[test]
fn space_reused_before_the_head_is_ordered_is_found() {
    found("log-ring-head-unfenced", words_with("log-ring-head-unfenced", Form::Torn));
}

#[test]
fn stale_words_left_behind_a_torn_record_are_found() {
    found("log-ring-no-neutralise", words_with("log-ring-no-neutralise", Form::Torn));
}
