//! [`Acl`]: access control lists of POSIX.1e (draft 17), in the form that Linux gives them as
//! extended attributes: version 2, entries of 8 bytes in the order of their tags.

use crate::user::{Rights, User};
use crate::{Errno, Result};
use everbyte_fs::Owner;

/// The attribute that rules the access to a file.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute of a directory that new files in it inherit.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
/// The id of entries that name neither a user nor a group.
const NO_ID: u32 = u32::MAX;

/// The subject of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tag {
    /// The owner of the file.
    Owner,
    /// A user.
    User(u32),
    /// The group of the file.
    OwningGroup,
    /// A group.
    Group(u32),
    /// The most that users, groups and the owning group get.
    Mask,
    /// All other users.
    Other,
}

impl Tag {
    fn bits(self) -> (u16, u32) {
        match self {
            Tag::Owner => (0x01, NO_ID),
            Tag::User(id) => (0x02, id),
            Tag::OwningGroup => (0x04, NO_ID),
            Tag::Group(id) => (0x08, id),
            Tag::Mask => (0x10, NO_ID),
            Tag::Other => (0x20, NO_ID),
        }
    }

    fn of_bits(tag: u16, id: u32) -> Option<Tag> {
        match tag {
            0x01 => Some(Tag::Owner),
            0x02 if id != NO_ID => Some(Tag::User(id)),
            0x04 => Some(Tag::OwningGroup),
            0x08 if id != NO_ID => Some(Tag::Group(id)),
            0x10 => Some(Tag::Mask),
            0x20 => Some(Tag::Other),
            _ => None,
        }
    }

    /// The place of the tag in the order of a list; named entries of one class share it.
    fn rank(self) -> u16 {
        self.bits().0
    }
}

/// An access control list: one entry for the owner, the owning group and others each, any number
/// for users and groups, and a mask if there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<(Tag, u16)>,
}

impl Acl {
    /// The list of a mode: three entries.
    pub fn of_mode(mode: u16) -> Acl {
        let bits = |shift: u16| mode >> shift & 7;
        Acl { entries: vec![(Tag::Owner, bits(6)), (Tag::OwningGroup, bits(3)), (Tag::Other, bits(0))] }
    }

    /// A list of these entries, in any order.
    ///
    /// # Errors
    /// [`Errno::EINVAL`]: it lacks one of the three entries, or the mask, or has one twice.
    pub fn new(mut entries: Vec<(Tag, u16)>) -> Result<Acl> {
        entries.sort_by_key(|&(tag, _)| tag);
        let acl = Acl { entries };
        acl.require_valid()?;
        Ok(acl)
    }

    /// The entries, in order.
    pub fn entries(&self) -> &[(Tag, u16)] {
        &self.entries
    }

    /// Refuses a list that lacks an entry, or has one twice.
    pub(crate) fn require_valid(&self) -> Result<()> {
        let count = |rank: u16| self.entries.iter().filter(|(tag, _)| tag.rank() == rank).count();
        let is_named = |&(tag, _): &(Tag, u16)| matches!(tag, Tag::User(_) | Tag::Group(_));
        let (has_named, masks) = (self.entries.iter().any(is_named), count(Tag::Mask.rank()));
        let is_whole = [Tag::Owner, Tag::OwningGroup, Tag::Other].into_iter().all(|tag| count(tag.rank()) == 1)
            && masks <= 1
            && (masks == 1 || !has_named);
        let is_sorted = self.entries.is_sorted_by_key(|&(tag, _)| tag.rank());
        let has_plain_bits = self.entries.iter().all(|&(_, bits)| bits <= 7);
        let is_twice = |(at, entry): (usize, &(Tag, u16))| self.entries[..at].iter().any(|other| other.0 == entry.0);
        match is_whole && is_sorted && has_plain_bits && !self.entries.iter().enumerate().any(is_twice) {
            true => Ok(()),
            false => Err(Errno::EINVAL.into()),
        }
    }

