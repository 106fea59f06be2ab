//! Progress bars for long work, on terminals only.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar up to `total`, or a counter where the total is unknown. Hidden when standard error is no terminal.
pub fn bar(what: &'static str, total: Option<u64>) -> ProgressBar {
    let (bar, form) = match total {
        Some(total) => (ProgressBar::new(total), "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}"),
        None => (ProgressBar::new_spinner(), "{msg} {human_pos} {per_sec}"),
    };
    // The templates are ours; a mistake in one shows in the first run.
    bar.with_style(ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(what)
}
