//! The description of a library: text, from which headers are made and which headers carry.
//!
//! ```text
//! everbyte-bridge 2
//! library events
//! pool tally
//! type counter
//!  doc Counts events.
//!  method value() -> i64
//!  change add(by: i64) -> i64
//! ```
//!
//! A `change` takes the running transaction. Lines `doc` belong to the line before them.

use crate::Error;
use std::fmt;

/// The version of descriptions and of the functions below them. A library of another version is
/// refused.
pub(crate) const VERSION: u32 = 2;

/// Functions of the table before those of pools.
pub(crate) const LIBRARY_ENTRIES: usize = 3;

/// Functions of a pool before those of its types.
pub(crate) const POOL_ENTRIES: usize = 9;

/// Functions of a type before its methods.
pub(crate) const TYPE_ENTRIES: usize = 1;

/// A library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name, the namespace in C++.
    pub library: String,
    /// The pools, in the order of the table.
    pub pools: Vec<PoolLines>,
}

/// A pool type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolLines {
    /// Its name in C++.
    pub name: String,
    /// The types that may be roots of it.
    pub types: Vec<TypeLines>,
}

/// An exported type in one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeLines {
    /// Its name in C++.
    pub name: String,
    /// The classes that C++ gives it, by the names of its parameters.
    pub classes: Vec<String>,
    /// Its documentation.
    pub docs: String,
    /// Its methods.
    pub methods: Vec<MethodLine>,
}

/// A method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodLine {
    /// Its name.
    pub name: String,
    /// Its documentation.
    pub docs: String,
    /// Whether it takes a transaction.
    pub changes: bool,
    /// The arguments behind that.
    pub parameters: Vec<Parameter>,
    /// The name of the type of the result.
    pub returns: String,
}

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// The name of its type.
    pub of: String,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, true)
    }
}

impl Description {
    /// The description without documentation: what a header and a library must have in common.
    pub fn interface(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, false).expect("a string takes everything");
        text
    }

    fn write(&self, to: &mut dyn fmt::Write, with_docs: bool) -> fmt::Result {
        writeln!(to, "everbyte-bridge {VERSION}\nlibrary {}", self.library)?;
        let docs = |to: &mut dyn fmt::Write, docs: &str| match with_docs {
            true => docs.lines().try_for_each(|line| writeln!(to, " doc {}", line.trim())),
            false => Ok(()),
        };
        for pool in &self.pools {
            writeln!(to, "pool {}", pool.name)?;
            for one in &pool.types {
                writeln!(to, "type {}", one.title())?;
                docs(to, &one.docs)?;
                for method in &one.methods {
                    writeln!(to, "{method}")?;
                    docs(to, &method.docs)?;
                }
            }
        }
        Ok(())
    }
}

impl TypeLines {
    /// The name with its classes: `kv_store<K, V>`.
    fn title(&self) -> String {
        match self.classes.is_empty() {
            true => self.name.clone(),
            false => format!("{}<{}>", self.name, self.classes.join(", ")),
        }
    }
}

impl fmt::Display for MethodLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters: Vec<_> = self.parameters.iter().map(|one| format!("{}: {}", one.name, one.of)).collect();
        let word = if self.changes { "change" } else { "method" };
        write!(f, " {word} {}({}) -> {}", self.name, parameters.join(", "), self.returns)
    }
}

