//! The first line of a script or of a library: `#!lua` and options.

/// Whether a name is one that a library or a function may have.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// The error of any other name.
pub(crate) const BAD_NAME: &str =
    "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

bitflags::bitflags! {
    /// Properties that a script or a function declares.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(crate) struct ScriptFlags: u8 {
        /// It does not write.
        const NO_WRITES = 1;
        /// It runs although the data takes more than it may.
        const ALLOW_OOM = 1 << 1;
        /// It runs on a replica that is behind.
        const ALLOW_STALE = 1 << 2;
        /// It does not run in a cluster.
        const NO_CLUSTER = 1 << 3;
        /// It uses keys of several slots.
        const ALLOW_CROSS_SLOT_KEYS = 1 << 4;
    }
}

/// The flags by their names.
const FLAGS: [(&str, ScriptFlags); 5] = [
    ("no-writes", ScriptFlags::NO_WRITES),
    ("allow-oom", ScriptFlags::ALLOW_OOM),
    ("allow-stale", ScriptFlags::ALLOW_STALE),
    ("no-cluster", ScriptFlags::NO_CLUSTER),
    ("allow-cross-slot-keys", ScriptFlags::ALLOW_CROSS_SLOT_KEYS),
];

impl ScriptFlags {
    /// The flag of a name.
    pub(crate) fn named(name: &[u8]) -> Option<ScriptFlags> {
        FLAGS.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, flag)| *flag)
    }

    /// The names of the flags.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        FLAGS.iter().filter(move |(_, flag)| self.contains(*flag)).map(|(name, _)| *name)
    }
}

/// The first line of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// Whether there is one.
    pub given: bool,
    /// Its flags.
    pub flags: ScriptFlags,
    /// Bytes of the line: the code is behind them, and begins with the end of the line.
    pub size: usize,
}

/// The words of the first line, and its size; `None` if it does not end.
fn first_line(code: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let end = code.iter().position(|byte| *byte == b'\n')?;
    let words = code[..end].split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    Some((words.collect(), end))
}

fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

impl Header {
    /// Reads the first line of a script; an error is Redis's text without its code.
    pub(crate) fn of_script(code: &[u8]) -> Result<Header, String> {
        if !code.starts_with(b"#!") {
            return Ok(Header::default());
        }
        let (words, size) = first_line(code).ok_or("Invalid script shebang")?;
        let mut header = Header { given: true, flags: ScriptFlags::empty(), size };
        let engine = words.first().copied().unwrap_or_default();
        if engine != b"#!lua" {
            return Err(format!("Unexpected engine in script shebang: {}", shown(engine)));
        }
        for word in words.iter().skip(1) {
            let names = word.strip_prefix(b"flags=");
            let names = names.ok_or_else(|| format!("Unknown lua shebang option: {}", shown(word)))?;
            for name in names.split(|byte| *byte == b',').filter(|name| !name.is_empty()) {
                let flag = ScriptFlags::named(name);
                header.flags |= flag.ok_or_else(|| format!("Unexpected flag in script shebang: {}", shown(name)))?;
            }
        }
        Ok(header)
    }

    /// The name of a library, and the size of its first line.
    pub(crate) fn of_library(code: &[u8]) -> Result<(Vec<u8>, usize), String> {
        if !code.starts_with(b"#!") {
            return Err("Missing library metadata".into());
        }
        let (words, size) = first_line(code).ok_or("Invalid library metadata")?;
        let mut name = None;
        let engine = words.first().map_or(&b""[..], |word| &word[2..]);
        for word in words.iter().skip(1) {
            let Some(given) = word.strip_prefix(b"name=") else {
                return Err(format!("Invalid metadata value given: {}", shown(word)));
            };
            if name.replace(given).is_some() {
                return Err("Invalid metadata value, name argument was given multiple times".into());
            }
        }
        let name = name.ok_or("Library name was not given")?;
        if !is_name(name) {
            return Err(BAD_NAME.into());
        }
        if !engine.eq_ignore_ascii_case(b"lua") {
            return Err(format!("Engine '{}' not found", shown(engine)));
        }
        Ok((name.to_vec(), size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_are_read_as_by_redis() {
        let flags = ScriptFlags::NO_WRITES | ScriptFlags::ALLOW_STALE;
        let script = b"#!lua flags=no-writes,allow-stale\nreturn 1";
        assert_eq!(Header::of_script(script), Ok(Header { given: true, flags, size: 33 }));
        assert_eq!(flags.names().collect::<Vec<_>>(), ["no-writes", "allow-stale"]);
        assert_eq!(Header::of_script(b"return 1"), Ok(Header::default()));
        for (code, text) in [
            (&b"#!lua"[..], "Invalid script shebang"),
            (b"#!js\n", "Unexpected engine in script shebang: #!js"),
            (b"#!lua flags=bad\n", "Unexpected flag in script shebang: bad"),
            (b"#!lua foo=bad\n", "Unknown lua shebang option: foo=bad"),
        ] {
            assert_eq!(Header::of_script(code), Err(text.to_string()));
        }
        assert_eq!(Header::of_library(b"#!lua name=x_1\n"), Ok((b"x_1".to_vec(), 14)));
        assert_eq!(Header::of_library(b"#!lua name=x-1\n"), Err(BAD_NAME.to_string()));
    }
}
