//! The figures of a server at one moment: INFO, and the newest of its slow log.

use super::client::{Client, Reply};
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::time::Instant;

/// Entries of the slow log that are asked for.
const SLOW: &str = "5";

/// A slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slow {
    pub id: i64,
    /// Seconds since 1970.
    pub time: i64,
    pub microseconds: i64,
    /// Its words, with spaces between them.
    pub command: String,
    pub client: String,
}

/// See the head of this file.
pub(super) struct Sample {
    /// When it was taken.
    pub at: Instant,
    fields: BTreeMap<String, String>,
    pub slow: Vec<Slow>,
}

fn slow(entry: &Reply) -> Option<Slow> {
    let [id, time, duration, words, rest @ ..] = entry.list() else { return None };
    let words: Vec<String> = words.list().iter().map(Reply::text).collect();
    Some(Slow {
        id: id.number()?,
        time: time.number()?,
        microseconds: duration.number()?,
        command: words.join(" "),
        client: rest.first().map_or_else(String::new, Reply::text),
    })
}

impl Sample {
    /// Asks the server.
    pub(super) fn take(client: &mut Client) -> Result<Sample, Failure> {
        let info = match client.ask(&["INFO", "everything"])? {
            Reply::Refused(error) if error.starts_with("NOAUTH") => {
                let text = "the server wants a password: EVERBYTE_TOP_PASSWORD, or --password";
                return Err(Failure::System(format!("{text} ({error})")));
            }
            Reply::Refused(error) => return Err(Failure::System(format!("the server refused INFO: {error}"))),
            reply => reply.text(),
        };
        // A user without the right to see it sees the rest.
        let log = client.ask(&["SLOWLOG", "GET", SLOW])?;
        Ok(Sample::of(&info, log.list().iter().filter_map(slow).collect()))
    }

    pub(super) fn of(info: &str, slow: Vec<Slow>) -> Sample {
        let fields = info.lines().filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.to_string(), value.trim_end().to_string())).collect();
        Sample { at: Instant::now(), fields, slow }
    }

    /// A line of INFO; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// A number of INFO; 0 if there is none.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// The lines whose names begin with `prefix`, without it, each with its parts.
    pub(super) fn group(&self, prefix: &str) -> Vec<(&str, Parts<'_>)> {
        let lines = self.fields.range(prefix.to_string()..).map_while(|(name, value)| {
            let rest = name.strip_prefix(prefix)?;
            Some((rest, Parts(value)))
        });
        lines.collect()
    }

    /// The parts of a line.
    pub(super) fn parts(&self, name: &str) -> Parts<'_> {
        Parts(self.text(name))
    }
}

/// A value as in `calls=1,usec=2`.
#[derive(Clone, Copy)]
pub(super) struct Parts<'s>(&'s str);

impl<'s> Parts<'s> {
    /// A part's text.
    pub(super) fn text(self, name: &str) -> Option<&'s str> {
        let mut parts = self.0.split(',').filter_map(|part| part.split_once('='));
        parts.find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// A part that is a number.
    pub(super) fn number(self, name: &str) -> u64 {
        self.text(name).and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}