impl Description {
    /// Reads a description.
    ///
    /// # Errors
    /// [`Error::Description`] with the first line that is wrong.
    pub fn parse(text: &str) -> Result<Description, Error> {
        let mut lines = text.lines().zip(1..);
        let error = |line: usize, detail: String| Err(Error::Description { line, detail });
        match lines.next().and_then(|(line, _)| line.strip_prefix("everbyte-bridge ")) {
            Some(version) if version == VERSION.to_string() => {}
            Some(version) => {
                let detail =
                    format!("version {version}; this program reads version {VERSION}: use one Everbyte for both");
                return error(1, detail);
            }
            None => return error(1, "it does not begin with `everbyte-bridge`".into()),
        }
        let Some(library) = lines.next().and_then(|(line, _)| line.strip_prefix("library ")) else {
            return error(2, "there is no line `library`".into());
        };
        let mut description = Description { library: identifier(library, 2)?, pools: Vec::new() };
        for (line, at) in lines {
            let misplaced = || Error::Description { line: at, detail: format!("`{line}` stands where it cannot") };
            let pool = description.pools.last_mut();
            if let Some(name) = line.strip_prefix("pool ") {
                description.pools.push(PoolLines { name: identifier(name, at)?, types: Vec::new() });
            } else if let Some(name) = line.strip_prefix("type ") {
                let (name, classes) = name.split_once('<').unwrap_or((name, ""));
                let classes =
                    classes.strip_suffix('>').unwrap_or(classes).split(", ").filter(|class| !class.is_empty());
                let classes = classes.map(|class| identifier(class, at)).collect::<Result<_, _>>()?;
                let one = TypeLines { name: identifier(name, at)?, classes, docs: String::new(), methods: Vec::new() };
                pool.ok_or_else(misplaced)?.types.push(one);
            } else {
                let one = pool.and_then(|pool| pool.types.last_mut()).ok_or_else(misplaced)?;
                if let Some(text) = line.strip_prefix(" doc") {
                    let docs = one.methods.last_mut().map_or(&mut one.docs, |method| &mut method.docs);
                    docs.push_str(text.trim_start());
                    docs.push('\n');
                } else {
                    one.methods.push(method(line, at)?);
                }
            }
        }
        Ok(description)
    }

    /// The first difference between the description in a header and the one of a library.
    pub fn difference(header: &str, library: &str) -> String {
        let (found, wanted) = match (Description::parse(header), Description::parse(library)) {
            (Ok(found), Ok(wanted)) => (found, wanted),
            (Err(error), _) => return format!("the header: {error}"),
            (_, Err(error)) => return format!("the library: {error}"),
        };
        if found.library != wanted.library {
            return format!("the header is of library `{}`, and this is `{}`", found.library, wanted.library);
        }
        let pools = |one: &PoolLines| one.name.clone();
        if let Some(said) = missing("pool", &found.pools, &wanted.pools, pools) {
            return said;
        }
        for (old, new) in found.pools.iter().zip(&wanted.pools) {
            let types = |one: &TypeLines| format!("{}::{}", old.name, one.title());
            if let Some(said) = missing("type", &old.types, &new.types, types) {
                return said;
            }
            for (old_type, new_type) in old.types.iter().zip(&new.types) {
                let methods = |one: &MethodLine| format!("{}::{}::{}", old.name, old_type.name, one.name);
                if let Some(said) = missing("method", &old_type.methods, &new_type.methods, methods) {
                    return said;
                }
                let both = old_type.methods.iter().zip(&new_type.methods);
                let mut differing = both.filter(|(old, new)| old.to_string() != new.to_string());
                if let Some((old, new)) = differing.next() {
                    let (name, old, new) = (methods(new), old.to_string(), new.to_string());
                    return format!(
                        "method `{name}` is `{}` in the header and `{}` in the library",
                        old.trim(),
                        new.trim()
                    );
                }
            }
        }
        "the documentation alone".into() // headers carry none
    }
}

/// The first name that one of the two lacks, or that stands elsewhere.
fn missing<T>(what: &str, header: &[T], library: &[T], name: impl Fn(&T) -> String) -> Option<String> {
    let (header, library): (Vec<_>, Vec<_>) = (header.iter().map(&name).collect(), library.iter().map(&name).collect());
    if let Some(one) = library.iter().find(|one| !header.contains(one)) {
        return Some(format!("{what} `{one}` is in the library and not in the header"));
    }
    if let Some(one) = header.iter().find(|one| !library.contains(one)) {
        return Some(format!("{what} `{one}` is in the header and not in the library"));
    }
    let both = header.iter().zip(&library);
    let differing = both.into_iter().find(|(header, library)| header != library);
    differing.map(|(header, _)| format!("{what} `{header}` stands elsewhere in the library"))
}

/// A name that C++ takes as it is: headers are made of it.
fn identifier(name: &str, line: usize) -> Result<String, Error> {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    match first && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        true => Ok(name.into()),
        false => Err(Error::Description { line, detail: format!("`{name}` is no name") }),
    }
}

