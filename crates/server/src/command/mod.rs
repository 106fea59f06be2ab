//! Commands as data: what each is called, takes and promises, and the function that does it.
//!
//! A request is looked up by name (and by its second word, for commands that are containers), its
//! number of arguments is compared with the table, then its handler runs. COMMAND, COMMAND INFO,
//! DOCS, LIST and GETKEYS answer from the same table, so what is said about a command is what is
//! done.
//!
//! A handler writes its reply and returns, or returns a [`Fail`]; the caller then takes back what
//! it wrote and writes the error. Handlers change keys only through the iteration's [`Keyspace`],
//! which the iteration commits.

mod acl;
mod backup;
mod bitfields;
mod bitmaps;
mod blocking;
mod categories;
mod claims;
mod client;
mod config;
mod connection;
mod counter;
mod describe;
mod dump;
mod events;
mod expiry;
mod fail;
mod functions;
mod geo;
mod geo_search;
mod groups;
mod hashes;
mod hyperloglog;
mod info;
mod key_places;
mod key_uses;
mod keys;
mod kill;
mod lists;
mod monitor;
mod objects;
mod pinned_ranges;
mod plain_reads;
mod pubsub;
mod range;
mod replication;
mod save;
mod scan;
mod script_host;
mod scripts;
mod server;
mod set_operations;
mod sets;
mod slowlog;
mod snapshots;
mod sort;
mod sorted_operations;
mod sorted_ranges;
mod sorted_sets;
mod stream_info;
mod stream_reads;
mod streams;
mod strings;
mod subsequence;
mod table;
#[cfg(test)]
mod tests;
mod tracking;
mod transaction;

use crate::clients::{Client, Clients};
use crate::keyspace::Keyspace;
use crate::resp::parse::Args;
use crate::resp::reply::Replies;
use crate::server_state::ServerState;
use std::sync::OnceLock;

pub(crate) use acl::permitted;
pub(crate) use categories::{CATEGORIES, category};
pub(crate) use connection::admitted;
pub(crate) use events::{tell, tell_changes};
pub(crate) use fail::{Fail, OUT_OF_MEMORY, Outcome, store_text};
pub(crate) use info::{process_memory, process_times};
pub(crate) use key_places::{KeyPlace, key_places};
pub(crate) use key_uses::note_uses;
pub(crate) use monitor::feed;
pub(crate) use plain_reads::answers_plainly;
pub(crate) use pubsub::{figures as channel_figures, listens};
pub(crate) use replication::READ_ONLY;
pub(crate) use save::waits_for_settled;
pub(crate) use snapshots::snapshot_reply;
pub(crate) use tracking::{end_command, remember};
pub(crate) use transaction::{
    Stands, acts_at_once, discarded, looks_around, may_change, may_write, needs_room, queued, queues, refused,
};

bitflags::bitflags! {
    /// Properties of a command, in the words of `COMMAND INFO`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Flags: u64 {
        /// May change keys.
        const WRITE = 1;
        /// Reads keys.
        const READONLY = 1 << 1;
        /// May need more space.
        const DENYOOM = 1 << 2;
        /// For operators.
        const ADMIN = 1 << 3;
        /// Not for scripts.
        const NOSCRIPT = 1 << 4;
        /// Allowed while loading.
        const LOADING = 1 << 5;
        /// Allowed on stale replicas.
        const STALE = 1 << 6;
        /// Constant or logarithmic time.
        const FAST = 1 << 7;
        /// Needs no authentication.
        const NO_AUTH = 1 << 8;
        /// Not inside a transaction.
        const NO_MULTI = 1 << 9;
        /// Allowed while a script hangs.
        const ALLOW_BUSY = 1 << 10;
        /// May wait for another client.
        const BLOCKING = 1 << 11;
        /// Key positions depend on the arguments.
        const MOVABLE_KEYS = 1 << 12;
        /// About channels.
        const PUBSUB_KIND = 1 << 13;
        /// Not in the log of slow commands: its parts are.
        const SKIP_SLOWLOG = 1 << 14;
        /// Not while a snapshot is loaded beside the keys.
        const NO_ASYNC_LOADING = 1 << 15;
        /// Feeds MONITOR by itself, before it runs: scripts.
        const SKIP_MONITOR = 1 << 34;

        /// Category: about keys of any type.
        const KEYSPACE = 1 << 16;
        /// Category: about byte strings.
        const STRING = 1 << 17;
        /// Category: can hurt.
        const DANGEROUS = 1 << 18;
        /// Category: about the connection.
        const CONNECTION = 1 << 19;
        /// Category: about lists.
        const LIST = 1 << 20;
        /// Category: about sets.
        const SET = 1 << 21;
        /// Category: about sorted sets.
        const SORTED_SET = 1 << 22;
        /// Category: about hashes.
        const HASH = 1 << 23;
        /// Category: about bits of strings.
        const BITMAP = 1 << 24;
        /// Category: about estimated counts.
        const HYPERLOGLOG = 1 << 25;
        /// Category: about places on the earth.
        const GEO = 1 << 26;
        /// Category: about channels.
        const PUBSUB = 1 << 27;
        /// Category: about transactions.
        const TRANSACTION = 1 << 28;
        /// Category: about streams.
        const STREAM = 1 << 29;
        /// Category: for operators, of a command that is not for them alone.
        const ADMIN_KIND = 1 << 35;

        /// Category: about scripts.
        const SCRIPTING = 1 << 30;
        /// May be given no key, although it has key positions.
        const NO_MANDATORY_KEYS = 1 << 32;
        /// Reaches others, though it writes no key: not for scripts that only read.
        const SPREADS = 1 << 33;
        /// Is for operators, and looks at or changes nothing of other connections.
        const OWN_STATE = 1 << 36;

        /// Touches keys that its arguments do not name one by one: needs rights on all keys.
        const SPANS_KEYS = 1 << 31;
    }
}

