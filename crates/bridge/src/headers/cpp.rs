//! The text of the headers.

use super::Header;
use crate::Error;
use crate::description::{Description, LIBRARY_ENTRIES, MethodLine, POOL_ENTRIES, PoolLines, TYPE_ENTRIES, TypeLines};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Words that C++ keeps for itself.
const WORDS: &str = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t \
    class compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default \
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable \
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires \
    return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try \
    typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq std everbyte detail \
    root cpp_root txn library type_name root_index read change in_transaction";

fn name<'n>(name: &'n str, place: &str) -> Result<&'n str, Error> {
    match WORDS.split_whitespace().any(|word| word == name) || name.starts_with('_') {
        true => Err(Error::Header {
            place: place.into(),
            detail: format!("`{name}` is taken in C++: export it under another name"),
        }),
        false => Ok(name),
    }
}

/// A type of the description in C++; `classes` are the parameters of the template.
fn of(of: &str, classes: &[String], place: &str) -> Result<String, Error> {
    if let Some(inner) = of.strip_prefix("Option<").and_then(|of| of.strip_suffix('>')) {
        return Ok(format!("std::optional<{}>", self::of(inner, classes, place)?));
    }
    if let Some((word, numbers)) = of.strip_suffix('>').and_then(|of| of.split_once('<')) {
        let word = match word {
            "Gen" => "gen",
            "Copied" => "copied",
            "Hash" => "hash",
            "Equal" => "equal",
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

fn unknown(of: &str, place: &str) -> Error {
    let detail = format!("`{of}` has no form in C++; make the headers with the Everbyte that the library uses");
    Error::Header { place: place.into(), detail }
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
    let mut headers = vec![lib(library, description)];
    for (index, pool) in description.pools.iter().enumerate() {
        headers.push(pool_header(library, pool, firsts[index])?);
    }
    for shared in types.values() {
        if description.pools.iter().any(|pool| pool.name == shared.of.name) {
            let detail = "a pool and a type have one name: name the type, as in `T as name`".into();
            return Err(Error::Header { place: shared.of.name.clone(), detail });
        }
        headers.push(type_header(library, shared)?);
    }
    Ok(headers)
}

fn head(library: &str, what: &str) -> String {
    let guard = format!("EVERBYTE_BRIDGE_{}_{}", library.to_uppercase(), what.to_uppercase());
    format!(
        "/* Made by `everbyte bridge build` from library `{library}`. Changes are lost. */\n#ifndef {guard}\n#define {guard}\n\n"
    )
}

fn lib(library: &str, description: &Description) -> Header {
    let mut text = head(library, "lib");
    text += "#include <everbyte/bridge.hpp>\n\n";
    let symbol = format!("everbyte_bridge_{library}");
    let _ = writeln!(
        text,
        "extern \"C\" const everbyte::bridge::entry* {symbol}(everbyte::bridge::raw_text, everbyte::bridge::raw_text*);\n"
    );
    let _ = writeln!(
        text,
        "namespace {library} {{\n\nstruct detail {{\n  static constexpr const char* name = \"{library}\";"
    );
    text += "  static constexpr std::string_view description =\n";
    let lines: Vec<String> = description.interface().lines().map(|line| format!("      \"{line}\\n\"")).collect();
    let _ = writeln!(text, "{};", lines.join("\n"));
    text += "  static const everbyte::bridge::entry* attach(everbyte::bridge::raw_text expected, everbyte::bridge::raw_text* difference) {\n";
    let _ = writeln!(text, "    return {symbol}(expected, difference);\n  }}\n}};\n");
    text += "/* A program with an older header ends when it starts. */\n";
    text += "inline const bool is_attached = everbyte::bridge::table<detail>::entries() != nullptr;\n\n";
    let _ = writeln!(text, "}}  // namespace {library}\n\n#endif");
    Header { name: "lib.h".into(), text }
}

fn pool_header(library: &str, pool: &PoolLines, first: usize) -> Result<Header, Error> {
    let own = name(&pool.name, &pool.name)?;
    let mut text = head(library, own);
    for one in &pool.types {
        let _ = writeln!(text, "#include \"{}.hpp\"", one.name);
    }
    let _ = writeln!(text, "\nnamespace {library} {{\n\n/* A pool. */");
    let _ = writeln!(text, "class {own} : public everbyte::bridge::pool<{own}, detail, {first}> {{\n public:");
    let _ = writeln!(text, "  static constexpr const char* type_name = \"{own}\";");
    let _ = writeln!(text, "  using everbyte::bridge::pool<{own}, detail, {first}>::pool;\n");
    for one in &pool.types {
        let declared: Vec<String> = one.classes.iter().map(|class| format!("class {class}")).collect();
        if !declared.is_empty() {
            let _ = writeln!(text, "  template <{}>", declared.join(", "));
        }
        let arguments = [vec![own.to_string()], one.classes.clone()].concat();
        let _ = writeln!(text, "  using {0} = {library}::{0}<{1}>;", one.name, arguments.join(", "));
    }
    let _ = writeln!(text, "}};\n\n}}  // namespace {library}\n\n#endif");
    Ok(Header { name: format!("{own}.hpp"), text })
}

fn type_header(library: &str, shared: &SharedType<'_>) -> Result<Header, Error> {
    let own = name(&shared.of.name, &shared.of.name)?;
    let mut text = head(library, own);
    let _ = writeln!(text, "#include \"lib.h\"\n\nnamespace {library} {{\n");
    for (pool, _) in &shared.pools {
        let _ = writeln!(text, "class {pool};");
    }
    let _ = writeln!(
        text,
        "\n/* The place of the functions of `{own}` in each pool. */\ntemplate <class Pool>\nstruct {own}_in;"
    );
    for (pool, first) in &shared.pools {
        let _ = writeln!(
            text,
            "template <>\nstruct {own}_in<{pool}> {{\n  static constexpr std::size_t first = {first};\n}};"
        );
    }
    text.push('\n');
    comment(&mut text, "", &shared.of.docs);
    let classes = &shared.of.classes;
    for class in classes {
        name(class, own)?;
    }
    let base = [vec!["Pool".to_string(), format!("{own}_in<Pool>::first")], classes.clone()].concat().join(", ");
    let base = format!("everbyte::bridge::vessel<{base}>");
    let declared: String = classes.iter().map(|class| format!(", class {class}")).collect();
    let _ = writeln!(text, "template <class Pool{declared}>\nclass {own} : public {base} {{");
    let _ = writeln!(text, "  using base = {base};\n  template <class, class, std::size_t>");
    text += "  friend class everbyte::bridge::pool;\n  using base::base;\n\n public:\n";
    let _ = writeln!(text, "  static constexpr std::size_t root_index = {own}_in<Pool>::first;");
    for (index, method) in shared.of.methods.iter().enumerate() {
        text.push('\n');
        comment(&mut text, "  ", &method.docs);
        text += &method_text(shared.of, method, TYPE_ENTRIES + index)?;
    }
    let _ = writeln!(text, "}};\n\n}}  // namespace {library}\n\n#endif");
    Ok(Header { name: format!("{own}.hpp"), text })
}

fn comment(text: &mut String, indent: &str, docs: &str) {
    let safe = docs.trim_end().replace("*/", "* /");
    let lines: Vec<&str> = safe.lines().collect();
    if !lines.is_empty() {
        let _ = writeln!(text, "{indent}/* {} */", lines.join(&format!("\n{indent} * ")));
    }
}

fn method_text(one: &TypeLines, method: &MethodLine, index: usize) -> Result<String, Error> {
    let place = format!("{}::{}", one.name, method.name);
    let called = name(&method.name, &place)?;
    let returns = of(&method.returns, &one.classes, &place)?;
    let (mut declared, mut types, mut passed, mut functions) = (Vec::new(), String::new(), Vec::new(), Vec::new());
    for parameter in &method.parameters {
        let (name, of) = (name(&parameter.name, &place)?, of(&parameter.of, &one.classes, &place)?);
        let _ = write!(types, ", {of}");
        match parameter.of.split('<').next() {
            // The functions of the standard library for the class.
            Some("Hash" | "Equal") => passed.push("{}".into()),
            Some("Visit") => {
                functions.push(format!("class F{name}"));
                declared.push(format!("F{name}&& {name}"));
                passed.push(format!("{of}::over({name})"));
            }
            Some("Gen") => {
                declared.push(format!(
                    "const {}& {name}",
                    of.trim_start_matches("everbyte::bridge::gen<").trim_end_matches('>')
                ));
                passed.push(format!("{{{name}}}"));
            }
            _ => {
                declared.push(format!("{of} {name}"));
                passed.push(name.to_string());
            }
        }
    }
    let mut call = format!("read<{index}, {returns}{types}>");
    if method.changes {
        declared.insert(0, "everbyte::transaction<Pool, Brand>& in_transaction".into());
        passed.insert(0, "in_transaction".into());
        functions.insert(0, "class Brand".into());
        call = format!("change<{index}, {returns}, Brand{types}>");
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
