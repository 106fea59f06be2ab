//! Several users of one store file: who is alone, who is alive, and a lock that survives its
//! holder.

use everbyte_media::{BackendChoice, Geometry, HEAD_END, Left, Media, Options, RobustLock, User};
use std::path::Path;
use std::sync::Arc;

/// Where the tests keep the word of their lock, and a count that it guards.
const LOCK: u64 = HEAD_END;
const COUNT: u64 = HEAD_END + 64;

fn options() -> Options {
    Options { backend: BackendChoice::Shm, ..Options::default() }
}

fn create(path: &Path) {
    let geometry = Geometry { max: 1 << 20, len: 64 << 10, log_at: 32 << 10, log_len: 16 << 10 };
    Media::create(path, geometry, &options()).unwrap();
}

fn enter(path: &Path, token: u32) -> (Media, Arc<User>, bool) {
    let (media, opening) = Media::open_shared(path, &options()).unwrap();
    let opening = opening.expect("shm is shared");
    let alone = opening.is_alone();
    (media, Arc::new(opening.enter(token).unwrap()), alone)
}

#[test]
fn the_first_user_is_alone_and_others_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    create(&path);
    let (one, first, alone) = enter(&path, 1);
    assert!(alone);
    let (two, second, alone) = enter(&path, 2);
    assert!(!alone && first.is_alive(2).unwrap() && second.is_alive(1).unwrap() && !first.is_alive(3).unwrap());
    one.store(COUNT, 7);
    assert_eq!(two.load(COUNT), 7);
    one.extend(64 << 10, 64 << 10).unwrap();
    assert!(!two.holds(64 << 10, 8));
    two.refresh().unwrap();
    assert!(two.holds(64 << 10, 64 << 10));
    two.extend(128 << 10, 4096).unwrap(); // after the head that the other has written

    let refused = |refused: everbyte_media::Result<Media>| refused.unwrap_err().to_string().contains("in use");
    assert!(refused(Media::open(&path, &options())) && refused(Media::open_read_only(&path, &options())));
    assert!(first.attach(9, false).unwrap() && second.attach(9, false).unwrap() && !first.attach(9, true).unwrap());
    second.detach(9);
    assert!(first.attach(9, true).unwrap() && !second.attach(9, false).unwrap());
    drop((one, first));
    assert!(!second.is_alive(1).unwrap() && second.attach(9, false).unwrap(), "who has left has nothing");
    assert!(second.leave(Ok::<_, everbyte_media::Error>).unwrap(), "the last one");
    drop((two, second));
    let reader = Media::open_read_only(&path, &options()).unwrap();
    assert!(Media::open_shared(&path, &options()).is_err_and(|error| error.to_string().contains("in use")));
    drop(reader);
    assert!(enter(&path, 1).2, "everybody has left");
}

/// Threads stand for processes: each has the file open for itself.
#[test]
fn a_count_under_the_lock_is_exact() {
    const USERS: u32 = 4;
    const TURNS: u64 = 2_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    create(&path);
    let users: Vec<_> = (1..=USERS).map(|token| enter(&path, token)).collect();
    std::thread::scope(|scope| {
        for (media, user, _) in &users {
            scope.spawn(|| {
                let lock = RobustLock::new(media.clone(), LOCK, Arc::clone(user));
                for _ in 0..TURNS {
                    assert_eq!(lock.acquire().unwrap(), Left::InOrder);
                    media.store(COUNT, media.load(COUNT) + 1);
                    lock.release();
                }
            });
        }
    });
    assert_eq!(users[0].0.load(COUNT), u64::from(USERS) * TURNS);
}

#[test]
fn the_heir_of_a_dead_holder_is_told_until_somebody_has_put_it_right() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    create(&path);
    let (media, user, _) = enter(&path, 1);
    let lock = RobustLock::new(media, LOCK, user);
    let (other, dying, _) = enter(&path, 2);
    RobustLock::new(other.clone(), LOCK, Arc::clone(&dying)).acquire().unwrap();
    std::thread::scope(|scope| {
        let heir = scope.spawn(|| lock.acquire().unwrap());
        drop((other, dying));
        assert_eq!(heir.join().unwrap(), Left::HalfDone);
    });
    lock.abandon();
    assert_eq!(lock.acquire().unwrap(), Left::HalfDone);
    lock.release();
    assert_eq!(lock.acquire().unwrap(), Left::InOrder);
}
