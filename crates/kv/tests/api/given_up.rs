//! Batches that are given up, openings that fail, tables closed and opened again: what did not
//! happen never comes back. And calls that contradict each other are refused.

use everbyte_kv::{Error, Kv};
use everbyte_media::{Media, Offset, Options};
use everbyte_sim::Image;
use everbyte_store::{FormatOptions, Store};

fn store() -> Store {
    let media = Media::anonymous(1 << 30, &Options::default()).unwrap();
    Store::format(media, &FormatOptions::default()).unwrap()
}

/// A batch of each kind of change, none of which may ever be seen.
fn give_up(kv: &Kv) {
    let mut batch = kv.batch();
    batch.put(b"never", b"happened").unwrap();
    batch.put(b"never, either", &[7; 3000]).unwrap();
    batch.put(b"kept", b"overwritten").unwrap();
    assert!(batch.delete(b"also kept").unwrap());
    batch.abort();
}

fn assert_nothing_happened(kv: &Kv, story: &str) {
    assert_eq!(kv.get(b"never").unwrap(), None, "{story}");
    assert_eq!(kv.get(b"never, either").unwrap(), None, "{story}");
    assert_eq!(kv.get(b"kept").unwrap().as_deref(), Some(&b"kept"[..]), "{story}");
    assert_eq!(kv.get(b"also kept").unwrap().as_deref(), Some(&b"kept"[..]), "{story}");
    assert_eq!(kv.check(), [], "{story}");
}

fn filled(store: &Store) -> Kv {
    let kv = Kv::create(store, "t").unwrap();
    kv.put(b"kept", b"kept").unwrap();
    kv.put(b"also kept", b"kept").unwrap();
    kv
}

/// A batch that is given up takes back its stamps. It leaves no version to be listed, so any number
/// of them may alternate with commits and the list of void versions stays empty.
#[test]
fn batches_given_up_among_commits_never_happen_and_list_nothing() {
    let store = store();
    let mut kv = filled(&store);
    let listed = kv.stats().void_ranges;
    for round in 0..600_u32 {
        give_up(&kv);
        kv.put(b"other", &round.to_be_bytes()).unwrap();
        if round % 100 == 0 {
            give_up(&kv);
            assert_nothing_happened(&kv, "open");
            drop(kv);
            kv = Kv::open(&store, "t").unwrap();
        }
    }
    assert_nothing_happened(&kv, "the end");
    assert_eq!(kv.stats().void_ranges, listed);
}

/// The next batch takes the number of one that was given up: nothing of the first comes to life
/// with the second.
#[test]
fn a_batch_given_up_before_a_close_is_not_committed_by_the_next_process() {
    let store = store();
    let kv = filled(&store);
    give_up(&kv);
    drop(kv);
    let kv = Kv::open(&store, "t").unwrap();
    kv.put(b"other", b"1").unwrap();
    assert_nothing_happened(&kv, "after an unrelated put");
}

/// A batch that is leaked is neither committed nor given up, and the table is closed all the same.
/// The next opening voids it.
#[test]
fn a_leaked_batch_does_not_come_to_life_after_a_close() {
    let store = store();
    let kv = filled(&store);
    let mut batch = kv.batch();
    batch.put(b"never", b"happened").unwrap();
    std::mem::forget(batch);
    drop(kv);
    let kv = Kv::open(&store, "t").unwrap();
    kv.put(b"other", b"1").unwrap();
    assert_nothing_happened(&kv, "after an unrelated put");
}

/// Crashes one after the other, without a commit between them: the numbers that are given later are
/// none of the void ones.
#[test]
fn crashes_without_a_commit_between_them_leave_numbers_that_count() {
    let store = store();
    let mut kv = filled(&store);
    for _ in 0..3 {
        let mut batch = kv.batch();
        batch.put(b"never", b"happened").unwrap();
        std::mem::forget(batch);
        drop(kv);
        kv = Kv::open(&store, "t").unwrap();
        assert_nothing_happened(&kv, "after a crash");
    }
    kv.put(b"other", b"1").unwrap();
    assert_eq!(kv.get(b"other").unwrap().as_deref(), Some(&b"1"[..]));
    drop(kv);
    let kv = Kv::open(&store, "t").unwrap();
    assert_eq!(kv.get(b"other").unwrap().as_deref(), Some(&b"1"[..]));
    assert_nothing_happened(&kv, "at the end");
}

