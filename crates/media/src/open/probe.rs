//! Measuring a path: the backend that it gives, the crashes that the backend survives, and its
//! cost.

use crate::{BackendKind, Error, FlushKind, Geometry, Media, OpenOptions, Options, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The answer of [`probe`].
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The backend that [`crate::BackendChoice::Auto`] chooses there.
    pub kind: BackendKind,
    /// The reason, in one sentence.
    pub reason: &'static str,
    /// Whether every store survives the process, flushed or not. If not, the death of the process
    /// is a crash like any other.
    pub keeps_stores_of_the_dead: bool,
    /// Whether settled bytes survive power loss.
    pub survives_power_loss: bool,
    /// The flush instruction in use.
    pub flush: FlushKind,
    /// Storing and flushing one line among many of one fence, in nanoseconds.
    pub line_ns: f64,
    /// A fence after one line, in nanoseconds.
    pub fence_ns: f64,
    /// A barrier after one line, in nanoseconds (median): the lower bound of a durable operation.
    pub barrier_ns: f64,
    /// Bytes free there.
    pub free_bytes: u64,
}

/// Measures a directory, or the directory of a file that need not exist. Creates a small store
/// there and removes it; an existing file is not touched.
///
/// # Errors
/// [`Error::Io`] if no file can be created.
pub fn probe(path: &Path) -> Result<Probe> {
    let directory = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let system = rustix::fs::statvfs(directory);
    let system = system.map_err(|errno| Error::Io { action: "examine", path: path.into(), source: errno.into() })?;
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Relaxed);
    let scratch = Scratch(directory.join(format!(".everbyte-probe-{}-{number}", std::process::id())));
    let geometry = Geometry { max: 4 << 20, len: 4 << 20, log_at: 16 << 10, log_len: 1 << 20 };
    let media = OpenOptions::new(&scratch.0).create(geometry, &Options { background: false, ..Options::default() })?;
    let kind = media.kind();
    Ok(Probe {
        kind,
        reason: match kind {
            BackendKind::Pmem => "MAP_SYNC works: a DAX file system, whose stores reach persistent memory directly",
            BackendKind::Shm => "tmpfs: shared memory, which outlives processes but not the machine's power",
            _ => "an ordinary file system (MAP_SYNC is refused): a private mapping, and a log inside the store file",
        },
        keeps_stores_of_the_dead: kind != BackendKind::File,
        survives_power_loss: kind != BackendKind::Shm,
        flush: media.flush_kind(),
        line_ns: line_ns(&media),
        fence_ns: median(200, || {
            touch(&media, 0, 1);
            time(|| media.fence())
        }),
        barrier_ns: {
            let mut failed = None;
            let count = if kind == BackendKind::File { 51 } else { 1001 };
            let took = median(count, || {
                touch(&media, 0, 1);
                time(|| failed = failed.take().or(media.barrier().err()))
            });
            failed.map_or(Ok(took), Err)?
        },
        free_bytes: system.f_bavail * system.f_frsize,
    })
}

/// Offset of the measured lines.
const DATA: u64 = 2 << 20;

fn touch(media: &Media, first: u64, lines: u64) {
    let _section = media.section();
    for line in first..first + lines {
        media.store(DATA + line * crate::LINE, line);
        media.flush(DATA + line * crate::LINE, 8);
    }
}

fn time(body: impl FnOnce()) -> Duration {
    let start = Instant::now();
    body();
    start.elapsed()
}

fn line_ns(media: &Media) -> f64 {
    const LINES: u64 = 1024;
    touch(media, 0, LINES); // first touch of the pages
    median(21, || time(|| touch(media, 0, LINES))) / LINES as f64
}

fn median(count: usize, mut run: impl FnMut() -> Duration) -> f64 {
    let mut took: Vec<Duration> = (0..count).map(|_| run()).collect();
    took.sort_unstable();
    took[count / 2].as_nanos() as f64
}

/// A file that is removed when the value is dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(directory: &Path) -> Probe {
        let probe = probe(directory).unwrap();
        assert!(probe.line_ns > 0.0 && probe.fence_ns >= 0.0 && probe.barrier_ns > 0.0 && probe.free_bytes > 0);
        assert_eq!(std::fs::read_dir(directory).unwrap().filter(is_probe).count(), 0);
        probe
    }

    fn is_probe(entry: &std::io::Result<std::fs::DirEntry>) -> bool {
        entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".everbyte-probe")
    }

    #[test]
    fn a_probe_measures_a_directory_and_leaves_it_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let found = check(dir.path());
        assert_eq!(found.survives_power_loss, found.kind != BackendKind::Shm);
        assert_eq!(probe(&dir.path().join("a-store-to-be")).unwrap().kind, found.kind);
        if Path::new("/dev/shm").is_dir() {
            let memory = probe(Path::new("/dev/shm")).unwrap();
            assert_eq!((memory.kind, memory.survives_power_loss), (BackendKind::Shm, false));
        }
        assert!(matches!(probe(Path::new("/proc/nothing/here")), Err(Error::Io { .. })));
    }
}
