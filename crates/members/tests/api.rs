//! The lock of shared data, by members of one process over words of memory, and the locks on a file
//! that processes see of each other.

use everbyte_members::{
    Error, FileLockMode, Members, Membership, Predecessor, RobustLock, SharedLock, SharedWords, Since, is_read,
    lock_file,
};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// The bit of a lock's word that says that a thread waits.
const WAITED: u64 = 1 << 31;

/// Four words of memory, and the number of calls that woke a thread.
#[derive(Clone, Default)]
struct Words(Arc<([AtomicU64; 4], AtomicU64)>);

impl Words {
    fn word(&self, at: u64) -> &AtomicU64 {
        &self.0.0[at as usize / 8]
    }

    fn wakes(&self) -> u64 {
        self.0.1.load(SeqCst)
    }
}

impl SharedWords for Words {
    fn load(&self, at: u64) -> u64 {
        self.word(at).load(SeqCst)
    }

    fn store(&self, at: u64, value: u64) {
        self.word(at).store(value, SeqCst);
    }

    fn compare_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.word(at).compare_exchange(current, new, SeqCst, SeqCst)
    }

    fn wait(&self, _at: u64, _expected: u32, _most: Duration) {
        std::thread::yield_now();
    }

    fn wake(&self, _at: u64) {
        self.0.1.fetch_add(1, SeqCst);
    }

    fn seeded(&self, _bug: &'static str) -> bool {
        false
    }
}

/// Members of memory, with the tokens 1 to 3.
fn three() -> [Arc<Membership>; 3] {
    let members = Arc::new(Members::in_memory());
    [1, 2, 3].map(|token| Arc::new(members.lock_joining().unwrap().join(token).unwrap()))
}

/// The lock of the members of one store, which was recovered when it was opened.
fn locks(words: &Words, members: &[Arc<Membership>; 3]) -> [Arc<SharedLock<Words>>; 3] {
    let locks = members.each_ref().map(|member| SharedLock::new(words.clone(), 0, 1, Arc::clone(member)));
    locks[0].set_recovered();
    for lock in &locks {
        lock.acquire().unwrap().caught_up();
    }
    locks
}

fn since(lock: &Arc<SharedLock<Words>>) -> Since {
    lock.acquire().unwrap().since()
}

#[test]
fn a_member_is_told_of_changes_of_others_until_it_has_caught_up() {
    let (words, members) = (Words::default(), three());
    let [one, two, three] = locks(&words, &members);
    assert_eq!([since(&one), since(&two), since(&three)], [Since::Unchanged; 3]);
    one.acquire().unwrap().changed();
    assert_eq!(since(&one), Since::Unchanged, "its own change");
    {
        let exclusive = two.acquire().unwrap();
        assert_eq!(exclusive.since(), Since::Changed);
        exclusive.changed(); // without having caught up
    }
    assert_eq!(since(&two), Since::Changed, "it still has not seen the first change");
    two.acquire().unwrap().caught_up();
    assert_eq!([since(&two), since(&one), since(&three)], [Since::Unchanged, Since::Changed, Since::Changed]);
    one.acquire().unwrap().caught_up();
    drop(two.acquire().unwrap());
    assert_eq!(since(&one), Since::Unchanged, "a holder that changed nothing costs the others nothing");
}

/// A thread that holds the lock and takes it again gets the same answer, and the lock stays taken.
#[test]
fn a_thread_takes_its_lock_again() {
    let (words, members) = (Words::default(), three());
    let [one, two, _] = locks(&words, &members);
    two.acquire().unwrap().changed();
    let outer = one.acquire().unwrap();
    let inner = one.acquire().unwrap();
    assert_eq!([outer.since(), inner.since()], [Since::Changed; 2]);
    inner.caught_up();
    assert_eq!(since(&one), Since::Unchanged);
    drop(inner);
    assert_eq!(words.load(0), 1, "the outer guard holds it");
    drop(outer);
    assert_eq!(words.load(0), 0);
    assert!(!one.changed_by_this_thread());
    let guard = one.acquire().unwrap();
    assert!(one.changed_by_this_thread());
    drop(guard);
    assert_eq!(since(&two), Since::Changed);
}

