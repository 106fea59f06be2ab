//! The spaces of the databases: SWAPDB exchanges two of them and moves no key.
//!
//! A space is the first byte of every key in the server's tables; the main table belongs to space
//! 0. A database has the space that the permutation `spaces` in the table of state gives it, or
//! that of its own number while there is none. The permutation is one value of 16 bytes, written in
//! the batch of its SWAPDB, so a crash leaves both databases as they were or both exchanged.
//!
//! While a SWAPDB is not settled, commands that only read build on the batch as those that write
//! do, because the settled version has other spaces.
//!
//! Invariants
//!   KEYS-4  `spaces` names each space once.

use super::reads::Place;
use super::record::damaged_by;
use super::tables::{DATABASES, SPACES};
use super::{Keyspace, Touch};
use everbyte_kv::Result;
use everbyte_media::seeded;

/// The space of each database, now and as of the last commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spaces {
    now: [u8; DATABASES],
    committed: [u8; DATABASES],
    /// Whether a change of them may be unsettled.
    unsettled: bool,
}

impl Default for Spaces {
    fn default() -> Spaces {
        let own = std::array::from_fn(|database| database as u8);
        Spaces { now: own, committed: own, unsettled: false }
    }
}

impl Spaces {
    /// The spaces that the table of state has.
    pub(super) fn parse(value: Option<Vec<u8>>) -> Result<Spaces> {
        let Some(bytes) = value else { return Ok(Spaces::default()) };
        let now = <[u8; DATABASES]>::try_from(bytes).ok().filter(is_permutation);
        let now = now.ok_or_else(|| damaged_by("the spaces of the databases in the table of state are malformed"))?;
        Ok(Spaces { now, committed: now, unsettled: false })
    }

    /// The space of a database.
    pub(super) fn of(&self, database: u8) -> u8 {
        self.now.get(usize::from(database)).copied().unwrap_or(database)
    }

    /// The database of a space.
    pub(super) fn database_of(&self, space: u8) -> u8 {
        self.now.iter().position(|other| *other == space).map_or(space, |database| database as u8)
    }

    /// An iteration begins; `behind`: commits of earlier ones are not settled.
    pub(super) fn begin(&mut self, behind: bool) {
        self.unsettled &= behind;
    }

    /// The batch was committed.
    pub(super) fn committed(&mut self) {
        self.committed = self.now;
    }

    /// The batch was lost.
    pub(super) fn forget(&mut self) {
        if !seeded("server-swap-kept") {
            self.now = self.committed;
        }
    }
}

/// Whether each space is named once.
fn is_permutation(spaces: &[u8; DATABASES]) -> bool {
    (0..DATABASES as u8).all(|space| spaces.contains(&space))
}

impl Keyspace<'_> {
    /// The database of the command under way.
    pub(crate) fn database(&self) -> u8 {
        self.database
    }

    /// Another database, for the commands to come.
    pub(crate) fn select(&mut self, database: u8) {
        (self.database, self.space) = (database, self.remembered.spaces.of(database));
    }

    /// Whether the settled version may have other spaces than the newest one.
    pub(super) fn swap_unsettled(&self) -> bool {
        self.remembered.spaces.unsettled && !seeded("server-swap-unsettled-read")
    }

    /// For a reader of a settled version beside a server: the spaces as of this version.
    pub(crate) fn read_spaces(&mut self) -> Result<()> {
        self.remembered.spaces = Spaces::parse(self.value(Place::State, SPACES)?)?;
        self.select(self.database);
        Ok(())
    }

    /// Exchanges the contents of two databases.
    pub(crate) fn swap(&mut self, one: u8, other: u8) -> Result<()> {
        let mut new = self.remembered.spaces.now;
        new.swap(usize::from(one), usize::from(other));
        if seeded("server-swap-half") {
            new[usize::from(other)] = new[usize::from(one)];
        }
        if !seeded("server-swap-volatile") {
            self.put_value(Place::State, SPACES, &new)?;
        }
        (self.remembered.spaces.now, self.remembered.spaces.unsettled) = (new, true);
        self.select(self.database);
        Ok(())
    }

    /// A primary has exchanged databases: the permutation is in the batch.
    pub(super) fn replace_spaces(&mut self, value: Option<Vec<u8>>) -> Result<()> {
        let new = Spaces::parse(value)?.now;
        (self.remembered.spaces.now, self.remembered.spaces.unsettled) = (new, true);
        self.select(self.database);
        Ok(())
    }

    /// Notes a change of a key of a database that came with its contents.
    pub(crate) fn touch_in(&mut self, database: u8, key: &[u8]) {
        self.touched.push(Touch::Changed(database, key.to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_a_permutation_or_damage() {
        let own: [u8; DATABASES] = Spaces::default().now;
        assert_eq!(Spaces::parse(None).unwrap(), Spaces::default());
        let mut swapped = own;
        swapped.swap(3, 9);
        let spaces = Spaces::parse(Some(swapped.to_vec())).unwrap();
        assert_eq!((spaces.of(3), spaces.of(9), spaces.database_of(3), spaces.of(4)), (9, 3, 9, 4));
        let twice = [[0; 1].as_slice(), &own[..15]].concat();
        for odd in [vec![], own[..15].to_vec(), [&own[..], b"\x10"].concat(), twice, vec![16; 16]] {
            assert!(Spaces::parse(Some(odd)).is_err());
        }
    }
}
