//! The comparison at an opening: the description says all that the bytes depend on, and a
//! difference is named.

use crate::common::{description, make_old, store};
use everbyte_object::layout::{FORMAT, HEADER, Header};
use everbyte_object::{Error, Journal, MemPool, Migrate, PSafe, PString, Pool, UntypedPool, pool};
use std::num::NonZeroU64;

pool!(P);

/// Declares an enum of that `repr`, and a test that its description has every field at its place.
macro_rules! places {
    ($test:ident, $($repr:ident),+) => {
        #[test]
        fn $test() {
            #[derive(PSafe)]
            #[repr($($repr),+)]
            enum Shape<P: MemPool> {
                Empty,
                One(u8),
                Two { wide: u64, narrow: u16 },
                Text(u8, PString<P>, [u32; 2]),
            }
            pool!(Own);
            let store = store();
            drop(Own::create::<Shape<Own>>(&store, "shape", |_| Shape::Empty).unwrap());
            let found = description(&store, "shape");
            let check = |value: Shape<Own>, label: &str, find: fn(&Shape<Own>) -> *const u8| {
                let offset = find(&value) as usize - (&raw const value) as usize;
                let label = format!("{label} @{offset}");
                assert!(found.contains(&format!("{label};")) || found.contains(&format!("{label} }}")), "{label}: {found}");
            };
            let one = |shape: &Shape<Own>| match shape {
                Shape::One(byte) => &raw const *byte,
                Shape::Two { narrow, .. } => (&raw const *narrow).cast(),
                Shape::Text(_, text, _) => (&raw const *text).cast(),
                Shape::Empty => unreachable!(),
            };
            let other = |shape: &Shape<Own>| match shape {
                Shape::Two { wide, .. } => (&raw const *wide).cast(),
                Shape::Text(_, _, words) => (&raw const *words).cast(),
                _ => unreachable!(),
            };
            check(Shape::One(1), "One.0: u8", one);
            check(Shape::Two { wide: 1, narrow: 2 }, "Two.wide: u64", other);
            check(Shape::Two { wide: 1, narrow: 2 }, "Two.narrow: u16", one);
            check(Shape::Text(1, PString::new(), [2; 2]), "Text.1: PString", one);
            check(Shape::Text(1, PString::new(), [2; 2]), "Text.2: [u32; 2]", other);
            let tags = ["Empty = 0;", "One = 1;", "Two = 2;", "Text = 3;"];
            assert!(tags.iter().all(|tag| found.contains(tag)), "{found}");
        }
    };
}

places!(variants_lie_where_the_description_says_u8, u8);
places!(variants_lie_where_the_description_says_u16, u16);
places!(variants_lie_where_the_description_says_i64, i64);
places!(variants_lie_where_the_description_says_c, C);
places!(variants_lie_where_the_description_says_c_u8, C, u8);
places!(variants_lie_where_the_description_says_c_u64, C, u64);

mod now {
    use super::*;
    #[derive(PSafe)]
    #[repr(u8)]
    #[allow(dead_code)]
    pub(super) enum State {
        Idle = 1,
        Busy = 2,
    }
    #[derive(PSafe)]
    #[repr(C)]
    pub(super) struct Machine {
        pub state: State,
        pub starts: u32,
    }
}

