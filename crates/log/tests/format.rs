//! The worked examples of docs/formats/undo-journal.md and word-log.md, byte for byte.

use everbyte_log::{Form, Full, Journal, WordLog};
use everbyte_media::{Media, Options};

fn words(media: &Media, at: u64, count: u64) -> Vec<String> {
    (0..count).map(|i| format!("{:016x}", media.load(at + 8 * i))).collect()
}

#[test]
fn the_undo_journal_page_shows_these_words() {
    let media = Media::anonymous(1 << 16, &Options::default()).unwrap();
    Journal::format(&media, 4096..8192, 7).unwrap();
    let mut journal = Journal::recover(&media, 4096..8192, 0..1 << 16).unwrap().finish();
    media.store(0x4000, 0x1122_3344_5566_7788);
    journal.log(0x4000, 8).unwrap();
    journal.log_ops(&[0xaa, 0xbb]).unwrap();
    let ordered = journal.fence_ops();
    let page = include_str!("../../../docs/formats/undo-journal.md");
    let mut shown = vec![media.load(4096 + 8), media.load(4160)];
    shown.extend([0, 8, 16, 64, 72, 80, 88].map(|at| media.load(4224 + at)));
    journal.commit(&ordered);
    shown.push(media.load(4160));
    journal.retire();
    shown.push(media.load(4160));
    for word in shown {
        assert!(page.contains(&format!("{word:016x}")), "{word:016x} is not on the page");
    }
}

#[test]
fn the_word_log_page_shows_these_words() {
    let page = include_str!("../../../docs/formats/word-log.md");
    for form in [Form::Torn, Form::Base] {
        let media = Media::anonymous(1 << 16, &Options::default()).unwrap();
        let range = 4096..4096 + 192 + 128;
        WordLog::format(&media, range.clone(), form, 7).unwrap();
        let mut log = WordLog::recover(&media, range, Full::Error, |_| {}).unwrap().log;
        log.producer.append(&[0xffff_ffff_ffff_ffff, 5]).unwrap();
        log.producer.flush();
        let mut shown = words(&media, 4096 + 192, 4);
        log.truncate_all();
        shown.extend(words(&media, 4096 + 64, 1));
        shown.extend(words(&media, 4096 + 128, 1));
        for word in shown {
            assert!(page.contains(&word), "{form:?}: {word} is not on the page");
        }
    }
}
