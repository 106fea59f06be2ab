//! Pages that the system cannot read: memory errors (a raised signal), and files that were
//! truncated from outside.

use everbyte_media::{BackendChoice, Error, Geometry, Media, OpenOptions, Options, museum};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

const PAGE: u64 = 4096;
const DATA: u64 = 1 << 20;

fn geometry() -> Geometry {
    Geometry { max: 4 << 20, len: 4 << 20, log_at: 16384, log_len: 256 << 10 }
}

fn create(path: &Path, backend: BackendChoice) -> Media {
    OpenOptions::new(path).create(geometry(), &options(backend)).unwrap()
}

fn options(backend: BackendChoice) -> Options {
    Options { backend, background: false, log_bytes: 256 << 10, ..Options::default() }
}

/// Media in memory; each word holds its own offset.
fn numbered() -> Media {
    let media = Media::anonymous(DATA, &Options::default()).unwrap();
    (0..DATA).step_by(8).for_each(|at| media.store(at, at));
    media
}

fn offset(error: &Error) -> u64 {
    match error {
        Error::Unreadable(damage) => damage.offset.unwrap(),
        other => panic!("another error: {other}"),
    }
}

fn a_page_with_a_memory_error_is_told_of() -> Result<(), String> {
    let media = numbered();
    let _name = media.name_range(3 * PAGE..9 * PAGE, "table");
    assert!(media.require_readable(0, DATA).is_ok());
    let before = Media::unreadable_count();
    media.raise_memory_error(5 * PAGE + 100);
    assert_eq!(media.load(5 * PAGE), 0, "its bytes are gone");
    assert!(Media::unreadable_count() > before);
    for at in [4 * PAGE, 6 * PAGE] {
        assert_eq!(media.load(at), at);
        media.require_readable(at, PAGE).unwrap();
    }
    let Err(error) = media.require_readable(4 * PAGE, 2 * PAGE) else { return Err("zeros were answered".into()) };
    assert_eq!(offset(&error), 5 * PAGE);
    let text = error.to_string();
    assert!(text.contains("object `table`") && text.contains("0x5000"), "{text}");
    assert_eq!(offset(&media.require_readable(5 * PAGE + 9, 1).unwrap_err()), 5 * PAGE + 9);
    assert_eq!(media.unreadable_pages(), [(5 * PAGE, Some("table".to_string()))]);
    let other = numbered();
    other.require_readable(0, DATA).unwrap();
    Ok(())
}

#[test]
fn a_memory_error_costs_one_page_and_names_object_and_offset() {
    a_page_with_a_memory_error_is_told_of().unwrap();
    museum::with("media-zeros-answered", a_page_with_a_memory_error_is_told_of).expect_err("not found");
}

/// A thread that got no signal, since another thread's handler came first, finds the page recorded,
/// too.
#[test]
fn a_thread_that_reads_zeros_of_a_lost_page_finds_it_recorded() {
    for _ in 0..20 {
        let media = numbered();
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            let found = media.load(8 * PAGE + 8);
                            let told = media.require_readable(8 * PAGE, PAGE).is_err();
                            assert!(found != 0 || told, "zeros, and nothing is known of the page");
                            if told {
                                return;
                            }
                        }
                    })
                })
                .collect();
            media.raise_memory_error(8 * PAGE);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }
}

fn a_flush_of_a_lost_page_is_no_success() -> Result<(), String> {
    let media = numbered();
    media.raise_memory_error(3 * PAGE);
    media.store(3 * PAGE + 64, 1);
    media.flush(3 * PAGE + 64, 8);
    // this thread has flushed no byte of the page
    std::thread::scope(|scope| scope.spawn(|| media.barrier().unwrap()).join().unwrap());
    numbered().barrier().unwrap();
    let Err(error) = media.barrier() else { return Err("a barrier settled bytes that no medium has".into()) };
    assert_eq!(offset(&error), 3 * PAGE + 64);
    media.flush(4 * PAGE, 8);
    media.barrier().unwrap(); // the thread has had its error
    media.copy_nt(3 * PAGE, &[7; 128]);
    assert_eq!(offset(&media.barrier().unwrap_err()), 3 * PAGE);
    Ok(())
}

#[test]
fn a_barrier_is_an_error_after_a_flush_of_a_lost_page() {
    a_flush_of_a_lost_page_is_no_success().unwrap();
    museum::with("media-lost-flush-acknowledged", a_flush_of_a_lost_page_is_no_success).expect_err("not found");
}

#[test]
fn each_media_with_a_lost_flush_fails_the_next_barrier_of_the_thread() {
    let all = [numbered(), numbered(), numbered()];
    for (media, page) in all.iter().zip([3, 5]) {
        media.raise_memory_error(page * PAGE);
        media.flush(page * PAGE, 8);
    }
    all[2].barrier().unwrap();
    for (media, page) in all.iter().zip([3, 5]).rev() {
        assert_eq!(offset(&media.barrier().unwrap_err()), page * PAGE);
        media.barrier().unwrap();
    }
}

