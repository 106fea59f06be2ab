//! [`PSafe`] for numbers, `bool`, `char`, options, arrays and tuples.

use crate::description::derived::Field;
use crate::description::niche::{Tag, number};
use crate::description::schema::{Schema, Shape, TypeName};
use crate::migrate::{Moving, PartId, Planner, Refusal};
use crate::{MemPool, Niche, PSafe, Tracer};

macro_rules! plain {
    ($($t:ty, $name:expr, $valid:expr, $niche:expr;)*) => { $(
        // SAFETY: plain data, the same bytes in every build.
        #[diagnostic::do_not_recommend]
        unsafe impl<P: MemPool> PSafe<P> for $t {
            type At<'x> = $t;
            type Outside = $t;
            const CELLS: u8 = 0;
            const NICHE: Niche = $niche;

            fn describe(_: &mut Schema) -> TypeName {
                $name.into()
            }

            unsafe fn trace(this: *const $t, tracer: &mut Tracer<'_>) {
                #[allow(clippy::redundant_closure_call)]
                if size_of::<$t>() > 0 && !($valid)(this) {
                    tracer.invalid(this.cast(), &format!("not a `{}`", $name));
                }
            }
        }
    )* };
}

fn any<T>(_: *const T) -> bool {
    true
}

macro_rules! numbers {
    ($($t:ty),*) => { plain!($($t, stringify!($t), any, Niche::None;)*); };
}

numbers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, ());
plain!(
    // SAFETY: a byte of the value.
    bool, "bool", |this: *const bool| unsafe { this.cast::<u8>().read() } < 2, Niche::At(0, 1, 254);
    // SAFETY: the value's four bytes, aligned.
    char, "char", |this: *const char| char::from_u32(unsafe { this.cast::<u32>().read() }).is_some(),
        Niche::At(0, 4, (1 << 32) - 0x11_0000);
);

macro_rules! nonzero {
    ($($name:ident $number:ty),*) => {
        plain!(
            $(
                // SAFETY: the value's bytes, aligned.
                std::num::$name, concat!("std::num::", stringify!($name)), |this: *const std::num::$name| unsafe { this.cast::<$number>().read() } != 0,
                    Niche::At(0, size_of::<$number>(), 1);
            )*
        );
    };
}

nonzero!(
    NonZeroU8 u8, NonZeroU16 u16, NonZeroU32 u32, NonZeroU64 u64, NonZeroU128 u128, NonZeroUsize usize,
    NonZeroI8 i8, NonZeroI16 i16, NonZeroI32 i32, NonZeroI64 i64, NonZeroI128 i128, NonZeroIsize isize
);

// SAFETY: as its value, with a tag whose place is part of the description (NICHE-1).
unsafe impl<P: MemPool, T: PSafe<P>> PSafe<P> for Option<T> {
    type At<'x> = Option<T::At<'x>>;
    type Outside = Option<T::Outside>;
    const CELLS: u8 = T::CELLS;
    const NICHE: Niche = Tag::of::<T>(T::NICHE).niche(T::NICHE);

    fn describe(schema: &mut Schema) -> TypeName {
        let value = T::describe(schema);
        let name: TypeName = format!("Option<{value}>").into();
        schema.define::<Self, P>(name, |_| Shape::of_option::<Self>(const { Tag::of::<T>(T::NICHE) }, &value))
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        let value = match const { Tag::of::<T>(T::NICHE) } {
            Tag::Before { value } => {
                // SAFETY: the caller's: the first byte of the bytes at `this`.
                match unsafe { this.cast::<u8>().read() } {
                    0 => return,
                    1 => this.wrapping_byte_add(value).cast(),
                    _ => return tracer.invalid(this.cast(), "not a variant of `Option`"),
                }
            }
            Tag::Inside { at, bytes, none } => {
                // SAFETY: the caller's: inside the bytes at `this`, which were all stored once.
                match unsafe { number(this.cast::<u8>().wrapping_add(at), bytes) } {
                    found if found == none => return,
                    _ => this.cast(),
                }
            }
        };
        // SAFETY: a part of the bytes at `this`.
        unsafe { T::trace(value, tracer) }
    }

    fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
        planner.option::<T>(stored)
    }

    unsafe fn moved(from: *const u8, part: PartId, moving: &Moving<'_, P>) -> Self {
        // SAFETY: the caller's.
        unsafe { moving.option(from, part) }
    }
}

// SAFETY: as its elements.
unsafe impl<P: MemPool, T: PSafe<P>, const N: usize> PSafe<P> for [T; N] {
    type At<'x> = [T::At<'x>; N];
    type Outside = [T::Outside; N];
    const CELLS: u8 = T::CELLS;
    const NICHE: Niche = if N == 0 { Niche::None } else { T::NICHE };

    fn describe(schema: &mut Schema) -> TypeName {
        format!("[{}; {N}]", T::describe(schema)).into()
    }

    unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
        for index in 0..N {
            tracer.enter_index(index);
            // SAFETY: an element of the bytes at `this`.
            unsafe { T::trace(this.cast::<T>().wrapping_add(index), tracer) };
            tracer.leave();
        }
    }

    fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
        planner.array::<T, N>(stored)
    }

    unsafe fn moved(from: *const u8, part: PartId, moving: &Moving<'_, P>) -> Self {
        // SAFETY: the caller's.
        std::array::from_fn(|index| unsafe { moving.element(from, part, index) })
    }
}

const fn deepest(cells: &[u8]) -> u8 {
    let (mut index, mut most) = (0, 0);
    while index < cells.len() {
        if cells[index] > most {
            most = cells[index];
        }
        index += 1;
    }
    most
}

macro_rules! tuple {
    ($($t:ident $index:tt),*) => {
        // SAFETY: as its fields, whose places are part of the description.
        #[diagnostic::do_not_recommend]
        unsafe impl<P: MemPool, $($t: PSafe<P>),*> PSafe<P> for ($($t,)*) {
            type At<'x> = ($($t::At<'x>,)*);
            type Outside = ($($t::Outside,)*);
            const CELLS: u8 = deepest(&[$($t::CELLS),*]);
            const NICHE: Niche = Niche::of_tuple(&[$((std::mem::offset_of!(Self, $index), $t::NICHE)),*]);

            fn describe(schema: &mut Schema) -> TypeName {
                let names = [$($t::describe(schema)),*];
                let all: Vec<&str> = names.iter().map(|name| &**name).collect();
                schema.define::<Self, P>(format!("({})", all.join(", ")).into(), |_| {
                    Shape::of::<Self>()$(.field(stringify!($index), &names[$index], std::mem::offset_of!(Self, $index)))*
                })
            }

            unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
                $(
                    tracer.enter(stringify!($index));
                    // SAFETY: a field of the bytes at `this`.
                    unsafe { $t::trace(&raw const (*this).$index, tracer) };
                    tracer.leave();
                )*
            }

            fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
                let fields = [$(Field::new::<$t>(stringify!($index), std::mem::offset_of!(Self, $index))),*];
                planner.of_fields::<Self>(stored, "(", &fields)
            }

            unsafe fn moved(from: *const u8, part: PartId, moving: &Moving<'_, P>) -> Self {
                // SAFETY: the caller's.
                ($(unsafe { moving.field::<$t>(from, part, $index) },)*)
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);

// SAFETY: no bytes.
unsafe impl<P: MemPool, T: 'static> PSafe<P> for std::marker::PhantomData<T> {
    type At<'x> = std::marker::PhantomData<T>;
    type Outside = std::marker::PhantomData<T>;
    const CELLS: u8 = 0;
    const NICHE: Niche = Niche::None;

    fn describe(_: &mut Schema) -> TypeName {
        "PhantomData".into()
    }

    unsafe fn trace(_: *const Self, _: &mut Tracer<'_>) {}
}