/// A crash, then a process that opens the table and closes it without a commit: the next one gives
/// none of the void numbers.
#[test]
fn a_close_without_a_commit_behind_a_crash_leaves_numbers_that_count() {
    let store = store();
    let kv = filled(&store);
    let mut batch = kv.batch();
    batch.put(b"never", b"happened").unwrap();
    std::mem::forget(batch);
    drop(kv);
    drop(Kv::open(&store, "t").unwrap());
    let kv = Kv::open(&store, "t").unwrap();
    kv.put(b"other", b"1").unwrap();
    assert_eq!(kv.get(b"other").unwrap().as_deref(), Some(&b"1"[..]));
    assert_nothing_happened(&kv, "after a close");
}

/// A crash in the middle of a batch; then an opening that fails; then one that does not. The first
/// must not say that the table was closed in good order, or the second commits what the crash cut
/// short.
#[test]
fn an_opening_that_fails_leaves_the_crash_to_the_next_one() {
    let store = store();
    let kv = filled(&store);
    let mut batch = kv.batch();
    batch.put(b"never", b"happened").unwrap();
    assert!(batch.delete(b"also kept").unwrap());
    // The contents of the memory at this instant.
    let (media, object) = (store.media(), store.object("t").unwrap());
    let image = media.read_vec(0, object.backed().get().min(Offset::new(media.len()).get()) as usize);
    let root_at = object.prime() + 2048 + 128;
    let commit = media.load(object.prime() + 2048 + 64);
    let root = media.load(root_at + (commit & 1) * 64 + 8);
    batch.abort();
    let media = Media::anonymous(1 << 30, &Options::default()).unwrap();
    media.write(0, &image);
    let store = Store::attach(media.clone()).unwrap();
    let header = media.load(root);
    media.store(root, 0);
    assert!(Kv::open(&store, "t").is_err(), "the root is unreadable");
    media.store(root, header);
    let kv = Kv::open(&store, "t").unwrap();
    kv.put(b"other", b"1").unwrap();
    assert_eq!(kv.get(b"never").unwrap(), None);
    assert!(kv.get(b"also kept").unwrap().is_some());
    assert_eq!(kv.check(), []);
}

/// 600 pairs with values of so many bytes, of which another process has deleted every second one.
fn half_deleted_and_opened_again(value: usize) -> Kv {
    let store = store();
    let kv = Kv::create(&store, "t").unwrap();
    let key = |number: u32| format!("key{number:05}").into_bytes();
    let mut batch = kv.batch();
    (0..600).for_each(|number| assert!(!batch.put(&key(number), &vec![1; value]).unwrap()));
    kv.settle(batch.commit().unwrap()).unwrap();
    let mut batch = kv.batch();
    (0..600).step_by(2).for_each(|number| assert!(batch.delete(&key(number)).unwrap()));
    kv.settle(batch.commit().unwrap()).unwrap();
    drop(kv);
    Kv::open(&store, "t").unwrap()
}

/// Long values that died give their space back although the process that buried them is gone and no
/// write comes near their leaves.
#[test]
fn values_that_died_before_a_restart_give_their_space_back() {
    let kv = half_deleted_and_opened_again(6000);
    (0..200_u32).for_each(|round| kv.put(b"zzz", &round.to_be_bytes()).unwrap());
    assert!(kv.stats().freed >= 300, "300 values are dead: {:?}", kv.stats());
    assert_eq!(kv.check(), []);
}

/// The same without a write: what an earlier process has buried is found by steps of reclaiming.
#[test]
fn steps_of_reclaiming_find_values_that_died_before_a_restart() {
    let kv = half_deleted_and_opened_again(700);
    while kv.reclaim().unwrap() {}
    assert!(kv.stats().freed >= 300, "300 values are dead: {:?}", kv.stats());
    assert_eq!((kv.len(), kv.check()), (300, vec![]));
}

