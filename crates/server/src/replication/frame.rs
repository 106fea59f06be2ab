//! Frames of the stream from a primary to a replica, and their bytes.
//!
//! A frame is a byte string of RESP: a checksum, the frame's number, its kind, and a body. The
//! checksum covers all that follows it, and numbers begin with 0, so a frame that is damaged, lost
//! or doubled ends the stream. Numbers are little-endian.
//!
//! | bytes | content |
//! |---|---|
//! | 0..4 | CRC-32C of the rest |
//! | 4..12 | number |
//! | 12 | kind: 1 greeting, 2 begin, 3 part, 4 end, 5 news |
//! | 13.. | body |
//!
//! Format: `docs/formats/replication.md`.

use super::position::{POSITION, Position, RUN, RunId};
use std::ops::Range;

/// The version of the stream that this program speaks.
pub(crate) const PROTOCOL: u16 = 1;
/// Servers above one at most.
pub(super) const CHAIN_MAX: usize = 64;
/// Items of a part at most: in memory each takes several times its bytes in a frame. Primaries send
/// fewer: a part has at most 2 MiB beside one value, and an item counts 64 bytes more than it has.
const ITEMS_MAX: usize = 65_536;
/// Bytes before a frame's body.
const HEADER: usize = 13;

/// How a primary answers the request for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The difference from the replica's position.
    Difference = 0,
    /// The rest of a transfer that was cut.
    Rest = 1,
    /// A whole copy: the replica's keys are of no history that the primary knows.
    WholeUnknown = 2,
    /// A whole copy: the replica has what the primary has lost.
    WholeDiverged = 3,
    /// A whole copy: the primary no longer keeps the replica's version.
    WholeGone = 4,
}

impl Plan {
    const ALL: [Plan; 5] = [Plan::Difference, Plan::Rest, Plan::WholeUnknown, Plan::WholeDiverged, Plan::WholeGone];

    /// Whether everything is copied.
    pub(crate) fn is_whole(self) -> bool {
        !matches!(self, Plan::Difference | Plan::Rest)
    }

    /// A word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Plan::Difference => "difference",
            Plan::Rest => "rest",
            Plan::WholeUnknown => "whole-unknown-history",
            Plan::WholeDiverged => "whole-diverged",
            Plan::WholeGone => "whole-version-gone",
        }
    }
}

/// One change of the ordered tree. A key is the place of its table, and the key in that table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A key has a value.
    Put(Vec<u8>, Vec<u8>),
    /// A key is gone.
    Delete(Vec<u8>),
    /// All keys between two are gone, the first one included.
    Clear(Vec<u8>, Vec<u8>),
}

impl Item {
    /// Bytes that it takes, about.
    pub(crate) fn size(&self) -> usize {
        match self {
            Item::Put(one, other) | Item::Clear(one, other) => one.len() + other.len() + 64,
            Item::Delete(key) => key.len() + 64,
        }
    }
}

/// The content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The first one.
    Greeting {
        /// The version of the stream.
        protocol: u16,
        /// The rest.
        plan: Plan,
        /// The primary's run, then those of the servers above it.
        chain: Vec<RunId>,
    },
    /// A transfer begins.
    Begin {
        /// The position that the replica has at its end.
        target: Position,
        /// The position from which it starts; `None`: any.
        base: Option<Position>,
        /// The last key that the replica has as in `target` already; empty: none.
        cursor: Vec<u8>,
    },
    /// A part of a transfer.
    Part {
        /// The changes, in order.
        items: Vec<Item>,
        /// The last key that is as in the target with them.
        cursor: Vec<u8>,
    },
    /// The transfer is whole.
    End,
    /// A heartbeat, with the servers above the replica.
    News {
        /// The primary's run, then those of the servers above it.
        chain: Vec<RunId>,
    },
}

/// Why bytes are no frame.
pub(crate) const MALFORMED: &str = "a frame is malformed";

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // A key or a value is far below 4 GiB.
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_chain(out: &mut Vec<u8>, chain: &[RunId]) {
    let chain = &chain[..chain.len().min(CHAIN_MAX)];
    out.push(chain.len() as u8);
    chain.iter().for_each(|run| out.extend_from_slice(&run.0));
}

/// Takes values off the front of bytes.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn length(&mut self) -> Option<usize> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?) as usize)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let count = self.length()?;
        Some(self.take(count)?.to_vec())
    }

    /// A place and a key.
    fn key(&mut self) -> Option<Vec<u8>> {
        self.bytes().filter(|key| !key.is_empty())
    }

    fn position(&mut self) -> Option<Position> {
        Position::parse(self.take(POSITION)?).map(|(position, _)| position)
    }

    fn chain(&mut self) -> Option<Vec<RunId>> {
        let count = usize::from(self.byte()?);
        (0..count).map(|_| Some(RunId(self.take(RUN)?.try_into().ok()?))).collect()
    }
}

