//! A library's table of functions, and the description that is made with it. Why a table:
//! docs/design/bridge.md.
//!
//! Invariants
//!   BRIDGE-1  The functions stand in the order of the description's lines, behind those of the
//!            library itself: a header that was made from an equal description calls the right one.
//!   BRIDGE-2  The table is given out to callers alone whose header has the library's description.

use crate::description::{Description, LIBRARY_ENTRIES, MethodLine, POOL_ENTRIES, Parameter, PoolLines, TypeLines};
use crate::destructors::register;
use crate::fault::last_fault;
use crate::passed::{RawText, free_string};
use everbyte_object::{MemPool, PSafe, PoolTag};
use std::ffi::c_void;

/// A type that is exported; derived: `#[derive(Extern)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not exported",
    note = "add `#[derive(PSafe, Extern)]` to the type, and `#[export]` to an `impl` block of it"
)]
pub trait Extern<P: MemPool>: PSafe<P> {
    /// Its name in C++.
    const NAME: &'static str;
    /// Its documentation.
    const DOCS: &'static str;
}

/// The methods of a type; implemented by `#[export]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no exported methods",
    note = "add `#[export]` to its `impl` block; the block has `pub fn new(j: &Journal<P>) -> Self`"
)]
pub trait Exports<G: PoolTag> {
    /// The methods, in order.
    fn methods() -> Vec<Method>;
}

/// A function of the table.
pub type Entry = *const c_void;

/// An exported method.
pub struct Method {
    /// Its line in the description.
    pub line: MethodLine,
    /// The function.
    pub function: Entry,
}

impl Method {
    /// A method, as `#[export]` describes it.
    pub fn new(
        name: &str,
        docs: &str,
        changes: bool,
        parameters: &[(&str, &str)],
        returns: &str,
        function: Entry,
    ) -> Method {
        let parameter = |(name, of): &(&str, &str)| Parameter { name: (*name).into(), of: (*of).into() };
        let parameters = parameters.iter().map(parameter).collect();
        let line = MethodLine { name: name.into(), docs: docs.into(), changes, parameters, returns: returns.into() };
        Method { line, function }
    }
}

/// The table of a library with its description.
pub struct Library {
    text: String,
    interface: String,
    entries: Vec<Entry>,
}

// SAFETY: addresses of functions.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// The table, for a caller whose header was made from `expected`. Otherwise null: `difference`
    /// gets a sentence that is never freed.
    ///
    /// # Safety
    /// `expected` can be read; `difference` is null, or may be written to.
    pub unsafe fn attach(&'static self, expected: RawText, difference: *mut RawText) -> *const Entry {
        // SAFETY: the caller's.
        let found = match unsafe { expected.read() } {
            Ok(text) if text == self.interface => return self.entries.as_ptr(), // BRIDGE-2
            Ok(text) => Description::difference(text, &self.interface),
            Err(_) => "its description is no text".into(),
        };
        let text: &'static str = String::leak(found);
        if !difference.is_null() && difference.is_aligned() {
            // SAFETY: the caller's.
            unsafe { difference.write(RawText::of(text)) };
        }
        std::ptr::null()
    }

    /// The description.
    pub fn text(&'static self) -> RawText {
        RawText::of(&self.text)
    }
}

/// A table that is being made.
pub struct Builder {
    description: Description,
    entries: Vec<Entry>,
}

impl Builder {
    /// The table of a library called `name`.
    pub fn new(name: &str) -> Builder {
        let entries = vec![last_fault as *const c_void, free_string as *const c_void, register as *const c_void];
        assert_eq!(entries.len(), LIBRARY_ENTRIES, "BRIDGE-1");
        Builder { description: Description { library: name.into(), pools: Vec::new() }, entries }
    }

    /// Adds a pool with its functions: open, close, close a root, run a transaction; the root of a
    /// class of C++, make, destroy and change an object; sync.
    pub fn pool(&mut self, name: &str, functions: [Entry; POOL_ENTRIES]) {
        self.description.pools.push(PoolLines { name: name.into(), types: Vec::new() });
        self.entries.extend(functions);
    }

    /// Adds a type of the last pool, with the function that opens its roots.
    pub fn object<T: Extern<everbyte_object::Out<G>> + Exports<G>, G: PoolTag>(
        &mut self,
        name: Option<&str>,
        classes: &[&str],
        root: Entry,
    ) {
        let pool = self.description.pools.last_mut().expect("a type stands behind its pool");
        self.entries.push(root);
        let (lines, functions) = T::methods().into_iter().map(|method| (method.line, method.function)).unzip();
        self.entries.extend::<Vec<Entry>>(functions);
        let name = name.unwrap_or(T::NAME).into();
        let classes = classes.iter().map(|class| class.to_string()).collect();
        pool.types.push(TypeLines { name, classes, docs: T::DOCS.into(), methods: lines });
    }

    /// The table.
    ///
    /// # Panics
    /// If two types of one pool have one name.
    pub fn build(self) -> Library {
        for pool in &self.description.pools {
            for (index, one) in pool.types.iter().enumerate() {
                let is_twice = pool.types[..index].iter().any(|other| other.name == one.name);
                assert!(!is_twice, "pool `{}` has two types `{}`: name one, as in `T as name`", pool.name, one.name);
            }
        }
        Library { text: self.description.to_string(), interface: self.description.interface(), entries: self.entries }
    }
}
