//! The text of the headers.

use super::Header;
use super::names::{beside, name, of_type};
use crate::Error;
use crate::description::{Description, LIBRARY_ENTRIES, MethodLine, POOL_ENTRIES, PoolLines, TYPE_ENTRIES, TypeLines};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A type of the description in C++; `classes` are the parameters of the template.
fn of(of: &str, classes: &[String], place: &str) -> Result<String, Error> {
    if let Some(declared) = Declared::parse(of) {
        return Ok(declared.name.into());
    }
    if let Some(inner) = of.strip_prefix("Option<").and_then(|of| of.strip_suffix('>')) {
        return Ok(format!("std::optional<{}>", self::of(inner, classes, place)?));
    }
    if let Some((word, numbers)) = of.strip_suffix('>').and_then(|of| of.split_once('<')) {
        let word = match word {
            "Gen" => "gen",
            "Copied" => "copied",
            "Hash" => "hash",
            "Equal" => "equal",
            "Order" => "order",
            "Lent" => "lent",
            "LentPair" => "lent_pair",
            "Visit" => "visit",
            _ => return Err(unknown(of, place)),
        };
        let class = |number: &str| number.parse::<usize>().ok().and_then(|index| classes.get(index));
        let given: Option<Vec<&str>> = numbers.split(", ").map(|number| class(number).map(String::as_str)).collect();
        let given = given.ok_or_else(|| unknown(of, place))?;
        return Ok(format!("everbyte::bridge::{word}<{}>", given.join(", ")));
    }
    Ok(match of {
        "()" => "void",
        "bool" => "bool",
        "f32" => "float",
        "f64" => "double",
        "u8" => "std::uint8_t",
        "u16" => "std::uint16_t",
        "u32" => "std::uint32_t",
        "u64" => "std::uint64_t",
        "i8" => "std::int8_t",
        "i16" => "std::int16_t",
        "i32" => "std::int32_t",
        "i64" => "std::int64_t",
        "usize" => "std::size_t",
        "isize" => "std::ptrdiff_t",
        "str" => "std::string_view",
        "String" => "std::string",
        other => return Err(unknown(other, place)),
    }
    .into())
}

/// Types in the order of their numbers, from 1.
const NAMES: [&str; 14] =
    ["()", "bool", "f32", "f64", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "str", "String"];
/// The first words of the other ones, from 16.
const WORDS: [&str; 9] = ["struct", "Gen", "Copied", "Hash", "Equal", "Order", "Lent", "LentPair", "Visit"];

/// The number of a type in signatures: `code` of `wire` in bridge_wire.hpp. Classes that C++ gives
/// are not told apart, nor are structs.
fn code(of: &str) -> u32 {
    if let Some(inner) = of.strip_prefix("Option<").and_then(|of| of.strip_suffix('>')) {
        return 64 + code(inner);
    }
    let place = |of: &str, all: &[&str]| all.iter().position(|one| *one == of).map(|at| at as u32);
    let of = match of {
        "usize" => "u64",
        "isize" => "i64",
        of => of,
    };
    let word = of.split(['<', ' ']).next().unwrap_or(of);
    place(of, &NAMES).map(|at| 1 + at).or_else(|| place(word, &WORDS).map(|at| 16 + at)).unwrap_or(0)
}

/// The number of a method, by which a header of another one is refused: `signature` in
/// bridge_wire.hpp.
fn signature(method: &MethodLine) -> u32 {
    let types = [&method.returns].into_iter().chain(method.parameters.iter().map(|one| &one.of));
    types.fold(1 + u32::from(method.changes), |all, of| all.wrapping_mul(131).wrapping_add(code(of)))
}

fn unknown(of: &str, place: &str) -> Error {
    let detail = format!("`{of}` has no form in C++; make the headers with the Everbyte that the library uses");
    Error::Header { place: place.into(), detail }
}

/// A struct that both languages declare, as a type of the description.
struct Declared<'d> {
    name: &'d str,
    size: &'d str,
    align: &'d str,
    /// Name, number and place of each field.
    fields: Vec<[&'d str; 3]>,
}