/// Declares a module with other versions of the types of `now`, and opens the pool of `now` with
/// them.
macro_rules! refused {
    ($test:ident, $expect:literal, $state:item, $($field:ident: $of:ty),* $(; $version:literal)?) => {
        #[test]
        fn $test() {
            #[derive(PSafe)]
            #[repr(u8)]
            #[allow(dead_code)]
            $state
            #[derive(PSafe)]
            $(#[persist(version = $version)])?
            #[repr(C)]
            struct Machine {
                $($field: $of),*
            }
            pool!(Own);
            let store = store();
            let make = Own::create::<now::Machine>(&store, "machine", |_| now::Machine { state: now::State::Idle, starts: 1 });
            drop(make.unwrap());
            let error = Own::open::<Machine>(&store, "machine").unwrap_err();
            assert!(matches!(error, Error::WrongType { .. }), "{error}");
            assert!(error.to_string().contains($expect), "{error}");
            assert_eq!(Own::open::<now::Machine>(&store, "machine").unwrap().starts, 1);
        }
    };
}

refused!(a_renamed_field, "field `begins` of `Machine` is new in the program", enum State { Idle = 1, Busy = 2 }, state: State, begins: u32);
refused!(a_field_of_another_type, "field `starts` of `Machine` is `u32 @4` in the pool and `i32 @4` in the program", enum State { Idle = 1, Busy = 2 }, state: State, starts: i32);
refused!(fields_in_another_order, "field `starts` of `Machine` is `u32 @4` in the pool and `u32 @0` in the program", enum State { Idle = 1, Busy = 2 }, starts: u32, state: State);
refused!(exchanged_tags, "variants of `State`: `Idle = 1` in the pool, `Idle = 2` in the program", enum State { Idle = 2, Busy = 1 }, state: State, starts: u32);
refused!(a_new_variant, "variant `Gone` of `State` is new in the program", enum State { Idle = 1, Busy = 2, Gone = 3 }, state: State, starts: u32);
refused!(another_version, "`Machine` is version 1 in the pool and version 7 in the program", enum State { Idle = 1, Busy = 2 }, state: State, starts: u32; 7);

/// Two types that the compiler gives one name are two types.
#[test]
fn types_of_one_name_are_told_apart() {
    #[derive(PSafe)]
    #[repr(C)]
    struct Part {
        n: u64,
    }
    type Outer = Part;
    {
        #[derive(PSafe)]
        #[repr(C)]
        struct Part {
            outer: Outer,
            letter: u8,
        }
        let store = store();
        drop(P::create::<Part>(&store, "part", |_| Part { outer: Outer { n: 1 }, letter: 2 }).unwrap());
        let expected = "root Part\nPart 16 8 { outer: Part#2 @0; letter: u8 @8 }\nPart#2 8 8 { n: u64 @0 }\n";
        assert_eq!(description(&store, "part"), expected);
        let part = P::open::<Part>(&store, "part").unwrap();
        assert_eq!((part.outer.n, part.letter), (1, 2));
    }
}

/// Structs and tuples in which several numbers have as many values to spare: the description names
/// the one that tells `None`. The bytes of `None` and of values are looked at where it says.
macro_rules! options {
    ($($test:ident: $of:ty = [$($value:expr),+];)*) => { $(
        #[test]
        fn $test() {
            pool!(Own);
            let store = store();
            let values: Vec<Option<$of>> = vec![None, $(Some($value)),+];
            for (number, value) in values.into_iter().enumerate() {
                let (name, is_none) = (number.to_string(), value.is_none());
                let root = Own::create::<Option<$of>>(&store, &name, |_| value).unwrap();
                assert_eq!(root.check().unwrap(), []);
                drop(root);
                let text = description(&store, &name);
                let root = format!("{} ", text.lines().next().unwrap().strip_prefix("root ").unwrap());
                let line = text.lines().find(|line| line.starts_with(&root)).unwrap();
                let (head, parts) = line.split_once(" { None = ").expect(&text);
                let tag = head.rsplit(' ').next().unwrap();
                let (of, at) = tag.split_once('@').unwrap_or((tag, "0"));
                let bytes = of.strip_prefix('u').expect(&text).parse::<usize>().unwrap() / 8;
                let none: u64 = parts.split(';').next().unwrap().parse().expect(&text);
                let prime = store.object(&name).unwrap().prime();
                let header: Header = store.media().get(prime + HEADER);
                let mut number = store.media().read_vec(prime + header.root + at.parse::<u64>().unwrap(), bytes);
                number.resize(8, 0);
                let found = u64::from_le_bytes(number.try_into().unwrap());
                assert_eq!(found == none, is_none, "{found} in {text}");
                let report = UntypedPool::open(&store, &name).unwrap().examine(&|_| ());
                assert!(report.is_clean() && report.unread.is_empty(), "{report:?}");
            }
        }
    )* };
}

#[derive(PSafe)]
#[repr(C)]
struct Ends(u64, NonZeroU64, NonZeroU64);

#[derive(PSafe)]
#[repr(C)]
struct Begins(bool, u8, bool, bool);

#[derive(PSafe)]
#[repr(C)]
struct Middle(u64, bool, u8, bool, u32);

#[derive(PSafe)]
#[repr(C)]
struct Nested(u32, Middle, Option<bool>, Option<Option<u128>>, Option<Option<u128>>);

const ONE: NonZeroU64 = NonZeroU64::new(1).unwrap();

options! {
    an_option_of_a_struct_whose_last_niche_is_at_its_end: Ends = [Ends(0, ONE, ONE), Ends(5, NonZeroU64::MAX, ONE)];
    an_option_of_a_struct_whose_first_niche_is_at_its_beginning: Begins = [Begins(false, 2, false, true), Begins(true, 2, true, false)];
    an_option_of_a_struct_whose_niches_are_in_the_middle: Middle = [Middle(2, true, 2, false, 2), Middle(0, false, 2, true, 0)];
    an_option_of_a_struct_of_such_structs: Nested = [
        Nested(2, Middle(2, true, 2, true, 2), None, None, Some(None)),
        Nested(0, Middle(0, false, 2, false, 0), Some(true), Some(Some(2)), None)
    ];
    an_option_of_a_pair_of_pointers: (NonZeroU64, NonZeroU64) = [(ONE, NonZeroU64::MAX), (NonZeroU64::MAX, ONE)];
    an_option_of_a_tuple_whose_niches_are_at_its_end: (u64, bool, bool) = [(2, true, false), (0, false, true)];
    an_option_of_a_tuple_of_letters: (char, char, u16, char) = [('a', '\0', 0, 'b'), ('\0', 'a', 9, char::MAX)];
}

/// Pools that an earlier Everbyte made of such types do not say it: they are refused, with the
/// reason.
#[test]
fn a_pool_that_does_not_say_where_none_lies_is_refused() {
    pool!(Own);
    let store = store();
    type Pair = (NonZeroU64, NonZeroU64);
    drop(Own::create::<Option<Pair>>(&store, "x", |_| None).unwrap());
    let text = description(&store, "x");
    let vague = text.replace("16 8 u64 { None = 0;", "16 8 ? { None = else;");
    assert_ne!(text, vague);
    make_old(&store, "x", FORMAT, &vague);
    let refused = Own::open::<Option<Pair>>(&store, "x").unwrap_err();
    assert!(matches!(refused, Error::WrongType { .. }), "{refused}");
    assert!(
        refused.to_string().contains("does not say how `Option<(std::num::NonZeroU64, std::num::NonZeroU64)>`"),
        "{refused}"
    );
}

#[allow(non_camel_case_types)]
mod raw_v1 {
    use super::*;

    #[derive(PSafe)]
    #[repr(C)]
    pub(super) struct r#type {
        pub r#match: u64,
        pub r#gen: r#enum,
    }
    #[derive(PSafe)]
    #[repr(u8)]
    pub(super) enum r#enum {
        r#loop { r#as: u8 } = 1,
    }
}

