//! A word log in either form with records in it, its ring come round once, patched, recovered and
//! used on.
//!
//! Beyond FUZZ-1: the log goes on from the bytes that were believed. Records appended after
//! recovery are found by the next one, behind the very records that the first one found.

use crate::class;
use crate::patch::Image;
use everbyte_log::{Form, Full, WordLog};
use everbyte_media::{Media, Options};
use std::ops::Range;
use std::sync::OnceLock;

const LEN: u64 = 8 << 10;
const LOG: Range<u64> = 4096..4096 + 192 + 96 * 8;
/// Bit 1 of the first byte of an input: the base form.
const BASE: u8 = 2;

fn good(form: Form) -> &'static Image {
    static GOOD: [OnceLock<Image>; 2] = [OnceLock::new(), OnceLock::new()];
    GOOD[usize::from(form == Form::Base)].get_or_init(|| {
        let media = Media::anonymous(LEN, &Options::default()).expect("memory");
        WordLog::format(&media, LOG, form, 77).expect("a log");
        media.barrier().expect("a barrier");
        let mut log = WordLog::recover(&media, LOG, Full::Error, |_| {}).expect("a log").log;
        for len in [40, 30, 1, 20] {
            if log.producer.append(&words(len)).is_err() {
                log.truncate_all();
                log.producer.append(&words(len)).expect("room in an empty log");
            }
            log.producer.flush();
        }
        Image::new(media.read_vec(0, LEN as usize), vec![(LOG.start as usize, 64)])
    })
}

fn words(len: u64) -> Vec<u64> {
    (0..len).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

/// The patches of [`crate::patch::seeds`], to both forms.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut both = crate::patch::seeds();
    let base: Vec<Vec<u8>> = both.iter().map(|seed| [&[seed[0] | BASE], &seed[1..]].concat()).collect();
    both.extend(base);
    both
}

pub(crate) fn run(input: &[u8]) -> String {
    let form = if input.first().is_some_and(|flags| flags & BASE != 0) { Form::Base } else { Form::Torn };
    let media = Media::anonymous(LEN, &Options::default()).expect("memory");
    {
        let _section = media.section();
        media.write(0, &good(form).patched(input));
    }
    let mut found = Vec::new();
    let recovered = match WordLog::recover(&media, LOG, Full::Error, |words| found.push(words.to_vec())) {
        Ok(recovered) => recovered,
        Err(error) => return class(&error.to_string()),
    };
    let mut said = format!("{:?} {} records", std::mem::discriminant(&recovered.stop), found.len());
    let mut log = recovered.log;
    // Once behind what was found, and once after it was truncated.
    for truncated in [false, true] {
        if truncated {
            log.truncate_all();
            found.clear();
        }
        match log.producer.append(&words(3)) {
            Ok(()) => {
                log.producer.flush();
                found.push(words(3));
            }
            Err(error) => said += &class(&error.to_string()),
        }
        let mut again = Vec::new();
        let next = WordLog::recover(&media, LOG, Full::Error, |words| again.push(words.to_vec()));
        log = next.expect("FUZZ: a log that was recovered can be recovered").log;
        assert_eq!(again, found, "FUZZ: what was recovered and appended is found again");
    }
    said
}
