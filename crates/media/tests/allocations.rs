//! After a store has run for a while, flush, fence and barrier allocate no memory.

use everbyte_media::{BackendChoice, Durability, Geometry, OpenOptions, Options};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes every call on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn flush_fence_and_barrier_allocate_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let geometry = Geometry { max: 16 << 20, len: 8 << 20, log_at: 16 << 10, log_len: 1 << 20 };
    for durability in [Durability::Always, Durability::Process] {
        let path = dir.path().join(format!("{durability:?}"));
        let options = Options { backend: BackendChoice::File, durability, background: false, ..Options::default() };
        let media = OpenOptions::new(&path).create(geometry, &options).unwrap();
        let round = |from: u64| {
            for put in from..from + 300 {
                let _section = media.section();
                for line in 0..4 {
                    let at = (2 << 20) + ((put * 37 + line * 11) % 4096) * 64;
                    media.store(at, put);
                    media.flush(at, 8);
                }
                media.barrier().unwrap();
            }
        };
        for _ in 0..4 {
            round(0);
            media.checkpoint().unwrap(); // each checkpoint swaps the lists of pages
        }
        let before = COUNT.with(Cell::get);
        round(0);
        assert_eq!(COUNT.with(Cell::get) - before, 0, "{durability:?}");
    }
}
