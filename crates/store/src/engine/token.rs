//! [`Token`]: the name of a repair that was planned.

use std::num::ParseIntError;
use std::str::FromStr;

/// Names what a repair would do and the state that it was planned for, so that a repair under an
/// older token is refused. Sixteen hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(u64);

impl From<u64> for Token {
    fn from(hash: u64) -> Token {
        Token(hash)
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Token {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Token, ParseIntError> {
        u64::from_str_radix(text, 16).map(Token)
    }
}

/// The token of a plan that these words tell apart from any other.
impl FromIterator<u64> for Token {
    fn from_iter<I: IntoIterator<Item = u64>>(words: I) -> Token {
        // Each word is mixed in by an odd multiplication and a shift, which loses no bit.
        let mix = |hash: u64, word: u64| {
            let mixed = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^ mixed >> 29
        };
        Token(words.into_iter().fold(0, mix))
    }
}

/// One token for several plans, in this order.
impl FromIterator<Token> for Token {
    fn from_iter<I: IntoIterator<Item = Token>>(tokens: I) -> Token {
        tokens.into_iter().map(|token| token.0).collect()
    }
}
