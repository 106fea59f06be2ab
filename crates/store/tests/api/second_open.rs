//! Objects that are open already: another thread opens them, another user, another process.

use everbyte_media::{Capabilities, Media, Options, Recorder};
use everbyte_store::{Engine, Error, FormatOptions, Object, ObjectOpen, ObjectOptions, Store, Want};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};

const ROUNDS: usize = 20_000;

fn media() -> Media {
    let media = Media::anonymous(64 << 20, &Options::default()).unwrap();
    Store::format(media.clone(), &FormatOptions::default()).unwrap().close().unwrap();
    media
}

fn make(store: &Store, name: &str) -> Object {
    let options = ObjectOptions { engine: Engine::Heap, span: Some(64 << 10), ..ObjectOptions::default() };
    store.create_object(name, options, |_| Ok::<(), Error>(())).unwrap()
}

/// The last handle goes while another thread opens the object: the object stays attached by the new
/// one.
#[test]
fn an_object_that_is_opened_again_while_its_last_handle_goes_stays_ours() {
    let media = media();
    let (ours, theirs) = (Store::attach_shared(media.clone()).unwrap(), Store::attach_shared(media).unwrap());
    drop(make(&ours, "x"));
    let done = AtomicBool::new(false);
    let both = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    drop(ours.object("x").unwrap());
                }
            });
        }
        let mut both = 0;
        for _ in 0..ROUNDS {
            let mine = ours.object("x").unwrap();
            both += (0..4).filter(|_| theirs.object("x").is_ok()).count();
            drop(mine);
        }
        done.store(true, SeqCst);
        both
    });
    assert_eq!(both, 0, "two processes had the object alone at once");
    drop(theirs.object("x").unwrap()); // and it goes with the last handle
}

#[test]
fn an_object_is_either_alone_or_shared_within_a_process_too() {
    let store = Store::attach_shared(media()).unwrap();
    drop(make(&store, "x"));
    let shared = store.open_object("x", &ObjectOpen::shared(Engine::Heap, 0)).unwrap();
    assert!(matches!(store.object("x"), Err(Error::Open { .. })), "it is shared: no process has it alone");
    drop(store.open_object("x", &ObjectOpen::shared(Engine::Heap, 0)).unwrap());
    drop(shared);
    let alone = store.object("x").unwrap();
    assert!(
        matches!(store.open_object("x", &ObjectOpen::shared(Engine::Heap, 0)), Err(Error::Open { .. })),
        "it is one user's alone"
    );
    drop(store.object("x").unwrap());
    alone.share().unwrap();
    drop(store.open_object("x", &ObjectOpen::shared(Engine::Heap, 0)).unwrap());
    assert!(matches!(store.object("x"), Err(Error::Open { .. })));
}

/// Rights are checked at every opening, also while another thread of the process has the object
/// open.
#[test]
fn who_may_only_read_does_not_get_more_because_it_is_open_already() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become other users");
        return;
    }
    let store = Store::attach(media()).unwrap();
    drop(make(&store, "x"));
    store.chmod("x", 0o644).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let id = rustix::process::Uid::from_raw(4001);
            rustix::thread::set_thread_res_uid(id, id, id).unwrap();
            assert!(matches!(store.object("x").map(drop), Err(Error::Denied { .. })));
            let read = store
                .open_object("x", &ObjectOpen { want: Want::Read, ..ObjectOpen::shared(Engine::Heap, 0) })
                .unwrap();
            assert!(matches!(store.object("x").map(drop), Err(Error::Denied { .. })), "it is open to be read alone");
            drop(read);
        });
    });
}

/// A recorder that holds a thread in its barrier, once `armed`, until the test lets it go on.
struct HeldBarrier {
    armed: Arc<AtomicBool>,
    reached: Sender<()>,
    go_on: Receiver<()>,
}

impl Recorder for HeldBarrier {
    fn store(&mut self, _: u64, _: &[u8]) {}
    fn flush(&mut self, _: u64, _: u64) {}
    fn fence(&mut self) {}
    fn barrier(&mut self, _: u64) -> io::Result<()> {
        if self.armed.swap(false, SeqCst) {
            self.reached.send(()).unwrap();
            self.go_on.recv().unwrap();
        }
        Ok(())
    }
    fn allocate(&mut self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { shared: false, fence_settles: false, huge_pages: false }
    }
}

/// Between the store that makes a new object's name visible and the return of its creation, another
/// thread opens the object: both have one state, and one claim.
#[test]
fn a_thread_that_opens_an_object_before_its_creation_returns_gets_the_same_one() {
    let (armed, (reached, at_barrier), (release, go_on)) = (Arc::new(AtomicBool::new(false)), channel(), channel());
    let recorder = HeldBarrier { armed: Arc::clone(&armed), reached, go_on };
    let media = Media::recorded(8 << 20, &[0; 1 << 16], Box::new(recorder)).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let options = ObjectOptions { span: Some(64 << 10), ..ObjectOptions::default() };
    let init = |_: &Object| {
        armed.store(true, SeqCst); // the next barrier settles the name
        Ok::<(), Error>(())
    };
    std::thread::scope(|scope| {
        let maker = scope.spawn(|| store.create_object("x", options, init).unwrap());
        at_barrier.recv().unwrap();
        let theirs = store.object("x").unwrap();
        release.send(()).unwrap();
        let ours = maker.join().unwrap();
        let claim = ours.claim().unwrap();
        assert!(matches!(theirs.claim().map(drop), Err(Error::Claimed { .. })), "two engines have one object");
        drop((claim, ours));
        assert!(matches!(store.remove_object("x"), Err(Error::Open { .. })), "the other thread has it open");
    });
}
