//! Values on their way out: elements one after the other, entries of streams in listpacks.

use super::packed::backwards_size;
use super::stream::SAME_FIELDS;
use crate::resp::number::parse_integer;

/// Entries of a listpack at most.
const ENTRIES_MAX: i64 = 100;
/// Bytes of a listpack above which no entry is added.
const LISTPACK_SIZE: usize = 4096;

/// Bytes that grow.
#[derive(Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
}

impl Output {
    /// A value of a type, whose number is given.
    pub(crate) fn new(kind: u8) -> Output {
        Output { bytes: vec![kind] }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Without the bytes so far.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Takes the bytes of another output to its end.
    pub(crate) fn append(&mut self, other: &mut Output) {
        self.bytes.append(&mut other.bytes);
    }

    /// All bytes.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// A length.
    pub(crate) fn length(&mut self, length: u64) {
        match length {
            0..0x40 => self.bytes.push(length as u8),
            0x40..0x4000 => self.bytes.extend_from_slice(&(length as u16 | 0x4000).to_be_bytes()),
            0x4000..=0xffff_ffff => {
                self.bytes.push(0x80);
                self.bytes.extend_from_slice(&(length as u32).to_be_bytes());
            }
            _ => {
                self.bytes.push(0x81);
                self.bytes.extend_from_slice(&length.to_be_bytes());
            }
        }
    }

    /// A string; a number of up to 32 bits as such.
    pub(crate) fn string(&mut self, string: &[u8]) {
        match parse_integer(string).and_then(|number| i32::try_from(number).ok()) {
            Some(number) => {
                let bytes = number.to_le_bytes();
                let (form, size) = match number {
                    -0x80..0x80 => (0xc0, 1),
                    -0x8000..0x8000 => (0xc1, 2),
                    _ => (0xc2, 4),
                };
                self.bytes.push(form);
                self.bytes.extend_from_slice(&bytes[..size]);
            }
            None => self.plain(string),
        }
    }

    /// Bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A byte.
    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// A number of 8 bytes.
    pub(crate) fn word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    /// The id of an entry of a stream, whose order is that of its bytes.
    pub(crate) fn id(&mut self, (ms, seq): (u64, u64)) {
        self.bytes.extend_from_slice(&ms.to_be_bytes());
        self.bytes.extend_from_slice(&seq.to_be_bytes());
    }

    /// A string as its bytes, which numbers may be, too.
    pub(crate) fn plain(&mut self, string: &[u8]) {
        self.length(string.len() as u64);
        self.bytes.extend_from_slice(string);
    }

    /// A score.
    pub(crate) fn score(&mut self, score: f64) {
        self.bytes.extend_from_slice(&score.to_le_bytes());
    }
}

/// A listpack that grows.
#[derive(Default)]
struct Listpack {
    elements: Vec<u8>,
    count: usize,
}

impl Listpack {
    fn element(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.elements.extend_from_slice(part));
        self.elements.extend(backwards_size(parts.iter().map(|part| part.len()).sum()));
        self.count += 1;
    }

    fn number(&mut self, number: i64) {
        match number {
            0..0x80 => self.element(&[&[number as u8]]),
            _ => self.element(&[&[0xf4], &number.to_le_bytes()]),
        }
    }

    fn text(&mut self, text: &[u8]) {
        let size = text.len();
        match size {
            0..0x40 => self.element(&[&[0x80 | size as u8], text]),
            0x40..0x1000 => self.element(&[&(size as u16 | 0xe000).to_be_bytes(), text]),
            _ => self.element(&[&[0xf0], &(size as u32).to_le_bytes(), text]),
        }
    }

    fn bytes(&self, head: &Listpack) -> Vec<u8> {
        const AROUND: usize = 7;
        let size = head.elements.len() + self.elements.len() + AROUND;
        let count = (head.count + self.count).min(usize::from(u16::MAX)) as u16;
        let size = (size as u32).to_le_bytes();
        [&size[..], &count.to_le_bytes(), &head.elements, &self.elements, &[255]].concat()
    }
}

/// The entries of a stream on their way out, in listpacks.
#[derive(Default)]
pub(crate) struct StreamOutput {
    parts: Output,
    count: u64,
    open: Option<Open>,
    entries: u64,
    first: (u64, u64),
}

/// A listpack of entries.
struct Open {
    id: (u64, u64),
    names: Vec<Vec<u8>>,
    entries: i64,
    elements: Listpack,
}

impl StreamOutput {
    /// The listpacks that are full, to be taken out.
    pub(crate) fn parts(&mut self) -> &mut Output {
        &mut self.parts
    }

    /// The number of listpacks that were full, and the first id.
    pub(crate) fn sums(&self) -> (u64, (u64, u64)) {
        (self.count, self.first)
    }

    /// An entry: its id, and fields and values in turn.
    pub(crate) fn entry(&mut self, id: (u64, u64), pairs: &[&[u8]]) {
        if self.entries == 0 {
            self.first = id;
        }
        self.entries += 1;
        let full = |open: &Open| open.entries >= ENTRIES_MAX || open.elements.elements.len() > LISTPACK_SIZE;
        if self.open.as_ref().is_none_or(full) {
            self.close();
            let names = pairs.iter().step_by(2).map(|name| name.to_vec()).collect();
            self.open = Some(Open { id, names, entries: 0, elements: Listpack::default() });
        }
        let Some(open) = &mut self.open else { return };
        let same = open.names.iter().map(Vec::as_slice).eq(pairs.iter().step_by(2).copied());
        open.entries += 1;
        let pack = &mut open.elements;
        let before = pack.count;
        pack.number(if same { SAME_FIELDS } else { 0 });
        pack.number(id.0.wrapping_sub(open.id.0) as i64);
        pack.number(id.1.wrapping_sub(open.id.1) as i64);
        if same {
            pairs.iter().skip(1).step_by(2).for_each(|value| pack.text(value));
        } else {
            pack.number(pairs.len() as i64 / 2);
            pairs.iter().for_each(|text| pack.text(text));
        }
        let size = pack.count - before;
        pack.number(size as i64);
    }

    /// The last listpack is full.
    pub(crate) fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let mut head = Listpack::default();
        head.number(open.entries);
        head.number(0);
        head.number(open.names.len() as i64);
        open.names.iter().for_each(|name| head.text(name));
        head.number(0);
        self.parts.plain(&[open.id.0.to_be_bytes(), open.id.1.to_be_bytes()].concat());
        self.parts.plain(&open.elements.bytes(&head));
        self.count += 1;
    }
}
