//! Programs of users before the explorer: `everbyte crash --run COMMAND`.

use crate::{Report, Settings};
use everbyte_sim::{Explorer, Foreign};
use std::path::{Path, PathBuf};

/// Explores a program that is linked with `libeverbyte`. Images are made on tmpfs where there is
/// one.
///
/// # Errors
/// A sentence if the store cannot be read, or the program fails without a crash.
pub fn explore_program(foreign: &Foreign, settings: &Settings) -> Result<Report, String> {
    let Foreign { store, run, check, precise } = foreign;
    let precise = if *precise { " --precise" } else { "" };
    let command = format!(
        "everbyte crash --store {} --run {} --check {}{precise} --seed {{seed}} --image '{{image}}'",
        quoted(&store.display().to_string()),
        quoted(run),
        quoted(check)
    );
    // Each image is a process of its own: some milliseconds.
    let explorer = Explorer::new(run.as_str()).images(32).total(2000).exhaustive_words(6).command(command);
    let place = Place::new().map_err(|error| format!("no room for images: {error}"))?;
    let outcome = settings.apply(explorer).explore_foreign(foreign, &place.0)?;
    Ok(Report::new(run, "program", outcome))
}

/// A word as the shell takes it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A directory that goes away.
struct Place(PathBuf);

impl Place {
    fn new() -> std::io::Result<Place> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let place = parent.join(format!("everbyte-crash-{}", std::process::id()));
        std::fs::create_dir(&place)?;
        Ok(Place(place))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // images of a finished exploration
    }
}