#[allow(non_camel_case_types)]
mod raw_v2 {
    use super::*;

    #[derive(PSafe)]
    #[persist(version = 2, from = Before)]
    #[repr(C)]
    pub(super) struct r#type {
        pub r#match: u64,
        pub r#gen: raw_v1::r#enum,
    }
    #[derive(PSafe)]
    #[persist(name = "type")]
    #[repr(C)]
    pub(super) struct Before {
        r#match: u64,
        r#gen: raw_v1::r#enum,
    }
    impl<P: MemPool> Migrate<Before, P> for r#type {
        fn migrate(old: Before, _: &Journal<P>) -> Self {
            r#type { r#match: old.r#match + 1, r#gen: old.r#gen }
        }
    }
}

/// An edition may turn a name into a keyword: descriptions contain the name alone.
#[test]
fn names_are_described_without_the_mark_of_raw_ones() {
    pool!(Own);
    let store = store();
    let value = || raw_v1::r#type { r#match: 1, r#gen: raw_v1::r#enum::r#loop { r#as: 2 } };
    drop(Own::create::<raw_v1::r#type>(&store, "x", |_| value()).unwrap());
    let expected = "root type\ntype 16 8 { match: u64 @0; gen: enum @8 }\nenum 2 1 u8 { loop = 1; loop.as: u8 @1 }\n";
    assert_eq!(description(&store, "x"), expected);
    assert_eq!(Own::open_migrating::<raw_v2::r#type>(&store, "x").unwrap().r#match, 2);
}
