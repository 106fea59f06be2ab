//! The media head: two copies of 512 bytes with the log's place and the file's length.
//!
//! Format: docs/formats/media.md, section 1. The copies lie at 8 KiB and 12 KiB and are written
//! alternately, so a torn write leaves the other one. The valid copy with the larger sequence
//! counts.
//!
//! A copy can also rot, or an acknowledged write of it can be lost. The other copy is then the
//! older one, and must lead recovery to every record that counts, or to an error.
//!
//! Invariants
//!   HEAD-1  A copy counts only if its checksum covers all its fields.
//!   HEAD-2  The copy that counts is never overwritten: `next` writes the other one.
//!   HEAD-3  The log holds no record that a format lacks before a head of a later format is on the
//!           medium.
//!   HEAD-4  Before the first record after a clean head, and before the first record in a larger
//!           ring, both copies on the medium say so: if either copy is lost, the other one leads to
//!           these records. Opening restores this after a crash between the two writes.
//!   HEAD-5  `log_clean` counts only while both copies are whole. Otherwise the log itself is read.

use crate::backends::file::disk::Disk;
use crate::backends::file::limits::{LOG_MAX, LOG_MIN};
use crate::pages::binding;
use crate::{Checked, Damage, Error, Format, Result, seeded};
use std::io;
use std::path::Path;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

pub(crate) use crate::open::layout::{COPIES, Head, MAGIC};
pub use crate::open::layout::{FORMAT, HEAD_END};

impl Head {
    pub(crate) fn new(max: u64, file_len: u64, log_at: u64, log_len: u64) -> Head {
        let mut head = Head::new_zeroed();
        (head.magic, head.format) = (MAGIC, FORMAT);
        (head.max, head.file_len, head.log_at, head.log_len) = (max, file_len, log_at, log_len);
        head
    }

    /// The address that the store is bound to.
    pub(crate) fn bound_to(&self) -> Option<u64> {
        (self.binding != 0).then_some(self.binding)
    }

    /// The offset and the bytes of the next head (HEAD-2), in our format.
    pub(crate) fn next(&mut self) -> (u64, &[u8]) {
        self.sequence += 1;
        self.format = FORMAT;
        *self = self.sealed();
        (COPIES[(self.sequence % 2) as usize], self.as_bytes())
    }

    /// The length of the ring. Format 1 had no field for it: the ring was the whole log.
    fn ring_len(&self) -> u64 {
        if self.format < 2 && self.log_ready != 0 { self.log_len } else { self.log_room }
    }

    /// Whether a copy leads to the same records as this one, now and after all later writes to the
    /// log. A torn copy leads nowhere; its checksum shows that.
    pub(crate) fn agrees_with(&self, copy: &[u8]) -> bool {
        Head::read_from_bytes(copy).is_ok_and(|copy| {
            let place = |head: &Head| (head.log_head, head.log_sequence, head.incarnation);
            (copy.log_ready, copy.ring_len()) == (self.log_ready, self.ring_len())
                && copy.log_clean <= self.log_clean
                // An empty log must not be replayed again from an older position.
                && (self.log_clean == 0 || place(&copy) == place(self))
        })
    }

    /// Writes and syncs both copies, one after the other, so that the loss of either changes
    /// nothing (HEAD-4). The copy that counts is overwritten after the other one is on the medium
    /// (HEAD-2).
    pub(crate) fn write_both(&mut self, disk: &dyn Disk) -> io::Result<()> {
        let copies = if seeded("media-one-head-copy") { 1 } else { COPIES.len() };
        (0..copies).try_for_each(|_| {
            let (at, bytes) = self.next();
            disk.write_sync_at(at, bytes)
        })
    }

    /// Whether an older program has written the head: its log holds no records of newer kinds
    /// (HEAD-3).
    pub(crate) fn is_older(&self) -> bool {
        self.format < FORMAT
    }

    /// Whether these bytes are a whole head (HEAD-1).
    pub(crate) fn is_whole(bytes: &[u8]) -> bool {
        Head::read_from_bytes(bytes).is_ok_and(|head| head.magic == MAGIC && head.checksum_agrees())
    }

