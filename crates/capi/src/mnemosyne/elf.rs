//! The build of an executable or a shared library, and the variables in one of its sections.
//!
//! The system has just loaded the file, but its bytes are not trusted: a part that does not parse
//! counts as absent.

/// The symbols of a section.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contents {
    /// The hash of names, places and sizes of its variables; `None` without symbols.
    pub layout: Option<u64>,
    /// A variable (or its place, without symbols) whose initial value is an address, in a
    /// position-independent program.
    pub address_in: Option<String>,
}

/// The fields of a section's header that are used here.
struct Section<'f> {
    name: u32,
    kind: u32,
    addr: u64,
    bytes: &'f [u8],
    size: u64,
    link: u32,
}

const SYMTAB: u32 = 2;
const RELA: u32 = 4;
const DYNSYM: u32 = 11;
const OBJECT: u8 = 1;
const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn string(bytes: &[u8], at: u32) -> Option<&str> {
    let bytes = bytes.get(at as usize..)?;
    std::str::from_utf8(&bytes[..bytes.iter().position(|&byte| byte == 0)?]).ok()
}

fn sections(file: &[u8]) -> Option<Vec<Section<'_>>> {
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None; // 64 bits, little-endian
    }
    let (at, counts) = (word(file, 40)? as usize, half(file, 60)?);
    let count = (counts & 0xffff) as usize;
    let section = |index: usize| {
        let header = file.get(at.checked_add(index * 64)?..)?.get(..64)?;
        let (from, size) = (word(header, 24)?, word(header, 32)?);
        let bytes = file.get(from as usize..).and_then(|rest| rest.get(..size as usize)).unwrap_or_default();
        Some(Section {
            name: half(header, 0)?,
            kind: half(header, 4)?,
            addr: word(header, 16)?,
            bytes,
            size,
            link: half(header, 40)?,
        })
    };
    (0..count).map(section).collect()
}

/// The linker's build id, from the note of that name, if it exists. Program headers and notes lie
/// near the beginning of a file, so its first bytes suffice.
pub(super) fn build(file: &[u8]) -> Option<&[u8]> {
    let (at, count) = (word(file, 32)? as usize, half(file, 56)? & 0xffff);
    let segments = (0..count as usize).filter_map(|index| file.get(at.checked_add(index * 56)?..)?.get(..56));
    segments.filter(|segment| half(segment, 0) == Some(PT_NOTE)).find_map(|segment| {
        let notes = file.get(word(segment, 8)? as usize..)?.get(..word(segment, 32)? as usize)?;
        build_note(notes)
    })
}

fn build_note(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let (name_len, len, kind) = (half(notes, 0)? as usize, half(notes, 4)? as usize, half(notes, 8)?);
        let at = 12 + name_len.next_multiple_of(4);
        if kind == NT_GNU_BUILD_ID && notes.get(12..12 + name_len)? == b"GNU\0" {
            return notes.get(at..at + len);
        }
        notes = notes.get(at + len.next_multiple_of(4)..)?;
    }
}

/// The symbols of the section `name`; `None` if there is no such section.
pub(super) fn contents(file: &[u8], name: &str) -> Option<Contents> {
    let (sections, index) = find(file, name)?;
    let wanted = &sections[index];
    let variables = variables(&sections, index, SYMTAB);
    let inside = |at: u64| (wanted.addr..wanted.addr + wanted.size).contains(&at);
    let mut relocated = sections
        .iter()
        .filter(|section| section.kind == RELA)
        .flat_map(|section| section.bytes.chunks_exact(24).filter_map(|entry| word(entry, 0)).filter(|&at| inside(at)));
    let address_in = relocated.next().map(|at| {
        let holder =
            variables.iter().flatten().find(|(place, len, _)| (*place..place + len).contains(&(at - wanted.addr)));
        holder.map_or_else(|| format!("the variable at {at:#x}"), |(_, _, name)| format!("`{name}`"))
    });
    let layout = variables.map(|variables| {
        let mut hash = Hash::new();
        for (place, len, name) in variables {
            hash.add(&place.to_le_bytes());
            hash.add(&len.to_le_bytes());
            hash.add(name.as_bytes());
            hash.add(&[0]);
        }
        hash.0 | 1
    });
    Some(Contents { layout, address_in })
}

/// Place and name of each exported variable in the section `name`.
pub(super) fn exported<'f>(file: &'f [u8], name: &str) -> Vec<(usize, &'f str)> {
    let variables = find(file, name).and_then(|(sections, index)| variables(&sections, index, DYNSYM));
    variables.unwrap_or_default().into_iter().map(|(at, _, name)| (at as usize, name)).collect()
}

/// All sections, and the index of the section with this name.
fn find<'f>(file: &'f [u8], name: &str) -> Option<(Vec<Section<'f>>, usize)> {
    let sections = sections(file)?;
    let names = sections.get(half(file, 60)? as usize >> 16)?;
    let index = sections.iter().position(|section| string(names.bytes, section.name) == Some(name))?;
    Some((sections, index))
}

/// Place in the section, size and name of each variable in a table of symbols, in order. `None`:
/// there are none.
fn variables<'f>(sections: &[Section<'f>], index: usize, table: u32) -> Option<Vec<(u64, u64, &'f str)>> {
    let symbols = sections.iter().find(|section| section.kind == table)?;
    let names = sections.get(symbols.link as usize)?;
    let variable = |symbol: &[u8]| {
        let (kind, home) = (symbol[4] & 15, usize::from(symbol[6]) | usize::from(symbol[7]) << 8);
        let (at, size) = (word(symbol, 8)?, word(symbol, 16)?);
        let name = string(names.bytes, half(symbol, 0)?)?;
        // The compiler numbers the statics of functions differently in each build.
        let name = name.split('.').next().unwrap_or(name);
        (kind == OBJECT && home == index).then_some((at.wrapping_sub(sections[index].addr), size, name))
    };
    let mut variables: Vec<_> = symbols.bytes.chunks_exact(24).filter_map(variable).collect();
    variables.sort_unstable();
    variables.dedup();
    (!variables.is_empty()).then_some(variables)
}

/// FNV-1a: kept on media, so it never changes.
pub(super) struct Hash(pub u64);

impl Hash {
    pub(super) fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}
