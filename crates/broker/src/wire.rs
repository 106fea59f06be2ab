//! The messages on the socket: one request and one answer for a connection, each a message of text,
//! whole or not at all (SOCK_SEQPACKET).
//!
//! A request is words with spaces between them; the name of a domain, or a prefix, comes last and
//! may hold spaces. An answer is `ok` and lines, with descriptors beside it for an attach, or `no`,
//! a number of `errno`, and a sentence.

use crate::domains::About;
use crate::error::No;
use everbyte_store::{Access, Want};

/// Bytes of the longest message.
pub(crate) const MESSAGE: usize = 32 << 10;
/// Bytes of lines in one answer to `list`; the client asks again for the rest.
pub(crate) const LINES: usize = MESSAGE - 1024;

/// A request of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Create {
        mode: u16,
        max: u64,
        name: String,
    },
    Attach {
        want: Want,
        name: String,
    },
    Remove {
        name: String,
    },
    Chmod {
        mode: u16,
        name: String,
    },
    Chown {
        uid: u32,
        gid: u32,
        name: String,
    },
    About {
        name: String,
    },
    /// The first names behind `after`, as many as one answer holds.
    List {
        prefix: String,
        after: String,
    },
}

impl Request {
    pub(crate) fn text(&self) -> String {
        match self {
            Request::Create { mode, max, name } => format!("create {mode:o} {max} {name}"),
            Request::Attach { want: Want::Read, name } => format!("attach r {name}"),
            Request::Attach { want: Want::Write, name } => format!("attach rw {name}"),
            Request::Remove { name } => format!("remove {name}"),
            Request::Chmod { mode, name } => format!("chmod {mode:o} {name}"),
            Request::Chown { uid, gid, name } => format!("chown {uid} {gid} {name}"),
            Request::About { name } => format!("about {name}"),
            // names hold no line ends
            Request::List { prefix, after } => format!("list {prefix}\n{after}"),
        }
    }

    /// The request of a message; `None`: it is invalid.
    pub(crate) fn parse(message: &[u8]) -> Option<Request> {
        let text = std::str::from_utf8(message).ok()?;
        let (verb, rest) = text.split_once(' ')?;
        let one = || rest.split_once(' ');
        let two = || {
            let (first, rest) = rest.split_once(' ')?;
            let (second, name) = rest.split_once(' ')?;
            Some((first, second, name.to_owned()))
        };
        let octal = |text: &str| u16::from_str_radix(text, 8).ok();
        Some(match verb {
            "create" => two().and_then(|(mode, max, name)| {
                Some(Request::Create { mode: octal(mode)?, max: max.parse().ok()?, name })
            })?,
            "attach" => one().and_then(|(want, name)| {
                let want = match want {
                    "r" => Want::Read,
                    "rw" => Want::Write,
                    _ => return None,
                };
                Some(Request::Attach { want, name: name.into() })
            })?,
            "remove" => Request::Remove { name: rest.into() },
            "chmod" => one().and_then(|(mode, name)| Some(Request::Chmod { mode: octal(mode)?, name: name.into() }))?,
            "chown" => two().and_then(|(uid, gid, name)| {
                Some(Request::Chown { uid: uid.parse().ok()?, gid: gid.parse().ok()?, name })
            })?,
            "about" => Request::About { name: rest.into() },
            "list" => {
                let (prefix, after) = rest.split_once('\n')?;
                Request::List { prefix: prefix.into(), after: after.into() }
            }
            _ => return None,
        })
    }
}

/// The answer to a request, without its descriptors.
pub(crate) fn answer(result: &Result<String, No>) -> String {
    match result {
        Ok(lines) => format!("ok\n{lines}"),
        Err(No { errno, said }) => format!("no {errno} {said}"),
    }
}

/// The parts of an answer; `None`: it is invalid.
pub(crate) fn parse_answer(message: &[u8]) -> Option<Result<String, No>> {
    let text = std::str::from_utf8(message).ok()?;
    if let Some(lines) = text.strip_prefix("ok\n") {
        return Some(Ok(lines.into()));
    }
    let (errno, said) = text.strip_prefix("no ")?.split_once(' ')?;
    Some(Err(No { errno: errno.parse().ok()?, said: said.into() }))
}

/// A domain's properties as a line.
pub(crate) fn line(about: &About) -> String {
    let About { name, access: Access { owner, group, mode }, base, max } = about;
    format!("{owner} {group} {mode:o} {base:x} {max} {name}\n")
}

/// The properties in a line.
pub(crate) fn parse_line(line: &str) -> Option<About> {
    let mut words = line.splitn(6, ' ');
    let mut word = || words.next();
    let (owner, group) = (word()?.parse().ok()?, word()?.parse().ok()?);
    let mode = u16::from_str_radix(word()?, 8).ok()?;
    let base = u64::from_str_radix(word()?, 16).ok()?;
    let max = word()?.parse().ok()?;
    Some(About { name: word()?.into(), access: Access { owner, group, mode }, base, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_parses_to_itself_and_others_are_refused() {
        let name = || String::from("a name/of two");
        for request in [
            Request::Create { mode: 0o640, max: 1 << 30, name: name() },
            Request::Attach { want: Want::Read, name: name() },
            Request::Attach { want: Want::Write, name: name() },
            Request::Remove { name: name() },
            Request::Chmod { mode: 0, name: name() },
            Request::Chown { uid: 7, gid: 8, name: name() },
            Request::About { name: name() },
            Request::List { prefix: String::new(), after: name() },
        ] {
            assert_eq!(Request::parse(request.text().as_bytes()), Some(request));
        }
        for bad in [&b""[..], b"create", b"create 9 1 x", b"attach x y", b"list x", b"\xff\xff \xff", b"chown 1 -1 x"] {
            assert_eq!(Request::parse(bad), None, "{bad:?}");
        }
        let no = Err(No { errno: 13, said: "not you, not now".into() });
        assert_eq!(parse_answer(answer(&no).as_bytes()), Some(no));
        assert_eq!(parse_answer(b"ok\nline\n"), Some(Ok("line\n".into())));
        assert_eq!(parse_answer(b"okay"), None);
        let about = About { name: name(), access: Access { owner: 1, group: 2, mode: 0o640 }, base: 4096, max: 5 };
        assert_eq!(parse_line(line(&about).trim_end()), Some(about));
    }
}
