//! Files: an RDB file, an AOF, an AOF of several files.
//!
//! A manifest names the files of an AOF, one a line: `file NAME seq NUMBER type LETTER`, where `b`
//! is the base, an RDB file or commands, `i` the commands since, in the order of their numbers, and
//! `h` files that are no longer used. An AOF whose writer was killed ends in the middle of a
//! command or of a transaction: that end is left out and reported, at the end of the last file
//! alone.

use super::command_input::{CommandInput, Next};
use super::commands::Commands;
use super::rdb_in::{self, Use};
use super::source::Source;
use super::target::Target;
use super::{ImportFault, ImportPhase};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Bytes read at a time.
const PIECE: usize = 1 << 20;
/// Bytes of a manifest at most.
const MANIFEST_MAX: u64 = 1 << 20;

/// A file of an AOF.
struct Part {
    path: PathBuf,
    /// Whether it is the last one.
    last: bool,
}

/// Reads the files that a path leads to.
pub(super) fn read(target: &mut Target<'_, '_>, commands: &mut Commands, path: &Path) -> Result<(), ImportFault> {
    let manifest = match path.is_dir() {
        true => Some(manifest_in(path)?),
        false => (path.extension().is_some_and(|end| end == "manifest")).then(|| path.to_path_buf()),
    };
    let Some(manifest) = manifest else {
        return one(target, commands, &Part { path: path.to_path_buf(), last: true }, Use::Keys);
    };
    let parts = parts(&manifest)?;
    target.begin(true)?;
    let sizes = parts.iter().map(|part| part.path.metadata().map(|about| about.len()));
    target.total = sizes.sum::<std::io::Result<u64>>().ok();
    for part in &parts {
        one(target, commands, part, Use::Base)?;
        target.earlier += target.read.take();
    }
    Ok(())
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn fault(path: &Path, source: std::io::Error) -> ImportFault {
    ImportFault::Read { name: name(path), offset: 0, source }
}

/// The one manifest of a directory.
fn manifest_in(directory: &Path) -> Result<PathBuf, ImportFault> {
    let entries = std::fs::read_dir(directory).map_err(|error| fault(directory, error))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "manifest"))
        .collect();
    match (found.pop(), found.is_empty()) {
        (Some(manifest), true) => Ok(manifest),
        (found, _) => Err(ImportFault::Unsupported {
            name: name(directory),
            offset: 0,
            detail: match found {
                None => "no manifest of an AOF is in this directory: name an RDB or AOF file".into(),
                Some(_) => "several manifests are in this directory: name one of them".into(),
            },
        }),
    }
}

/// The files that a manifest names, in order.
fn parts(manifest: &Path) -> Result<Vec<Part>, ImportFault> {
    let mut bytes = Vec::new();
    let file = File::open(manifest).map_err(|error| fault(manifest, error))?;
    file.take(MANIFEST_MAX + 1).read_to_end(&mut bytes).map_err(|error| fault(manifest, error))?;
    let (mut base, mut rest, mut offset) = (None, Vec::new(), 0);
    let fault = |offset, detail: &str| ImportFault::Damaged { name: name(manifest), offset, detail: detail.into() };
    if bytes.len() as u64 > MANIFEST_MAX {
        return Err(fault(MANIFEST_MAX, "a manifest is not so long"));
    }
    if bytes.last().is_some_and(|last| *last != b'\n') {
        return Err(fault(bytes.len() as u64, "the last line has no end: the file is cut"));
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        let at = offset;
        offset += line.len() as u64 + 1;
        let damaged = |detail: &str| fault(at, detail);
        if line.first().is_none_or(|first| *first == b'#') {
            continue;
        }
        let words = crate::resp::inline::words(line).ok_or_else(|| damaged("a line has odd quotes"))?;
        if words.len() % 2 != 0 {
            return Err(damaged("a line ends early"));
        }
        let mut pairs = words.chunks(2);
        let (mut file, mut number, mut kind) = (None, None, None);
        while let Some([word, value]) = pairs.next() {
            match &**word {
                b"file" => file = std::str::from_utf8(value).ok().filter(|file| !file.contains('/')),
                b"seq" => number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u64>().ok()),
                b"type" => kind = value.first().copied().filter(|_| value.len() == 1),
                _ => {}
            }
        }
        let (Some(file), Some(number), Some(kind)) = (file, number, kind) else {
            return Err(damaged("a line names no file, number and type"));
        };
        let path = manifest.with_file_name(file);
        match kind {
            b'b' if base.is_none() => base = Some(path),
            b'b' => return Err(damaged("a second base")),
            b'i' => rest.push((number, path)),
            b'h' => {}
            _ => return Err(damaged("a file has an unknown type")),
        }
    }
    if !rest.is_sorted_by(|one, other| one.0 < other.0) {
        return Err(fault(0, "the numbers of its files do not ascend"));
    }
    if base.is_none() && rest.is_empty() {
        return Err(fault(bytes.len() as u64, "it names no files: the file is cut or empty"));
    }
    let mut parts: Vec<Part> = base.into_iter().chain(rest.into_iter().map(|(_, path)| path)).map(Part::from).collect();
    if let Some(last) = parts.last_mut() {
        last.last = true;
    }
    Ok(parts)
}