impl<'d> Declared<'d> {
    /// `None` if `of` is none: `struct point 16 8 { x: f64 @0; y: f64 @8 }`.
    fn parse(of: &'d str) -> Option<Declared<'d>> {
        let (head, fields) = of.strip_prefix("struct ")?.strip_suffix(" }")?.split_once(" { ")?;
        let mut head = head.split(' ');
        let (name, size, align) = (head.next()?, head.next()?, head.next()?);
        let field = |text: &'d str| {
            let (name, rest) = text.split_once(": ")?;
            let (number, at) = rest.split_once(" @")?;
            Some([name, number, at])
        };
        let fields = fields.split("; ").map(field).collect::<Option<_>>()?;
        Some(Declared { name, size, align, fields })
    }

    /// Its declaration in the namespace of the library, and its list of fields behind that.
    fn text(&self, library: &str, taken: &[&str]) -> Result<[String; 2], Error> {
        let own = beside(self.name, taken, self.name)?;
        let (mut text, mut fits) = (format!("struct {own} {{\n"), String::new());
        for [field, number, at] in &self.fields {
            let field = beside(field, &[own], own)?;
            let _ = writeln!(text, "  {} {field};", of(number, &[], own)?);
            let _ = write!(fits, " && offsetof({own}, {field}) == {at}");
        }
        let (size, align) = (self.size, self.align);
        let _ = writeln!(text, "}};\nstatic_assert(sizeof({own}) == {size} && alignof({own}) == {align}{fits});");
        let names: Vec<&str> = self.fields.iter().map(|[field, ..]| *field).collect();
        Ok([text, format!("EVERBYTE_FIELDS({library}::{own}, {})\n", names.join(", "))])
    }

    /// The structs in the signatures of methods: their names, and their types.
    fn of_methods(methods: &[MethodLine]) -> impl Iterator<Item = (&str, &str)> {
        let types = methods.iter().flat_map(|one| one.parameters.iter().map(|one| &*one.of).chain([&*one.returns]));
        let inner = types.map(|of| of.strip_prefix("Option<").and_then(|of| of.strip_suffix('>')).unwrap_or(of));
        inner.filter_map(|of| Some((Declared::parse(of)?.name, of)))
    }

    /// The structs of a library, by their names.
    fn all(description: &Description) -> Result<BTreeMap<&str, &str>, Error> {
        let mut all = BTreeMap::new();
        let types = description.pools.iter().flat_map(|pool| &pool.types);
        for (name, of) in types.flat_map(|one| Declared::of_methods(&one.methods)) {
            if *all.entry(name).or_insert(of) != of {
                let detail = "two structs that cross have one name in lower case: rename one".into();
                return Err(Error::Header { place: name.into(), detail });
            }
        }
        Ok(all)
    }
}

/// A type, as all pools that have it describe it, with the index of its first function in each.
struct SharedType<'d> {
    of: &'d TypeLines,
    pools: Vec<(&'d str, usize)>,
}

pub(super) fn generate(description: &Description) -> Result<Vec<Header>, Error> {
    let library = name(&description.library, "library")?;
    let mut firsts = Vec::new();
    let mut types: BTreeMap<&str, SharedType<'_>> = BTreeMap::new();
    let mut next = LIBRARY_ENTRIES;
    for pool in &description.pools {
        firsts.push(next);
        next += POOL_ENTRIES;
        for one in &pool.types {
            let shared = types.entry(&one.name).or_insert(SharedType { of: one, pools: Vec::new() });
            if shared.of.methods != one.methods || shared.of.classes != one.classes {
                let detail = "two pools have types of one name and other methods: name one, as in `T as name`".into();
                return Err(Error::Header { place: format!("{}::{}", pool.name, one.name), detail });
            }
            shared.pools.push((&pool.name, next));
            next += TYPE_ENTRIES + one.methods.len();
        }
    }
    let build = Build::of(library, description);
    let mut headers = vec![lib(library, description, &build)?];
    for (index, pool) in description.pools.iter().enumerate() {
        headers.push(pool_header(library, pool, firsts[index], &build)?);
    }
    for shared in types.values() {
        if description.pools.iter().any(|pool| pool.name == shared.of.name) {
            let detail = "a pool and a type have one name: name the type, as in `T as name`".into();
            return Err(Error::Header { place: shared.of.name.clone(), detail });
        }
        headers.push(type_header(library, shared, &build)?);
    }
    Ok(headers)
}

/// The mark of the headers that were made together: those of another build are not mixed with them,
/// in a file or in a program.
struct Build {
    /// The macro of `lib.h` that has it.
    word: String,
    number: String,
}