/// Mappings take the entries of those that were dropped.
#[test]
fn a_lost_flush_fails_no_barrier_of_a_later_media() {
    for _ in 0..40 {
        let media = numbered();
        media.raise_memory_error(3 * PAGE);
        media.flush(3 * PAGE, 8);
        drop(media);
        let media = numbered();
        media.flush(4 * PAGE, 8);
        media.barrier().unwrap();
    }
}

/// More pages than are recorded one by one: no range is readable any more, and the process lives.
#[test]
fn a_mapping_with_many_lost_pages_is_lost_as_a_whole() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("m");
    let media =
        OpenOptions::new(&path).create(Geometry { max: 64 << 20, len: 64 << 20, ..geometry() }, &Options::default());
    let media = media.unwrap();
    media.store(DATA, 7);
    File::options().write(true).open(&path).unwrap().set_len(DATA + PAGE).unwrap();
    (DATA + PAGE..64 << 20).step_by(PAGE as usize).for_each(|at| assert_eq!(media.load(at), 0));
    assert_eq!(offset(&media.require_readable(DATA, 8).unwrap_err()), DATA);
    assert!(media.unreadable_pages().len() >= 64);
}

#[test]
fn a_file_truncated_while_it_is_mapped_is_an_error_and_no_signal() {
    for (backend, place) in [(BackendChoice::Shm, "/dev/shm"), (BackendChoice::File, ".")] {
        let directory = tempfile::tempdir_in(place).unwrap();
        let path = directory.path().join("m");
        let media = create(&path, backend);
        for at in [DATA, DATA + PAGE] {
            media.store(at, 7);
            media.flush(at, 8);
        }
        media.barrier().unwrap();
        media.close().unwrap();
        drop(media);
        let media = OpenOptions::new(&path).open(&options(backend)).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(DATA + PAGE).unwrap();
        assert_eq!(media.load(DATA), 7);
        media.require_readable(DATA, PAGE).unwrap();
        assert_eq!(media.load(DATA + PAGE), 0);
        assert_eq!(offset(&media.require_readable(DATA + PAGE, 8).unwrap_err()), DATA + PAGE);
    }
}

fn a_lost_page_stays_out_of_the_file() -> Result<(), String> {
    let directory = tempfile::tempdir_in(".").unwrap();
    let path = directory.path().join("m");
    let media = create(&path, BackendChoice::File);
    media.store(DATA, 7);
    media.flush(DATA, 8);
    media.barrier().unwrap();
    media.raise_memory_error(DATA);
    media.store(DATA + 64, 8);
    media.flush(DATA + 64, 8);
    assert_eq!(offset(&media.barrier().unwrap_err()), DATA + 64);
    let checkpointed = media.checkpoint();
    media.abandon();
    let media = OpenOptions::new(&path).open(&options(BackendChoice::File)).unwrap();
    match (checkpointed, media.load(DATA), media.load(DATA + 64)) {
        (Err(Error::Poisoned { cause, .. }), 7, 0) if cause.contains("0x100000") => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn a_lost_page_is_neither_logged_nor_checkpointed() {
    a_lost_page_stays_out_of_the_file().unwrap();
    museum::with("media-zeros-checkpointed", a_lost_page_stays_out_of_the_file).expect_err("not found");
}

/// Whether this is the child process of the test `name`; in the parent, the child's exit.
fn in_child(name: &str) -> Option<std::process::ExitStatus> {
    if std::env::var_os("EVERBYTE_CHILD").is_some() {
        return None;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([&format!("memory_errors::{name}"), "--exact", "--test-threads=1"])
        .env("EVERBYTE_CHILD", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(text.contains("running 1 test"), "{text}");
    Some(child.status)
}

#[test]
fn a_signal_for_other_memory_still_ends_the_process() {
    if let Some(status) = in_child("a_signal_for_other_memory_still_ends_the_process") {
        assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
        return;
    }
    let _media = numbered();
    let file = tempfile::tempfile().unwrap();
    file.set_len(PAGE).unwrap();
    // SAFETY: a fresh mapping of a file of the test's own.
    let address = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            PAGE as usize,
            rustix::mm::ProtFlags::READ,
            rustix::mm::MapFlags::SHARED,
            &file,
            0,
        )
    };
    file.set_len(0).unwrap();
    // SAFETY: mapped above; the load raises the tested signal.
    unsafe { address.unwrap().cast::<u64>().read_volatile() };
}

#[test]
fn a_signal_that_a_process_sent_still_ends_this_one() {
    if let Some(status) = in_child("a_signal_that_a_process_sent_still_ends_this_one") {
        assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
        return;
    }
    let _media = numbered();
    // The handler of the standard library, installed before, restores the default action at the
    // first signal.
    for _ in 0..2 {
        // SAFETY: a signal to this thread.
        unsafe { libc::raise(libc::SIGBUS) };
    }
}
