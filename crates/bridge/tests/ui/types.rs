//! Types that cannot be exported (rows CB57, CB58, CB61).
use everbyte_bridge::{CppClass, Extern, export, library};
use everbyte_object::{Journal, MemPool, PCell, PSafe, pool};

pool!(P1, P2);

//@ without_a_pool: "generic over its pool" "P: MemPool"
mod without_a_pool {
    use super::*;
    #[derive(PSafe, Extern)]
    #[repr(C)]
    pub struct Plain {
        count: u64,
    }
}
//@ of_two_pools: "lies in one pool"
mod of_two_pools {
    use super::*;
    #[derive(Extern)]
    #[repr(C)]
    pub struct Two<P: MemPool, Q: MemPool> {
        first: PCell<u64, P>,
        second: PCell<u64, Q>,
    }
}
//@ private: "an exported type is public"
mod private {
    use super::*;
    #[derive(PSafe, Extern)]
    #[repr(C)]
    struct Hidden<P: MemPool> {
        count: PCell<u64, P>,
    }
}
//@ not_persistent: E0277 "cannot live in a pool"
mod not_persistent {
    use super::*;
    #[derive(PSafe, Extern)]
    #[repr(C)]
    pub struct Volatile<P: MemPool> {
        count: PCell<u64, P>,
        text: String,
    }
}
//@ a_struct_with_text: "named fields that are numbers"
mod a_struct_with_text {
    #[derive(Clone, Copy, everbyte_bridge::Passed)]
    #[repr(C)]
    pub struct Text {
        count: u64,
        text: &'static str,
    }
}
//@ a_struct_with_a_truth: "named fields that are numbers"
mod a_struct_with_a_truth {
    #[derive(Clone, Copy, everbyte_bridge::Passed)]
    #[repr(C)]
    pub struct Truth {
        is_true: bool,
    }
}
//@ a_struct_of_rusts_layout: "is `#[repr(C)]`"
mod a_struct_of_rusts_layout {
    #[derive(Clone, Copy, everbyte_bridge::Passed)]
    pub struct Loose {
        count: u64,
        small: u8,
    }
}
//@ a_struct_of_17_fields: "16 fields at most"
mod a_struct_of_17_fields {
    #[derive(Clone, Copy, everbyte_bridge::Passed)]
    #[repr(C)]
    pub struct Long {
        a: u8,
        b: u8,
        c: u8,
        d: u8,
        e: u8,
        f: u8,
        g: u8,
        h: u8,
        i: u8,
        j: u8,
        k: u8,
        l: u8,
        m: u8,
        n: u8,
        o: u8,
        p: u8,
        q: u8,
    }
}
//@ a_struct_with_a_parameter: "has no parameters"
mod a_struct_with_a_parameter {
    #[derive(Clone, Copy, everbyte_bridge::Passed)]
    #[repr(C)]
    pub struct Of<T> {
        count: T,
    }
}
//@ a_packed_struct: "is `#[repr(C)]`"
mod a_packed_struct {
    #[derive(Clone, Copy, everbyte_bridge::Passed)]
    #[repr(C, packed)]
    pub struct Packed {
        small: u8,
        count: u64,
    }
}
//@ a_class_kept_directly: "keep it in a `ByteArray<K, P>`"
mod a_class_kept_directly {
    use super::*;
    #[derive(Extern)]
    #[repr(C)]
    pub struct Direct<K: CppClass, P: MemPool> {
        count: PCell<u64, P>,
        key: K,
    }
}
//@ classes_kept_in_an_array: "keep it in a `ByteArray<K, P>`"
mod classes_kept_in_an_array {
    use super::*;
    #[derive(Extern)]
    #[repr(C)]
    pub struct Many<K: CppClass, P: MemPool> {
        count: PCell<u64, P>,
        keys: [K; 4],
    }
}
//@ named_badly: "a name in C++ is an identifier"
mod named_badly {
    use super::*;
    #[derive(PSafe, Extern)]
    #[bridge(name = "two words")]
    #[repr(C)]
    pub struct Named<P: MemPool> {
        count: PCell<u64, P>,
    }
}
//@ not_exported: E0277 E0599 "is not exported"
mod not_exported {
    use super::*;
    #[derive(PSafe)]
    #[repr(C)]
    pub struct Bare<P: MemPool> {
        count: PCell<u64, P>,
    }
    impl<P: MemPool> Bare<P> {
        pub fn new(_: &Journal<P>) -> Self {
            Bare { count: PCell::new(0) }
        }
    }
    library! { name one; pool P1 { Bare } }
}
//@ without_methods: E0277 E0599 "has no exported methods"
mod without_methods {
    use super::*;
    #[derive(PSafe, Extern)]
    #[repr(C)]
    pub struct Mute<P: MemPool> {
        count: PCell<u64, P>,
    }
    impl<P: MemPool> Mute<P> {
        pub fn new(_: &Journal<P>) -> Self {
            Mute { count: PCell::new(0) }
        }
    }
    library! { name two; pool P2 { Mute } }
}
//@ without_types: "at least one type"
library! { name three; pool P1 {} }