/// A leaf that was split and a table that was cleared, both while a snapshot was held: a process
/// that knows only the cleared root frees each value once, of the old leaf those that ended there.
#[test]
fn a_split_leaf_below_a_cleared_root_frees_no_value_twice() {
    let store = store();
    let kv = Kv::create(&store, "t").unwrap();
    let key = |number: u32| format!("key{number:05}").into_bytes();
    let put_all = |kv: &Kv, numbers: std::ops::Range<u32>, value: u8| {
        let mut batch = kv.batch();
        for number in numbers {
            batch.put(&key(number), &[value; 700]).unwrap();
        }
        kv.settle(batch.commit().unwrap()).unwrap();
    };
    put_all(&kv, 0..40, 1);
    let snapshot = kv.snapshot();
    put_all(&kv, 40..200, 1);
    let mut batch = kv.batch();
    batch.clear().unwrap();
    kv.settle(batch.commit().unwrap()).unwrap();
    drop(snapshot);
    drop(kv);
    let kv = Kv::open(&store, "t").unwrap();
    while kv.reclaim().unwrap() {}
    let freed = kv.stats().freed;
    assert!((200..220).contains(&freed), "200 values, their leaves and a root: {freed}");
    put_all(&kv, 0..200, 2);
    assert!((0..200).all(|number| kv.get(&key(number)).unwrap() == Some(vec![2; 700])));
    assert_eq!((kv.len(), kv.check()), (200, vec![]));
}

/// An overwrite that a crash cut short, in a leaf that only a named version still sees when the
/// stamps of void versions are taken out of the tree: later it is known by no list that the value
/// never ended there, and has moved.
#[test]
fn stamps_of_crashes_are_taken_out_of_replaced_leaves_too() {
    let store = store();
    let kv = Kv::create(&store, "t").unwrap();
    let key = |number: u32| format!("key{number:05}").into_bytes();
    (0..20).for_each(|number| kv.put(&key(number), &[1; 700]).unwrap());
    kv.name_version("before").unwrap();
    let mut batch = kv.batch();
    (0..10).for_each(|number| assert!(batch.delete(&key(number)).unwrap()));
    std::mem::forget(batch);
    drop(kv);
    let kv = Kv::open(&store, "t").unwrap();
    (20..120).for_each(|number| kv.put(&key(number), &[2; 700]).unwrap());
    drop(kv);
    let mut ranges = Vec::new();
    for _ in 0..260 {
        let kv = Kv::open(&store, "t").unwrap();
        ranges.push(kv.stats().void_ranges);
        let mut batch = kv.batch();
        batch.put(b"never", b"happened").unwrap();
        std::mem::forget(batch);
        drop(kv);
        let kv = Kv::open(&store, "t").unwrap();
        kv.put(b"other", b"1").unwrap();
    }
    assert!(ranges.windows(2).any(|pair| pair[1] < pair[0]), "the list began anew");
    let kv = Kv::open(&store, "t").unwrap();
    kv.remove_version("before").unwrap();
    while kv.reclaim().unwrap() {}
    (200..240).for_each(|number| kv.put(&key(number), &[3; 700]).unwrap());
    assert!((0..20).all(|number| kv.get(&key(number)).unwrap() == Some(vec![1; 700])));
    assert_eq!((kv.len(), kv.check()), (161, vec![]));
}

/// A batch that clears the table sweeps the new tree instead of the old one. If its commit fails
/// for want of room, the old tree is in force again, and the sweep has seen nothing of it.
#[test]
fn a_commit_that_fails_takes_the_sweep_back_to_where_it_was() {
    fails_to_commit(true);
}

/// Blocks that a failed commit was to free are freed by later ones.
#[test]
fn a_commit_that_fails_frees_nothing_and_keeps_nothing_from_being_freed() {
    fails_to_commit(false);
}

/// Among sizes of values that fill the table there is one at which no put fails in the middle of a
/// change.
fn fails_to_commit(reopened: bool) {
    assert!((0..30).any(|step| fails_with_values_of(6000 - step * 50, reopened)));
}