impl Frame {
    /// The frame of this number, as it is sent.
    pub(crate) fn bytes(&self, number: u64) -> Vec<u8> {
        let mut body = vec![0; 4];
        body.extend_from_slice(&number.to_le_bytes());
        match self {
            Frame::Greeting { protocol, plan, chain } => {
                body.push(1);
                body.extend_from_slice(&protocol.to_le_bytes());
                body.push(*plan as u8);
                put_chain(&mut body, chain);
            }
            Frame::Begin { target, base, cursor } => {
                body.push(2);
                body.extend_from_slice(&target.bytes());
                body.push(u8::from(base.is_some()));
                body.extend(base.iter().flat_map(Position::bytes));
                put_bytes(&mut body, cursor);
            }
            Frame::Part { items, cursor } => {
                body.push(3);
                put_bytes(&mut body, cursor);
                body.extend_from_slice(&(items.len() as u32).to_le_bytes());
                for item in items {
                    match item {
                        Item::Put(key, value) => {
                            body.push(0);
                            put_bytes(&mut body, key);
                            put_bytes(&mut body, value);
                        }
                        Item::Delete(key) => {
                            body.push(1);
                            put_bytes(&mut body, key);
                        }
                        Item::Clear(from, to) => {
                            body.push(2);
                            put_bytes(&mut body, from);
                            put_bytes(&mut body, to);
                        }
                    }
                }
            }
            Frame::End => body.push(4),
            Frame::News { chain } => {
                body.push(5);
                put_chain(&mut body, chain);
            }
        }
        let sum = crc32c::crc32c(&body[4..]);
        body[..4].copy_from_slice(&sum.to_le_bytes());
        [format!("${}\r\n", body.len()).as_bytes(), &body, b"\r\n"].concat()
    }

    /// Reads the frame of this number, without the bytes that RESP puts around it.
    ///
    /// # Errors
    /// The bytes are no frame, or not this one.
    pub(crate) fn parse(bytes: &[u8], number: u64) -> Result<Frame, &'static str> {
        let Some((header, body)) = bytes.split_at_checked(HEADER) else { return Err(MALFORMED) };
        if header[..4] != crc32c::crc32c(&bytes[4..]).to_le_bytes() {
            return Err("a frame fails its checksum");
        }
        if header[4..12] != number.to_le_bytes() {
            return Err("a frame has another number than the one that is due");
        }
        let mut reader = Reader(body);
        let frame = Frame::body(header[12], &mut reader).filter(|_| reader.0.is_empty());
        frame.ok_or(MALFORMED)
    }

    fn body(kind: u8, reader: &mut Reader<'_>) -> Option<Frame> {
        match kind {
            1 => {
                let protocol = u16::from_le_bytes(reader.take(2)?.try_into().ok()?);
                let plan = *Plan::ALL.get(usize::from(reader.byte()?))?;
                Some(Frame::Greeting { protocol, plan, chain: reader.chain()? })
            }
            2 => {
                let target = reader.position()?;
                let base = match reader.byte()? {
                    0 => None,
                    1 => Some(reader.position()?),
                    _ => return None,
                };
                Some(Frame::Begin { target, base, cursor: reader.bytes()? })
            }
            3 => {
                let (cursor, count) = (reader.bytes()?, reader.length()?);
                if count > ITEMS_MAX {
                    return None;
                }
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(match reader.byte()? {
                        0 => Item::Put(reader.key()?, reader.bytes()?),
                        1 => Item::Delete(reader.key()?),
                        2 => Item::Clear(reader.key()?, reader.key()?),
                        _ => return None,
                    });
                }
                Some(Frame::Part { items, cursor })
            }
            4 => Some(Frame::End),
            5 => Some(Frame::News { chain: reader.chain()? }),
            _ => None,
        }
    }
}

