//! A process that appends to lists is killed again and again: every acknowledged value is there, in
//! order, and nothing has leaked. On `file` each kill is a crash; on `shm` the caches live on.

mod common;

use common::Node;
use everbyte_media::{BackendChoice, Options};
use everbyte_object::{MemPool, PMutex, PSafe, PVec, Parc, Pool, parc, pool};
use everbyte_store::{CreateOptions, Store};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

pool!(P);

const PLACE: &str = "EVERBYTE_KILL_PLACE";
const THREADS: usize = 2;

/// Two lists, each behind its lock, and a count that both threads share.
#[derive(PSafe)]
#[repr(C)]
struct Work<P: MemPool> {
    lists: [PMutex<PVec<Box8<P>, P>, P>; THREADS],
    total: Parc<PMutex<u64, P>, P>,
}

type Box8<P> = everbyte_object::Pbox<u64, P>;

fn open(place: &Path, backend: BackendChoice) -> (Store, everbyte_object::Root<Work<P>, P>) {
    let media = Options { backend, ..Options::default() };
    let store = match place.exists() {
        true => Store::open(place, &media).unwrap(),
        false => Store::create(place, &CreateOptions { media, max: 1 << 30, ..CreateOptions::default() }).unwrap(),
    };
    let work = P::open_or_create::<Work<P>>(&store, "work", |j| Work {
        lists: Default::default(),
        total: Parc::new(PMutex::new(0), j),
    });
    (store, work.unwrap())
}

fn backend(name: &str) -> BackendChoice {
    if name == "file" { BackendChoice::File } else { BackendChoice::Shm }
}

/// The process that is killed; nothing when the tests are run.
#[test]
fn child() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let (place, name) = place.rsplit_once('=').unwrap();
    let (_store, work) = open(Path::new(place), backend(name));
    let total: parc::VWeak<PMutex<u64, P>, P> = work.tx(|j, work| work.total.demote(j)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (work, total) = (&work, total.clone());
            scope.spawn(move || {
                loop {
                    let next = work.tx(|j, work| {
                        let mut list = work.lists[thread].lock(j);
                        let next = list.last().map_or(0, |last| **last) + 1;
                        list.push(everbyte_object::Pbox::new(next, j), j);
                        if next % 7 == 0 {
                            let shorter = list.drain(..3, j); // the last stays the last
                            drop(shorter);
                        }
                        *total.promote(j).unwrap().pclone(j).lock(j) += 1;
                        next
                    });
                    println!("\nack {thread} {}", next.unwrap());
                }
            });
        }
    });
}

#[test]
fn killed_again_and_again_nothing_acknowledged_is_lost() {
    for name in ["file", "shm"] {
        let directory = if name == "shm" { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() }.unwrap();
        let place = directory.path().join("work.everbyte");
        drop(open(&place, backend(name)));
        for round in 0..6 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "child", "--nocapture"])
                .env(PLACE, format!("{}={name}", place.display()))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            let acks = lines.filter_map(|line| {
                let (thread, value) = line.strip_prefix("ack ")?.split_once(' ')?;
                Some((thread.parse::<usize>().ok()?, value.parse::<u64>().ok()?))
            });
            let mut acked = [0; THREADS];
            for (count, (thread, value)) in acks.enumerate() {
                if count == 100 + 100 * round {
                    child.kill().unwrap(); // SIGKILL; what it said before it heard is still read
                }
                acked[thread] = value;
            }
            child.wait().unwrap();
            let (_store, work) = open(&place, backend(name));
            assert_eq!(work.check().unwrap(), []);
            let (last, total) = work
                .tx(|j, work| {
                    let last: [u64; THREADS] = work.lists.each_ref().map(|list| {
                        let list = list.lock(j);
                        assert!(list.windows(2).all(|pair| *pair[0] + 1 == *pair[1]), "{list:?}");
                        list.last().map_or(0, |last| **last)
                    });
                    (last, *work.total.lock(j))
                })
                .unwrap();
            assert_eq!(last.iter().sum::<u64>(), total);
            (0..THREADS).for_each(|thread| assert!(last[thread] >= acked[thread], "{name}: {last:?} of {acked:?}"));
        }
        let (_store, work) = open(&place, backend(name));
        assert!(work.tx(|j, work| *work.total.lock(j)).unwrap() > 2000, "the child has ended by itself");
    }
}

/// A panic in any function that makes a value takes back the values made before it, and nothing
/// stays borrowed.
#[test]
fn panics_in_constructors_leave_nothing() {
    let store = common::store();
    pool!(Q);
    let head = Q::create::<Node<u64, Q>>(&store, "list", |_| Node::new(0)).unwrap();
    fn quiet<T>() -> T {
        std::panic::resume_unwind(Box::new("on purpose"))
    }
    for place in 0..5 {
        let outcome = head.tx(|j, head| {
            let mut next = head.next.borrow_mut(j);
            let items = (0..10u64).map(|n| if n == 7 { quiet() } else { everbyte_object::Pbox::new(n, j) });
            match place {
                0 => drop(PVec::from_iter(items, j)),
                1 => drop(everbyte_object::Prc::<u64, _>::new_cyclic(|_| quiet(), j)),
                2 => *next = Some(everbyte_object::Pbox::new(Node { val: quiet(), next: Default::default() }, j)),
                3 => {
                    *next = Some(everbyte_object::Pbox::new(Node::new(1), j));
                    quiet()
                }
                _ => {
                    let mut list = PVec::from_iter((0..9u64).map(|n| everbyte_object::Pbox::new(n, j)), j);
                    list.retain(|n| if **n == 5 { quiet() } else { **n % 2 == 0 }, j);
                }
            }
        });
        assert!(outcome.is_err());
        assert!(head.next.borrow().is_none());
        assert_eq!(head.check().unwrap(), [], "place {place}");
    }
}

/// A value on the stack belongs to its thread: a change of it logs nothing and costs no fence.
#[test]
fn what_is_not_yet_in_the_pool_is_changed_for_nothing() {
    let store = common::store();
    pool!(Q);
    let head = Q::create::<Node<u64, Q>>(&store, "list", |_| Node::new(0)).unwrap();
    let before = store.media().counts();
    head.tx(|j, _| {
        let cell = everbyte_object::PCell::new(1);
        cell.set(2, j);
        let mutex = PMutex::new(cell);
        mutex.lock(j).set(3, j);
        let moved = mutex;
        moved.lock(j).set(4, j);
        assert_eq!(moved.into_inner().get(), 4);
    })
    .unwrap();
    assert_eq!(store.media().counts().fences, before.fences);
}
