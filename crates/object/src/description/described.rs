//! A description read back: the text of `schema` parsed, and the first difference between
//! two.

use std::collections::HashMap;

/// Types of this crate that have no line: their names contain their arguments.
const OWN: [&str; 39] = [
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "usize",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "isize",
    "f32",
    "f64",
    "bool",
    "char",
    "PhantomData",
    "Option",
    "Pbox",
    "Prc",
    "PrcWeak",
    "Parc",
    "ParcWeak",
    "PCell",
    "PRefCell",
    "PMutex",
    "PRwLock",
    "POnceCell",
    "VCell",
    "PVec",
    "PVecDeque",
    "PString",
    "Wrapping",
    "Saturating",
    "Reverse",
    "PHashMap",
    "PBTreeMap",
    "Stored",
    "ShortString",
];

/// Whether a program's type called `name` would be taken for one of this crate's.
pub(crate) fn is_own(name: &str) -> bool {
    OWN.contains(&name)
}

/// A name without the number that tells types of one name apart: containers of this crate whose
/// arguments differ and are called alike, as `PVec<PVec<u32>>` and the same of heaps. Numbers of
/// arguments stay.
pub(crate) fn bare(name: &str) -> &str {
    match name.rsplit_once('#') {
        Some((head, number)) if head.ends_with('>') && number.bytes().all(|digit| digit.is_ascii_digit()) => head,
        _ => name,
    }
}

/// A description taken apart.
#[derive(Debug, Default)]
pub(crate) struct Described {
    /// The name of the root's type.
    pub root: String,
    lines: Vec<Line>,
    by_name: HashMap<String, usize>,
}

/// One line of a description: one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The line as it stands.
    pub text: String,
    pub name: String,
    pub size: usize,
    pub align: usize,
    /// The integer that an enum's tag is, and, unless it comes first, where: `u8@8`. `?`, in pools
    /// that an earlier Everbyte made: that is not known.
    pub tag: Option<String>,
    pub version: u32,
    pub fields: Vec<FieldPlace>,
    /// Names and tags of an enum's variants; `None`: any tag that is no other's.
    pub variants: Vec<(String, Option<i128>)>,
}

/// A field: of a variant, its label is `variant.field`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldPlace {
    pub label: String,
    pub of: String,
    pub offset: usize,
}

impl Line {
    /// Whether it says nothing of the inside, as of containers of this crate. A program's type of
    /// such a name, which is numbered from 2 on, has fields.
    pub(crate) fn is_opaque(&self) -> bool {
        self.tag.is_none() && self.version == 1 && self.fields.is_empty()
    }
}

impl Described {
    /// `None` if `text` is no description.
    pub(crate) fn parse(text: &str) -> Option<Described> {
        let mut lines = text.lines();
        let root = lines.next()?.strip_prefix("root ")?.to_string();
        let lines: Vec<Line> = lines.map(parse).collect::<Option<_>>()?;
        let by_name = lines.iter().enumerate().map(|(index, line)| (line.name.clone(), index)).collect();
        Some(Described { root, lines, by_name })
    }

    /// Whether it has this very line.
    pub(crate) fn says(&self, line: &str) -> bool {
        self.lines.iter().any(|own| own.text == line)
    }

    /// The line of the type called `name`; types without parts of their own have no line.
    pub(crate) fn line(&self, name: &str) -> Option<&Line> {
        self.by_name.get(name).map(|&index| &self.lines[index])
    }
}

