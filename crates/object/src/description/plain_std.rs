//! [`PSafe`] for plain types of the standard library.
//!
//! Their layout is not promised by the language. Where fields are public, descriptions say where
//! they lie; where they are private, constants are looked at when this crate is compiled, and a
//! compiler that lays them out differently is refused with a message. So bytes are never taken for
//! what they are not.

use crate::description::derived::Field;
use crate::description::schema::{Schema, Shape, TypeName};
use crate::migrate::{Moving, PartId, Planner, Refusal};
use crate::{MemPool, Niche, PSafe, Tracer};
use std::mem::{MaybeUninit, offset_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::ops::{Range, RangeFrom, RangeFull, RangeTo, RangeToInclusive};
use std::time::{Duration, SystemTime};

/// A type that is its value: `name` in descriptions.
macro_rules! transparent {
    ($($Wrapper:ident),*) => { $(
        // SAFETY: one field, public and of the same size: its value in every respect.
        unsafe impl<P: MemPool, T: PSafe<P>> PSafe<P> for $Wrapper<T> {
            type At<'x> = $Wrapper<T::At<'x>>;
            type Outside = $Wrapper<T::Outside>;
            const CELLS: u8 = T::CELLS;
            const NICHE: Niche = {
                assert!(size_of::<Self>() == size_of::<T>() && offset_of!($Wrapper<T>, 0) == 0);
                Niche::of_tuple(&[(0, T::NICHE)])
            };

            fn describe(schema: &mut Schema) -> TypeName {
                schema.wrapper::<T, P>(stringify!($Wrapper))
            }

            unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
                // SAFETY: the caller's; it is its value.
                unsafe { T::trace(this.cast(), tracer) }
            }

            fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
                planner.wrapper::<Self, T>(stored, stringify!($Wrapper))
            }

            unsafe fn moved(from: *const u8, part: PartId, moving: &Moving<'_, P>) -> Self {
                // SAFETY: the caller's; it is its value.
                $Wrapper(unsafe { moving.field::<T>(from, part, 0) })
            }
        }
    )* };
}

use std::cmp::Reverse;
use std::num::{Saturating, Wrapping};
transparent!(Wrapping, Saturating, Reverse);

/// A struct with public fields of one type.
macro_rules! fields {
    ($($Type:ident { $($field:ident $index:literal),* })*) => { $(
        // SAFETY: as its fields, whose places are part of the description.
        unsafe impl<P: MemPool, T: PSafe<P>> PSafe<P> for $Type<T> {
            type At<'x> = $Type<T::At<'x>>;
            type Outside = $Type<T::Outside>;
            const CELLS: u8 = T::CELLS;
            const NICHE: Niche = Niche::of_tuple(&[$((offset_of!($Type<T>, $field), T::NICHE)),*]);

            fn describe(schema: &mut Schema) -> TypeName {
                let of = T::describe(schema);
                schema.define::<Self, P>(format!("{}<{of}>", stringify!($Type)).into(), |_| {
                    Shape::of::<Self>()$(.field(stringify!($field), &of, offset_of!($Type<T>, $field)))*
                })
            }

            unsafe fn trace(this: *const Self, tracer: &mut Tracer<'_>) {
                $(
                    tracer.enter(stringify!($field));
                    // SAFETY: a field of the bytes at `this`.
                    unsafe { T::trace(&raw const (*this).$field, tracer) };
                    tracer.leave();
                )*
            }

            fn plan(planner: &mut Planner<P>, stored: &str) -> Result<PartId, Refusal> {
                let fields = [$(Field::new::<T>(stringify!($field), offset_of!($Type<T>, $field))),*];
                planner.of_fields::<Self>(stored, concat!(stringify!($Type), "<"), &fields)
            }

            unsafe fn moved(from: *const u8, part: PartId, moving: &Moving<'_, P>) -> Self {
                // SAFETY: the caller's.
                $Type { $($field: unsafe { moving.field::<T>(from, part, $index) }),* }
            }
        }
    )* };
}

fields! {
    Range { start 0, end 1 }
    RangeFrom { start 0 }
    RangeTo { end 0 }
    RangeToInclusive { end 0 }
}

/// The bytes of a value; those that are padding are not initialised.
const fn bytes<T: Copy, const N: usize>(value: T) -> [MaybeUninit<u8>; N] {
    assert!(size_of::<T>() == N);
    // SAFETY: as large, and any byte is one that may be uninitialised.
    unsafe { std::mem::transmute_copy::<T, [MaybeUninit<u8>; N]>(&value) }
}

/// Whether `bytes` lie at `at`.
const fn lies(all: &[MaybeUninit<u8>], at: usize, bytes: &[u8]) -> bool {
    let mut index = 0;
    while index < bytes.len() {
        // SAFETY: a byte of a value; one that is padding does not compile.
        if unsafe { all[at + index].assume_init() } != bytes[index] {
            return false;
        }
        index += 1;
    }
    true
}

const SECONDS: u64 = 0x1122_3344_5566_7788;
const NANOSECONDS: u32 = 0x0a0b_0c0d;