impl Build {
    fn of(library: &str, description: &Description) -> Build {
        // FNV-1a: it tells builds apart, and decides nothing.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let hash = description.interface().bytes().fold(0xcbf2_9ce4_8422_2325, step);
        Build { word: format!("EVERBYTE_BRIDGE_{}_{library}_build", library.len()), number: format!("0x{hash:016x}") }
    }

    /// The lines by which a header is refused beside `lib.h` of another build.
    fn required(&self, file: &str) -> String {
        let say = "are of different builds: make the headers anew with `everbyte bridge build`";
        format!("#if {} != {}u\n#error \"`lib.h` and `{file}` {say}\"\n#endif\n", self.word, self.number)
    }
}

/// The first lines of a file. Its guard is that of no other file: the length says where the name of
/// the library ends.
fn head(library: &str, file: &str) -> String {
    let guard = format!("EVERBYTE_BRIDGE_{}_{library}_{}", library.len(), file.replace('.', "_"));
    format!(
        "/* Made by `everbyte bridge build` from library `{library}`. Changes are lost. */\n#ifndef {guard}\n#define {guard}\n\n"
    )
}

fn lib(library: &str, description: &Description, build: &Build) -> Result<Header, Error> {
    let mut text = head(library, "lib.h");
    let _ = writeln!(text, "#include <everbyte/bridge.hpp>\n\n#define {} {}u\n", build.word, build.number);
    let of_build = format!("everbyte_detail_{}", &build.number[2..]);
    let symbol = format!("everbyte_bridge_{library}");
    let _ = writeln!(
        text,
        "extern \"C\" const everbyte::bridge::entry* {symbol}(everbyte::bridge::raw_text, everbyte::bridge::raw_text*);\n"
    );
    let _ = writeln!(
        text,
        "namespace {library} {{\n\nstruct {of_build} {{\n  static constexpr const char* name = \"{library}\";"
    );
    text += "  static constexpr std::string_view description =\n";
    let lines: Vec<String> = description.interface().lines().map(|line| format!("      \"{line}\\n\"")).collect();
    let _ = writeln!(text, "{};", lines.join("\n"));
    text += "  /* Of the functions that are methods; a call of another one does not compile. */\n";
    let _ = writeln!(text, "  static constexpr std::uint32_t signatures[] = {{\n      {}}};", signatures(description));
    text += "  static const everbyte::bridge::entry* attach(everbyte::bridge::raw_text expected, everbyte::bridge::raw_text* difference) {\n";
    let _ = writeln!(text, "    return {symbol}(expected, difference);\n  }}\n}};\n");
    let _ = writeln!(text, "using everbyte_detail = {of_build};\n");
    text += "/* A program with an older header, in any of its files, ends when it starts. */\n";
    let _ = writeln!(
        text,
        "inline const bool {} = everbyte::bridge::table<everbyte_detail>::entries() != nullptr;\n",
        of_build.replace("detail", "is_attached")
    );
    let types = description.pools.iter().flat_map(|pool| &pool.types).map(|one| &*one.name);
    let taken: Vec<&str> = types.chain(description.pools.iter().map(|pool| &*pool.name)).chain([library]).collect();
    let mut lists = String::new();
    for of in Declared::all(description)?.into_values() {
        let [declared, list] = Declared::parse(of).expect("`all` parses it").text(library, &taken)?;
        let _ = writeln!(text, "/* As in Rust. */\n{declared}");
        lists += &list;
    }
    let _ = writeln!(text, "}}  // namespace {library}\n{lists}\n#endif");
    Ok(Header { name: "lib.h".into(), text })
}

/// The numbers of all functions of the table; 0 for those that are no methods.
fn signatures(description: &Description) -> String {
    let mut all = vec!["0".to_string(); LIBRARY_ENTRIES];
    for pool in &description.pools {
        all.extend(vec!["0".into(); POOL_ENTRIES]);
        for one in &pool.types {
            all.extend(vec!["0".into(); TYPE_ENTRIES]);
            all.extend(one.methods.iter().map(|method| format!("{}u", signature(method))));
        }
    }
    let lines: Vec<String> = all.chunks(10).map(|line| line.join(", ")).collect();
    lines.join(",\n      ")
}