/// The place of a whole frame at the front of what has been received, and the bytes that it takes
/// with what RESP puts around it; `None`: more has to come.
///
/// # Errors
/// Something else than a frame, or one of more than `size_max` bytes.
pub(crate) fn find(bytes: &[u8], size_max: usize) -> Result<Option<(Range<usize>, usize)>, String> {
    const DIGITS: usize = 20;
    let Some(end) = bytes.iter().take(512).position(|byte| *byte == b'\n') else {
        return if bytes.len() > 511 || bytes.first() == Some(&b'$') && bytes.len() > DIGITS {
            Err(MALFORMED.into())
        } else {
            Ok(None)
        };
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let Some(length) = line.strip_prefix(b"$") else { return Err(String::from_utf8_lossy(line).into_owned()) };
    let length = std::str::from_utf8(length).ok().and_then(|text| text.parse::<usize>().ok());
    let length = length.filter(|length| *length <= size_max).ok_or(MALFORMED)?;
    let frame = end + 1..end + 1 + length;
    Ok((bytes.len() >= frame.end + 2).then(|| (frame.clone(), frame.end + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<Frame> {
        let run = |byte| RunId([byte; RUN]);
        let at = |version| Position { run: run(3), version };
        let items = vec![
            Item::Put(b"\0k".to_vec(), vec![]),
            Item::Put(b"\x01\x00k".to_vec(), vec![7; 300]),
            Item::Delete(b"\x02".to_vec()),
            Item::Clear(b"\0".to_vec(), b"\x01".to_vec()),
        ];
        vec![
            Frame::Greeting { protocol: 1, plan: Plan::WholeDiverged, chain: vec![run(1), run(2)] },
            Frame::Begin { target: at(9), base: Some(at(4)), cursor: b"\0k".to_vec() },
            Frame::Begin { target: at(u64::MAX), base: None, cursor: vec![] },
            Frame::Part { items, cursor: b"\x04z".to_vec() },
            Frame::Part { items: vec![], cursor: vec![] },
            Frame::End,
            Frame::News { chain: vec![] },
        ]
    }

    #[test]
    fn frames_come_back_and_changed_bytes_do_not() {
        for (number, frame) in frames().into_iter().enumerate() {
            let bytes = frame.bytes(number as u64);
            let (range, size) = find(&bytes, 1 << 20).unwrap().unwrap();
            assert_eq!(size, bytes.len());
            let body = &bytes[range];
            assert_eq!(Frame::parse(body, number as u64), Ok(frame));
            assert!(Frame::parse(body, number as u64 + 1).is_err(), "doubled or lost");
            for at in 0..body.len() {
                let mut odd = body.to_vec();
                odd[at] ^= 0x10;
                assert!(Frame::parse(&odd, number as u64).is_err(), "byte {at}");
                assert!(Frame::parse(&body[..at], number as u64).is_err());
            }
            for end in 0..bytes.len() {
                assert_eq!(find(&bytes[..end], 1 << 20), Ok(None));
            }
        }
        assert_eq!(find(b"-NOAUTH Authentication required.\r\n", 9), Err("-NOAUTH Authentication required.".into()));
        for odd in [&b"$x\r\n"[..], b"$-1\r\n", b"$2000000\r\n", b"$111111111111111111111111"] {
            assert!(find(odd, 1 << 20).is_err());
        }
    }

    /// Bytes of a frame that the checksum does not give away: whatever they are, they are refused,
    /// or are the frame whose bytes they are.
    #[test]
    fn any_bytes_are_refused_or_a_frame() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |end: usize| {
            state = state.wrapping_mul(0xd129_0212_a0b6_37b5).rotate_left(29) ^ 0x5851_f42d_4c95_7f2d;
            (state >> 17) as usize % end.max(1)
        };
        let seal = |body: &mut Vec<u8>| {
            let sum = crc32c::crc32c(&body[4..]);
            body[..4].copy_from_slice(&sum.to_le_bytes());
        };
        let mut taken = 0;
        for _ in 0..20_000 {
            let frame = &frames()[random(frames().len())];
            let bytes = frame.bytes(5);
            let mut body = bytes[find(&bytes, 1 << 20).unwrap().unwrap().0].to_vec();
            for _ in 0..1 + random(3) {
                let at = 12 + random(body.len() - 12);
                match random(4) {
                    0 => body[at] = random(256) as u8,
                    1 => body[at] ^= 1 << random(8),
                    2 => drop(body.drain(at..(at + random(9)).min(body.len()))),
                    _ => drop(body.splice(at..at, (0..random(9)).map(|_| random(256) as u8).collect::<Vec<_>>())),
                }
                if body.len() <= 12 {
                    break;
                }
            }
            seal(&mut body);
            if let Ok(frame) = Frame::parse(&body, 5) {
                let again = frame.bytes(5);
                assert_eq!(again[find(&again, 1 << 20).unwrap().unwrap().0], body[..], "{frame:?}");
                taken += 1;
            }
        }
        assert!(taken > 1000, "{taken} were frames");
        // More items than a part has.
        let items = vec![Item::Delete(vec![0]); ITEMS_MAX + 1];
        let bytes = Frame::Part { items, cursor: vec![5] }.bytes(0);
        assert_eq!(Frame::parse(&bytes[find(&bytes, 1 << 20).unwrap().unwrap().0], 0), Err(MALFORMED));
    }
}
