//! A store file as a crash left it, with records in its log, patched and opened on the `file`
//! backend.

use crate::class;
use crate::patch::Image;
use everbyte_media::{BackendChoice, Durability, Geometry, HEAD_END, OpenOptions, Options};
use std::path::Path;
use std::sync::OnceLock;

const LOG: u64 = 64 << 10;

fn options() -> Options {
    Options { backend: BackendChoice::File, durability: Durability::Process, log_bytes: LOG, ..Options::default() }
}

/// A file whose log holds three records that no checkpoint has seen.
fn good() -> &'static Image {
    static GOOD: OnceLock<Image> = OnceLock::new();
    GOOD.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("good");
        let geometry = Geometry { max: 1 << 20, len: 256 << 10, log_at: HEAD_END, log_len: LOG };
        let media = OpenOptions::new(&path).create(geometry, &options()).expect("a file");
        for turn in 0..3u8 {
            {
                let _section = media.section();
                media.write(128 << 10, &[turn + 1; 200]);
                media.flush(128 << 10, 200);
            }
            media.barrier().expect("a barrier");
        }
        let bytes = std::fs::read(&path).expect("what a crash would leave");
        let heads = [8 << 10, 12 << 10].map(|at| (at, 512)).to_vec();
        Image::new(bytes, heads)
    })
}

pub(crate) fn run(input: &[u8]) -> String {
    thread_local! {
        static FOLDER: tempfile::TempDir = {
            let memory = Path::new("/dev/shm");
            tempfile::tempdir_in(if memory.is_dir() { memory } else { Path::new("/tmp") }).expect("a folder")
        };
    }
    FOLDER.with(|folder| {
        let path = folder.path().join("patched");
        std::fs::write(&path, good().patched(input)).expect("room for a file");
        match OpenOptions::new(&path).open(&options()) {
            Ok(media) => {
                let mut bytes = [0; 200];
                if media.holds(128 << 10, 200) {
                    media.read(128 << 10, &mut bytes);
                }
                let closed = media.close().map_or_else(|error| class(&error.to_string()), |()| "closed".into());
                format!("opened {} {closed}", bytes[0])
            }
            Err(error) => class(&error.to_string()),
        }
    })
}