fn pool_header(library: &str, pool: &PoolLines, first: usize, build: &Build) -> Result<Header, Error> {
    let own = name(&pool.name, &pool.name)?;
    let mut text = head(library, &format!("{own}.hpp"));
    let _ = writeln!(text, "#include \"lib.h\"");
    for one in &pool.types {
        let _ = writeln!(text, "#include \"{}.hpp\"", one.name);
    }
    text += &build.required(&format!("{own}.hpp"));
    let _ = writeln!(text, "\nnamespace {library} {{\n\n/* A pool. */");
    let _ = writeln!(text, "class {own} : public everbyte::bridge::pool<{own}, everbyte_detail, {first}> {{\n public:");
    let _ = writeln!(text, "  static constexpr const char* type_name = \"{own}\";");
    let _ = writeln!(text, "  using everbyte::bridge::pool<{own}, everbyte_detail, {first}>::pool;\n");
    for one in &pool.types {
        let declared: Vec<String> = one.classes.iter().map(|class| format!("class {class}")).collect();
        if !declared.is_empty() {
            let _ = writeln!(text, "  template <{}>", declared.join(", "));
        }
        let arguments = [vec![own.to_string()], one.classes.clone()].concat();
        let _ = writeln!(text, "  using {0} = ::{library}::{0}<{1}>;", one.name, arguments.join(", "));
    }
    let _ = writeln!(text, "}};\n\n}}  // namespace {library}\n\n#endif");
    Ok(Header { name: format!("{own}.hpp"), text })
}

fn type_header(library: &str, shared: &SharedType<'_>, build: &Build) -> Result<Header, Error> {
    let own = of_type(&shared.of.name, &shared.of.name)?;
    let mut text = head(library, &format!("{own}.hpp"));
    let _ = writeln!(text, "#include \"lib.h\"\n{}\nnamespace {library} {{\n", build.required(&format!("{own}.hpp")));
    for (pool, _) in &shared.pools {
        let _ = writeln!(text, "class {pool};");
    }
    let _ = writeln!(
        text,
        "\n/* The place of the functions of `{own}` in each pool. */\ntemplate <class Pool>\nstruct everbyte_in_{own};"
    );
    for (pool, first) in &shared.pools {
        let _ = writeln!(
            text,
            "template <>\nstruct everbyte_in_{own}<{pool}> {{\n  static constexpr std::size_t first = {first};\n}};"
        );
    }
    text.push('\n');
    comment(&mut text, "", &shared.of.docs);
    let classes = &shared.of.classes;
    let pools = shared.pools.iter().map(|(pool, _)| *pool);
    let taken: Vec<&str> = [own, library].into_iter().chain(pools).collect();
    for class in classes {
        beside(class, &taken, own)?;
    }
    let base =
        [vec!["Pool".to_string(), format!("everbyte_in_{own}<Pool>::first")], classes.clone()].concat().join(", ");
    let base = format!("everbyte::bridge::vessel<{base}>");
    let declared: String = classes.iter().map(|class| format!(", class {class}")).collect();
    let _ = writeln!(text, "template <class Pool{declared}>\nclass {own} : public {base} {{");
    let _ = writeln!(text, "  using everbyte_base = {base};\n  template <class, class, std::size_t>");
    text += "  friend class everbyte::bridge::pool;\n  using everbyte_base::everbyte_base;\n\n public:\n";
    let _ = writeln!(text, "  static constexpr std::size_t everbyte_root_index = everbyte_in_{own}<Pool>::first;");
    for (index, method) in shared.of.methods.iter().enumerate() {
        text.push('\n');
        comment(&mut text, "  ", &method.docs);
        text += &method_text(shared.of, method, TYPE_ENTRIES + index)?;
    }
    let _ = writeln!(text, "}};\n\n}}  // namespace {library}\n\n#endif");
    Ok(Header { name: format!("{own}.hpp"), text })
}

fn comment(text: &mut String, indent: &str, docs: &str) {
    let safe = docs.trim_end().replace("*/", "* /").replace("/*", "/ *");
    let lines: Vec<&str> = safe.lines().collect();
    if !lines.is_empty() {
        let _ = writeln!(text, "{indent}/* {} */", lines.join(&format!("\n{indent} * ")));
    }
}