fn method(text: &str, line: usize) -> Result<MethodLine, Error> {
    let wrong = || Error::Description { line, detail: format!("`{text}` is no method") };
    let (changes, rest) = match (text.strip_prefix(" method "), text.strip_prefix(" change ")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => return Err(wrong()),
    };
    let (name, rest) = rest.split_once('(').ok_or_else(wrong)?;
    let (parameters, returns) = rest.rsplit_once(") -> ").ok_or_else(wrong)?;
    let parameter = |text: &str| {
        let (name, of) = text.split_once(": ").ok_or_else(wrong)?;
        Ok(Parameter { name: identifier(name, line)?, of: of.into() })
    };
    // Types hold commas, too, as in `Visit<0, 1>`: an argument begins where a name does.
    let mut parts: Vec<String> = Vec::new();
    for part in parameters.split(", ").filter(|text| !text.is_empty()) {
        match parts.last_mut() {
            Some(last) if !part.contains(": ") => *last += &format!(", {part}"),
            _ => parts.push(part.into()),
        }
    }
    let parameters = parts.iter().map(|part| parameter(part));
    Ok(MethodLine {
        name: identifier(name, line)?,
        docs: String::new(),
        changes,
        parameters: parameters.collect::<Result<_, _>>()?,
        returns: returns.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "everbyte-bridge 2\nlibrary events\npool tally\ntype counter<K, V>\n doc Counts.\n method value() -> i64\n change add(by: i64, why: str) -> Option<i64>\n method each(of: Visit<0, 1>, by: Gen<0>) -> ()\n method near(to: struct place 16 8 { x: f64 @0; y: f64 @8 }, by: u8) -> Option<struct place 16 8 { x: f64 @0; y: f64 @8 }>\n";

    #[test]
    fn a_description_is_read_as_it_was_written() {
        let description = Description::parse(TEXT).unwrap();
        assert_eq!(description.to_string(), TEXT);
        assert_eq!(description.pools[0].types[0].docs, "Counts.\n");
        assert_eq!(description.pools[0].types[0].classes, ["K", "V"]);
        assert_eq!(description.pools[0].types[0].methods[1].parameters[1].of, "str");
        assert_eq!(description.pools[0].types[0].methods[2].parameters[0].of, "Visit<0, 1>");
        let near = &description.pools[0].types[0].methods[3];
        assert_eq!((near.parameters.len(), near.parameters[1].name.as_str()), (2, "by"));
    }

    #[test]
    fn the_difference_between_header_and_library_is_named() {
        let check = |library: &str, expect: &str| assert_eq!(Description::difference(TEXT, library), expect);
        check(&TEXT.replace("events", "others"), "the header is of library `events`, and this is `others`");
        check(&TEXT.replace("tally", "other"), "pool `other` is in the library and not in the header");
        check(&(TEXT.to_string() + "type more\n"), "type `tally::more` is in the library and not in the header");
        check(&TEXT.replace("<K, V>", "<K>"), "type `tally::counter<K>` is in the library and not in the header");
        check(
            &TEXT.replace(" method value() -> i64\n", ""),
            "method `tally::counter::value` is in the header and not in the library",
        );
        check(
            &TEXT.replace("by: i64", "by: i32"),
            "method `tally::counter::add` is `change add(by: i64, why: str) -> Option<i64>` in the header and `change add(by: i32, why: str) -> Option<i64>` in the library",
        );
        let said = Description::difference(TEXT, &TEXT.replace("y: f64 @8", "y: u64 @8"));
        assert!(said.contains("struct place 16 8 { x: f64 @0; y: f64 @8 }, by: u8) -> "), "{said}");
        check(
            &TEXT.replace("bridge 2", "bridge 3"),
            "the library: line 1 of the description: version 3; this program reads version 2: use one Everbyte for both",
        );
        check(&TEXT.replace("Counts", "Counted"), "the documentation alone");
    }

    #[test]
    fn any_text_is_refused_without_a_panic() {
        for text in ["", "everbyte-bridge 2", "everbyte-bridge 2\nlibrary a b", "everbyte-bridge 2\nlibrary a\n doc"] {
            assert!(Description::parse(text).is_err(), "{text}");
        }
        for end in
            ["type t", "pool p\n method f()", "pool p\ntype t\n method f) -> (", "pool p\ntype t\n change g(: ) -> "]
        {
            assert!(Description::parse(&format!("everbyte-bridge 2\nlibrary a\n{end}\n")).is_err(), "{end}");
        }
    }
}
