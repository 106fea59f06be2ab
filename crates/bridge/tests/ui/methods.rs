//! Methods that cannot be exported (rows CB58 to CB60, CB62, CB63).
use everbyte_bridge::{ByteArray, Cpp, CppClass, Extern, Gen, Hash, Passed, Returned, export};
use everbyte_object::{Journal, MemPool, PCell, PSafe, PString, Pbox, pool};

pool!(P1, P2);

#[derive(PSafe)]
#[repr(C)]
pub struct Cell<P: MemPool> {
    count: PCell<u64, P>,
    text: PString<P>,
}

#[derive(PSafe)]
#[repr(C)]
pub struct Of<K: PSafe<P>, P: MemPool> {
    key: PCell<K, P>,
}

macro_rules! block {
    ($name:ident, $($method:tt)*) => {
        mod $name {
            use super::*;
            pub struct Own<P: MemPool>(Cell<P>);
            #[export]
            impl<P: MemPool> Own<P> {
                pub fn new(j: &Journal<P>) -> Self {
                    panic!("{j:?}")
                }
                $($method)*
            }
        }
    };
}

//@ no_constructor: "has a transactional constructor"
mod no_constructor {
    use super::*;
    pub struct Own<P: MemPool>(Cell<P>);
    #[export]
    impl<P: MemPool> Own<P> {
        pub fn value(&self) -> u64 {
            self.0.count.get()
        }
    }
}
//@ a_constructor_with_arguments: "a root is made by"
mod a_constructor_with_arguments {
    use super::*;
    pub struct Own<P: MemPool>(Cell<P>);
    #[export]
    impl<P: MemPool> Own<P> {
        pub fn new(count: u64, j: &Journal<P>) -> Self {
            panic!("{count} {j:?}")
        }
    }
}
//@ a_trait: "C++ sees inherent methods"
mod a_trait {
    use super::*;
    pub struct Own<P: MemPool>(Cell<P>);
    #[export]
    impl<P: MemPool> Default for Own<P> {
        fn default() -> Self {
            panic!()
        }
    }
}
//@ mutable_self: "no `&mut` crosses"
block!(mutable_self, pub fn set(&mut self, _: &Journal<P>) {});
//@ self_by_value: "takes `&self`"
block!(self_by_value, pub fn end(self) {});
//@ a_function: "is a method, with `&self`, or `new`"
block!(a_function, pub fn count() -> u64 { 0 });
//@ asynchronous: "is not `async`"
block!(asynchronous, pub async fn wait(&self) {});
//@ an_unsafe_method: "is safe"
block!(an_unsafe_method, pub unsafe fn trust(&self) {});
//@ a_generic_method: "no parameters of its own"
block!(a_generic_method, pub fn each<T>(&self) {});
//@ an_impl_argument: "one compiled form"
block!(an_impl_argument, pub fn each(&self, _: impl Fn()) {});
//@ a_mutable_reference: "no `&mut` crosses"
block!(a_mutable_reference, pub fn fill(&self, _: &mut u64) {});
//@ a_reference: "a reference into a pool does not cross"
block!(a_reference, pub fn copy(&self, _: &u64) {});
//@ a_lifetime: "lives for the length of the call"
block!(a_lifetime, pub fn keep(&self, _: &'static str) {});
//@ a_raw_pointer: "a raw pointer does not cross"
block!(a_raw_pointer, pub fn read(&self, _: *const u64) {});
//@ a_reference_returned: "no reference leaves a method"
block!(a_reference_returned, pub fn text(&self) -> &str { &self.0.text });
//@ a_raw_pointer_returned: "a raw pointer does not cross"
block!(a_raw_pointer_returned, pub fn place(&self) -> *const u64 { std::ptr::null() });
//@ itself_returned: "does not leave its pool"
block!(itself_returned, pub fn copy(&self) -> Self { panic!() });
//@ a_pointer_of_the_pool_passed: "what lies in a pool does not cross"
block!(a_pointer_of_the_pool_passed, pub fn put(&self, _: Pbox<u64, P>, _: &Journal<P>) {});
//@ a_pointer_of_the_pool_returned: "what lies in a pool does not cross"
block!(a_pointer_of_the_pool_returned, pub fn get(&self) -> Option<Pbox<u64, P>> { None });
//@ two_journals: "belongs to one transaction"
block!(two_journals, pub fn both(&self, _: &Journal<P>, _: &Journal<P>) {});
//@ a_journal_of_another_pool: "a reference into a pool does not cross"
block!(a_journal_of_another_pool, pub fn other(&self, _: &Journal<P2>) {});
//@ a_vector_passed: E0277 "cannot be passed from C++"
mod a_vector_passed {
    use super::*;
    pub struct Own<P: MemPool>(Cell<P>);
    #[export]
    impl<P: MemPool> Own<P> {
        pub fn new(j: &Journal<P>) -> Self {
            panic!("{j:?}")
        }
        pub fn all(&self, _: Vec<u64>) {}
    }
}
//@ a_vector_returned: E0277 "cannot be returned to C++"
mod a_vector_returned {
    use super::*;
    pub struct Own<P: MemPool>(Cell<P>);
    #[export]
    impl<P: MemPool> Own<P> {
        pub fn new(j: &Journal<P>) -> Self {
            panic!("{j:?}")
        }
        pub fn all(&self) -> Vec<u64> { vec![] }
    }
}
//@ a_string_passed: E0277 "cannot be passed from C++"
mod a_string_passed {
    use super::*;
    pub struct Own<P: MemPool>(Cell<P>);
    #[export]
    impl<P: MemPool> Own<P> {
        pub fn new(j: &Journal<P>) -> Self {
            panic!("{j:?}")
        }
        pub fn name(&self, _: String) {}
    }
}
//@ a_parameter_in_a_signature: "name the instances in `library!`"
mod a_parameter_in_a_signature {
    use super::*;
    pub struct Own<K: PSafe<P>, P: MemPool>(Of<K, P>);
    #[export]
    impl<K: PSafe<P>, P: MemPool> Own<K, P> {
        pub fn new(j: &Journal<P>) -> Self {
            panic!("{j:?}")
        }
        pub fn put(&self, _: K, _: &Journal<P>) {}
    }
}
//@ unknown_word: "knows `instances`"
mod unknown_word {
    use super::*;
    pub struct Own<P: MemPool>(Cell<P>);
    #[export(all)]
    impl<P: MemPool> Own<P> {
        pub fn new(j: &Journal<P>) -> Self {
            panic!("{j:?}")
        }
    }
}
//@ a_static_object: "the object lives for the length of the call"
block!(a_static_object, pub fn keep(&'static self) {});
//@ a_static_journal: E0521 lifetime "escapes"
mod a_static_journal {
    use super::*;
    pub struct Own<P: MemPool>(Cell<P>);
    #[export]
    impl<P: MemPool> Own<P> {
        pub fn new(j: &Journal<P>) -> Self {
            panic!("{j:?}")
        }
        pub fn keep(&self, _: &'static Journal<P>) {}
    }
}
type Kept = &'static str;
//@ a_static_text_by_another_name: E0716 "borrow lasts for `'static`"
mod a_static_text_by_another_name {
    use super::*;
    pub struct Own<P: MemPool>(Cell<P>);
    #[export]
    impl<P: MemPool> Own<P> {
        pub fn new(j: &Journal<P>) -> Self {
            panic!("{j:?}")
        }
        pub fn keep(&self, _: Kept) {}
    }
}
//@ a_static_value: "a value of C++ lives for the length of the call"
mod a_static_value {
    use super::*;
    pub struct Own<K: CppClass, P: MemPool>(ByteArray<K, P>);
    #[export]
    impl<K: CppClass, P: MemPool> Own<K, P> {
        pub fn new(j: &Journal<P>) -> Self {
            panic!("{j:?}")
        }
        pub fn keep(&self, _: Gen<'static, K>) {}
    }
}
//@ a_value_without_a_lifetime: "write `Hash<'_, ..>`"
mod a_value_without_a_lifetime {
    use super::*;
    pub struct Own<K: CppClass, P: MemPool>(ByteArray<K, P>);
    #[export]
    impl<K: CppClass, P: MemPool> Own<K, P> {
        pub fn new(j: &Journal<P>) -> Self {
            panic!("{j:?}")
        }
        pub fn hash(&self, _: Hash<K>) {}
    }
}
type KeptValue<K> = Gen<'static, K>;
//@ a_static_value_by_another_name: E0716 "borrow lasts for `'static`"
mod a_static_value_by_another_name {
    use super::*;
    pub struct Own<P: MemPool>(ByteArray<Cpp<0>, P>);
    #[export]
    impl<P: MemPool> Own<P> {
        pub fn new(j: &Journal<P>) -> Self {
            panic!("{j:?}")
        }
        pub fn keep(&self, _: KeptValue<Cpp<0>>) {}
    }
}