impl From<PathBuf> for Part {
    fn from(path: PathBuf) -> Part {
        Part { path, last: false }
    }
}

/// Reads one file, of either kind.
fn one(target: &mut Target<'_, '_>, commands: &mut Commands, part: &Part, usage: Use) -> Result<(), ImportFault> {
    let path = &part.path;
    let file = File::open(path).map_err(|error| fault(path, error))?;
    if target.total.is_none() {
        target.total = file.metadata().ok().map(|about| about.len());
    }
    let mut reader = BufReader::with_capacity(PIECE, file);
    bytes(target, commands, &name(path), &mut reader, part.last, usage)
}

/// As a file of these bytes.
pub(super) fn read_bytes(
    target: &mut Target<'_, '_>,
    commands: &mut Commands,
    mut all: &[u8],
) -> Result<(), ImportFault> {
    bytes(target, commands, "bytes", &mut all, true, Use::Keys)
}

fn bytes(
    target: &mut Target<'_, '_>,
    commands: &mut Commands,
    name: &str,
    mut reader: &mut dyn BufRead,
    last: bool,
    usage: Use,
) -> Result<(), ImportFault> {
    let first = reader.fill_buf().map(|bytes| bytes.first().copied());
    let first = first.map_err(|source| ImportFault::Read { name: name.into(), offset: 0, source })?;
    let mut source = Source::new(name.into(), &mut reader, target.read.clone());
    match first {
        Some(b'*' | b'#') => {
            target.begin(true)?;
            commands_of(target, commands, &mut source, last)
        }
        None if usage == Use::Base => Ok(()),
        _ => {
            let facts = rdb_in::read(target, &mut source, usage)?;
            if facts.base {
                return commands_of(target, commands, &mut source, last);
            }
            match source.read(&mut [0; 1]) {
                Ok(0) => Ok(()),
                _ => Err(source.damaged("bytes are behind the end of the file")),
            }
        }
    }
}

/// Executes the commands up to the end of a file.
fn commands_of(
    target: &mut Target<'_, '_>,
    commands: &mut Commands,
    source: &mut Source<'_>,
    last: bool,
) -> Result<(), ImportFault> {
    target.phase = ImportPhase::Commands;
    commands.reset();
    let (mut input, mut offset) = (CommandInput::new(Vec::new()), source.offset());
    loop {
        match input.next() {
            Ok(Next::Command(used)) => {
                commands.execute(target, input.args(), &source.name, offset)?;
                input.advance(used);
                offset += used as u64;
            }
            Ok(Next::Nothing(used)) => {
                input.advance(used);
                offset += used as u64;
            }
            Ok(Next::Incomplete) => match input.fill(source) {
                Ok(0) => break,
                Ok(_) => {}
                Err(_) => return Err(source.damaged("the file cannot be read")),
            },
            Err(detail) => {
                return Err(ImportFault::Damaged { name: source.name.clone(), offset, detail });
            }
        }
    }
    let cut = commands.transaction.take().or((!input.rest().is_empty()).then_some(offset));
    let Some(at) = cut else { return Ok(()) };
    if !last {
        let detail = "the file ends in the middle of a command or a transaction".into();
        return Err(ImportFault::Damaged { name: source.name.clone(), offset: at, detail });
    }
    if at < offset {
        target.abandon(); // what the transaction has done
    }
    target.done.cut = Some((at, source.offset() - at));
    Ok(())
}
