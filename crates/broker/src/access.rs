//! Who may do what: owner, group and others, reading and writing, as with files.

/// Owner, group and mode of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The user it belongs to.
    pub uid: u32,
    /// The group it belongs to.
    pub gid: u32,
    /// Three digits of 4 (read) and 2 (write): for the owner, the group, all others.
    pub mode: u32,
}

/// A program, as the kernel vouches for it: its effective user and group when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its user; 0 may everything.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// What a domain is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Looking.
    Read,
    /// Looking and changing.
    Write,
}

impl Rights {
    /// The bits of a mode that mean something.
    pub const MODE: u32 = 0o666;

    /// Whether `caller` may have it for what it wants. The first class that it belongs to counts, not the most generous.
    pub fn allow(&self, caller: Caller, want: Want) -> bool {
        let class = match caller {
            Caller { uid: 0, .. } => return true,
            Caller { uid, .. } if uid == self.uid => self.mode >> 6,
            Caller { gid, .. } if gid == self.gid => self.mode >> 3,
            Caller { .. } => self.mode,
        };
        let needed = match want {
            Want::Read => 4,
            Want::Write => 6, // what can be written can be read: it is mapped
        };
        class & needed == needed
    }

    /// Whether `caller` may change the rights, or remove the domain.
    pub fn is_owner(&self, caller: Caller) -> bool {
        caller.uid == 0 || caller.uid == self.uid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_class_counts() {
        let rights = Rights { uid: 10, gid: 20, mode: 0o460 };
        let may = |uid, gid, want| rights.allow(Caller { uid, gid }, want);
        assert!(may(0, 0, Want::Write), "root");
        assert!(may(10, 20, Want::Read) && !may(10, 20, Want::Write), "the owner, though its group may");
        assert!(may(11, 20, Want::Write) && may(11, 20, Want::Read));
        assert!(!may(11, 21, Want::Read) && !may(11, 21, Want::Write));
        let only_write = Rights { mode: 0o222, ..rights };
        assert!(!only_write.allow(Caller { uid: 10, gid: 20 }, Want::Write), "what is mapped can be read");
        assert!(rights.is_owner(Caller { uid: 10, gid: 0 }) && !rights.is_owner(Caller { uid: 11, gid: 20 }));
    }
}
