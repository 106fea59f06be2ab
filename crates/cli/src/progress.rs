//! Progress bars of long commands, on terminals only.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar up to `total`, or a counter if the total is unknown. Hidden if standard error is no
/// terminal.
pub(crate) fn bar(what: &'static str, total: Option<u64>) -> ProgressBar {
    match total {
        Some(total) => {
            styled(ProgressBar::new(total), "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}", what)
        }
        None => styled(ProgressBar::new_spinner(), "{msg} {human_pos} {per_sec}", what),
    }
}

/// A bar that counts bytes, up to a length that is set later.
pub(crate) fn bytes(what: &'static str) -> ProgressBar {
    styled(ProgressBar::new(0), "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}", what)
}

/// A counter of bytes whose sum is not known.
pub(crate) fn counted_bytes(what: &'static str) -> ProgressBar {
    styled(ProgressBar::new_spinner(), "{msg} {bytes} {bytes_per_sec}", what)
}

fn styled(bar: ProgressBar, form: &str, what: &'static str) -> ProgressBar {
    // The templates are constants of this file, so parsing cannot fail at a user's input.
    bar.with_style(ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(what)
}