const _: () = {
    let all = bytes::<Duration, 16>(Duration::new(SECONDS, NANOSECONDS));
    assert!(lies(&all, 0, &SECONDS.to_le_bytes()) && lies(&all, 8, &NANOSECONDS.to_le_bytes()), "layout of `Duration`");
    assert!(lies(&bytes::<Ipv4Addr, 4>(Ipv4Addr::new(1, 2, 3, 4)), 0, &[1, 2, 3, 4]), "layout of `Ipv4Addr`");
    let six = Ipv6Addr::new(0x0102, 0x0304, 0, 0, 0, 0, 0, 0x0e0f);
    assert!(
        lies(&bytes::<Ipv6Addr, 16>(six), 0, &[1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0e, 0x0f]),
        "of `Ipv6Addr`"
    );
    let four = bytes::<IpAddr, 17>(IpAddr::V4(Ipv4Addr::new(1, 2, 3, 4)));
    assert!(lies(&four, 0, &[0, 1, 2, 3, 4]), "layout of `IpAddr`");
    assert!(lies(&bytes::<IpAddr, 17>(IpAddr::V6(six)), 0, &[1, 1, 2, 3, 4, 0]), "layout of `IpAddr`");
    let socket = bytes::<SocketAddrV4, 6>(SocketAddrV4::new(Ipv4Addr::new(1, 2, 3, 4), 0x0506));
    assert!(lies(&socket, 0, &[1, 2, 3, 4]) && lies(&socket, 4, &0x0506_u16.to_le_bytes()), "layout of `SocketAddrV4`");
    assert!(lies(&bytes::<SystemTime, 16>(SystemTime::UNIX_EPOCH), 0, &[0; 12]), "layout of `SystemTime`");
    // Its nanoseconds are not its first field: the first number that they never are says `None`.
    let none = bytes::<Option<SystemTime>, 16>(None);
    assert!(lies(&none, 8, &1_000_000_000_u32.to_le_bytes()), "layout of `SystemTime`");
};

/// Plain data of that name, with the line that describes it; `trace` looks at its bytes.
macro_rules! described {
    ($($t:ty, $name:literal, $niche:expr, $trace:expr, $shape:expr;)*) => { $(
        // SAFETY: plain data, whose layout was looked at above and is part of the description.
        unsafe impl<P: MemPool> PSafe<P> for $t {
            type At<'x> = $t;
            type Outside = $t;
            const CELLS: u8 = 0;
            const NICHE: Niche = $niche;

            fn describe(schema: &mut Schema) -> TypeName {
                schema.define::<$t, P>($name.into(), |_| $shape(Shape::of::<$t>()))
            }

            unsafe fn trace(this: *const $t, tracer: &mut Tracer<'_>) {
                // SAFETY: the caller's: the bytes of a value.
                unsafe { $trace(this.cast::<u8>(), tracer) }
            }
        }
    )* };
}

unsafe fn any(_: *const u8, _: &mut Tracer<'_>) {}

/// Fewer than a second's nanoseconds lie behind eight bytes.
unsafe fn time(this: *const u8, tracer: &mut Tracer<'_>) {
    let at = this.wrapping_add(8);
    // SAFETY: the caller's: 16 bytes, aligned to 8.
    let nanoseconds = unsafe { at.cast::<u32>().read() };
    if nanoseconds >= 1_000_000_000 {
        tracer.enter("nanos");
        tracer.invalid(at, "not a `Duration::Nanoseconds`");
        tracer.leave();
    }
}

unsafe fn address(this: *const u8, tracer: &mut Tracer<'_>) {
    // SAFETY: the caller's: the first byte of the value.
    if unsafe { this.read() } > 1 {
        tracer.invalid(this, "not a variant of `IpAddr`");
    }
}

unsafe fn order(this: *const u8, tracer: &mut Tracer<'_>) {
    // SAFETY: the caller's: the one byte of the value.
    if !matches!(unsafe { this.read() }.cast_signed(), -1..=1) {
        tracer.invalid(this, "not a variant of `Ordering`");
    }
}

fn seconds(shape: Shape, of: &str) -> Shape {
    shape.field("secs", &of.into(), 0).field("nanos", &"Duration::Nanoseconds".into(), 8)
}

/// Spare values of the nanoseconds, of which an `Option` takes the first.
const NANOS: Niche = Niche::At(8, 4, (1 << 32) - 1_000_000_000);

described! {
    Duration, "Duration", NANOS, time, |shape| seconds(shape, "u64");
    SystemTime, "SystemTime", NANOS, time, |shape| seconds(shape, "i64");
    Ipv4Addr, "Ipv4Addr", Niche::None, any, |shape: Shape| shape.field("octets", &"[u8; 4]".into(), 0);
    Ipv6Addr, "Ipv6Addr", Niche::None, any, |shape: Shape| shape.field("octets", &"[u8; 16]".into(), 0);
    SocketAddrV4, "SocketAddrV4", Niche::None, any,
        |shape: Shape| shape.field("ip", &"[u8; 4]".into(), 0).field("port", &"u16".into(), 4);
    IpAddr, "IpAddr", Niche::of_tag(1, &[0, 1]), address,
        |shape: Shape| shape.tagged("u8", &[("V4", 0), ("V6", 1)])
            .field("V4.0", &"[u8; 4]".into(), 1).field("V6.0", &"[u8; 16]".into(), 1);
    std::cmp::Ordering, "Ordering", Niche::of_tag(1, &[-1, 0, 1]), order,
        |shape: Shape| shape.tagged("i8", &[("Less", -1), ("Equal", 0), ("Greater", 1)]);
    RangeFull, "RangeFull", Niche::None, any, |shape| shape;
}