/// The access of a command to its keys, as a key specification.
#[derive(Debug)]
pub(crate) struct KeyUse {
    /// Start of the keys among the arguments.
    pub first: i32,
    /// The keys from there on.
    pub find: Find,
    /// RO, RW, OW, RM and access, update, insert, delete.
    pub flags: &'static [&'static str],
    /// A remark.
    pub notes: Option<&'static str>,
}

/// The keys from their start on.
#[derive(Debug)]
pub(crate) enum Find {
    /// To the last key, relative to the first; negative counts from the end. Then the distance of
    /// keys, and the part of the arguments that are keys: 2 is half, 0 all.
    Range(i32, i32, i32),
    /// A number of keys, then the keys.
    Counted,
    /// Behind this word, from its first place on, keys and as many other arguments.
    Behind(&'static str),
    /// The argument behind this word, if it is there.
    After(&'static str),
    /// Not said by a specification: the argument behind this word, wherever it is; or keys that
    /// follow from values.
    Unknown(Option<&'static str>),
}

/// One row of the table.
pub(crate) struct Command {
    /// Lower case; `container|sub` for subcommands.
    pub name: &'static str,
    /// Number of arguments with the name; negative: at least so many.
    pub arity: i32,
    /// The kind of access.
    pub flags: Flags,
    /// First key argument, last, and their distance; zeros: no keys.
    pub keys: (i32, i32, i32),
    /// The kind of change.
    pub key_uses: &'static [KeyUse],
    /// Hints for clients that route.
    pub tips: &'static [&'static str],
    /// The group it is documented in.
    pub group: &'static str,
    /// The Redis version that brought it, or ours.
    pub since: &'static str,
    /// Cost here.
    pub complexity: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Commands of a container.
    pub subcommands: &'static [Command],
    /// Does it.
    pub handler: fn(&mut Call<'_, '_>) -> Outcome,
}

/// Everything a handler may touch.
pub(crate) struct Call<'c, 'k> {
    /// The request.
    pub args: Args<'c>,
    /// Receives the reply.
    pub out: &'c mut Replies,
    /// The client that sent the command.
    pub client: &'c mut Client,
    /// All others.
    pub others: &'c Clients,
    /// The keys, under this iteration's batch.
    pub keys: &'c mut Keyspace<'k>,
    /// The server's own state.
    pub shared: &'c mut ServerState,
}

impl Call<'_, '_> {
    /// Fails when the replies waiting for this client are more than it may have. Commands whose
    /// replies have a size of their own, or go on at a cursor, ask before they reply, the others
    /// behind.
    pub(crate) fn room(&self) -> Outcome {
        if self.out.pending() > self.shared.options.output_size_max {
            return Err(Fail::OutputLimit);
        }
        Ok(())
    }

    /// Bytes that the replies waiting for this client may still grow by.
    pub(crate) fn room_left(&self) -> usize {
        self.shared.options.output_size_max.saturating_sub(self.out.pending())
    }
}

/// Whether `arg` is the option `word` (given in lower case).
pub(crate) fn is_word(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// The table made ready for look-ups.
pub(crate) struct CommandTable {
    /// Commands and, behind their containers, subcommands.
    pub rows: Vec<&'static Command>,
    slots: Vec<u16>,
}

const SLOTS: usize = 4096;
const FREE: u16 = u16::MAX;

impl CommandTable {
    /// The one table.
    pub(crate) fn get() -> &'static CommandTable {
        static TABLE: OnceLock<CommandTable> = OnceLock::new();
        TABLE.get_or_init(|| {
            let commands = table::GROUPS.iter().copied().flatten();
            let rows: Vec<&'static Command> =
                commands.flat_map(|command| [command].into_iter().chain(command.subcommands)).collect();
            assert!(rows.len() * 4 <= SLOTS, "the table of commands needs more slots");
            let mut slots = vec![FREE; SLOTS];
            for (index, command) in rows.iter().enumerate() {
                let mut slot = hash(command.name.as_bytes());
                while slots[slot % SLOTS] != FREE {
                    slot += 1;
                }
                slots[slot % SLOTS] = index as u16;
            }
            CommandTable { rows, slots }
        })
    }

    /// The row called `name`, in any case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        let mut slot = hash(name);
        loop {
            match self.slots[slot % SLOTS] {
                FREE => return None,
                index if self.rows[usize::from(index)].name.as_bytes().eq_ignore_ascii_case(name) => {
                    return Some(usize::from(index));
                }
                _ => slot += 1,
            }
        }
    }

    /// The row that a request names.
    pub(crate) fn named(&self, args: &Args<'_>) -> Result<usize, Fail> {
        let mut index = self.find(args.get(0)).ok_or_else(|| unknown(args))?;
        let command = self.rows[index];
        if !command.subcommands.is_empty() && args.len() > 1 {
            let full = [command.name.as_bytes(), b"|", args.get(1)].concat();
            index = self.find(&full).ok_or_else(|| unknown_subcommand(command.name, args.get(1)))?;
        }
        Ok(index)
    }

    /// The row that answers a request, after all checks that need only its words.
    pub(crate) fn look_up(&self, args: &Args<'_>) -> Result<usize, Fail> {
        let index = self.named(args)?;
        let command = self.rows[index];
        let count = args.len() as i64;
        let arity = i64::from(command.arity);
        if (arity > 0 && count != arity) || count < -arity {
            return Err(Fail::arity(command.name));
        }
        Ok(index)
    }
}

/// FNV-1a over lower case letters: names are short.
fn hash(name: &[u8]) -> usize {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in name {
        hash = (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x100_0000_01b3);
    }
    (hash ^ (hash >> 32)) as usize
}

/// The text that a C string of at most `size_max` bytes would show.
fn shown(bytes: &[u8], size_max: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(size_max)];
    &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())]
}

