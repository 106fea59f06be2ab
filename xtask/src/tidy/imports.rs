//! Imports within one crate, resolved to files.
//!
//! The module tree is read from `mod` lines. A path that begins with `crate` or `super` is followed
//! through modules and re-exports to the file that defines its last item; a path that no file
//! defines ends at the last module that it names. Items of other crates lead nowhere, re-exports of
//! the root are no imports of the root, and tests are stripped.

use super::{Tree, source_text};
use std::collections::{BTreeMap, BTreeSet};

/// One module: a file, or a block within one.
struct Module {
    /// Index of its file.
    file: usize,
    parent: usize,
    children: BTreeMap<String, usize>,
    /// Names that it brings in, with the paths that they stand for.
    uses: Vec<Use>,
    items: BTreeSet<String>,
    /// Other paths that begin with `crate` or `super`.
    paths: Vec<Vec<String>>,
}

impl Module {
    fn is_local(&self, used: &Use) -> bool {
        ["crate", "super", "self"].contains(&used.path[0].as_str()) || self.children.contains_key(&used.path[0])
    }

    /// Whether `name` is an item of another crate only.
    fn borrows(&self, name: &str) -> bool {
        let mut named = self.uses.iter().filter(|used| used.name == name).peekable();
        !self.items.contains(name) && named.peek().is_some() && named.all(|used| !self.is_local(used))
    }
}

struct Use {
    name: String,
    path: Vec<String>,
    public: bool,
}

/// The files of a crate and, for each, the files that it imports from.
pub(super) struct Imports {
    pub files: Vec<String>,
    pub edges: Vec<BTreeSet<usize>>,
}

/// Imports of the crate whose root is the file `root`, such as `crates/kv/src/lib.rs`.
pub(super) fn read(tree: &Tree, root: &str) -> Imports {
    let mut krate = Crate { tree, files: Vec::new(), modules: Vec::new() };
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    krate.add_file(root, folder, 0);
    let mut edges = vec![BTreeSet::new(); krate.files.len()];
    for (index, module) in krate.modules.iter().enumerate() {
        let own = ["crate", "super"];
        let imports = module.uses.iter().filter(|used| own.contains(&used.path[0].as_str()));
        let imports = imports.filter(|used| module.file > 0 || !used.public).map(|used| &used.path);
        for path in imports.chain(&module.paths) {
            let file = krate.resolve(index, path, 0);
            edges[module.file].extend(file.filter(|&file| file != module.file));
        }
    }
    Imports { files: krate.files, edges }
}

struct Crate<'t> {
    tree: &'t Tree,
    files: Vec<String>,
    modules: Vec<Module>,
}

