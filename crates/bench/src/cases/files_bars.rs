//! The bars of the case `files`, by metric. A bar against a rival that takes no part is not
//! printed. Bars of threads, of latencies and of two volumes stand where their metrics are
//! measured.

use crate::report::Bar;

pub(super) const TMPFS: &str = "tmpfs";
pub(super) const EXT4: &str = "ext4";
/// Two threads against one.
pub(super) const TWO_THREADS: f64 = 1.6;
/// The slowest of a thousand calls against the median.
pub(super) const TAIL: f64 = 20.0;
/// A volume that aged against a fresh one.
const AGED: f64 = 0.9;

/// The name of a file system whose file was opened with `O_DSYNC`.
pub(super) fn dsync(name: &str) -> String {
    format!("{name} O_DSYNC")
}

/// The bars of a metric; none for most.
pub(super) fn bars(metric: &str) -> Vec<Bar> {
    let both = |ext4, tmpfs| vec![Bar::new(EXT4, ext4), Bar::new(TMPFS, tmpfs)];
    match metric {
        "read_4k" => both(2.0, 2.0),
        "read_4k_random" => both(1.4, 1.4),
        "write_4k" | "write_4k_random" => vec![Bar::new(EXT4, 1.5)],
        "write_4k_synced" => vec![Bar::new(dsync(EXT4), 20.0)],
        "write_64" => vec![Bar::new(EXT4, 50.0)],
        "append_64_in_place" => vec![Bar::paper("logged", 1.8)],
        "create" => both(8.0, 1.5),
        "rename" | "unlink" => both(5.0, 1.5),
        "open" => both(4.0, 1.5),
        "aged_read" | "aged_write" | "aged_large_percent" => vec![Bar::new("fresh", AGED)],
        "remount_clean" => vec![Bar::most(50.0)],
        "remount_crash" | "unmount" => vec![Bar::most(1000.0)],
        _ if is_mapped_page(metric) => vec![Bar::new(EXT4, 2.3)],
        _ => Vec::new(),
    }
}

/// Loads and stores of 4 KiB of a mapping, of any pages: the paper's least ratio.
fn is_mapped_page(metric: &str) -> bool {
    let rest = metric.strip_prefix("mapped_read_4096").or_else(|| metric.strip_prefix("mapped_write_4096"));
    rest.is_some_and(|how| ["", "_populated", "_2m"].contains(&how))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_the_bars_of_their_kind() {
        let count = |metric: &str| bars(metric).len();
        assert_eq!(["read_4k", "create", "mapped_read_4096_2m", "unmount"].map(count), [2, 2, 1, 1]);
        assert_eq!(["read_4k_scattered", "append_64", "mapped_read_64", "threads_2_create"].map(count), [0; 4]);
    }
}
