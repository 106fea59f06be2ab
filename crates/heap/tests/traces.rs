//! Golden persistence traces: the stores, flushes and fences of the heap's own commits, in order.

use everbyte_heap::{Heap, layout};
use everbyte_sim::{Image, Tracer, assert_golden};
use everbyte_store::{Engine, FormatOptions, ObjectOptions, Store};

fn trace(body: impl FnOnce(&Heap, u64)) -> String {
    let format = FormatOptions { log_len: 0, identity: Some([3; 16]) };
    let image = Image::zeroed(128 << 10).with_max(2 << 20).then(move |media| {
        let store = Store::format(media, &format).unwrap();
        let options = ObjectOptions { engine: Engine::Heap, fingerprint: 0, span: Some(1 << 20) };
        store.create_object("test", options, Heap::format).unwrap();
        store.close().unwrap();
    });
    let tracer = Tracer::new(&image)
        .label("header", 0x10_0200..0x10_0800)
        .label("target", 0x10_0800..0x10_0808)
        .label("slots", 0x10_1000..0x10_2000)
        .label("bits", 0x10_2000..0x10_4000)
        .label("data", 0x10_4000..0x20_0000);
    tracer.run_after(
        |media| {
            let store = Store::attach(media).unwrap();
            let heap = Heap::open(store.object("test").unwrap()).unwrap();
            let target = heap.object().prime() + layout::HEADER_END;
            heap.alloc_into(64, target.get()).unwrap(); // a run of the class is there
            heap
        },
        |_media, heap| body(&heap, (heap.object().prime() + layout::HEADER_END).get()),
    )
}

/// The slot number depends on the thread, and each test has its own.
fn neutral(text: &str) -> String {
    let start = text.find("slots+").map(|at| text[at..].split_whitespace().next().unwrap_or_default().to_string());
    start.map_or(text.into(), |slot| text.replace(&slot, "slot")).replace("slots", "slot")
}

#[test]
fn allocate_into_a_word() {
    let text = trace(|heap, target| {
        heap.alloc_into(64, target).unwrap();
    });
    assert_golden("testdata/alloc_into.trace", &neutral(&text));
}

#[test]
fn allocate_filled() {
    let text = trace(|heap, target| {
        heap.alloc_set(64, target, 7).unwrap();
    });
    assert_golden("testdata/alloc_set.trace", &neutral(&text));
}

#[test]
fn free_from_a_word() {
    let text = trace(|heap, target| heap.free_from(target).unwrap());
    assert_golden("testdata/free_from.trace", &neutral(&text));
}

#[test]
fn a_new_run() {
    let text = trace(|heap, _| {
        heap.reserve(4096).unwrap();
    });
    assert_golden("testdata/new_run.trace", &neutral(&text));
}
