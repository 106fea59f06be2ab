//! Users and selectors as text, in the rules that would make them anew.

use super::selector::Selector;
use super::user::User;
use crate::command::{CATEGORIES, CommandTable};
use std::fmt::Write;

impl Selector {
    /// The patterns of keys.
    pub(crate) fn keys_text(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let texts: Vec<Vec<u8>> = (self.keys.iter())
            .map(|known| {
                let mark: &[u8] = match (known.reads, known.writes) {
                    (true, true) => b"~",
                    (true, false) => b"%R~",
                    (false, true) => b"%W~",
                    (false, false) => b"%~",
                };
                [mark, &known.pattern].concat()
            })
            .collect();
        texts.join(&b' ')
    }

    /// The patterns of channels.
    pub(crate) fn channels_text(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        self.channels.iter().map(|known| [b"&", &known[..]].concat()).collect::<Vec<_>>().join(&b' ')
    }

    /// The commands: categories as long as they fit better than not, then single commands.
    pub(crate) fn commands_text(&self) -> String {
        let (mut made, mut left) = (Selector::default(), self.clone());
        made.change_all(self.future);
        let mut text = String::from(if self.future { "+@all" } else { "-@all" });
        let (permit, sign) = if self.future { (false, '-') } else { (true, '+') };
        let mut applied = [false; CATEGORIES.len()];
        loop {
            let mut best: Option<(usize, usize, usize)> = None;
            for (index, (_, belongs)) in CATEGORIES.iter().enumerate().filter(|(index, _)| !applied[*index]) {
                let rows = CommandTable::get().rows.iter().enumerate().filter(|(_, row)| belongs(row.flags));
                let (mut same, mut different) = (0, 0);
                for (row, _) in rows {
                    *(if left.has(row) == permit { &mut same } else { &mut different }) += 1;
                }
                let better = |(_, least, most)| different < least || different == least && same > most;
                if same > different && best.is_none_or(better) {
                    best = Some((index, different, same));
                }
            }
            let Some((index, ..)) = best else { break };
            made.change_category(CATEGORIES[index].1, permit);
            left.change_category(CATEGORIES[index].1, !permit);
            // Writing to a string does not fail.
            let _ = write!(text, " {sign}@{}", CATEGORIES[index].0);
            applied[index] = true;
        }
        for (row, command) in CommandTable::get().rows.iter().enumerate() {
            let permitted = self.has(row);
            if permitted != made.has(row) {
                let _ = write!(text, " {}{}", if permitted { '+' } else { '-' }, command.name);
                made.change(row, permitted);
            }
            for word in self.first_words.get(&row).into_iter().flatten().filter(|_| !permitted) {
                let _ = write!(text, " +{}|{}", command.name, String::from_utf8_lossy(word));
            }
        }
        text
    }

    /// All of it.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = self.keys_text();
        if !text.is_empty() {
            text.push(b' ');
        }
        if !self.all_channels {
            text.extend_from_slice(b"resetchannels ");
        }
        let channels = self.channels_text();
        text.extend_from_slice(&channels);
        if !channels.is_empty() {
            text.push(b' ');
        }
        text.extend_from_slice(self.commands_text().as_bytes());
        text
    }
}

impl User {
    /// Its flags.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.enabled { "on" } else { "off" }];
        flags.extend(self.no_password.then_some("nopass"));
        flags.extend(self.sanitizes.map(|is| if is { "sanitize-payload" } else { "skip-sanitize-payload" }));
        flags
    }

    /// The hashes of its passwords, in hexadecimal digits.
    pub(crate) fn hashes(&self) -> Vec<String> {
        let digits = |hash: &[u8; 32]| hash.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        self.passwords.iter().map(digits).collect()
    }

    /// A line of a file of users.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = [b"user ", &self.name[..], b" "].concat();
        for flag in self.flags() {
            line.extend_from_slice(flag.as_bytes());
            line.push(b' ');
        }
        for hash in self.hashes() {
            line.extend_from_slice(format!("#{hash} ").as_bytes());
        }
        for (index, selector) in self.selectors.iter().enumerate() {
            let text = selector.text();
            match index {
                0 => line.extend_from_slice(&text),
                _ => line.extend_from_slice(&[b" (", &text[..], b")"].concat()),
            }
        }
        line
    }
}