    /// Reads a list from the bytes of an attribute.
    ///
    /// # Errors
    /// [`Errno::EOPNOTSUPP`] for another version, [`Errno::EINVAL`] for bytes that are no list.
    pub fn parse(bytes: &[u8]) -> Result<Acl> {
        let acl = Acl::parse_entries(bytes)?;
        acl.require_valid()?;
        Ok(acl)
    }

    /// [`Acl::parse`] of entries that may be no list together.
    pub(crate) fn parse_entries(bytes: &[u8]) -> Result<Acl> {
        let (version, entries) = bytes.split_first_chunk::<4>().ok_or(Errno::EINVAL)?;
        if u32::from_le_bytes(*version) != VERSION {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let (entries, rest) = entries.as_chunks::<8>();
        let parse = |entry: &[u8; 8]| {
            let [tag, tag_high, bits, bits_high, id @ ..] = *entry;
            let tag = Tag::of_bits(u16::from_le_bytes([tag, tag_high]), u32::from_le_bytes(id));
            tag.map(|tag| (tag, u16::from_le_bytes([bits, bits_high])))
        };
        let entries: Option<Vec<(Tag, u16)>> = entries.iter().map(parse).collect();
        Ok(Acl { entries: entries.filter(|_| rest.is_empty()).ok_or(Errno::EINVAL)? })
    }

    /// The bytes of the attribute.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for &(tag, permissions) in &self.entries {
            let (tag, id) = tag.bits();
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    /// Whether the list says no more than a mode does.
    pub fn is_mode(&self) -> bool {
        self.entries.len() == 3
    }

    fn bits(&self, wanted: Tag) -> Option<u16> {
        self.entries.iter().find(|(tag, _)| *tag == wanted).map(|&(_, bits)| bits)
    }

    fn entry(&mut self, wanted: Tag) -> &mut u16 {
        let found = self.entries.iter_mut().find(|(tag, _)| *tag == wanted);
        &mut found.expect("a list has this entry").1
    }

    /// The entry that the group bits of the mode stand for.
    fn group_class(&self) -> Tag {
        if self.bits(Tag::Mask).is_some() { Tag::Mask } else { Tag::OwningGroup }
    }

    /// The permission bits of the mode of a file with this list.
    pub fn mode(&self) -> u16 {
        let bits = |tag| self.bits(tag).expect("a list has this entry");
        bits(Tag::Owner) << 6 | bits(self.group_class()) << 3 | bits(Tag::Other)
    }

    /// Follows a change of the mode.
    pub(crate) fn set_mode(&mut self, mode: u16) {
        *self.entry(Tag::Owner) = mode >> 6 & 7;
        *self.entry(self.group_class()) = mode >> 3 & 7;
        *self.entry(Tag::Other) = mode & 7;
    }

    /// Takes the rights away that a new file's mode does not have; its permission bits then.
    pub(crate) fn inherit(&mut self, mode: u16) -> u16 {
        *self.entry(Tag::Owner) &= mode >> 6 & 7;
        *self.entry(self.group_class()) &= mode >> 3 & 7;
        *self.entry(Tag::Other) &= mode & 7;
        self.mode()
    }

    /// Whether a user that does not own the file has rights to it.
    pub(crate) fn allows(&self, user: &User, file: &Owner, rights: Rights) -> bool {
        let mask = self.bits(Tag::Mask).unwrap_or(7);
        if let Some(bits) = self.bits(Tag::User(user.uid)) {
            return rights.are_in(bits & mask);
        }
        let is_of_user = |&(tag, _): &(Tag, u16)| match tag {
            Tag::OwningGroup => user.is_in(file.gid),
            Tag::Group(gid) => user.is_in(gid),
            _ => false,
        };
        let mut of_groups = self.entries.iter().copied().filter(is_of_user).peekable();
        match of_groups.peek() {
            Some(_) => of_groups.any(|(_, bits)| rights.are_in(bits & mask)),
            None => rights.are_in(self.bits(Tag::Other).expect("a list has this entry")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everbyte_fs::{FileKind, Ino};

    fn file(permissions: u16) -> Owner {
        let (ino, kind) = (Ino(2), FileKind::Regular);
        Owner { ino, kind, permissions, uid: 1, gid: 10, generation: 0, has_xattrs: true }
    }

    /// Owner rw-, user 5 rwx, group r--, group 20 -w-, group 30 r--, mask rw-, other ---.
    fn list() -> Acl {
        let named = [(Tag::User(5), 7), (Tag::Group(20), 2), (Tag::Group(30), 4), (Tag::Mask, 6)];
        let base = [(Tag::Owner, 6), (Tag::OwningGroup, 4), (Tag::Other, 0)];
        Acl::new(named.into_iter().chain(base).collect()).unwrap()
    }

    #[test]
    fn a_list_is_its_bytes() {
        assert_eq!(Acl::parse(&list().bytes()).unwrap(), list());
        assert_eq!(list().bytes().len(), 4 + 7 * 8);
        assert_eq!(list().mode(), 0o660, "the group bits are the mask's");
        assert!(Acl::of_mode(0o754).is_mode());
        assert_eq!(Acl::of_mode(0o754).mode(), 0o754);
    }

    #[test]
    fn bytes_that_are_no_list_are_refused() {
        let good = list().bytes();
        for len in 0..good.len() {
            assert_eq!(Acl::parse(&good[..len]).unwrap_err(), Errno::EINVAL, "{len} bytes");
        }
        let mut other = good.clone();
        other[0] = 3;
        assert_eq!(Acl::parse(&other).unwrap_err(), Errno::EOPNOTSUPP);
        let wrong: [&[(Tag, u16)]; 5] = [
            &[(Tag::Owner, 7), (Tag::OwningGroup, 7)],
            &[(Tag::Owner, 7), (Tag::User(3), 1), (Tag::OwningGroup, 7), (Tag::Other, 7)],
            &[(Tag::Owner, 8), (Tag::OwningGroup, 7), (Tag::Other, 7)],
            &[(Tag::Owner, 7), (Tag::Owner, 7), (Tag::OwningGroup, 7), (Tag::Other, 7)],
            &[(Tag::Owner, 7), (Tag::OwningGroup, 7), (Tag::Mask, 7), (Tag::Mask, 7), (Tag::Other, 7)],
        ];
        for entries in wrong {
            assert_eq!(Acl::new(entries.to_vec()).unwrap_err(), Errno::EINVAL, "{entries:?}");
        }
    }

    #[test]
    fn the_mask_limits_all_but_the_owner_and_others() {
        let (acl, file) = (list(), file(0o660));
        let user = |uid, gid| User::new(uid, gid);
        assert!(acl.allows(&user(5, 99), &file, Rights::READ.and(Rights::WRITE)));
        assert!(!acl.allows(&user(5, 99), &file, Rights::EXECUTE), "the mask has no x");
        assert!(acl.allows(&user(6, 20), &file, Rights::WRITE));
        assert!(!acl.allows(&user(6, 20), &file, Rights::READ));
        let both = User { uid: 6, gid: 20, groups: vec![30] };
        assert!(acl.allows(&both, &file, Rights::READ) && acl.allows(&both, &file, Rights::WRITE));
        assert!(!acl.allows(&both, &file, Rights::READ.and(Rights::WRITE)), "no single entry gives both");
        assert!(!acl.allows(&user(6, 99), &file, Rights::READ));
    }

    #[test]
    fn a_new_file_gets_no_right_that_its_mode_lacks() {
        let mut acl = list();
        assert_eq!(acl.inherit(0o604), 0o600);
        assert_eq!(acl.bits(Tag::Mask), Some(0));
        assert_eq!(acl.bits(Tag::User(5)), Some(7), "named entries stay; the mask limits them");
    }
}
