//! The table of mounts of the machine, as far as it tells of Everbyte's.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Begins the source of a mount whose process goes on after the unmounting, such as a server: there
/// is no closing of the store to wait for.
pub(crate) const OF_SERVER: &str = "serve:";

/// The source of the Everbyte mount at a path, as `/proc/self/mountinfo` tells it: the file of the
/// store and the name of the volume. The last mount on the path counts.
pub(crate) fn source_of(path: &Path) -> Option<(PathBuf, String)> {
    let (store, volume, _) = found_at(path)?;
    Some((store, volume))
}

/// Whether the Everbyte mount at a path has a source with [`OF_SERVER`].
pub(crate) fn is_of_server(path: &Path) -> bool {
    found_at(path).is_some_and(|(_, _, of_server)| of_server)
}

fn found_at(path: &Path) -> Option<(PathBuf, String, bool)> {
    let path = std::path::absolute(path).ok()?;
    find_source(&fs::read("/proc/self/mountinfo").ok()?, path.as_os_str().as_bytes())
}

fn find_source(table: &[u8], path: &[u8]) -> Option<(PathBuf, String, bool)> {
    let lines = table.split(|&byte| byte == b'\n').rev();
    let mut found = lines.filter_map(|line| {
        let mut words = line.split(|&byte| byte == b' ');
        let point = unescape(words.nth(4)?);
        let mut rest = words.skip_while(|word| *word != b"-").skip(1);
        let is_fuse = matches!(rest.next()?, b"fuse" | b"fuse.everbyte");
        let source = unescape(rest.next()?);
        let of_server = source.starts_with(OF_SERVER.as_bytes());
        let source = source[if of_server { OF_SERVER.len() } else { 0 }..].to_vec();
        // The crate `fuser` mounts without a subtype as root; others name no path first.
        (is_fuse && point == path && source.starts_with(b"/")).then_some((source, of_server))
    });
    let (source, of_server) = found.next()?;
    let colon = source.iter().rposition(|&byte| byte == b':')?;
    let volume = String::from_utf8(source[colon + 1..].to_vec()).ok()?;
    Some((std::ffi::OsString::from_vec(source[..colon].to_vec()).into(), volume, of_server))
}

/// Bytes of the table, in which `\040` and the like stand for blanks.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, behind)) = rest.split_first() {
        let octal = || {
            let digits = behind.get(..3)?;
            u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
        };
        match (first, octal()) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = &behind[3..];
            }
            _ => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_on_a_path_tells_its_source() {
        let table = b"22 1 0:5 / /m rw - ext4 /dev/sda rw\n\
            23 1 0:6 / /m\\040x rw,relatime shared:1 - fuse.everbyte /a\\040b:c.store:home rw\n\
            24 1 0:7 / /m rw - fuse /old:home rw\n\
            25 1 0:8 / /m rw - fuse /new:other rw\n\
            26 1 0:9 / /n rw - fuse host:/path rw\n\
            27 1 0:9 / /s rw - fuse serve:/new:other rw\n";
        assert_eq!(find_source(table, b"/m x"), Some(("/a b:c.store".into(), "home".into(), false)));
        assert_eq!(find_source(table, b"/m"), Some(("/new".into(), "other".into(), false)));
        assert_eq!(find_source(table, b"/s"), Some(("/new".into(), "other".into(), true)));
        assert_eq!(find_source(table, b"/n"), None);
    }
}