/// `false`: a put failed in the middle of a change, and its batch cannot be committed.
fn fails_with_values_of(len: usize, reopened: bool) -> bool {
    let store =
        Store::format(Media::anonymous(64 << 20, &Options::default()).unwrap(), &FormatOptions::default()).unwrap();
    let kv = Kv::create(&store, "t").unwrap();
    let key = |number: u32| format!("key{number:05}").into_bytes();
    let mut batch = kv.batch();
    (0..600).for_each(|number| assert!(!batch.put(&key(number), &[1; 6000]).unwrap()));
    kv.settle(batch.commit().unwrap()).unwrap();
    let mut batch = kv.batch();
    (0..600).step_by(2).for_each(|number| assert!(batch.delete(&key(number)).unwrap()));
    kv.settle(batch.commit().unwrap()).unwrap();
    let kv = if reopened {
        drop(kv);
        Kv::open(&store, "t").unwrap()
    } else {
        kv
    };
    let freed = kv.stats().freed;
    let mut batch = kv.batch();
    batch.clear().unwrap();
    let mut numbers = 1000..;
    for len in [len, 60_000, 30_000, 15_000, 9_000, 4_097] {
        while batch.put(&key(numbers.next().unwrap()), &vec![2; len]).is_ok() {}
    }
    if batch.is_doomed() {
        return false;
    }
    assert!(numbers.start > 1600, "a ledger of {numbers:?} is too long for its usual place");
    let error = batch.commit().unwrap_err();
    assert!(error.to_string().contains("needs"), "{error}");
    assert_eq!((kv.len(), kv.stats().freed), (300, freed), "nothing happened");
    (0..200_u32).for_each(|round| kv.put(b"zzz", &round.to_be_bytes()).unwrap());
    assert!(kv.stats().freed >= 300, "300 values are dead: {:?}", kv.stats());
    assert_eq!(kv.check(), []);
    true
}

/// A commit is settled by the table that made it. Another one would say "durable" of something it
/// knows nothing of.
#[test]
fn a_commit_of_another_table_is_refused() {
    let store = store();
    let (one, other) = (Kv::create(&store, "one").unwrap(), Kv::create(&store, "other").unwrap());
    (0..10_u8).for_each(|round| other.put(b"key", &[round]).unwrap());
    let mut batch = one.batch();
    batch.put(b"key", b"value").unwrap();
    let commit = batch.commit().unwrap();
    let error = other.settle(commit).unwrap_err();
    assert!(error.to_string().contains("another table"), "{error}");
    one.settle(commit).unwrap();
    drop(one);
    let one = Kv::open(&store, "one").unwrap();
    assert!(one.settle(commit).is_err(), "a commit from before the table was opened again");
}

/// A thread that has a batch and writes beside it would wait for itself for ever.
#[test]
fn a_write_beside_a_batch_of_the_same_thread_is_refused() {
    let kv = filled(&store());
    let batch = kv.batch();
    let error = kv.put(b"key", b"value").unwrap_err();
    assert!(matches!(error, Error::OwnBatch) && error.to_string().contains("this thread has a batch"), "{error}");
    assert!(kv.delete(b"kept").is_err() && kv.free_leaks().is_err());
    let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(kv.batch())));
    assert!(again.is_err());
    // Another thread waits for its turn.
    std::thread::scope(|scope| {
        let other = scope.spawn(|| kv.put(b"key", b"value").unwrap());
        drop(batch);
        other.join().unwrap();
    });
    kv.put(b"key", b"again").unwrap();
}

/// The ledger of the newest version is applied again when a table is opened after a crash. The
/// blocks that it frees serve the process that opened the table, and not only the next one.
#[test]
fn blocks_that_a_replayed_ledger_frees_are_allocated_by_the_same_process() {
    let image = Image::zeroed(4 << 20).then(|media| {
        let store = Store::format(media, &FormatOptions::default()).unwrap();
        Kv::create(&store, "t").unwrap().put(b"long", &[1; 500_000]).unwrap();
        store.close().unwrap();
    });
    let media = image.media();
    let kv = Kv::open(&Store::attach(media.clone()).unwrap(), "t").unwrap();
    kv.put(b"long", b"short").unwrap();
    let freed = kv.stats().freed;
    while kv.stats().freed == freed {
        kv.put(b"other", b"1").unwrap();
    }
    let crashed = Image::of(&media);
    let [first, second] = [1, 2].map(|openings| {
        let store = Store::attach(crashed.media()).unwrap();
        (1..openings).for_each(|_| drop(Kv::open(&store, "t").unwrap()));
        let kv = Kv::open(&store, "t").unwrap();
        (0..1000_u32).take_while(|number| kv.put(&number.to_be_bytes(), &[2; 100_000]).is_ok()).count()
    });
    assert_eq!(first, second, "puts of 100 kB until the table is full");
    assert!(first >= 5, "{first}");
}
