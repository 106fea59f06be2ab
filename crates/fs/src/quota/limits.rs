//! The limits of users, groups and projects, and their usage: types alone.

/// A user, a group or a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QuotaKind {
    /// The files of a user.
    User,
    /// The files of a group.
    Group,
    /// The files of a project; 0 is the one of all files that were given none.
    Project,
}

impl QuotaKind {
    /// All kinds.
    pub const ALL: [QuotaKind; 3] = [QuotaKind::User, QuotaKind::Group, QuotaKind::Project];
}

impl std::fmt::Display for QuotaKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            QuotaKind::User => "user",
            QuotaKind::Group => "group",
            QuotaKind::Project => "project",
        })
    }
}

/// A limit of bytes, or of inodes; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimit {
    /// May be passed for the time of grace.
    pub soft: u64,
    /// Is not passed.
    pub hard: u64,
    /// Seconds that usage may stay above the soft limit; then it counts as the hard one.
    pub grace: u32,
}

/// The limits of one user, group or project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Of bytes, in whole pages of 4096.
    pub bytes: QuotaLimit,
    /// Of inodes.
    pub inodes: QuotaLimit,
}

/// The limits and the usage of one user, group or project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// User, group or project.
    pub kind: QuotaKind,
    /// Its number.
    pub id: u32,
    /// Its limits.
    pub limits: QuotaLimits,
    /// Bytes of its pages.
    pub bytes: u64,
    /// Its inodes.
    pub inodes: u64,
    /// Since when bytes and inodes are above their soft limits, in nanoseconds since 1970; 0: they
    /// are not.
    pub since: [i64; 2],
}
