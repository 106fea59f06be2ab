//! Loads, stores and logging of integers and floating-point numbers up to eight bytes.
//!
//! The forms that say what has been loaded or stored before (RaR, RaW, RfW, WaR, WaW) do what the
//! plain ones do: the engine finds out.

use super::access;

/// A type that the names are for.
trait Scalar: Copy {
    fn from_word(word: u64) -> Self;
    fn to_word(self) -> u64;
}

macro_rules! integers {
    ($($type:ty)*) => {
        $(impl Scalar for $type {
            #[inline(always)]
            fn from_word(word: u64) -> $type {
                word as $type
            }
            #[inline(always)]
            fn to_word(self) -> u64 {
                u64::from(self)
            }
        })*
    };
}
integers!(u8 u16 u32 u64);

macro_rules! floats {
    ($($type:ty as $bits:ty)*) => {
        $(impl Scalar for $type {
            #[inline(always)]
            fn from_word(word: u64) -> $type {
                <$type>::from_bits(word as $bits)
            }
            #[inline(always)]
            fn to_word(self) -> u64 {
                self.to_bits().into()
            }
        })*
    };
}
floats!(f32 as u32 f64 as u64);

macro_rules! names {
    ($type:ty: $($load:ident)*; $($store:ident)*; $log:ident) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $load(from: *const $type) -> $type {
            Scalar::from_word(access::load::<{ size_of::<$type>() }>(from.expose_provenance()))
        })*
        $(#[unsafe(no_mangle)]
        extern "C" fn $store(to: *mut $type, value: $type) {
            access::store::<{ size_of::<$type>() }>(to.expose_provenance(), value.to_word());
        })*
        #[unsafe(no_mangle)]
        extern "C" fn $log(at: *const $type) {
            access::log(at.expose_provenance(), size_of::<$type>());
        }
    };
}
names!(u8: _ITM_RU1 _ITM_RaRU1 _ITM_RaWU1 _ITM_RfWU1; _ITM_WU1 _ITM_WaRU1 _ITM_WaWU1; _ITM_LU1);
names!(u16: _ITM_RU2 _ITM_RaRU2 _ITM_RaWU2 _ITM_RfWU2; _ITM_WU2 _ITM_WaRU2 _ITM_WaWU2; _ITM_LU2);
names!(u32: _ITM_RU4 _ITM_RaRU4 _ITM_RaWU4 _ITM_RfWU4; _ITM_WU4 _ITM_WaRU4 _ITM_WaWU4; _ITM_LU4);
names!(u64: _ITM_RU8 _ITM_RaRU8 _ITM_RaWU8 _ITM_RfWU8; _ITM_WU8 _ITM_WaRU8 _ITM_WaWU8; _ITM_LU8);
names!(f32: _ITM_RF _ITM_RaRF _ITM_RaWF _ITM_RfWF; _ITM_WF _ITM_WaRF _ITM_WaWF; _ITM_LF);
names!(f64: _ITM_RD _ITM_RaRD _ITM_RaWD _ITM_RfWD; _ITM_WD _ITM_WaRD _ITM_WaWD; _ITM_LD);
