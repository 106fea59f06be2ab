//! What opening compares: the description says all that the bytes depend on, and a difference is named.

mod common;

use common::{description, store};
use everbyte_object::{Error, MemPool, PSafe, PString, Pool, pool};

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
    pub enum State {
        Idle = 1,
        Busy = 2,
    }
    #[derive(PSafe)]
    #[repr(C)]
    pub struct Machine {
        pub state: State,
        pub starts: u32,
    }
}

/// Declares a module with other versions of what `now` has, and opens the pool of `now` with them.
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
