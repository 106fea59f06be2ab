//! Parts of swarm tests that need a media: copies of it, and small stacks. Programs and seeds are
//! in `everbyte_workload`.

use everbyte_media::{Media, Options};

/// A copy of the first `len` bytes at this instant, in memory of its own: the media after the death
/// of the process.
pub fn copy(media: &Media, len: u64, max: u64) -> Media {
    let copy = Media::anonymous(max, &Options::default()).expect("memory");
    let len = len.min(media.len());
    if copy.len() < len {
        copy.extend(0, len).expect("memory");
    }
    let (zeros, mut part) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for at in (0..len).step_by(1 << 20) {
        let step = (len - at).min(1 << 20) as usize;
        media.read(at, &mut part[..step]);
        if part[..step] != zeros[..step] {
            copy.write(at, &part[..step]);
        }
    }
    copy
}

/// Runs `body` on a thread whose stack has 256 KiB: a walk that recurses as deep as
/// the data is long overflows it.
///
/// # Panics
/// As `body` does.
pub fn on_a_small_stack<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, body).expect("a thread");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