fn method_text(one: &TypeLines, method: &MethodLine, index: usize) -> Result<String, Error> {
    let place = format!("{}::{}", one.name, method.name);
    // A method does not have the name of its class, nor anything that of a template's parameter.
    let classes: Vec<&str> = one.classes.iter().map(String::as_str).collect();
    // Nor that of a struct, which it would hide.
    let structs: Vec<&str> = Declared::of_methods(&one.methods).map(|(name, _)| name).collect();
    let called = beside(&method.name, &[&classes[..], &[&one.name], &structs[..]].concat(), &place)?;
    let returns = of(&method.returns, &one.classes, &place)?;
    let (mut declared, mut types, mut passed, mut functions) = (Vec::new(), String::new(), Vec::new(), Vec::new());
    for (number, parameter) in method.parameters.iter().enumerate() {
        let before = method.parameters[..number].iter().map(|one| one.name.as_str());
        let taken: Vec<&str> = classes.iter().chain(&structs).copied().chain(before).collect();
        let (mut name, of) =
            (beside(&parameter.name, &taken, &place)?.to_string(), of(&parameter.of, &one.classes, &place)?);
        if name == one.name {
            name.push('_'); // a warning, otherwise
        }
        let _ = write!(types, ", {of}");
        match parameter.of.split('<').next() {
            // The functions of the standard library for the class.
            Some("Hash" | "Equal" | "Order") => passed.push("{}".into()),
            Some("Visit") => {
                functions.push(format!("class Everbyte{number}"));
                declared.push(format!("Everbyte{number}&& {name}"));
                passed.push(format!("{of}::over({name})"));
            }
            Some("Gen") => {
                declared.push(format!("typename {of}::argument {name}"));
                passed.push(format!("{{{name}}}"));
            }
            _ => {
                declared.push(format!("{of} {name}"));
                passed.push(name);
            }
        }
    }
    let mut call = format!("everbyte_read<{index}, {returns}{types}>");
    if method.changes {
        declared.insert(0, "everbyte::transaction<Pool, Brand>& everbyte_in".into());
        passed.insert(0, "everbyte_in".into());
        functions.insert(0, "class Brand".into());
        call = format!("everbyte_change<{index}, {returns}, Brand{types}>");
    }
    let template = match functions.is_empty() {
        true => String::new(),
        false => format!("  template <{}>\n", functions.join(", ")),
    };
    let (declared, passed) = (declared.join(", "), passed.join(", "));
    let returned = format!("typename everbyte::bridge::result<{returns}>::type");
    let returned = if returns.contains("copied<") { returned } else { returns };
    Ok(format!(
        "{template}  {returned} {called}({declared}) const {{\n    return this->template {call}({passed});\n  }}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    /// Both languages give each type that crosses the same number in signatures, and none to two.
    #[test]
    fn every_type_has_one_number_in_both_languages() {
        let point = "struct point 16 8 { x: f64 @0; y: f64 @8 }";
        let [declared, fields] = Declared::parse(point).unwrap().text("stock", &[]).unwrap();
        let mut all: Vec<String> = NAMES.map(String::from).into();
        all.extend(WORDS.map(|word| match word {
            "struct" => point.into(),
            "LentPair" | "Visit" => format!("{word}<0, 1>"),
            word => format!("{word}<0>"),
        }));
        let has_option = |of: &&String| !["()", "bool", "str", "String"].contains(&&***of);
        let is_value = |of: &&String| !of.contains('<') || of.starts_with("Copied");
        let options: Vec<String> =
            all.iter().filter(has_option).filter(is_value).map(|of| format!("Option<{of}>")).collect();
        all.extend(options);
        let mut numbers: Vec<u32> = all.iter().map(|of| code(of)).collect();
        all.extend(["usize", "isize", "Option<usize>", "Option<isize>"].map(String::from));

        let mut program = format!(
            "#include <everbyte/bridge.hpp>\nstruct item {{\n  double value;\n}};\nEVERBYTE_FIELDS(item, value)\n\
             namespace stock {{\n{declared}}}\n{fields}using stock::point;\n"
        );
        let classes = ["item".to_string(), "std::string".into()];
        for one in &all {
            let (number, of) = (code(one), of(one, &classes, one).unwrap());
            let _ = writeln!(program, "static_assert(everbyte::bridge::wire<{of}>::code == {number}, \"{one}\");");
        }
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((numbers.len(), numbers[0]), (all.len() - 4, 1), "{all:?}");

        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("numbers.cpp");
        std::fs::write(&source, program).unwrap();
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
        for compiler in ["g++", "clang++"] {
            let words = ["-std=c++20", "-fsyntax-only", "-I"];
            let Ok(output) = Command::new(compiler).args(words).arg(&include).arg(&source).output() else {
                eprintln!("skipped: no compiler `{compiler}`; ci/setup test installs it");
                continue;
            };
            assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
