//! Names that C++, or the headers, keep for themselves.

use crate::Error;

/// Keywords of C++, macros of the standard headers that look like names, and namespaces that every
/// header uses.
const WORDS: &str = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t \
    class compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default \
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable \
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires \
    return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try \
    typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq \
    alloca assert errno i386 linux major makedev minor offsetof stderr stdin stdout unix BUFSIZ EOF NULL \
    std Pool Brand";

/// Members of a pool's class, in which its types have names, too.
const MEMBERS: &str = "pool root cpp_root make_persistent txn sync opened library type_name first_ base_ open_ handle_";

/// The prefix of names in the headers.
const PREFIX: &str = "everbyte";

fn is_word(words: &str, name: &str) -> bool {
    words.split_whitespace().any(|word| word == name)
}

/// A name of a library, a pool, a method or an argument.
pub(super) fn name<'n>(name: &'n str, place: &str) -> Result<&'n str, Error> {
    let is_reserved = name.starts_with('_') || name.contains("__") || name.to_ascii_lowercase().starts_with(PREFIX);
    match is_reserved || is_word(WORDS, name) {
        true => taken(name, place),
        false => Ok(name),
    }
}

/// A name of a type, which is a member of pools' classes.
pub(super) fn of_type<'n>(one: &'n str, place: &str) -> Result<&'n str, Error> {
    match is_word(MEMBERS, one) {
        true => taken(one, place),
        false => name(one, place),
    }
}

/// A name in a place where each of `others` is one.
pub(super) fn beside<'n>(one: &'n str, others: &[&str], place: &str) -> Result<&'n str, Error> {
    match others.contains(&one) {
        true => taken(one, place),
        false => name(one, place),
    }
}

fn taken<T>(name: &str, place: &str) -> Result<T, Error> {
    Err(Error::Header {
        place: place.into(),
        detail: format!("`{name}` is taken in C++: export it under another name"),
    })
}

#[cfg(test)]
mod tests {
    use crate::{Description, headers};

    /// A library with one type of one method.
    fn described(text: &str) -> Result<Vec<headers::Header>, String> {
        let text = format!("everbyte-bridge 2\n{text}\n");
        headers::generate(&Description::parse(&text).unwrap()).map_err(|error| error.to_string())
    }

    /// Each would be a header that does not compile, or that means another thing.
    #[test]
    fn names_that_cpp_keeps_are_refused() {
        for (text, place) in [
            ("library class", "library"),
            ("library everbyte", "library"),
            ("library a\npool delete", "delete"),
            ("library a\npool a__b", "a__b"),
            ("library a\npool p\ntype root", "root"),
            ("library a\npool p\ntype Pool", "Pool"),
            ("library a\npool p\ntype t<_K>", "t"),
            ("library a\npool p\ntype t<p>", "t"),
            ("library a\npool p\ntype t<t>", "t"),
            ("library a\npool p\ntype t\n method t() -> ()", "t::t"),
            ("library a\npool p\ntype t\n method errno() -> ()", "t::errno"),
            ("library a\npool p\ntype t\n method everbyte_read() -> ()", "t::everbyte_read"),
            ("library a\npool p\ntype t<K>\n method K() -> ()", "t::K"),
            ("library a\npool p\ntype t<K>\n method m(K: u8) -> ()", "t::m"),
            ("library a\npool p\ntype t\n method m(x: u8, x: u8) -> ()", "t::m"),
            ("library a\npool p\ntype t\n method m(new: u8) -> ()", "t::m"),
            ("library a\npool p\ntype t\n method m(x: struct p 8 8 { x: u64 @0 }) -> ()", "p"),
            ("library a\npool p\ntype t\n method m(x: struct new 8 8 { x: u64 @0 }) -> ()", "new"),
            ("library a\npool p\ntype t\n method m(x: struct s 8 8 { new: u64 @0 }) -> ()", "s"),
            ("library a\npool p\ntype t\n method m(s: struct s 8 8 { x: u64 @0 }) -> ()", "t::m"),
            ("library a\npool p\ntype t\n method s() -> Option<struct s 8 8 { x: u64 @0 }>", "t::s"),
        ] {
            let said = described(text).expect_err(text);
            assert!(said.starts_with(&format!("`{place}`: `")) && said.contains("is taken in C++"), "{text}: {said}");
        }
    }

    /// One name stands for one struct.
    #[test]
    fn structs_of_one_name_are_one() {
        let two = "library a\npool p\ntype t\n method m(x: struct s 8 8 { x: u64 @0 }) -> ()\n method n() -> struct s 8 8 { x: i64 @0 }";
        let said = described(two).unwrap_err();
        assert!(said.contains("two structs that cross have one name"), "{said}");
        let one = described(&two.replace("i64", "u64")).unwrap();
        assert_eq!(one[0].text.matches("struct s {\n  std::uint64_t x;\n};").count(), 1, "{}", one[0].text);
    }

    /// The guards of the files differ, whatever the names.
    #[test]
    fn each_header_has_a_guard_of_its_own() {
        let guards = |text: &str| -> Vec<String> {
            let made = described(text).unwrap();
            made.iter().map(|one| one.text.lines().nth(1).unwrap().to_string()).collect()
        };
        let mut all = guards("library a_b\npool p\ntype c\ntype lib");
        all.extend(guards("library a\npool p\ntype b_c\ntype lib\ntype LIB"));
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!((all.len(), count), (9, 9), "{all:?}");
    }
}
