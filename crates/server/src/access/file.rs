//! Users in a file: a line `user NAME RULES...` for each.

use super::user::{RuleError, User, merged};
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes of a file of users at most.
const FILE_SIZE_MAX: u64 = 64 << 20;

/// Reads all users of a file; an error tells everything that is wrong, and no password.
pub(crate) fn load(path: &Path) -> Result<Vec<User>, String> {
    let shown = path.display();
    let open = |error: std::io::Error| {
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        format!("Error loading ACLs, opening file '{shown}': {text}")
    };
    let size = std::fs::metadata(path).map_err(open)?.len();
    if size > FILE_SIZE_MAX {
        return Err(format!(
            "Error loading ACLs, opening file '{shown}': it has {size} bytes, {FILE_SIZE_MAX} at most"
        ));
    }
    let bytes = std::fs::read(path).map_err(open)?;
    let (mut users, mut names, mut errors) = (Vec::new(), BTreeSet::new(), String::new());
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let place = format!("{shown}:{}", index + 1);
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let mut words = line.split(|byte| *byte == b' ');
        let (Some(b"user"), Some(name)) = (words.next(), words.next()) else {
            errors += &format!("{place} should start with user keyword followed by the username. ");
            continue;
        };
        let text = String::from_utf8_lossy(name).into_owned();
        if !User::may_be_called(name) {
            errors += &format!("'{place}: username '{text}' contains invalid characters. ");
            continue;
        }
        if !names.insert(name.to_vec()) {
            errors += &format!("WARNING: Duplicate user '{text}' found on line {}. ", index + 1);
            continue;
        }
        let Ok(rules) = merged(words) else {
            errors += &format!("{place}: Unmatched parenthesis in selector definition.");
            continue;
        };
        let (mut user, mut told) = (User::new(name), false);
        for rule in rules {
            match user.apply(rule.trim_ascii()) {
                Ok(()) => {}
                // The name of a command is no secret; any other rule may hold a password.
                Err(error @ RuleError::Unknown) => {
                    let rule = String::from_utf8_lossy(&rule).into_owned();
                    errors += &format!("{place}: Error in applying operation '{rule}': {}. ", error.text());
                }
                Err(error) if !told => {
                    errors += &format!("{place}: {}. ", error.text());
                    told = true;
                }
                Err(_) => {}
            }
        }
        users.push(user);
    }
    match errors.is_empty() {
        true => Ok(users),
        false => {
            Err(errors + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
        }
    }
}

/// Writes all users to a file, as a whole or not at all: into a file beside it, which is synced and
/// renamed. Its owner alone may read it.
pub(crate) fn save<'u>(path: &Path, users: impl Iterator<Item = &'u User>) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".tmp-{}", std::process::id()));
    let beside = Path::new(&beside);
    let written = (|| {
        // A file that a killed server left behind is in use no more.
        let _ = std::fs::remove_file(beside);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
        for user in users {
            file.write_all(&[&user.line()[..], b"\n"].concat())?;
        }
        file.sync_all()?;
        std::fs::rename(beside, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::File::open(folder)?.sync_all()
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(beside);
    }
    written
}
