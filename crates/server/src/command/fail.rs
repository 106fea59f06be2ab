//! The reason why a command failed, and the text that clients see. Every error reply is made here
//! or in `resp::parse`.

use crate::keyspace::KeyError;
use everbyte_media::{ErrorInfo, ErrorKind};
use std::borrow::Cow;

/// A command's error. The store's errors become replies here, once.
#[derive(Debug)]
pub(crate) enum Fail {
    /// A reply text, its code word first.
    Reply(Cow<'static, [u8]>),
    /// The store refused or broke.
    Store(everbyte_kv::Error),
    /// The reply would exceed the client's output limit.
    OutputLimit,
}

/// The refusal of a command that needs space while the data takes more than it may.
pub(crate) const OUT_OF_MEMORY: Fail = Fail::text("OOM command not allowed when used memory > 'maxmemory'.");

/// How a command ended; its reply has been written when it went well.
pub(crate) type Outcome = Result<(), Fail>;

impl From<everbyte_kv::Error> for Fail {
    fn from(error: everbyte_kv::Error) -> Fail {
        Fail::Store(error)
    }
}

impl From<KeyError> for Fail {
    fn from(error: KeyError) -> Fail {
        match error {
            KeyError::WrongType => WRONG_TYPE,
            KeyError::Store(error) => Fail::Store(error),
        }
    }
}

impl Fail {
    /// A fixed text.
    pub(crate) const fn text(text: &'static str) -> Fail {
        Fail::Reply(Cow::Borrowed(text.as_bytes()))
    }

    /// A text made for the occasion.
    pub(crate) fn made(text: impl Into<Vec<u8>>) -> Fail {
        Fail::Reply(Cow::Owned(text.into()))
    }

    /// `name` was given too few or too many arguments.
    pub(crate) fn arity(name: &str) -> Fail {
        Fail::made(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// The error text that the client reads.
    pub(crate) fn reply(&self) -> Cow<'_, [u8]> {
        match self {
            Fail::Reply(text) => Cow::Borrowed(text),
            Fail::Store(error) => Cow::Owned(store_text(error)),
            Fail::OutputLimit => Cow::Borrowed(
                b"ERR the reply exceeds this connection's output limit: ask for less at a time (LIMIT, COUNT, fewer keys)",
            ),
        }
    }
}

/// The reply for an error of the store.
pub(crate) fn store_text(error: &everbyte_kv::Error) -> Vec<u8> {
    format!("{} store: {error}", code(error.kind())).into_bytes()
}

/// The word with which a reply begins: Redis clients react to it.
fn code(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Denied => "NOPERM",
        ErrorKind::ReadOnly => "READONLY",
        ErrorKind::NotFound
        | ErrorKind::Exists
        | ErrorKind::Busy
        | ErrorKind::NoSpace
        | ErrorKind::Quota
        | ErrorKind::Invalid
        | ErrorKind::TooLarge
        | ErrorKind::Damaged
        | ErrorKind::Newer
        | ErrorKind::Foreign
        | ErrorKind::Poisoned
        | ErrorKind::Conflict
        | ErrorKind::Unsupported
        | ErrorKind::Interrupted
        | ErrorKind::Io => "ERR",
    }
}

/// The key holds another type than the command is about.
pub(super) const WRONG_TYPE: Fail = Fail::text("WRONGTYPE Operation against a key holding the wrong kind of value");
/// Options that contradict or are unknown.
pub(super) const SYNTAX: Fail = Fail::text("ERR syntax error");
/// A stored value or an argument is no integer.
pub(super) const NOT_INTEGER: Fail = Fail::text("ERR value is not an integer or out of range");
/// An argument is no double, or NaN.
pub(super) const NOT_FLOAT: Fail = Fail::text("ERR value is not a valid float");
/// The sum of two numbers is infinite, or none.
pub(super) const NOT_FINITE: Fail = Fail::text("ERR increment would produce NaN or Infinity");
/// A count beyond what can be counted.
pub(super) const OUT_OF_RANGE: Fail = Fail::text("ERR value is out of range");
/// The result of an increment does not fit.
pub(super) const OVERFLOW: Fail = Fail::text("ERR increment or decrement would overflow");
/// The negation of a decrement does not fit.
pub(super) const DECREMENT: Fail = Fail::text("ERR decrement would overflow");
/// A value would grow above the limit.
pub(super) const TOO_LONG: Fail = Fail::text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
/// A negative offset.
pub(super) const OFFSET: Fail = Fail::text("ERR offset is out of range");
/// A cursor that is no number.
pub(super) const CURSOR: Fail = Fail::text("ERR invalid cursor");
/// A cursor that this server does not know (any more).
pub(super) const CURSOR_UNKNOWN: Fail =
    Fail::text("ERR unknown cursor: it is too old, or the server was restarted; begin again with cursor 0");
/// The first name of a rename is absent.
pub(super) const NO_KEY: Fail = Fail::text("ERR no such key");
/// Source and destination are one.
pub(super) const SAME: Fail = Fail::text("ERR source and destination objects are the same");
/// There is no such database.
pub(super) const DATABASE: Fail = Fail::text("ERR DB index is out of range");
/// A number beyond 32 bits where 32 bits are meant.
pub(super) const NOT_INT: Fail = Fail::text("ERR value is out of range, value must between -2147483648 and 2147483647");
/// A name with bytes that a list of clients cannot show.
pub(super) const CLIENT_NAME: Fail =
    Fail::text("ERR Client names cannot contain spaces, newlines or special characters.");
/// A password where none is set.
pub(super) const NO_PASSWORD: Fail = Fail::text(
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is \
     correct?",
);
/// A wrong password, or a user that does not exist.
pub(super) const WRONG_PASSWORD: Fail = Fail::text("WRONGPASS invalid username-password pair or user is disabled.");
/// A command before the password.
pub(super) const NO_AUTH: Fail = Fail::text("NOAUTH Authentication required.");
/// A command that a transaction does not take.
pub(super) const NO_MULTI: Fail = Fail::text("ERR Command not allowed inside a transaction");
/// HELLO before the password.
pub(super) const NO_AUTH_HELLO: Fail = Fail::text(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can \
     be used to authenticate the client and select the RESP protocol version at the same time",
);
/// A count that is negative.
pub(super) const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";
/// An index without an element.
pub(super) const INDEX: Fail = Fail::text("ERR index out of range");
/// LPOS counts matches from 1.
pub(super) const RANK: Fail = Fail::text(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from \
     the end of the list",
);
