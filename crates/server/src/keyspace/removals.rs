//! The count of keys that the server itself has removed, behind their deadlines or to make room: of
//! removals that were committed, and of no others.

/// See the head of this file.
#[derive(Default)]
pub(super) struct Removals {
    /// By the command under way.
    command: u64,
    /// By commands before it, in the same batch.
    batch: u64,
    committed: u64,
}

impl Removals {
    /// A key was removed.
    pub(super) fn add(&mut self) {
        self.command += 1;
    }

    /// The command has ended, and stands.
    pub(super) fn keep(&mut self) {
        self.batch += std::mem::take(&mut self.command);
    }

    /// The command was taken back.
    pub(super) fn roll_back(&mut self) {
        self.command = 0;
    }

    /// The batch is gone.
    pub(super) fn forget(&mut self) {
        (self.command, self.batch) = (0, 0);
    }

    /// The batch was committed.
    pub(super) fn commit(&mut self) {
        self.keep();
        self.committed += std::mem::take(&mut self.batch);
    }

    /// Those committed since this was asked last.
    pub(super) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.committed)
    }
}
