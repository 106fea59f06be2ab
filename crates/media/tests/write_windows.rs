//! Write windows: guarded pages are read-only outside of sections, by the page table and by keys.
//!
//! A test by keys needs a CPU that has them; the emulated machine of `cargo xtask dax` does.

use everbyte_media::{BackendChoice, Error, Geometry, Media, OpenOptions, Options, WriteWindows};
use std::io;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

const PAGE: u64 = 4096;
const GUARDED: Range<u64> = 64 * PAGE..128 * PAGE;
const AT: u64 = 70 * PAGE + 8;
const KINDS: [WriteWindows; 2] = [WriteWindows::PageTable, WriteWindows::Keys];
/// Exit code of a child whose stray store was a fault at the right address.
const FAULT: i32 = 43;

fn anonymous() -> Media {
    Media::anonymous(1 << 20, &Options::default()).unwrap()
}

fn file(dir: &tempfile::TempDir, backend: BackendChoice) -> Media {
    let geometry = Geometry { max: 64 << 20, len: 1 << 20, log_at: 16 << 10, log_len: 64 << 10 };
    let options = Options { backend, ..Options::default() };
    OpenOptions::new(dir.path().join("store")).create(geometry, &options).unwrap()
}

/// Whether this machine can guard pages so; says why it cannot.
fn is_offered(kind: WriteWindows) -> bool {
    match anonymous().guard_writes(GUARDED, kind) {
        Ok(guard) => {
            assert_eq!(guard.kind(), kind);
            true
        }
        Err(Error::Unsupported { detail, .. }) if kind == WriteWindows::Keys => {
            eprintln!("skipped: {detail}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// The address at which [`on_fault`] ends the process with [`FAULT`].
static EXPECTED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_fault(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`, which lives through the handler.
    let info = unsafe { &*info };
    // SAFETY: the kernel fills the address for SIGSEGV.
    let address = unsafe { info.si_addr() }.addr();
    let code = if address == EXPECTED.load(Ordering::Relaxed) { FAULT } else { 44 };
    // SAFETY: ends the process without running anything else.
    unsafe { libc::_exit(code) };
}

/// Expects this process to fault at `at`.
fn expect_fault(media: &Media, at: u64) {
    EXPECTED.store(media.address().addr().get() + at as usize, Ordering::Relaxed);
}

/// Installs [`on_fault`] below the handler of `media`, which is installed by the first guard.
fn install_handler() {
    // SAFETY: zeros are a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_fault as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: one `sigaction` is read; the handler lives as long as the program.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()) }, 0);
}

/// Whether this is the child of the test `name`; in the parent, the child's exit.
fn in_child(name: &str, part: &str) -> Option<std::process::ExitStatus> {
    if std::env::var_os("EVERBYTE_CHILD").is_some() {
        return None;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--test-threads=1"])
        .env("EVERBYTE_CHILD", part)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(text.contains("running 1 test"), "{text}");
    Some(child.status)
}

/// Runs `stray` in a child for each medium and each kind of windows; it must fault at [`AT`].
fn faults(name: &str, stray: fn(&Media)) {
    let media = ["anonymous", "file", "shm"];
    for kind in KINDS {
        for backend in media {
            let part = format!("{backend} {}", kind.name());
            let Some(status) = in_child(name, &part) else {
                let part = std::env::var("EVERBYTE_CHILD").unwrap();
                let (backend, kind) = part.split_once(' ').unwrap();
                let kind = KINDS.into_iter().find(|other| other.name() == kind).unwrap();
                let place = if backend == "shm" { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() };
                let place = place.unwrap();
                install_handler();
                let media = match backend {
                    "anonymous" => anonymous(),
                    "file" => file(&place, BackendChoice::File),
                    _ => file(&place, BackendChoice::Shm),
                };
                let _guard = media.guard_writes(GUARDED, kind).unwrap();
                expect_fault(&media, AT);
                stray(&media);
                return;
            };
            if kind == WriteWindows::Keys && !is_offered(kind) {
                break;
            }
            assert_eq!(status.code(), Some(FAULT), "{part}: {status}");
        }
    }
}

#[test]
fn a_stray_store_outside_of_a_window_faults() {
    faults("a_stray_store_outside_of_a_window_faults", |media| {
        {
            let _section = media.section();
            media.store(AT, 7);
        }
        media.store(AT - PAGE * 16, 7); // not guarded
        media.store(AT, 8);
    });
}

#[test]
fn a_stray_store_before_the_first_window_faults() {
    faults("a_stray_store_before_the_first_window_faults", |media| media.store(AT, 8));
}

/// After nested sections, with an exempt page beside it, and after the page was exempt itself.
#[test]
fn a_stray_store_beside_exempt_pages_faults() {
    faults("a_stray_store_beside_exempt_pages_faults", |media| {
        let (exempt, again) = (71 * PAGE..72 * PAGE, 70 * PAGE..72 * PAGE);
        media.exempt_from_guards(exempt.clone()).unwrap();
        media.exempt_from_guards(again.clone()).unwrap();
        media.store(AT, 1);
        {
            let _outer = media.section();
            drop(media.section());
            media.store(AT, 2);
        }
        media.store(AT, 3);
        media.end_exempt(&again).unwrap();
        media.store(AT + PAGE, 1);
        drop(media.section());
        media.store(AT + PAGE, 2);
        assert_eq!((media.load(AT), media.load(AT + PAGE)), (3, 2));
        media.store(AT, 4);
    });
}

/// Pages that are backed while they are guarded, in a chunk that was not mapped before.
#[test]
fn a_stray_store_to_pages_that_are_backed_later_faults() {
    for kind in KINDS {
        if kind == WriteWindows::Keys && !is_offered(kind) {
            break;
        }
        let name = "a_stray_store_to_pages_that_are_backed_later_faults";
        let Some(status) = in_child(name, kind.name()) else {
            let kind = KINDS.into_iter().find(|kind| kind.name() == std::env::var("EVERBYTE_CHILD").unwrap()).unwrap();
            let dir = tempfile::tempdir_in("/dev/shm").unwrap();
            let media = file(&dir, BackendChoice::Shm);
            let _guard = media.guard_writes(8 << 20..56 << 20, kind).unwrap();
            let at = (9 << 20) + 64;
            media.extend(at, 8_u64).unwrap();
            {
                let _section = media.section();
                media.store(at, 7);
            }
            assert_eq!(media.load(at), 7);
            install_handler_after(&media);
            media.extend(48_u64 << 20, 8_u64).unwrap(); // and no section since then
            expect_fault(&media, 48 << 20);
            media.store(48_u64 << 20, 8);
            return;
        };
        assert_eq!(status.code(), Some(FAULT), "{}: {status}", kind.name());
    }
}

/// By the page table no handler of `media` is needed, and by keys this thread has its rights.
fn install_handler_after(media: &Media) {
    drop(media.section());
    install_handler();
}

/// Without a handler of its own the process dies.
#[test]
fn a_stray_store_ends_the_process() {
    let Some(status) = in_child("a_stray_store_ends_the_process", "1") else {
        let media = anonymous();
        let _guard = media.guard_writes(GUARDED, WriteWindows::PageTable).unwrap();
        media.store(AT, 1);
        return;
    };
    assert_eq!(status.signal(), Some(libc::SIGSEGV), "{status}");
}

#[test]
fn pages_are_writable_after_their_guard_and_windows_are_counted() {
    for kind in KINDS.into_iter().filter(|&kind| is_offered(kind)) {
        let media = anonymous();
        drop(media.section());
        assert_eq!(media.counts().windows, 0, "nothing is guarded");
        let guard = media.guard_writes(GUARDED, kind).unwrap();
        let other = media.guard_writes(0..PAGE, kind).unwrap();
        for value in 0..5 {
            let _section = media.section();
            let _nested = media.section();
            media.store(AT, value);
            media.store(0, value);
        }
        assert_eq!(media.counts().windows, 5, "one for each outermost section");
        let section = media.section();
        drop(guard);
        drop(section);
        media.store(AT, 9);
        {
            let _section = media.section();
            media.store(0, 9);
        }
        drop(other);
        media.store(0, 10);
        drop(media.section());
        assert_eq!(media.counts().windows, 7);
        assert_eq!((media.load(AT), media.load(0)), (9, 10));
    }
}

#[test]
fn by_default_pages_are_guarded_where_there_are_keys() {
    let media = anonymous();
    let expected = if is_offered(WriteWindows::Keys) { WriteWindows::Keys } else { WriteWindows::Off };
    assert_eq!(media.guard_writes(GUARDED, WriteWindows::Default).unwrap().kind(), expected);
    let off = media.guard_writes(GUARDED, WriteWindows::Off).unwrap();
    assert_eq!(off.kind(), WriteWindows::Off);
    if expected == WriteWindows::Off {
        media.store(AT, 1);
    }
}

/// Windows of many threads, nested and not, begin and end at any time: no store of a section ever
/// faults, and afterwards the pages are guarded.
#[test]
fn windows_of_threads_overlap() {
    for kind in KINDS.into_iter().filter(|&kind| is_offered(kind)) {
        let Some(status) = in_child("windows_of_threads_overlap", kind.name()) else {
            let kind = KINDS.into_iter().find(|kind| kind.name() == std::env::var("EVERBYTE_CHILD").unwrap()).unwrap();
            let media = anonymous();
            // Threads older than the key have no rights to it yet.
            let (begun, guarded) = (Barrier::new(5), Barrier::new(5));
            let guard = std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (media, begun, guarded) = (&media, &begun, &guarded);
                    scope.spawn(move || {
                        begun.wait();
                        guarded.wait();
                        let at = AT + thread * 64;
                        for value in 0..2000 {
                            assert_eq!(media.load(at), if value == 0 { 0 } else { value });
                            let _section = media.section();
                            let nested = (value % 3 == 0).then(|| media.section());
                            media.store(at, value);
                            drop(nested);
                            media.store(at, value + 1);
                        }
                    });
                }
                begun.wait();
                let guard = media.guard_writes(GUARDED, kind).unwrap();
                guarded.wait();
                guard
            });
            install_handler_after(&media);
            expect_fault(&media, AT);
            media.store(AT, 1);
            drop(guard);
            return;
        };
        assert_eq!(status.code(), Some(FAULT), "{}: {status}", kind.name());
    }
}

/// By keys a window belongs to its thread: another thread's store is a fault meanwhile, also where
/// that thread was started before or after the guard.
#[test]
fn a_window_by_keys_opens_no_window_of_another_thread() {
    if !is_offered(WriteWindows::Keys) {
        return;
    }
    for part in ["before", "after"] {
        let Some(status) = in_child("a_window_by_keys_opens_no_window_of_another_thread", part) else {
            let media = Arc::new(anonymous());
            let (begun, opened) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
            let stray = {
                let (media, begun, opened) = (Arc::clone(&media), Arc::clone(&begun), Arc::clone(&opened));
                move || {
                    begun.wait();
                    opened.wait();
                    assert_eq!(media.load(AT), 5);
                    install_handler();
                    expect_fault(&media, AT);
                    media.store(AT, 6);
                }
            };
            install_handler();
            let is_before = std::env::var("EVERBYTE_CHILD").unwrap() == "before";
            let mut stray = Some(stray);
            let before = is_before.then(|| std::thread::spawn(stray.take().unwrap()));
            let _guard = media.guard_writes(GUARDED, WriteWindows::Keys).unwrap();
            let after = stray.map(std::thread::spawn);
            begun.wait();
            let _section = media.section();
            media.store(AT, 5);
            opened.wait();
            before.into_iter().chain(after).for_each(|thread| thread.join().unwrap());
            return;
        };
        assert_eq!(status.code(), Some(FAULT), "{part}: {status}");
    }
}

/// A child has no windows of its own and no lock of its parent's: memory without a file is
/// writable there.
#[test]
fn a_forked_child_stores_to_memory_that_it_has_alone() {
    let media = anonymous();
    let _guard = media.guard_writes(GUARDED, WriteWindows::PageTable).unwrap();
    // SAFETY: the child stores to its memory, needs no lock, and ends without running more.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let section = media.section();
        media.store(AT, 1);
        drop(section);
        // SAFETY: ends the process without running anything else.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: our own child, for which no other thread waits; the status is local.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(waited == child && status == 0, "{status} {}", io::Error::last_os_error());
    assert_eq!(media.load(AT), 0, "the parent's memory is its own");
}
