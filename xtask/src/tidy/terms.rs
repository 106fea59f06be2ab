//! The glossary against the types: a defined term that is a type names one type of the workspace,
//! and no type has a name that says nothing outside its file.
//!
//! A type of the glossary stands in backticks, in capitals, before the colon of its entry. The
//! facade `everbyte`, an alias of the same name and modules called `layout` may repeat a name: the
//! first two mean the same type, the last are used qualified.

use super::{Ceiling, Tree, ceilings, source_text};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = "docs/manual/glossary.md";
const BARE: [&str; 4] = ["Inner", "Shared", "Kind", "Table"];

pub(super) fn check(tree: &Tree) -> Vec<Ceiling> {
    let definitions = definitions(tree);
    let terms = terms(tree.text(PAGE));
    let mut doubled: Vec<String> = Vec::new();
    for (name, places) in &definitions {
        if terms.contains(name) && places.len() > 1 {
            doubled.push(format!("{PAGE}: the term `{name}` names {} types: {}", places.len(), places.join(", ")));
        }
    }
    if terms.is_empty() {
        doubled.push(format!("{PAGE} defines no term that is a type"));
    }
    let bare = definitions.iter().filter(|(name, _)| BARE.contains(&name.as_str()));
    let bare =
        bare.flat_map(|(name, places)| places.iter().map(move |place| format!("{place}: a type called `{name}`")));
    vec![
        Ceiling { rule: "terms", what: "terms that name several types", max: ceilings::TERMS, places: doubled },
        Ceiling { rule: "terms", what: "types with a bare name", max: ceilings::BARE_TYPES, places: bare.collect() },
    ]
}

/// The types that the glossary names: words in capitals, in backticks, before an entry's colon.
fn terms(page: &str) -> BTreeSet<String> {
    let mut terms = BTreeSet::new();
    for entry in page.split("\n* **").skip(1) {
        let head = entry.split(':').next().unwrap_or_default();
        let quoted = head.split('`').skip(1).step_by(2);
        terms.extend(quoted.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase())).map(str::to_string));
    }
    terms
}

/// Places of the definitions of types in `crates/*/src`, by name; tests do not count.
fn definitions(tree: &Tree) -> BTreeMap<String, Vec<String>> {
    let mut definitions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for text in tree.texts(".rs") {
        let path = &text.path;
        let apart = path.contains("layout") || path.starts_with("crates/everbyte/") || path.ends_with("/tests.rs");
        if !path.starts_with("crates/") || !path.contains("/src/") || apart {
            continue;
        }
        for (number, line) in source_text::without_tests(&source_text::code(&text.body)).lines().enumerate() {
            if let Some(name) = defined(line) {
                definitions.entry(name.to_string()).or_default().push(format!("{path}:{}", number + 1));
            }
        }
    }
    definitions
}

/// The name of the type that `line` defines. Types that belong to a trait are indented.
fn defined(line: &str) -> Option<&str> {
    let indented = line.starts_with(' ');
    let mut words =
        line.split_whitespace().skip_while(|word| word.starts_with("pub") || ["in", "unsafe"].contains(word));
    let keyword = words.next()?;
    let types = ["struct", "enum", "trait", "union"].contains(&keyword) || (keyword == "type" && !indented);
    let word = types.then(|| words.next()).flatten()?;
    let name = &word[..word.find(|c: char| !c.is_alphanumeric()).unwrap_or(word.len())];
    let alias = keyword == "type" && line.contains(&format!("::{name}"));
    (!alias && name.starts_with(|c: char| c.is_ascii_uppercase())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree_of;

    const GLOSSARY: &str = "# G\n\n* **lock** (`store`, `SharedLock`): a lock. See `Other`.\n* **b**: c\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = [(PAGE, GLOSSARY)].into_iter().chain(files.iter().copied()).collect();
        check(&tree_of(&files)).into_iter().flat_map(|ceiling| ceiling.places).collect()
    }

    #[test]
    fn a_second_type_of_a_term_is_found() {
        let one = ("crates/a/src/lock.rs", "pub struct SharedLock<W>(W);\npub enum Other {}");
        let two = ("crates/b/src/lock.rs", "pub(crate) enum SharedLock {}\nstruct Other;");
        assert_eq!(found(&[one]), [] as [String; 0]);
        assert_eq!(found(&[one, two]).len(), 1);
    }

    #[test]
    fn aliases_layouts_and_tests_may_repeat_a_name() {
        let one = ("crates/a/src/lock.rs", "pub struct SharedLock;");
        let alias = ("crates/b/src/lock.rs", "pub type SharedLock = a::SharedLock<Media>;");
        let layout = ("crates/c/src/layout.rs", "struct SharedLock;\nenum Kind {}");
        let test =
            ("crates/d/src/e.rs", "#[cfg(test)]\nmod tests { struct SharedLock; }\nimpl A {\n    type Kind = u8;\n}");
        assert_eq!(found(&[one, alias, layout, test]), [] as [String; 0]);
    }

    #[test]
    fn bare_names_are_found() {
        assert_eq!(found(&[("crates/a/src/b.rs", "// struct Inner;\nstruct Inner {\n}\npub enum Kinds {}")]).len(), 1);
    }
}
