//! # everbyte-bridge-derive: the macros that export persistent Rust types to C++
//!
//! `#[derive(Extern)]`, `#[export]` and `library!`; see `everbyte-bridge`, which re-exports them.

#![forbid(unsafe_code)]
mod export;
mod extern_type;
mod library;
mod names;
mod passed;
mod rules;

use proc_macro::TokenStream;

/// Makes a persistent type one that `library!` may export. It is generic over its pool, `P:
/// MemPool`, and derives `PSafe`, too.
///
/// `#[bridge(name = "other")]` is its name in C++; by default the type's own in lower case.
#[proc_macro_derive(Extern, attributes(bridge))]
pub fn extern_type(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    extern_type::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct of numbers one that both languages declare, so that it crosses by value and is an
/// instance's parameter: `Series<Point> as points`. It is `#[repr(C)]`, `Clone` and `Copy`; in C++
/// it has its name in lower case, and may be a field of a class of a pool.
#[proc_macro_derive(Passed)]
pub fn passed(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    passed::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Exports the public methods of an `impl` block.
///
/// A method takes `&self`, values that both languages have (numbers, `bool`, `usize`, `&str`,
/// structs with `#[derive(Passed)]`), and `j: &Journal<P>` if it changes the pool. It returns such
/// a value, a `String`, an `Option` of a number or a struct, or a `Result`, whose error becomes an
/// exception. `pub fn new(j: &Journal<P>) -> Self`
/// makes the first value of a root.
#[proc_macro_attribute]
pub fn export(words: TokenStream, input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::ItemImpl);
    export::expand(words.into(), &input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Lists what a library exports: its name and, for each pool type, the types that may be its roots.
///
/// ```text
/// library! {
///     name events;
///     pool Tally { Counter, Log<u64> as log_u64, template<K, V> KvStore<K, V> }
/// }
/// ```
///
/// Types are written without their pool parameter. Makes the two symbols of the library; a library
/// has one such list.
#[proc_macro]
pub fn library(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as library::List);
    library::expand(&input).into()
}
