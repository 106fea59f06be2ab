//! [`Token`]: the name of a plan.

use crate::counts::Spread;
use std::hash::Hasher;
use std::num::ParseIntError;
use std::str::FromStr;

/// Names what a repair would do and the state of the pool that it was planned for: the store's identity, the pool's
/// generation, every block and every count. Sixteen hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub(super) u64);

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

/// The token of a plan of another kind, which these words tell apart from any other.
impl FromIterator<u64> for Token {
    fn from_iter<I: IntoIterator<Item = u64>>(all: I) -> Token {
        let mut hash = Spread::default();
        all.into_iter().for_each(|word| hash.write_u64(word));
        Token(hash.finish())
    }
}

/// One token for several plans, in this order.
impl FromIterator<Token> for Token {
    fn from_iter<I: IntoIterator<Item = Token>>(all: I) -> Token {
        all.into_iter().map(|token| token.0).collect()
    }
}
