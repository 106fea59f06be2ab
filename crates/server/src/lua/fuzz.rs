//! A script for fuzzers: it runs without a server, within tight bounds.

use super::{Answer, Finished, Host, Input, Interpreter, Purpose, write_value};
use crate::resp::parse::Args;
use crate::resp::reply::Protocol;
use std::time::Duration;

/// Answers each command with the same reply: for fuzzers.
struct SameReply;

impl Host for SameReply {
    fn command(&mut self, _: Args<'_>, _: Protocol) -> Answer {
        Answer::Reply(b"*2\r\n:1\r\n$-1\r\n".to_vec())
    }

    fn permits(&mut self, _: Args<'_>) -> Option<bool> {
        Some(true)
    }

    fn size_max(&self) -> usize {
        1 << 20
    }
}

/// Runs a script on an argument within tight bounds; the class of what happened.
pub(crate) fn fuzz(code: &[u8], argument: &[u8]) -> String {
    let interpreter = Interpreter::new(Purpose::Scripts, 8 << 20).expect("memory for an empty state");
    let function = match interpreter.compile(code) {
        Ok(function) => function,
        Err(text) => return text.split('\'').next().unwrap_or_default().chars().rev().take(30).collect(),
    };
    let input = Input { keys: vec![], args: vec![argument], time_max: Some(Duration::from_millis(100)), seed: 1 };
    match interpreter.run(&function, &input, &mut SameReply) {
        Finished::Value(returned) => {
            let mut out = crate::resp::reply::Replies::default();
            let whole = write_value(&returned, &mut out, 1 << 20);
            let bytes = out.into_bytes();
            format!("{:?} {:?}", whole.is_ok(), bytes.first().map(|mark| char::from(*mark)))
        }
        Finished::Failed(failure) => {
            let text = String::from_utf8_lossy(&failure.text).into_owned();
            text.chars().filter(|letter| letter.is_ascii_alphabetic()).take(60).collect()
        }
        Finished::Broken(text) => String::from_utf8_lossy(&text).into_owned(),
        Finished::Ended(end) => format!("{end:?}"),
    }
}
