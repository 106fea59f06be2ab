//! A lane that goes through very many segments is read back and rolled back on a stack of 256 KiB.
//!
//! With `EVERBYTE_SOAK` set, the chain has a million links.

use everbyte_log::{Journal, Outcome};
use everbyte_media::{Media, Options};
use everbyte_sim::swarm::on_a_small_stack;
use everbyte_workload::long_or;

#[test]
fn a_chain_of_segments_is_recovered_and_rolled_back_on_a_small_stack() {
    let links = long_or(20_000, 1_000_000);
    let (lane, segment) = (0..256, 128);
    let home = lane.end + links * segment;
    let media = Media::anonymous(1 << 30, &Options::default()).unwrap();
    let len = (home + links * 8).next_multiple_of(1 << 20);
    if media.len() < len {
        media.extend(0, len).unwrap();
    }
    Journal::format(&media, lane.clone(), 7).unwrap();
    let mut journal = Journal::recover(&media, lane.clone(), 0..len).unwrap().finish();
    on_a_small_stack(|| {
        for link in 0..links {
            // One entry fills a segment of the least size.
            journal.extend(lane.end + link * segment..lane.end + (link + 1) * segment).unwrap();
            journal.log(home + link * 8, 8).unwrap();
        }
        journal.fence();
        (0..links).for_each(|link| media.store(home + link * 8, link + 1));
        let recovery = Journal::recover(&media, lane.clone(), 0..len).unwrap();
        assert_eq!((recovery.outcome(), recovery.undo_entries().count() as u64), (Outcome::Undo, links));
        journal.rollback().unwrap();
        assert!((0..links).all(|link| media.load(home + link * 8) == 0));
        assert!(journal.take_extra().len() as u64 == links);
    });
    assert_eq!(Journal::recover(&media, lane, 0..len).unwrap().outcome(), Outcome::Idle);
}
