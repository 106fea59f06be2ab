//! # everbyte-kv-derive: the derive of types in typed tables
//!
//! `#[derive(Typed)]`; see `everbyte-kv`, which re-exports it.

#![forbid(unsafe_code)]
mod expand;

use proc_macro::TokenStream;

/// Gives a struct or an enum an encoding in the order of its values, which is that of
/// `#[derive(Ord)]`: fields and variants in the order in which they are written.
///
/// Every field must be `Typed`. Type parameters are allowed; lifetimes and explicit discriminants
/// are not. `#[typed(name = "..")]` on the type, a field or a variant is its name in stored
/// descriptions, for one that is renamed in the program; `#[typed(crate = path)]` names the crate
/// where it cannot be found.
///
/// The first fields of a struct, as a tuple, are a prefix of its keys.
#[proc_macro_derive(Typed, attributes(typed))]
pub fn typed(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