    /// The copy that counts, of the bytes read at [`COPIES`].
    pub(crate) fn choose(path: &Path, copies: [&[u8]; 2]) -> Result<Head> {
        let parse = |bytes: &[u8]| Head::read_from_bytes(bytes).ok().filter(|head| head.magic == MAGIC);
        let found = copies.map(parse);
        let whole = found.into_iter().flatten().filter(|head| head.checksum_agrees()).max_by_key(|head| head.sequence);
        let Some(mut head) = whole else {
            return Err(match found.iter().flatten().next() {
                Some(_) => Error::from(
                    Damage::at(COPIES[0], "both copies of the media head fail their checksum").of_file(path),
                ),
                None => Error::NotAStore { path: path.into(), detail: "no media head at 8 KiB or 12 KiB" },
            });
        };
        if head.format > FORMAT {
            return Err(Error::NewerFormat { path: path.into(), format: Format::new(head.format, FORMAT) });
        }
        head.log_room = head.ring_len();
        let damaged = |detail: &str| Error::from(Damage::at(COPIES[0], detail).of_file(path));
        let log_end = head.log_at.checked_add(head.log_len).ok_or_else(|| damaged("the log's end overflows"))?;
        if head.max % 4096 != 0
            || head.max > 1 << 46
            || log_end > head.max
            || head.log_at < HEAD_END
            || head.file_len > head.max
        {
            return Err(damaged("the media head's sizes contradict each other"));
        }
        if head.map_at % 4096 != 0 || head.map_at != 0 && !(HEAD_END..=head.max).contains(&head.map_at) {
            return Err(damaged("the media head leads to no map of chunks"));
        }
        if head.binding != 0 && !binding::is_possible(head.binding, head.max) {
            return Err(damaged("the store cannot be bound to the address that the media head says"));
        }
        if head.log_at % 4096 != 0
            || head.log_len % 4096 != 0
            || head.log_head % 512 != 0
            || head.log_head > head.log_room
            || head.log_room > head.log_len
            || head.log_room % 4096 != 0
            || head.log_len > LOG_MAX
            || head.log_ready != 0 && (head.log_room < LOG_MIN || head.log_sequence == 0)
        {
            return Err(damaged("the media head's log position lies outside the log"));
        }
        if [head.sequence, head.log_sequence, head.incarnation].iter().any(|&count| count >= 1 << 62) {
            return Err(damaged("a counter of the media head has a value that no store lives to reach"));
        }
        Ok(head)
    }
}

impl Checked for Head {
    fn checksum(&mut self) -> &mut u32 {
        &mut self.checksum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads() -> (Head, Head) {
        let mut old = Head::new(1 << 30, 1 << 20, 64 << 10, 1 << 20);
        old.next();
        let mut new = old;
        new.file_len = 2 << 20;
        new.next();
        (old, new)
    }

    #[test]
    fn newest_whole_copy_counts_and_a_torn_one_does_not() {
        let (old, new) = heads();
        let path = Path::new("x");
        assert_eq!(Head::choose(path, [old.as_bytes(), new.as_bytes()]).unwrap(), new);
        for at in 0..16 {
            let mut torn = new.as_bytes().to_vec();
            torn[at * 32 + 8] ^= 1;
            assert_eq!(Head::choose(path, [old.as_bytes(), &torn]).unwrap(), old, "flipped a bit at {}", at * 32 + 8);
        }
    }

    #[test]
    fn both_torn_foreign_and_newer_are_told_apart() {
        let (mut old, new) = heads();
        let path = Path::new("x");
        let mut torn = new.as_bytes().to_vec();
        torn[100] ^= 1;
        assert!(matches!(Head::choose(path, [&torn, &torn]), Err(Error::Damaged { .. })));
        assert!(matches!(Head::choose(path, [&[0; 512], &[7; 512]]), Err(Error::NotAStore { .. })));
        (old.format, old.checksum) = (9, 0);
        old = old.sealed();
        let bytes = old.as_bytes().to_vec();
        assert!(matches!(
            Head::choose(path, [&bytes, &bytes]),
            Err(Error::NewerFormat { format: Format { found: 9, .. }, .. })
        ));
    }
}