fn parse(text: &str) -> Option<Line> {
    let (head, parts) = match text.split_once(" { ") {
        Some((head, parts)) => (head, parts.strip_suffix(" }")?),
        None => (text, ""),
    };
    // Names hold spaces, as in `(i32, u8)`: the words behind them are taken from the end.
    let mut words = head.rsplit(' ').peekable();
    let version = words.next_if(|word| word.starts_with('v')).map_or(Some(1), |word| word[1..].parse().ok())?;
    let tag = words.next_if(|word| !word.starts_with(|first: char| first.is_ascii_digit())).map(String::from);
    let (align, size) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    if !usize::is_power_of_two(align) || align > 16 {
        return None;
    }
    let name = words.rev().collect::<Vec<_>>().join(" ");
    let (mut fields, mut variants) = (Vec::new(), Vec::new());
    let mut part = String::new(); // names hold semicolons, too, as in `[u8; 4]`
    for piece in parts.split("; ").filter(|piece| !piece.is_empty()) {
        part += piece;
        if let Some((label, of)) = part.split_once(": ") {
            let Some((of, offset)) = of.rsplit_once(" @") else {
                part += "; ";
                continue;
            };
            fields.push(FieldPlace { label: label.into(), of: of.into(), offset: offset.parse().ok()? });
        } else {
            let (name, tag) = part.split_once(" = ")?;
            variants.push((name.into(), if tag == "else" { None } else { Some(tag.parse().ok()?) }));
        }
        part.clear();
    }
    part.is_empty().then(|| Line { text: text.into(), name, size, align, tag, version, fields, variants })
}

/// The first difference between the description of a pool (`found`) and the program's.
pub(crate) fn difference(found: &str, wanted: &str) -> String {
    let (Some(found), Some(wanted)) = (Described::parse(found), Described::parse(wanted)) else {
        return "the pool's description of it cannot be read".into();
    };
    if found.root != wanted.root {
        return format!("its root is `{}`, the program's is `{}`", found.root, wanted.root);
    }
    let both = wanted.lines.iter().filter_map(|line| Some((found.line(&line.name)?, line)));
    both.filter_map(|(old, new)| differs(old, new)).next().unwrap_or("a type that its root points to is another".into())
}

fn differs(old: &Line, new: &Line) -> Option<String> {
    if old.text == new.text {
        return None;
    }
    let name = &new.name;
    let said = |what: &str, old: String, new: String| {
        (old != new).then(|| format!("{what} is {old} in the pool and {new} in the program"))
    };
    said(&format!("`{name}`"), format!("version {}", old.version), format!("version {}", new.version))
        .or_else(|| {
            let is_vague = old.tag.as_deref() == Some("?") && new.tag != old.tag;
            is_vague
                .then(|| format!("the pool, which an earlier Everbyte made, does not say how `{name}` tells `None`"))
        })
        .or_else(|| missing(name, "variant", &names(&old.variants), &names(&new.variants)))
        .or_else(|| missing(name, "field", &labels(&old.fields), &labels(&new.fields)))
        .or_else(|| {
            let tags = old.variants.iter().zip(&new.variants);
            let mut tags = tags.filter(|(old, new)| old != new);
            tags.next().map(|(old, new)| {
                format!("variants of `{name}`: `{}` in the pool, `{}` in the program", tagged(old), tagged(new))
            })
        })
        .or_else(|| {
            let place = |place: &FieldPlace| format!("`{} @{}`", place.of, place.offset);
            new.fields.iter().find_map(|field| {
                let before = old.fields.iter().find(|before| before.label == field.label)?;
                said(&format!("field `{}` of `{name}`", field.label), place(before), place(field))
            })
        })
        .or_else(|| {
            let whole = |line: &Line| format!("`{}`", line.text);
            said(&format!("`{name}`"), whole(old), whole(new))
        })
}

/// A variant and its tag, as a line has them.
pub(crate) fn tagged((name, tag): &(String, Option<i128>)) -> String {
    format!("{name} = {}", tag.map_or("else".into(), |tag| tag.to_string()))
}

fn names(variants: &[(String, Option<i128>)]) -> Vec<&str> {
    variants.iter().map(|(name, _)| name.as_str()).collect()
}

fn labels(fields: &[FieldPlace]) -> Vec<&str> {
    fields.iter().map(|field| field.label.as_str()).collect()
}

