//! Crash images of both logs: every profile, torn words in any subset, crashes inside recovery.

use crate::common::{lane, words};
use everbyte_log::Form;
use everbyte_sim::{Explorer, Profile};

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
