//! Options of using a volume by their words, and those among them that its opening takes.

use crate::{make, root, store, volume};
use everbyte_fs::{PageSize, Volume};
use everbyte_media::{ErrorInfo, ErrorKind, WriteWindows};
use everbyte_posix::{Files, FilesOptions};

/// The options of words, all of which are known.
fn options(words: &[&str]) -> FilesOptions {
    let mut options = FilesOptions::default();
    words.iter().for_each(|word| assert!(options.set(word), "{word}"));
    options
}

/// The page size of new files, relaxed commit and write windows are those of the words, the last of
/// a kind ruling; other values are no words.
#[test]
fn a_volume_is_opened_as_its_options_say() {
    let store = store();
    volume(&store, everbyte_fs::system_clock).close().unwrap();
    let open = |options: &FilesOptions| Volume::open_with(store.object("files").unwrap(), &options.opening());
    for (word, size) in [
        ("pagesize=4K", PageSize::Small),
        ("pagesize=2M", PageSize::Large),
        ("pagesize=1G", PageSize::Giant),
        ("noatime", PageSize::Small),
    ] {
        let options = options(&["windows=off", word]);
        let files = Files::new(open(&options).unwrap(), options);
        let process = root(&files);
        drop(make(&process, word, b"bytes"));
        assert_eq!(process.status(word).unwrap().page_size, size, "{word}");
        drop(process);
        files.close().unwrap();
    }
    for (words, windows) in [
        (&["windows=mprotect"][..], WriteWindows::PageTable),
        (&["windows=mprotect", "windows=off"], WriteWindows::Off),
    ] {
        assert_eq!(open(&options(words)).unwrap().windows(), windows);
    }
    match open(&options(&["windows=keys"])) {
        Ok(volume) => assert_eq!(volume.windows(), WriteWindows::Keys),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "no keys on this machine: {error}"),
    }
    assert!(options(&["relaxed"]).opening().relaxed && !options(&["relaxed", "norelaxed"]).opening().relaxed);
    assert!(!FilesOptions::default().opening().relaxed);
    options(&FilesOptions::WORDS.split(", ").collect::<Vec<_>>());
    for word in ["pagesize", "pagesize=", "pagesize=3M", "pagesize=2m", "windows=on", "relaxed=1"] {
        assert!(!FilesOptions::default().set(word), "{word}");
    }
}