/// A part that one of the two has and the other has not.
pub(crate) fn missing(name: &str, what: &str, old: &[&str], new: &[&str]) -> Option<String> {
    let new_one = new.iter().find(|label| !old.contains(label));
    let gone = old.iter().find(|label| !new.contains(label));
    let new_one = new_one.map(|label| format!("{what} `{label}` of `{name}` is new in the program"));
    new_one.or_else(|| gone.map(|label| format!("{what} `{label}` of `{name}` is in the pool and not in the program")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "root A\n\
        A 16 8 { x: u32 @0; y: Pbox<B> @8 }\n\
        B 4 4 { z: (i32, u8) @0 }\n\
        (i32, u8) 8 4 { 0: i32 @0; 1: u8 @4 }\n\
        E 8 4 u8 v3 { One = 0; Two = 1; Two.n: u32 @4 }\n\
        F 8 2 u8 { A = -1 }\n";

    #[test]
    fn a_difference_names_the_field() {
        let check = |wanted: &str, expect: &str| assert_eq!(difference(OLD, wanted), expect);
        check("root C\n", "its root is `A`, the program's is `C`");
        check(&OLD.replace("x: u32", "x: u64"), "field `x` of `A` is `u32 @0` in the pool and `u64 @0` in the program");
        check(&OLD.replace("x: u32 @0; ", ""), "field `x` of `A` is in the pool and not in the program");
        check(&OLD.replace("; y: Pbox<B> @8", ""), "field `y` of `A` is in the pool and not in the program");
        check(&OLD.replace("{ z", "{ w: u8 @1; z"), "field `w` of `B` is new in the program");
        check(
            &OLD.replace("B 4 4", "B 8 4"),
            "`B` is `B 4 4 { z: (i32, u8) @0 }` in the pool and `B 8 4 { z: (i32, u8) @0 }` in the program",
        );
        check(
            &OLD.replace("1: u8 @4", "1: u8 @5"),
            "field `1` of `(i32, u8)` is `u8 @4` in the pool and `u8 @5` in the program",
        );
        check(&OLD.replace("A 16 8", "A 16 8 v2"), "`A` is version 1 in the pool and version 2 in the program");
        check(
            &OLD.replace("Two.n: u32 @4", "Two.n: u32 @4; Three = 2"),
            "variant `Three` of `E` is new in the program",
        );
        check(&OLD.replace("Two = 1", "Two = 2"), "variants of `E`: `Two = 1` in the pool, `Two = 2` in the program");
        check(
            &OLD.replace("F 8 2 u8", "F 8 2 u16"),
            "`F` is `F 8 2 u8 { A = -1 }` in the pool and `F 8 2 u16 { A = -1 }` in the program",
        );
    }

    #[test]
    fn names_may_hold_what_stands_between_them() {
        let text = "root A\nA 24 4 { a: [[u8; 4]; 2] @0; b: VCell<8 8> @8 }\n([u8; 4], Option<VCell<8 8>>) 24 8 { 0: [u8; 4] @0 }\n";
        let described = Described::parse(text).unwrap();
        let fields = &described.line("A").unwrap().fields;
        assert_eq!((&*fields[0].of, &*fields[1].of), ("[[u8; 4]; 2]", "VCell<8 8>"));
        assert_eq!(described.line("([u8; 4], Option<VCell<8 8>>)").unwrap().size, 24);
    }

    #[test]
    fn numbers_of_types_of_one_name_are_taken_off() {
        for (name, expect) in [
            ("PVec<PVec<u32>>#2", "PVec<PVec<u32>>"),
            ("PVec<PVec<PVec<u32>>#2>", "PVec<PVec<PVec<u32>>#2>"),
            ("PHashMap<u8, PVec<u8>>#12", "PHashMap<u8, PVec<u8>>"),
            ("Node#2", "Node#2"),
            ("Lines<#>", "Lines<#>"),
            ("(VCell<8 8>, u8)#2", "(VCell<8 8>, u8)#2"),
        ] {
            assert_eq!(bare(name), expect);
        }
    }

    #[test]
    fn descriptions_of_any_text_are_compared_without_a_panic() {
        for text in ["", "root", "root \n", "\n\n{ }", " { a: b", "root x\nA  { ; : }", "root x\nx 1 2 { a: b @0 }"] {
            let _ = difference(text, OLD);
            let _ = difference(OLD, text);
        }
    }
}
