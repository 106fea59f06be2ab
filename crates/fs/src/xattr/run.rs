//! The run of pages that holds the extended attributes of one file.

use crate::extents::Pages;
use crate::layout::{PAGE, XATTRS_MAX, XattrsHead, inode};
use everbyte_media::{Checked, Damage};
use std::collections::BTreeMap;
use zerocopy::IntoBytes;

/// Bytes of the head of a run.
pub(crate) const HEAD: usize = size_of::<XattrsHead>();

/// The attributes of a file, in the order of their names.
pub(crate) type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The run of pages of a file's attributes: its first page, the number of pages, and whether the
/// word that leads there has the flag of shared pages.
pub(crate) fn run(pages: Pages<'_>, at: u64) -> Result<Option<(u64, u64, bool)>, Damage> {
    let media = pages.media;
    let word = media.load(at + inode::ATTRIBUTES);
    if word == 0 {
        return Ok(None);
    }
    let place = pages.place(at + inode::ATTRIBUTES, word, 1)?;
    let head_at = pages.start + place.page * PAGE;
    let head: XattrsHead = media.get(head_at);
    let count = (HEAD as u64 + u64::from(head.len)).div_ceil(PAGE);
    if !head.checksum_agrees() || u64::from(head.len) > XATTRS_MAX || place.page + count > pages.end {
        return Err(Damage::at(head_at, "the head of extended attributes fails its check"));
    }
    Ok(Some((place.page, count, place.is_shared())))
}

/// Reads the attributes of the inode at `at`.
pub(crate) fn read(pages: Pages<'_>, at: u64) -> Result<Xattrs, Damage> {
    let Some((page, ..)) = run(pages, at)? else { return Ok(Xattrs::new()) };
    let head_at = pages.start + page * PAGE;
    let head: XattrsHead = pages.media.get(head_at);
    let bytes = pages.media.read_vec(head_at + HEAD as u64, head.len as usize);
    let damaged = || Damage::at(head_at, "extended attributes fail their check");
    if crc32c::crc32c(&bytes) != head.content {
        return Err(damaged());
    }
    let mut all = Xattrs::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (lens, after) = rest.split_first_chunk::<5>().ok_or_else(damaged)?;
        let name_len = usize::from(lens[0]);
        let value_len = u32::from_le_bytes([lens[1], lens[2], lens[3], lens[4]]) as usize;
        if after.len() < name_len.saturating_add(value_len) {
            return Err(damaged());
        }
        let (name, after) = after.split_at(name_len);
        let (value, after) = after.split_at(value_len);
        all.insert(name.to_vec(), value.to_vec());
        rest = after;
    }
    Ok(all)
}

/// The bytes of a run.
pub(crate) fn written(all: &Xattrs) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    for (name, value) in all {
        bytes.push(name.len() as u8);
        bytes.extend((value.len() as u32).to_le_bytes());
        bytes.extend(name);
        bytes.extend(value);
    }
    let len = (bytes.len() - HEAD) as u32;
    let head = XattrsHead { checksum: 0, len, content: crc32c::crc32c(&bytes[HEAD..]), reserved: 0 }.sealed();
    bytes[..HEAD].copy_from_slice(head.as_bytes());
    bytes
}
