//! Whether the elements of a stream are its state, entries up to its last id (STREAM-1), and
//! groups.

use super::groups::Groups;
use crate::keyspace::record::Collection;
use crate::keyspace::streams::{EntryId, STATE, Stream};

/// The elements of a stream, as far as they were walked.
#[derive(Default)]
pub(super) struct Entries {
    /// The last id, once the state was seen.
    last: Option<EntryId>,
    /// The elements that the record counts: the state and the entries.
    pub counted: u64,
    pub groups: Groups,
}

impl Entries {
    /// Adds an element; `value` is read if its size may be that of the state or of one of a group.
    /// An error names the rule that it breaks.
    pub(super) fn add(
        &mut self,
        collection: &Collection,
        element: &[u8],
        value: &[u8],
        size: u64,
    ) -> Result<(), (&'static str, String)> {
        let shown = || element[..element.len().min(64)].escape_ascii();
        if self.last.is_some() && Groups::own(element) {
            return self.groups.add(element, value, size);
        }
        self.counted += 1;
        if self.last.is_none() {
            let state = Stream::with_state(*collection, value).ok().filter(|_| element == STATE);
            let wrong = || ("format", format!("element \"{}\" is not the state of a stream", shown()));
            let state = state.ok_or_else(wrong);
            self.last = Some(state.as_ref().map_or(EntryId::MAX, |stream| stream.last));
            return state.map(drop);
        }
        match EntryId::of_element(element) {
            Ok(id) if self.last.is_some_and(|last| id > last) => {
                Err(("STREAM-1", format!("entry {}-{} lies behind the stream's last id", id.ms, id.seq)))
            }
            Ok(_) => Ok(()),
            Err(_) => Err(("format", format!("element \"{}\" is no entry of a stream", shown()))),
        }
    }
}
