//! Frames of an answer: a kind, the length of the rest in four bytes, and the rest.
//!
//! | kind | rest |
//! |---|---|
//! | 0 | bytes of the output |
//! | 1 | progress: done, total ([`UNKNOWN`] if it is not known), 1 for bytes or 0 for items, a name |
//! | 2 | the end: the exit code and the text of the failure |
//!
//! Numbers are little-endian. A frame has at most [`REST`] bytes behind its length, so neither side
//! keeps more of the other's bytes than that for one frame.

use crate::failure::Failure;
use crate::progress::{Form, Told};
use std::io::{self, Read, Write};

/// Bytes behind the length of a frame at most.
pub(super) const REST: usize = 1 << 16;
const OUTPUT: u8 = 0;
const PROGRESS: u8 = 1;
const END: u8 = 2;
const UNKNOWN: u64 = u64::MAX;
/// Bytes of the name of a progress at most.
const NAME: usize = 64;

/// One frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Output(Vec<u8>),
    Progress(Told),
    /// The exit code and the text of the failure; the last frame.
    End(u8, String),
}

/// Writes a frame whose rest is the parts.
fn write(to: &mut impl Write, kind: u8, parts: &[&[u8]]) -> io::Result<()> {
    let rest = parts.concat();
    assert!(rest.len() <= REST, "a frame has at most {REST} bytes");
    to.write_all(&[&[kind][..], &(rest.len() as u32).to_le_bytes(), &rest].concat())
}

/// Writes a frame of output: at most [`REST`] of the bytes; returns their number.
pub(super) fn write_output(to: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    let count = bytes.len().min(REST);
    write(to, OUTPUT, &[&bytes[..count]])?;
    Ok(count)
}

/// Writes a frame of progress.
pub(super) fn write_progress(to: &mut impl Write, told: &Told) -> io::Result<()> {
    let numbers = [told.done, told.total.unwrap_or(UNKNOWN)].map(u64::to_le_bytes).concat();
    write(to, PROGRESS, &[&numbers, &[u8::from(told.form == Form::Bytes)], told.name.as_bytes()])
}

/// Writes the last frame.
pub(super) fn write_end(to: &mut impl Write, done: Result<(), Failure>) -> io::Result<()> {
    let (code, text) = done.map_or_else(|failure| (failure.code(), failure.to_string()), |()| (0, String::new()));
    let end = text.floor_char_boundary(REST - 1);
    write(to, END, &[&[code], &text.as_bytes()[..end]])
}

/// Reads a frame.
///
/// # Errors
/// `InvalidData` for bytes that are none, and those of reading.
pub(super) fn read(from: &mut impl Read) -> io::Result<Frame> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > REST {
        return Err(invalid());
    }
    let mut rest = vec![0; length];
    from.read_exact(&mut rest)?;
    let frame = match head[0] {
        OUTPUT => Some(Frame::Output(rest)),
        PROGRESS => progress(&rest).map(Frame::Progress),
        END => end(&rest),
        _ => None,
    };
    frame.ok_or_else(invalid)
}

fn progress(rest: &[u8]) -> Option<Told> {
    let (&done, rest) = rest.split_first_chunk::<8>()?;
    let (&total, rest) = rest.split_first_chunk::<8>()?;
    let (&form, name) = rest.split_first()?;
    // It goes to a terminal.
    let is_name = name.len() <= NAME && name.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    let name = String::from_utf8(name.to_vec()).ok().filter(|_| is_name)?;
    let (done, total) = (u64::from_le_bytes(done), u64::from_le_bytes(total));
    let form = match form {
        0 => Form::Items,
        1 => Form::Bytes,
        _ => return None,
    };
    Some(Told { name: name.into(), form, done, total: (total != UNKNOWN).then_some(total) })
}

fn end(rest: &[u8]) -> Option<Frame> {
    let (&code, text) = rest.split_first()?;
    let text = String::from_utf8(text.to_vec()).ok()?;
    (code <= 5).then_some(Frame::End(code, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let told = Told { name: "copying".into(), form: Form::Bytes, done: 7, total: Some(9) };
        let counted = Told { name: "checking inodes".into(), form: Form::Items, done: 7, total: None };
        let mut bytes = Vec::new();
        assert_eq!(write_output(&mut bytes, b"text").unwrap(), 4);
        assert_eq!(write_output(&mut bytes, &[7; REST + 1]).unwrap(), REST);
        write_progress(&mut bytes, &told).unwrap();
        write_progress(&mut bytes, &counted).unwrap();
        write_end(&mut bytes, Err(Failure::No("\u{e9}".repeat(REST)))).unwrap();
        write_end(&mut bytes, Ok(())).unwrap();
        let mut from = &bytes[..];
        assert_eq!(read(&mut from).unwrap(), Frame::Output(b"text".to_vec()));
        assert_eq!(read(&mut from).unwrap(), Frame::Output(vec![7; REST]));
        assert_eq!(read(&mut from).unwrap(), Frame::Progress(told));
        assert_eq!(read(&mut from).unwrap(), Frame::Progress(counted));
        // Cut between two characters.
        assert_eq!(read(&mut from).unwrap(), Frame::End(1, "\u{e9}".repeat((REST - 1) / 2)));
        assert_eq!(read(&mut from).unwrap(), Frame::End(0, String::new()));
        assert_eq!(read(&mut from).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn bytes_that_are_no_frame_are_refused() {
        let frame = |kind: u8, rest: &[u8]| [&[kind][..], &(rest.len() as u32).to_le_bytes(), rest].concat();
        let progress = |form: u8, name: &[u8]| frame(PROGRESS, &[&[0; 16][..], &[form], name].concat());
        for bytes in [
            frame(3, b""),
            frame(255, b"text"),
            [&[OUTPUT][..], &(REST as u32 + 1).to_le_bytes()].concat(),
            [&[OUTPUT][..], &u32::MAX.to_le_bytes()].concat(),
            frame(PROGRESS, &[0; 16]),
            progress(2, b"copying"),
            progress(0, b"\x1b[2J"),
            progress(0, &[b'a'; NAME + 1]),
            frame(END, b""),
            frame(END, &[6]),
            frame(END, &[1, 0xff]),
        ] {
            assert_eq!(read(&mut &bytes[..]).unwrap_err().kind(), io::ErrorKind::InvalidData, "{bytes:?}");
        }
        let whole = frame(OUTPUT, b"text");
        for cut in 0..whole.len() {
            assert_eq!(read(&mut &whole[..cut]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
