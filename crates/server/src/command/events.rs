//! Keyspace events of commands (`notify.rs`), as messages of the iteration.

use crate::keyspace::Keyspace;
use crate::notify::{Event, events};
use crate::outbox::{Message, Parcel};
use crate::resp::parse::Args;
use crate::server_state::ServerState;

/// Tells an event, if it is chosen.
pub(crate) fn tell(shared: &mut ServerState, event: &Event) {
    for (channel, text) in event.messages(shared.events) {
        let number = shared.channels.number();
        if shared.channels.groups(&channel, false, number).all(|(_, mut subscribers)| subscribers.next().is_none()) {
            continue;
        }
        shared.outbox.add(Parcel::Message(Message { channel, text, shard: false, number, except: None }));
    }
}

/// Tells the events of a command that has succeeded: of the keys that it has changed, without the
/// first ones.
pub(crate) fn tell_changes(shared: &mut ServerState, keys: &mut Keyspace<'_>, args: &Args<'_>, first: usize) {
    if !shared.events.is_on() {
        return;
    }
    let (touched, here) = (keys.touched_from(first), keys.database());
    let found = events(args, &touched, &mut |database, key| {
        keys.select(database);
        // An error shows when the key is used.
        keys.contains(key).unwrap_or(true)
    });
    keys.select(here);
    found.iter().for_each(|event| tell(shared, event));
}
