//! The head of a volume: making it, reading it, and repairing one of its two copies.
//!
//! Invariants
//!   FS-5  The head never changes, so that either copy is right if its checksum agrees.

use crate::lanes::Lanes;
use crate::layout::{
    FORMAT, GROUP_PAGES, HEAD_AT, HEAD_COPY_AT, Head, INODE, LANE_LEN, LANES_MAX, LANES_PAGE, MAGIC, PAGE, Place,
    SIZE_AT, SUMS_AT, State, TABLE_AT, inode,
};
use crate::table::Body;
use crate::{Error, FileKind, PageSize, Result, VolumeOptions};
use everbyte_media::sealed::seal_low;
use everbyte_media::{Checked, Damage, Format, Length, Media};
use everbyte_store::Object;
use zerocopy::IntoBytes;

/// Offset of [`Head::page_size`].
const PAGE_SIZE_AT: u64 = std::mem::offset_of!(Head, page_size) as u64;

/// The fingerprint of volumes: their magic as a number.
pub(crate) fn fingerprint() -> u64 {
    u64::from_le_bytes(MAGIC)
}

/// Pages before the first that files may have: prime page, copy of the head, lanes, two pages of
/// the inode table and its first group.
pub(crate) fn first_free(lanes: u32) -> u64 {
    LANES_PAGE + u64::from(lanes) * LANE_LEN / PAGE + 2 + GROUP_PAGES
}

/// Makes an empty volume in a new object; flushed, no fence.
///
/// # Errors
/// [`Error::BadOption`]; no space.
pub(crate) fn format(object: &Object, options: &VolumeOptions) -> Result<()> {
    let lanes = options.lanes;
    let bad = |detail: String| Err(Error::BadOption { detail });
    if !(1..=LANES_MAX).contains(&lanes) {
        return bad(format!("a volume has 1 to {LANES_MAX} lanes, not {lanes}"));
    }
    let mut label = [0; 64];
    if options.label.len() > label.len() {
        return bad(format!("a label has up to {} bytes, not {}", label.len(), options.label.len()));
    }
    label[..options.label.len()].copy_from_slice(options.label.as_bytes());
    if options.size > 0 && (!options.size.is_multiple_of(PAGE) || options.size < first_free(lanes) * PAGE) {
        let least = first_free(lanes) * PAGE;
        return bad(format!("the size of a volume of {lanes} lanes is a multiple of {PAGE} and at least {least}"));
    }
    let (media, start) = (object.media(), object.prime().get());
    let needed = start + (first_free(lanes) + u64::from(options.checksums)) * PAGE;
    if needed > object.backed().get() {
        object.grow(needed - object.backed().get()).map_err(|error| Error::no_space(object.name(), error))?;
    }
    let head = Head {
        magic: MAGIC,
        checksum: 0,
        format: FORMAT,
        uuid: options.uuid.unwrap_or_else(random_uuid),
        label,
        created: (options.clock)(),
        lanes,
        page_size: options.page_size.word(),
        lane_len: Length::new(LANE_LEN),
        reserved: [0; 136],
    }
    .sealed();
    let _section = media.section();
    for at in [HEAD_AT, HEAD_COPY_AT] {
        media.put(start + at, &head);
        media.flush(start + at, size_of::<Head>() as u64);
    }
    if options.size > 0 {
        media.store(start + SIZE_AT, seal_low(options.size / PAGE));
        media.flush(start + SIZE_AT, 8);
    }
    let salt = u64::from_le_bytes(head.uuid[..8].try_into().expect("eight bytes"));
    Lanes::format(media, start, lanes, salt)?;
    // The clusters are zeros: a table of one group of free inodes.
    let table = LANES_PAGE + u64::from(lanes) * LANE_LEN / PAGE;
    for (at, page) in [(TABLE_AT, table), (table * PAGE, table + 1), ((table + 1) * PAGE, table + 2)] {
        media.store(start + at, Place::page(page).word());
        media.flush(start + at, 8);
    }
    if options.checksums {
        media.store(start + SUMS_AT, Place::page(first_free(lanes)).word()); // a page of zeros
        media.flush(start + SUMS_AT, 8);
    }
    let root = start + (table + 2) * PAGE + INODE;
    let mut body = Body::new(FileKind::Directory, 0o755, head.created);
    (body.uid, body.gid) = options.owner;
    let mut content = body.inode(State { mode: 0, flags: 0, generation: 0 });
    content.parent = 1;
    content.checksum = content.owner_sum();
    content.state = body.state(0).word();
    media.put(root, &content);
    media.flush(root, INODE);
    debug_assert_eq!(media.load(root + inode::STATE), content.state);
    Ok(())
}

pub(crate) fn random_uuid() -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    let words = [RandomState::new().hash_one(1_u64), RandomState::new().hash_one(2_u64)];
    words.as_bytes().try_into().expect("sixteen bytes")
}

/// Reads the head; a copy that is damaged is written again from the other one. Returns whether that
/// was done.
///
/// # Errors
/// [`Error::NewerFormat`], [`Error::OldFormat`]; [`Error::Damaged`] if neither copy is whole.
pub(crate) fn read(object: &Object, repair: bool) -> Result<(Head, bool)> {
    let (media, start) = (object.media(), object.prime().get());
    let damaged = |at: u64, detail: &str| Err(Error::from(Damage::at(at, detail).of_object(object.name())));
    if !media.holds(start, (LANES_PAGE + 1) * PAGE) {
        return damaged(start, "the volume's object is too short");
    }
    let places = [start + HEAD_AT, start + HEAD_COPY_AT];
    let heads = places.map(|at| whole(media, at));
    // With the place of the damaged copy, and of the other one.
    let (head, lost) = match heads {
        [Some(head), Some(copy)] if head == copy => (head, None),
        [Some(_), Some(_)] => return damaged(places[1], "the two heads of the volume differ"),
        [Some(head), None] => (head, Some((places[1], places[0]))),
        [None, Some(copy)] => (copy, Some((places[0], places[1]))),
        [None, None] => return damaged(places[0], "neither head of the volume is whole"),
    };
    if head.format != FORMAT {
        let (volume, format) = (object.name().into(), Format::new(head.format, FORMAT));
        return Err(match head.format < FORMAT {
            true => Error::OldFormat { volume, format },
            false => Error::NewerFormat { volume, format },
        });
    }
    let fits = (1..=LANES_MAX).contains(&head.lanes) && head.lane_len == LANE_LEN;
    if !fits || !media.holds(start, first_free(head.lanes) * PAGE) {
        return damaged(places[0], "the volume's lanes do not fit its object");
    }
    if PageSize::of_word(head.page_size).is_none() {
        return damaged(places[0] + PAGE_SIZE_AT, "the head of the volume has a page size that no volume has");
    }
    if let (Some((at, other)), true) = (lost, repair) {
        let _section = media.section();
        if object.store().may_follow_a_death() {
            // A process that died may have left the whole copy in the caches alone.
            media.reflush(other, size_of::<Head>() as u64);
            media.fence(); // the whole copy before its bytes
        }
        media.put(at, &head);
        media.flush(at, size_of::<Head>() as u64);
        media.fence();
    }
    Ok((head, lost.is_some()))
}

fn whole(media: &Media, at: u64) -> Option<Head> {
    let head: Head = media.get(at);
    (head.magic == MAGIC && head.checksum_agrees()).then_some(head)
}