impl Crate<'_> {
    /// Adds the module of `path`, whose submodules lie in `folder`.
    fn add_file(&mut self, path: &str, folder: &str, parent: usize) -> usize {
        let code = source_text::without_tests(&source_text::code(self.tree.text(path)));
        self.files.push(path.to_string());
        self.add_block(&code, self.files.len() - 1, folder, parent)
    }

    fn add_block(&mut self, code: &str, file: usize, folder: &str, parent: usize) -> usize {
        let index = self.modules.len();
        let (children, uses, items, paths) = Default::default();
        self.modules.push(Module { file, parent, children, uses, items, paths });
        let tokens = tokens(code);
        let mut at = 0;
        while at < tokens.len() {
            let next = |n: usize| tokens.get(at + n).map_or("", |token| token.text);
            match next(0) {
                "mod" if next(2) == ";" || next(2) == "{" => {
                    let name = next(1).to_string();
                    let child = if next(2) == ";" {
                        at += 2;
                        self.find_file(folder, &name, index)
                    } else {
                        let end = closing_brace(&tokens, at + 2);
                        let inner = &code[tokens[at + 2].at + 1..tokens[end].at];
                        at = end;
                        Some(self.add_block(inner, file, &format!("{folder}/{name}"), index))
                    };
                    self.modules[index].children.extend(child.map(|child| (name, child)));
                }
                // Not the `use<'a>` of a type.
                "use" if next(1) != "<" => {
                    let public = at > 0 && ["pub", ")"].contains(&tokens[at - 1].text);
                    at += 1;
                    read_use(&tokens, &mut at, &[], public, &mut self.modules[index].uses);
                }
                "struct" | "enum" | "trait" | "union" | "type" | "fn" | "const" | "static" | "macro_rules" => {
                    let name =
                        (1..4).map(next).find(|text| !["!", "unsafe", "fn", "extern", "mut", "async"].contains(text));
                    self.modules[index].items.extend(name.map(str::to_string));
                }
                "crate" | "super" if next(1) == "::" => {
                    let dollar = at > 0 && tokens[at - 1].text == "$";
                    let mut path = vec![next(0).to_string()];
                    while tokens.get(at + 1).is_some_and(|token| token.text == "::")
                        && tokens.get(at + 2).is_some_and(|token| is_name(token.text))
                    {
                        path.push(tokens[at + 2].text.to_string());
                        at += 2;
                    }
                    if !dollar {
                        self.modules[index].paths.push(path);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        index
    }

    fn find_file(&mut self, folder: &str, name: &str, parent: usize) -> Option<usize> {
        let below = format!("{folder}/{name}");
        let found = [format!("{below}.rs"), format!("{below}/mod.rs")];
        let path = found.into_iter().find(|path| self.tree.texts.iter().any(|text| text.path == *path))?;
        Some(self.add_file(&path, &below, parent))
    }

    /// The file that defines `path`, as module `from` sees it.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<usize> {
        // Re-exports of re-exports; a circle of globs ends here.
        if depth > 8 {
            return None;
        }
        let mut module = from;
        for (index, name) in path.iter().enumerate() {
            let here = &self.modules[module];
            match name.as_str() {
                "crate" => module = 0,
                "super" => module = here.parent,
                "self" => {}
                "*" => return Some(here.file),
                name => match here.children.get(name) {
                    Some(&child) => module = child,
                    None if here.borrows(name) => return None,
                    None => return Some(self.item(module, &path[index..], depth).unwrap_or(here.file)),
                },
            }
        }
        Some(self.modules[module].file)
    }

    /// The file of an item that `module` defines or re-exports.
    fn item(&self, module: usize, path: &[String], depth: usize) -> Option<usize> {
        let here = &self.modules[module];
        if here.items.contains(&path[0]) {
            return Some(here.file);
        }
        let local: Vec<&Use> = here.uses.iter().filter(|used| here.is_local(used)).collect();
        if let Some(used) = local.iter().find(|used| used.name == path[0]) {
            let whole: Vec<String> = used.path.iter().chain(&path[1..]).cloned().collect();
            return self.resolve(module, &whole, depth + 1);
        }
        local.iter().filter(|used| used.name == "*").find_map(|used| {
            let source = self.module_of(module, &used.path[..used.path.len() - 1])?;
            if source == module || depth > 8 { None } else { self.item(source, path, depth + 1) }
        })
    }

    /// The module that `path` names, if it names one.
    fn module_of(&self, from: usize, path: &[String]) -> Option<usize> {
        path.iter().try_fold(from, |module, name| match name.as_str() {
            "crate" => Some(0),
            "super" => Some(self.modules[module].parent),
            "self" => Some(module),
            name => self.modules[module].children.get(name).copied(),
        })
    }
}

struct Token<'c> {
    text: &'c str,
    at: usize,
}

/// Names, `::`, and single characters.
fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = code[at..].chars().next() {
        let rest = &code[at..];
        let length = if is_part(c) {
            rest.find(|c| !is_part(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            c.len_utf8()
        };
        if !c.is_whitespace() {
            tokens.push(Token { text: &rest[..length], at });
        }
        at += length;
    }
    tokens
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The index of the brace that closes the one at `open`, or the last token.
fn closing_brace(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        depth += i32::from(token.text == "{") - i32::from(token.text == "}");
        if depth == 0 {
            return index;
        }
    }
    tokens.len() - 1
}

/// Reads a tree of imports from `at` to its semicolon, comma or closing brace.
fn read_use(tokens: &[Token<'_>], at: &mut usize, prefix: &[String], public: bool, uses: &mut Vec<Use>) {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(*at) {
        match token.text {
            "{" => {
                *at += 1;
                while tokens.get(*at).is_some_and(|token| !["}", ";"].contains(&token.text)) {
                    read_use(tokens, at, &path, public, uses);
                    *at += usize::from(tokens.get(*at).is_some_and(|token| token.text == ","));
                }
                *at += 1;
                return;
            }
            ";" | "," | "}" => break,
            "as" => {
                let name = tokens.get(*at + 1).map_or("_", |token| token.text).to_string();
                *at += 2;
                uses.push(Use { name, path, public });
                return;
            }
            "::" => {}
            name => path.push(name.to_string()),
        }
        *at += 1;
    }
    if path.len() > prefix.len().max(1) && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(name) = path.last().cloned() {
        uses.push(Use { name, path, public });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree_of;

    fn edges(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let imports = read(&tree_of(files), files[0].0);
        let name = |file: usize| imports.files[file].trim_start_matches("a/src/").to_string();
        let edges = imports.edges.iter().enumerate();
        edges
            .flat_map(|(from, to)| to.iter().map(move |&to| (from, to)))
            .map(|(from, to)| (name(from), name(to)))
            .collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(from, to)| (from.to_string(), to.to_string())).collect()
    }

    #[test]
    fn re_exports_lead_to_the_defining_file() {
        let files = [
            (
                "a/src/lib.rs",
                "mod b;\nmod c;\npub use b::{Bee as Buzz, inner::*};\npub use other::Far;\npub struct Lib;\nmod d { pub use crate::c::C; }",
            ),
            ("a/src/b/mod.rs", "pub mod inner;\npub struct Bee;"),
            ("a/src/b/inner.rs", "pub(crate) const fn deep() {}"),
            ("a/src/c.rs", "use crate::{Buzz, Far, Lib, b::inner::{self, deep as d}};\nfn f() { crate::deep() }"),
        ];
        assert_eq!(edges(&files), pairs(&[("c.rs", "lib.rs"), ("c.rs", "b/mod.rs"), ("c.rs", "b/inner.rs")]));
    }

    #[test]
    fn super_and_paths_within_code_count_and_tests_do_not() {
        let files = [
            ("a/src/lib.rs", "mod b;\nmod c;"),
            (
                "a/src/b.rs",
                "mod own { use super::super::c::C; }\nfn f<'a>() -> impl Fn() + use<'a> { g(); }\n#[cfg(test)]\nmod tests { use crate::c::D; }",
            ),
            ("a/src/c.rs", "pub struct C;\nfn f() -> super::b::Gone { \"crate::x\" } // crate::b"),
        ];
        assert_eq!(edges(&files), pairs(&[("b.rs", "c.rs"), ("c.rs", "b.rs")]));
    }
}
