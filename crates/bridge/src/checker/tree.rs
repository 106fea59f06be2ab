//! The syntax tree of a C++ program, read from clang's `-ast-dump=json`.
//!
//! The dump of a small program is 400 MB, nearly all of it headers of the system. So it is read
//! line by line as clang writes it (one key a line, two columns of indentation a level), and only
//! the declarations of the program's own files become nodes.
//!
//! Places are relative: a file and a line are printed when they differ from the last place that was
//! printed. So the places of skipped declarations are read, too.

use std::collections::HashSet;
use std::io::{self, BufRead};
use std::rc::Rc;

/// A place in the text.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// The file, as clang names it.
    pub file: Rc<str>,
    /// The line, counted from 1; 0: none.
    pub line: u32,
    /// The file of the macro's text that is expanded here, if one is.
    pub spelled: Option<Rc<str>>,
}

/// A declaration, a statement or an expression.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub kind: String,
    pub id: String,
    pub name: String,
    /// The type with its typedefs resolved.
    pub of: String,
    /// The type as it is written.
    pub written: String,
    /// Its first token.
    pub at: Place,
    /// The name of a declaration.
    pub named_at: Place,
    pub opcode: String,
    pub value: String,
    /// `static`, `extern`, or that of a thread.
    pub storage: String,
    pub is_arrow: bool,
    /// Whether it names an object, and not a value.
    pub is_place: bool,
    /// The declaration that the expression names.
    pub refers: Option<Box<Node>>,
    pub inner: Vec<Node>,
}

impl Node {
    /// Calls `visit` for the node and all below it.
    pub(super) fn each<'n>(&'n self, visit: &mut impl FnMut(&'n Node)) {
        visit(self);
        self.inner.iter().for_each(|node| node.each(visit));
    }

    /// Whether the node or one below it is such.
    pub(super) fn has(&self, is: &impl Fn(&Node) -> bool) -> bool {
        is(self) || self.inner.iter().any(|node| node.has(is))
    }
}

/// The declarations of the files `own`.
pub(super) fn read(dump: impl BufRead, own: &HashSet<String>) -> io::Result<Vec<Node>> {
    let mut reader = Reader { dump, line: Vec::new(), indent: 0, place: Place::default() };
    let mut found = Vec::new();
    while reader.next()? {
        // A declaration of the translation unit, which is the outermost object.
        if reader.indent == 4 && reader.is("{") {
            found.extend(reader.declaration(own)?);
        }
    }
    Ok(found)
}

/// Whether clang's name of a file is one of those.
pub(super) fn is_own(own: &HashSet<String>, file: &str) -> bool {
    own.contains(file.trim_start_matches("./"))
}

struct Reader<R> {
    dump: R,
    line: Vec<u8>,
    indent: usize,
    /// The last place that was printed.
    place: Place,
}

