//! A user: whether it may log in, by which passwords, and its selectors.

use super::selector::Selector;
use crate::resp::inline;
use sha2::{Digest, Sha256};
use std::hint::black_box;

/// The reason why a rule was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleError {
    /// No rule.
    Syntax,
    /// No such command or category.
    Unknown,
    /// A pattern of keys beside all keys.
    AllKeys,
    /// A pattern of channels beside all channels.
    AllChannels,
    /// The password to be removed is not there.
    NoPassword,
    /// No SHA-256 in hexadecimal digits.
    Hash,
    /// A first argument of a subcommand.
    FirstWord,
}

impl RuleError {
    /// In Redis's words.
    pub(crate) fn text(self) -> &'static str {
        match self {
            RuleError::Syntax => "Syntax error",
            RuleError::Unknown => "Unknown command or category name in ACL",
            RuleError::AllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::AllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::NoPassword => "The password you are trying to remove from the user does not exist",
            RuleError::Hash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::FirstWord => "Allowing first-arg of a subcommand is not supported",
        }
    }
}

/// A SHA-256.
pub(super) type Hash = [u8; 32];

fn hash(password: &[u8]) -> Hash {
    Sha256::digest(password).into()
}

/// The hash that 64 lower-case hexadecimal digits stand for.
fn parse_hash(text: &[u8]) -> Result<Hash, RuleError> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(RuleError::Hash),
    };
    let mut hash = [0; 32];
    if text.len() != 64 {
        return Err(RuleError::Hash);
    }
    for (byte, pair) in hash.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(hash)
}

/// Compares in a time that does not depend on the content.
fn same(a: &Hash, b: &Hash) -> bool {
    let difference = a.iter().zip(b).fold(0, |sum, (a, b)| sum | black_box(a ^ b));
    black_box(difference) == 0
}

/// See the head of this file.
#[derive(Clone)]
pub(crate) struct User {
    /// Its name.
    pub name: Vec<u8>,
    /// Whether clients may become this user.
    pub enabled: bool,
    /// Whether every password is right.
    pub no_password: bool,
    /// Kept for descriptions, once it was said: payloads of RESTORE are always checked here.
    pub sanitizes: Option<bool>,
    /// Hashes of the passwords.
    pub passwords: Vec<Hash>,
    /// Its rights: never empty, the root first.
    pub selectors: Vec<Selector>,
    /// Whether it may do everything, kept for speed.
    pub unrestricted: bool,
}

impl User {
    /// A user that may do nothing.
    pub(crate) fn new(name: &[u8]) -> User {
        User {
            name: name.to_vec(),
            enabled: false,
            no_password: false,
            sanitizes: None,
            passwords: Vec::new(),
            selectors: vec![Selector::default()],
            unrestricted: false,
        }
    }

    /// A user that may do everything, without a password.
    pub(crate) fn permitted(name: &[u8]) -> User {
        let mut user = User::new(name);
        for rule in ["on", "nopass", "+@all", "~*", "&*"] {
            user.apply(rule.as_bytes()).expect("a rule");
        }
        user
    }

    /// Gives the user this password in place of all.
    pub(crate) fn set_password(&mut self, password: &[u8]) {
        (self.no_password, self.passwords) = (false, vec![hash(password)]);
    }

    /// Whether a client with this password may become the user. Each hash is compared whole, and
    /// all of them.
    pub(crate) fn admits(&self, password: &[u8]) -> bool {
        let given = hash(password);
        let known = self.passwords.iter().fold(false, |known, one| known | same(one, &given));
        self.enabled && (self.no_password || known)
    }

    /// Whether a string is the name of a user.
    pub(crate) fn may_be_called(name: &[u8]) -> bool {
        !super::selector::has_blanks(name)
    }

    /// Applies a rule.
    pub(crate) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            [] => {}
            _ if is("on") => self.enabled = true,
            _ if is("off") => self.enabled = false,
            _ if is("skip-sanitize-payload") => self.sanitizes = Some(false),
            _ if is("sanitize-payload") => self.sanitizes = Some(true),
            _ if is("nopass") => (self.no_password, self.passwords) = (true, Vec::new()),
            _ if is("resetpass") => (self.no_password, self.passwords) = (false, Vec::new()),
            _ if is("clearselectors") => self.selectors.truncate(1),
            _ if is("reset") => *self = User { sanitizes: Some(true), ..User::new(&self.name) },
            [b'>', password @ ..] => self.add(hash(password)),
            [b'#', text @ ..] => self.add(parse_hash(text)?),
            [b'<', password @ ..] => self.remove(&hash(password))?,
            [b'!', text @ ..] => self.remove(&parse_hash(text)?)?,
            [b'(', rules @ .., b')'] => {
                let selector = parse_selector(rules)?;
                self.selectors.push(selector);
            }
            _ => self.selectors[0].apply(rule)?,
        }
        let whole = |selector: &Selector| selector.all_commands && selector.all_keys && selector.all_channels;
        self.unrestricted = self.selectors.iter().any(whole);
        Ok(())
    }

    fn add(&mut self, hash: Hash) {
        self.no_password = false;
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
    }

    fn remove(&mut self, hash: &Hash) -> Result<(), RuleError> {
        let place = self.passwords.iter().position(|known| known == hash).ok_or(RuleError::NoPassword)?;
        self.passwords.remove(place);
        Ok(())
    }
}

fn parse_selector(rules: &[u8]) -> Result<Selector, RuleError> {
    let (mut words, mut spans) = (Vec::new(), Vec::new());
    let mut selector = Selector::default();
    // Quotes that do not match make it empty, as in Redis.
    if inline::split(rules, &mut words, &mut spans).is_ok() {
        for span in spans {
            selector.apply(span.of(&words))?;
        }
    }
    Ok(selector)
}

/// The rules, each selector in one piece whose words came one by one; an error is the index of a
/// parenthesis that is never closed.
pub(crate) fn merged<'r>(rules: impl Iterator<Item = &'r [u8]>) -> Result<Vec<Vec<u8>>, usize> {
    let mut list: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (index, rule) in rules.enumerate() {
        if rule.first() == Some(&b'(') && rule.last() != Some(&b')') {
            open = Some((index, rule.to_vec()));
        } else if let Some((_, selector)) = &mut open {
            selector.push(b' ');
            selector.extend_from_slice(rule);
            if rule.last() == Some(&b')') {
                list.extend(open.take().map(|(_, selector)| selector));
            }
        } else {
            list.push(rule.to_vec());
        }
    }
    open.map_or(Ok(list), |(index, _)| Err(index))
}
