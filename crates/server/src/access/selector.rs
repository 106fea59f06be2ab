//! A selector: commands, patterns of keys and of channels, changed rule by rule.

use super::user::RuleError;
use crate::command::{CommandTable, Flags, category};
use crate::glob::{LetterCase, matches};
use std::collections::BTreeMap;

/// A pattern of keys, and the access that it gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyPattern {
    /// As KEYS takes it.
    pub pattern: Vec<u8>,
    /// Whether such keys may be read.
    pub reads: bool,
    /// Whether they may be changed.
    pub writes: bool,
}

/// See the head of this file.
#[derive(Clone, Default, Debug)]
pub(crate) struct Selector {
    /// Whether every command is permitted; then so are first words.
    pub all_commands: bool,
    /// Whether it began with all commands: descriptions then list those taken away.
    pub future: bool,
    /// A bit for each row of the table of commands.
    bits: Vec<u64>,
    /// Commands of which some first arguments alone are permitted, by row.
    pub first_words: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Whether every key is permitted.
    pub all_keys: bool,
    /// Patterns of permitted keys.
    pub keys: Vec<KeyPattern>,
    /// Whether every channel is permitted.
    pub all_channels: bool,
    /// Patterns of permitted channels.
    pub channels: Vec<Vec<u8>>,
}

/// Whether `bytes` hold a blank or a zero byte.
pub(super) fn has_blanks(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b))
}

impl Selector {
    /// Whether the command of this row is permitted, whatever its arguments.
    pub(crate) fn has(&self, row: usize) -> bool {
        self.bits.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    fn set(&mut self, row: usize, permit: bool) {
        if self.bits.len() <= row / 64 {
            self.bits.resize(row / 64 + 1, 0);
        }
        let bit = 1 << (row % 64);
        match permit {
            true => self.bits[row / 64] |= bit,
            false => {
                self.bits[row / 64] &= !bit;
                self.all_commands = false;
            }
        }
    }

    /// Permits or forbids a command, and its subcommands with it.
    pub(super) fn change(&mut self, row: usize, permit: bool) {
        self.set(row, permit);
        self.first_words.remove(&row);
        // Subcommands follow their container.
        for sub in 0..CommandTable::get().rows[row].subcommands.len() {
            self.set(row + 1 + sub, permit);
        }
    }

    /// Permits or forbids all commands of a category.
    pub(super) fn change_category(&mut self, belongs: fn(Flags) -> bool, permit: bool) {
        for (row, command) in CommandTable::get().rows.iter().enumerate() {
            if belongs(command.flags) {
                self.change(row, permit);
            }
        }
    }

    /// Permits or forbids all commands.
    pub(super) fn change_all(&mut self, permit: bool) {
        let rows = CommandTable::get().rows.len();
        self.bits = vec![if permit { u64::MAX } else { 0 }; rows.div_ceil(64)];
        (self.all_commands, self.future) = (permit, permit);
        self.first_words.clear();
    }

    /// Applies a rule.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let is = |words: [&str; 2]| words.iter().any(|word| rule.eq_ignore_ascii_case(word.as_bytes()));
        match rule {
            _ if is(["allkeys", "~*"]) => (self.all_keys, self.keys) = (true, Vec::new()),
            _ if is(["resetkeys", "resetkeys"]) => (self.all_keys, self.keys) = (false, Vec::new()),
            _ if is(["allchannels", "&*"]) => (self.all_channels, self.channels) = (true, Vec::new()),
            _ if is(["resetchannels", "resetchannels"]) => (self.all_channels, self.channels) = (false, Vec::new()),
            _ if is(["allcommands", "+@all"]) => self.change_all(true),
            _ if is(["nocommands", "-@all"]) => self.change_all(false),
            [b'~', pattern @ ..] => self.add_keys(pattern, true, true)?,
            [b'%', rest @ ..] => self.add_keys_for(rest)?,
            [b'&', pattern @ ..] => self.add_channels(pattern)?,
            [sign @ (b'+' | b'-'), b'@', name @ ..] => {
                let belongs = category(name).ok_or(RuleError::Unknown)?;
                self.change_category(belongs, *sign == b'+');
            }
            [b'+', name @ ..] => self.permit(name)?,
            [b'-', name @ ..] => {
                let row = CommandTable::get().find(name).ok_or(RuleError::Unknown)?;
                self.change(row, false);
            }
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn permit(&mut self, name: &[u8]) -> Result<(), RuleError> {
        let table = CommandTable::get();
        let Some(bar) = name.iter().rposition(|byte| *byte == b'|') else {
            self.change(table.find(name).ok_or(RuleError::Unknown)?, true);
            return Ok(());
        };
        let (container, word) = (&name[..bar], &name[bar + 1..]);
        let row = table.find(container).ok_or(RuleError::Unknown)?;
        if container.contains(&b'|') {
            return Err(RuleError::FirstWord);
        }
        if word.is_empty() {
            return Err(RuleError::Syntax);
        }
        if !table.rows[row].subcommands.is_empty() {
            self.change(table.find(name).ok_or(RuleError::Unknown)?, true);
            return Ok(());
        }
        let words = self.first_words.entry(row).or_default();
        if !words.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            words.push(word.to_vec());
        }
        Ok(())
    }

    /// `%RW~pattern`, behind its first byte.
    fn add_keys_for(&mut self, rest: &[u8]) -> Result<(), RuleError> {
        let (mut reads, mut writes) = (false, false);
        if self.all_keys {
            return Err(RuleError::AllKeys);
        }
        for (index, byte) in rest.iter().enumerate() {
            match byte {
                b'r' | b'R' if !reads => reads = true,
                b'w' | b'W' if !writes => writes = true,
                b'~' if reads || writes => return self.add_keys(&rest[index + 1..], reads, writes),
                _ => return Err(RuleError::Syntax),
            }
        }
        // Redis takes a rule without a pattern for one with an empty one.
        self.add_keys(b"", reads, writes)
    }

    fn add_keys(&mut self, pattern: &[u8], reads: bool, writes: bool) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::AllKeys);
        }
        if has_blanks(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => (known.reads, known.writes) = (known.reads | reads, known.writes | writes),
            None => self.keys.push(KeyPattern { pattern: pattern.to_vec(), reads, writes }),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::AllChannels);
        }
        if has_blanks(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    /// Whether a key may be used in this way.
    pub(crate) fn permits_key(&self, key: &[u8], reads: bool, writes: bool) -> bool {
        self.all_keys
            || self.keys.iter().any(|known| {
                (known.reads || !reads) && (known.writes || !writes) && matches(&known.pattern, key, LetterCase::Exact)
            })
    }

    /// Whether all keys may be used in this way.
    pub(crate) fn permits_all_keys(&self, reads: bool, writes: bool) -> bool {
        let all = |known: &KeyPattern| (known.reads || !reads) && (known.writes || !writes) && known.pattern == b"*";
        self.all_keys || self.keys.iter().any(all)
    }

    /// Whether a channel may be used; a pattern of channels only if it is one of the selector's.
    pub(crate) fn permits_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let fits = |known: &Vec<u8>| match is_pattern {
            true => known == channel,
            false => matches(known, channel, LetterCase::Exact),
        };
        self.all_channels || self.channels.iter().any(fits)
    }
}
