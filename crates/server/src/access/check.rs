//! Whether a user may give a command.

use super::selector::Selector;
use super::user::User;
use crate::command::{Command, CommandTable, Flags, KeyPlace, key_places};
use crate::resp::parse::Args;

/// The part of a request that a user may not have; the argument's index among the request's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denied {
    /// The command.
    Command,
    /// A key.
    Key(usize),
    /// A channel.
    Channel(usize),
}

/// The channels among the arguments: the first, whether they go on to the last argument, and
/// whether they are patterns.
fn channels(name: &str) -> Option<(usize, bool, bool)> {
    match name {
        "publish" | "spublish" => Some((1, false, false)),
        "subscribe" | "ssubscribe" => Some((1, true, false)),
        "psubscribe" => Some((1, true, true)),
        _ => None,
    }
}

/// A request, with its keys once they are known. Arguments begin at `offset`.
struct Request<'a> {
    row: usize,
    command: &'static Command,
    args: Args<'a>,
    offset: usize,
    keys: Option<Vec<KeyPlace>>,
}

impl Request<'_> {
    fn check(&mut self, selector: &Selector) -> Result<(), Denied> {
        let words = self.args.len() - self.offset;
        let named = |word: &Vec<u8>| words > 1 && self.args.get(self.offset + 1).eq_ignore_ascii_case(word);
        let permitted = selector.all_commands
            || self.command.flags.contains(Flags::NO_AUTH)
            || selector.has(self.row)
            || selector.first_words.get(&self.row).is_some_and(|list| list.iter().any(named));
        if !permitted {
            return Err(Denied::Command);
        }
        if self.command.flags.contains(Flags::SPANS_KEYS) {
            let writes = self.command.flags.contains(Flags::WRITE);
            if !selector.permits_all_keys(!writes, writes) {
                return Err(Denied::Key(self.offset + 1));
            }
        }
        if !selector.all_keys && !self.command.key_uses.is_empty() {
            // A request whose keys cannot be found is refused by the command itself.
            let find = || key_places(self.command, &self.args, self.offset).unwrap_or_default();
            let keys = self.keys.get_or_insert_with(find);
            for key in keys {
                if !selector.permits_key(self.args.get(key.index), key.reads, key.writes) {
                    return Err(Denied::Key(key.index));
                }
            }
        }
        if !selector.all_channels
            && let Some((first, all, is_pattern)) = channels(self.command.name)
        {
            let count = if all { words - first } else { 1 };
            for index in self.offset + first..self.offset + first + count {
                if !selector.permits_channel(self.args.get(index), is_pattern) {
                    return Err(Denied::Channel(index));
                }
            }
        }
        Ok(())
    }
}

impl User {
    /// Whether the user may give the command of `row`, whose words begin at `offset` of `args` and
    /// whose arity is right. The refusal is that of the selector that got furthest.
    pub(crate) fn check(&self, row: usize, args: &Args<'_>, offset: usize) -> Result<(), Denied> {
        if self.unrestricted {
            return Ok(());
        }
        let mut request = Request { row, command: CommandTable::get().rows[row], args: *args, offset, keys: None };
        let mut denied = Denied::Command;
        for selector in &self.selectors {
            match request.check(selector) {
                Ok(()) => return Ok(()),
                Err(other) => denied = denied.max(other),
            }
        }
        Err(denied)
    }

    /// Whether the user may give a command, for some arguments.
    pub(crate) fn permits_command(&self, row: usize) -> bool {
        let mut selectors = self.selectors.iter();
        self.unrestricted || selectors.any(|selector| selector.all_commands || selector.has(row))
    }

    /// Whether one selector permits the request and reading all keys: options of SORT name keys by
    /// the elements.
    pub(crate) fn reads_all_keys(&self, row: usize, args: &Args<'_>) -> bool {
        if self.unrestricted {
            return true;
        }
        let mut request = Request { row, command: CommandTable::get().rows[row], args: *args, offset: 0, keys: None };
        let mut selectors = self.selectors.iter();
        selectors.any(|selector| selector.permits_all_keys(true, false) && request.check(selector).is_ok())
    }
}