fn unknown(args: &Args<'_>) -> Fail {
    const SHOWN_MAX: usize = 128;
    let mut list = Vec::new();
    for arg in args.from(1) {
        if list.len() >= SHOWN_MAX {
            break;
        }
        let arg = shown(arg, SHOWN_MAX - list.len());
        list.extend_from_slice(&[b"'", arg, b"' "].concat());
    }
    let name = shown(args.get(0), SHOWN_MAX);
    Fail::made([b"ERR unknown command '", name, b"', with args beginning with: ", &list[..]].concat())
}

fn unknown_subcommand(container: &str, name: &[u8]) -> Fail {
    let help = container.to_ascii_uppercase();
    Fail::made([b"ERR unknown subcommand '", shown(name, 128), b"'. Try ", help.as_bytes(), b" HELP."].concat())
}

#[cfg(test)]
mod names {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_once() {
        let table = CommandTable::get();
        for (index, command) in table.rows.iter().enumerate() {
            assert_eq!(table.find(command.name.as_bytes()), Some(index), "{}", command.name);
            assert_eq!(table.find(command.name.to_ascii_uppercase().as_bytes()), Some(index));
            assert!(command.name.len() <= 32 && !command.summary.is_empty() && !command.complexity.is_empty());
            assert!(command.arity != 0);
        }
        assert_eq!(table.find(b""), None);
        assert_eq!(table.find(b"nosuch"), None);
    }
}
