//! Several members of one store file: which of them is alone, which are alive, and a lock that
//! survives its holder.

use everbyte_media::{BackendChoice, Geometry, HEAD_END, Media, OpenOptions, Options};
use everbyte_members::{Membership, Predecessor, RobustLock, SlotMode};
use std::path::Path;
use std::sync::Arc;

/// Offsets of the word of the lock, and of a count that it guards.
const LOCK: u64 = HEAD_END;
const COUNT: u64 = HEAD_END + 64;

fn options() -> Options {
    Options { backend: BackendChoice::Shm, ..Options::default() }
}

fn create(path: &Path) {
    let geometry = Geometry { max: 1 << 20, len: 64 << 10, log_at: 32 << 10, log_len: 16 << 10 };
    OpenOptions::new(path).create(geometry, &options()).unwrap();
}

fn join(path: &Path, token: u32) -> (Media, Arc<Membership>, bool) {
    let (media, joining) = OpenOptions::new(path).open_shared(&options()).unwrap();
    let joining = joining.expect("shm is shared");
    let alone = joining.is_alone();
    (media, Arc::new(joining.join(token).unwrap()), alone)
}

#[test]
fn the_first_member_is_alone_and_others_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    create(&path);
    let (one, first, alone) = join(&path, 1);
    assert!(alone);
    let (two, second, alone) = join(&path, 2);
    assert!(!alone && first.is_alive(2).unwrap() && second.is_alive(1).unwrap() && !first.is_alive(3).unwrap());
    one.store(COUNT, 7);
    assert_eq!(two.load(COUNT), 7);
    one.extend(64 << 10, 64 << 10).unwrap();
    assert!(!two.holds(64 << 10, 8));
    two.refresh().unwrap();
    assert!(two.holds(64 << 10, 64 << 10));
    two.extend(128 << 10, 4096).unwrap(); // after the head that the other has written

    let refused = |refused: everbyte_media::Result<Media>| refused.unwrap_err().to_string().contains("in use");
    assert!(
        refused(OpenOptions::new(&path).open(&options()))
            && refused(OpenOptions::new(&path).read_only().open(&options()))
    );
    assert!(
        first.lock_slot(9, SlotMode::Shared).unwrap()
            && second.lock_slot(9, SlotMode::Shared).unwrap()
            && !first.lock_slot(9, SlotMode::Exclusive).unwrap()
    );
    second.unlock_slot(9);
    assert!(first.lock_slot(9, SlotMode::Exclusive).unwrap() && !second.lock_slot(9, SlotMode::Shared).unwrap());
    drop((one, first));
    assert!(
        !second.is_alive(1).unwrap() && second.lock_slot(9, SlotMode::Shared).unwrap(),
        "slots end with the membership"
    );
    assert!(second.leave(Ok::<_, everbyte_media::Error>).unwrap(), "the last member");
    drop((two, second));
    let reader = OpenOptions::new(&path).read_only().open(&options()).unwrap();
    assert!(OpenOptions::new(&path).open_shared(&options()).is_err_and(|error| error.to_string().contains("in use")));
    drop(reader);
    assert!(join(&path, 1).2, "every member has left");
}

/// Threads stand for processes: each has the file open for itself.
#[test]
fn a_count_under_the_lock_is_exact() {
    const MEMBERS: u32 = 4;
    const ROUNDS: u64 = 2_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    create(&path);
    let members: Vec<_> = (1..=MEMBERS).map(|token| join(&path, token)).collect();
    std::thread::scope(|scope| {
        for (media, member, _) in &members {
            scope.spawn(|| {
                let lock = RobustLock::new(media.clone(), LOCK, Arc::clone(member));
                for _ in 0..ROUNDS {
                    assert_eq!(lock.acquire().unwrap(), Predecessor::Released);
                    media.store(COUNT, media.load(COUNT) + 1);
                    lock.release();
                }
            });
        }
    });
    assert_eq!(members[0].0.load(COUNT), u64::from(MEMBERS) * ROUNDS);
}

#[test]
fn the_successor_of_a_dead_holder_learns_of_the_death_until_one_has_released_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    create(&path);
    let (media, member, _) = join(&path, 1);
    let lock = RobustLock::new(media, LOCK, member);
    let (other, dying, _) = join(&path, 2);
    RobustLock::new(other.clone(), LOCK, Arc::clone(&dying)).acquire().unwrap();
    std::thread::scope(|scope| {
        let successor = scope.spawn(|| lock.acquire().unwrap());
        drop((other, dying));
        assert_eq!(successor.join().unwrap(), Predecessor::Died);
    });
    lock.abandon();
    assert_eq!(lock.acquire().unwrap(), Predecessor::Died);
    lock.release();
    assert_eq!(lock.acquire().unwrap(), Predecessor::Released);
}