/// SHLOCK-2, and SHLOCK-1 for the repair: the member that repairs may change what others cache.
#[test]
fn every_holder_learns_of_a_death_until_one_has_repaired_the_data() {
    let (words, members) = (Words::default(), three());
    let [one, two, three] = locks(&words, &members);
    std::mem::forget(one.acquire().unwrap());
    members[0].leave(Ok::<_, Error>).unwrap();
    assert_eq!([since(&two), since(&three), since(&two)], [Since::OwnerDied; 3]);
    two.acquire().unwrap().caught_up();
    assert_eq!(since(&two), Since::Unchanged);
    assert_eq!(since(&three), Since::Changed, "the repair");
}

/// The last holder of an earlier generation may have died, and its member is not in this one.
#[test]
fn words_of_an_earlier_generation_say_nothing() {
    let (words, members) = (Words::default(), three());
    let [one, ..] = locks(&words, &members);
    one.acquire().unwrap().changed();
    std::mem::forget(one.acquire().unwrap());
    let later = SharedLock::new(words.clone(), 0, 2, Arc::clone(&members[1]));
    assert_eq!(since(&later), Since::OwnerDied);
    later.acquire().unwrap().caught_up();
    let same = SharedLock::new(words.clone(), 0, 2, Arc::clone(&members[2]));
    assert_eq!(since(&same), Since::Changed, "another member of this generation");
}

/// A thread that was woken may have others behind it: its release wakes the next.
#[test]
fn a_release_wakes_a_thread_that_waits() {
    let (words, members) = (Words::default(), three());
    let lock = RobustLock::new(words.clone(), 0, Arc::clone(&members[0]));
    assert_eq!(lock.acquire().unwrap(), Predecessor::Released);
    lock.release();
    assert_eq!(words.wakes(), 0, "no thread waits");
    lock.acquire().unwrap();
    words.store(0, words.load(0) | WAITED);
    lock.release();
    assert_eq!((words.wakes(), words.load(0)), (1, 0));
    words.store(0, 9 | WAITED); // a holder that is no member any more
    assert_eq!(lock.acquire().unwrap(), Predecessor::Died);
    assert_eq!(words.load(0), 1 | WAITED);
    lock.abandon();
    assert_eq!(words.wakes(), 2);
    assert_eq!(lock.acquire().unwrap(), Predecessor::Died);
    lock.release();
    assert_eq!((words.wakes(), words.load(0)), (3, 0));
}

fn members_of(file: &tempfile::NamedTempFile) -> Arc<Members> {
    Arc::new(Members::of_file(file.as_file(), None, file.path()).unwrap())
}

/// A process that joins while the store has a member recovers nothing, also after the first member
/// has left.
#[test]
fn a_store_has_members_until_the_last_one_leaves() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let join = |token, alone| {
        let joining = members_of(&file).lock_joining().unwrap();
        assert_eq!(joining.is_alone(), alone, "member {token}");
        joining.join(token).unwrap()
    };
    let (one, two) = (join(1, true), join(2, false));
    let alone = one.leave(|alone| {
        assert!(two.is_alive(1).unwrap(), "it closes the store as a member");
        Ok::<_, Error>(alone)
    });
    assert!(!alone.unwrap());
    let three = join(3, false);
    drop(two);
    assert!(three.leave(Ok::<_, Error>).unwrap());
    drop(three);
    drop(join(4, true));
}

#[test]
fn readers_are_seen_and_exclude_members() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let open = || File::options().read(true).write(true).open(file.path()).unwrap();
    let reader = open();
    assert!(!is_read(file.as_file()).unwrap());
    lock_file(&reader, file.path(), FileLockMode::Readers).unwrap();
    assert!(is_read(file.as_file()).unwrap());
    drop(reader);
    assert!(!is_read(file.as_file()).unwrap());
    let member = members_of(&file).lock_joining().unwrap().join(1).unwrap();
    let refused = lock_file(open(), file.path(), FileLockMode::Readers);
    assert!(matches!(refused, Err(Error::InUse { .. })));
    drop(member);
    lock_file(open(), file.path(), FileLockMode::Readers).unwrap();
}
