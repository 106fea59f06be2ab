//! A crash leaves an operation in the heap's own log, and with it free clusters to release, while
//! the log of the engine names blocks that look free: the engine's log comes first.

use crate::common::options;
use everbyte_heap::{Heap, Op, layout};
use everbyte_media::{BackendChoice, Media, Offset, Options};
use everbyte_sim::Image;
use everbyte_store::{CreateOptions, Engine, FormatOptions, ObjectOptions, Store};
use everbyte_tx::redo::Truncation;
use everbyte_tx::{Error, Redo, Undo};
use zerocopy::IntoBytes;

const MIB: u64 = 1 << 20;

/// A word that receives a block outside of transactions.
fn target(heap: &Heap) -> u64 {
    (heap.object().prime() + 3072).get()
}

/// Leaves a call of `free_from` as a crash does that comes when its entry is in the log.
fn begin_to_free(heap: &Heap, target: u64) {
    let (media, at) = (heap.media(), heap.object().prime() + layout::LOG);
    let op: Op = heap.op_free(media.load(target)).unwrap();
    let mut slot =
        layout::Slot { check: 0, op: op.into(), target: Offset::new(target), value: 0, lap: 1000, reserved: [0; 3] };
    slot.check = slot.sum();
    media.write(at, slot.as_bytes());
}

/// The bits of the committed block are lost, its record is not.
#[test]
fn a_block_that_the_redo_log_names_stays_backed() {
    let media = Media::anonymous(64 * MIB, &Options::default()).unwrap();
    let store = Store::format(media, &FormatOptions::default()).unwrap();
    let options = ObjectOptions { engine: Engine::Redo, ..options(16 * MIB) };
    let redo = Redo::open(store.create_object("test", options, Redo::format).unwrap()).unwrap();
    redo.set_truncation(Truncation::Asynchronous);
    let (heap, target) = (redo.heap(), target(redo.heap()));
    heap.alloc_into(20_000, target).unwrap();
    let block = redo.atomically(|tx| {
        let block = tx.allocate(4 * MIB)?;
        tx.store(block.end() - 8, 7)?;
        tx.store(heap.object().root_at(), block.at.get())?;
        Ok::<_, Error>(block)
    });
    let block = block.unwrap();
    begin_to_free(heap, target);
    heap.apply(&[heap.op_allocate(&block).inverse()]);
    let crashed = Store::attach(Image::of(redo.media()).media()).unwrap();
    let redo = Redo::open(crashed.object("test").unwrap()).unwrap();
    assert_eq!(redo.replayed().transactions, 1);
    assert_eq!((redo.media().load(target), redo.heap().size_of(block.at).unwrap()), (0, 4 * MIB));
    assert_eq!(redo.media().load(block.end() - 8), 7);
    assert_eq!(redo.check(Some(&[block.at.get()].into())), []);
    // The free clusters are released when pages become free the next time.
    redo.atomically(|tx| tx.free(block.at).and_then(|()| tx.store(redo.heap().object().root_at(), 0))).unwrap();
    redo.truncate();
    assert!(redo.heap().usage().unwrap().released > MIB);
}

/// Old bytes lie in a segment, reserved in memory alone; in a shared store on shared memory a
/// released cluster loses its bytes at once.
#[test]
fn a_segment_of_the_undo_log_keeps_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("store"), dir.path().join("copy"));
    let media = Options { backend: BackendChoice::Shm, ..Options::default() };
    let store = Store::create(&path, &CreateOptions { max: 64 * MIB, media: media.clone(), bound: false }).unwrap();
    let object = store.create_object("test", options(16 * MIB), |object| Undo::format_with(object, 2, 4096));
    let undo = Undo::open(object.unwrap()).unwrap();
    let (heap, target) = (undo.heap(), target(undo.heap()));
    heap.alloc_into(20_000, target).unwrap();
    let block = undo.run(|tx| tx.allocate(3 * MIB)).unwrap();
    let last = block.end() - 8;
    undo.run(|tx| tx.store(last, 7)).unwrap();
    let started = undo.start();
    started.tx().log_range(block.at, block.size).unwrap();
    undo.media().store(last, 8);
    begin_to_free(heap, target);
    std::fs::copy(&path, &copy).unwrap(); // as if the process died
    started.rollback().unwrap();
    drop((undo, store)); // the copy has the same identity
    let store = Store::options(&copy).shared().open(&media).unwrap();
    let undo = Undo::open(store.object("test").unwrap()).unwrap();
    assert_eq!(undo.recovered().rolled_back, 1);
    assert_eq!((undo.media().load(target), undo.media().load(last)), (0, 7));
}