impl<R: BufRead> Reader<R> {
    /// Reads a line; answers whether there was one.
    fn next(&mut self) -> io::Result<bool> {
        self.line.clear();
        if self.dump.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(false);
        }
        while self.line.last().is_some_and(|last| matches!(last, b'\n' | b',')) {
            self.line.pop();
        }
        self.indent = self.line.iter().take_while(|byte| **byte == b' ').count();
        Ok(true)
    }

    /// Reads a line of an object that has not ended.
    fn within(&mut self) -> io::Result<()> {
        match self.next()? {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the dump ends in the middle of a declaration")),
        }
    }

    fn text(&self) -> &[u8] {
        &self.line[self.indent.min(self.line.len())..]
    }

    fn is(&self, text: &str) -> bool {
        self.text() == text.as_bytes()
    }

    /// The key of this line and its value, as they are printed.
    fn pair(&self) -> (String, String) {
        let text = String::from_utf8_lossy(self.text());
        match text.split_once(": ") {
            Some((key, value)) => (key.trim_matches('"').to_string(), value.to_string()),
            None => (String::new(), text.into_owned()),
        }
    }

    /// The declaration whose first line was read; none if it is in no file of `own`.
    fn declaration(&mut self, own: &HashSet<String>) -> io::Result<Option<Node>> {
        let mut node = Node::default();
        loop {
            self.within()?;
            if self.indent <= 4 {
                return Ok(None);
            }
            let (key, value) = self.pair();
            let is_placed = key == "range";
            self.field(&mut node, &key, &value)?;
            if is_placed && !is_own(own, &node.at.file) {
                self.skip(4)?;
                return Ok(None);
            }
            if is_placed {
                break;
            }
        }
        self.fields(&mut node)?;
        Ok(Some(node))
    }

    /// Skips what has more indentation, but not its places.
    fn skip(&mut self, indent: usize) -> io::Result<()> {
        loop {
            self.within()?;
            if self.indent <= indent {
                return Ok(());
            }
            let text = self.text();
            if text.starts_with(b"\"file\": ") || text.starts_with(b"\"line\": ") {
                let (key, value) = self.pair();
                self.move_place(&key, &value);
            } else if text == b"\"includedFrom\": {" {
                let indent = self.indent;
                while self.within().map(|()| self.indent > indent)? {}
            }
        }
    }

    fn move_place(&mut self, key: &str, value: &str) {
        match key {
            "file" => self.place.file = unquoted(value).into(),
            "line" => self.place.line = value.parse().unwrap_or(0),
            _ => {}
        }
    }

    /// The fields of an object whose first line was read.
    fn fields(&mut self, node: &mut Node) -> io::Result<()> {
        loop {
            self.within()?;
            if self.is("}") {
                return Ok(());
            }
            let (key, value) = self.pair();
            self.field(node, &key, &value)?;
        }
    }

    fn field(&mut self, node: &mut Node, key: &str, value: &str) -> io::Result<()> {
        let indent = self.indent;
        match (key, value) {
            ("loc", "{") => node.named_at = self.place()?,
            ("range", "{") => node.at = self.range()?,
            ("type", "{") => self.type_of(node)?,
            ("referencedDecl", "{") => {
                let mut refers = Node::default();
                self.fields(&mut refers)?;
                node.refers = Some(Box::new(refers));
            }
            ("inner", "[") => loop {
                self.within()?;
                match self.text() {
                    b"]" => break,
                    b"{" => {
                        let mut inner = Node::default();
                        self.fields(&mut inner)?;
                        node.inner.push(inner);
                    }
                    _ => node.inner.push(Node::default()), // `{}`: an absent part
                }
            },
            (_, "{" | "[") => self.skip(indent)?,
            ("kind", _) => node.kind = unquoted(value),
            ("id", _) => node.id = unquoted(value),
            ("name", _) => node.name = unquoted(value),
            ("opcode", _) => node.opcode = unquoted(value),
            ("value", _) => node.value = unquoted(value),
            ("storageClass" | "tls", _) => node.storage = unquoted(value),
            ("valueCategory", _) => node.is_place = value != "\"prvalue\"",
            ("isArrow", _) => node.is_arrow = value == "true",
            _ => {}
        }
        Ok(())
    }

    fn type_of(&mut self, node: &mut Node) -> io::Result<()> {
        loop {
            self.within()?;
            if self.is("}") {
                if node.of.is_empty() {
                    node.of.clone_from(&node.written);
                }
                return Ok(());
            }
            let (key, value) = self.pair();
            match &*key {
                "qualType" => node.written = unquoted(&value),
                "desugaredQualType" => node.of = unquoted(&value),
                _ => {}
            }
        }
    }

    fn range(&mut self) -> io::Result<Place> {
        let mut begin = Place::default();
        loop {
            self.within()?;
            match self.text() {
                b"}" => return Ok(begin),
                b"\"begin\": {" => begin = self.place()?,
                b"\"end\": {" => {
                    self.place()?;
                }
                _ => {}
            }
        }
    }

    /// A place whose first line was read. That of a macro is where it is expanded.
    fn place(&mut self) -> io::Result<Place> {
        let (mut is_empty, mut spelled, mut expanded) = (true, None, None);
        loop {
            self.within()?;
            match self.text() {
                b"}" => break,
                b"\"spellingLoc\": {" => spelled = Some(self.place()?.file),
                b"\"expansionLoc\": {" => expanded = Some(self.place()?),
                b"\"includedFrom\": {" => {
                    let indent = self.indent;
                    while self.within().map(|()| self.indent > indent)? {}
                }
                _ => {
                    let (key, value) = self.pair();
                    self.move_place(&key, &value);
                    is_empty = false;
                }
            }
        }
        Ok(match expanded {
            Some(expanded) => Place { spelled, ..expanded },
            None if is_empty => Place::default(),
            None => self.place.clone(),
        })
    }
}

/// A text without its quotes and escapes.
fn unquoted(value: &str) -> String {
    let inside = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    if !inside.contains('\\') {
        return inside.into();
    }
    let mut text = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    while let Some(one) = chars.next() {
        text.push(if one == '\\' { chars.next().unwrap_or('\\') } else { one });
    }
    text
}
