//! # everbyte-object-derive: the derives and macros of typed persistent objects
//!
//! `#[derive(PSafe)]` and `pool!`; see `everbyte-object`, which re-exports them.

#![forbid(unsafe_code)]
mod attributes;
mod derived;
mod deserialize;
mod generics;
mod markers;
mod moved;
mod names;
mod pool;
mod psafe;

use proc_macro::TokenStream;

/// Declares a pool type: `pool!(P1);`, `pool!(pub P1, pub P2);`. Each can have one pool open at a
/// time.
///
/// `pool!(#[persist(unsafe(unchecked_borrows))] P1)` declares one whose `PRefCell`s have no borrow
/// flags: a borrow that the rules of `PRefCell` forbid is then **undefined behaviour** in place of
/// a panic, and the program vouches that it makes none. The bytes of a pool are the same: it is
/// opened by either kind of type.
#[proc_macro]
pub fn pool(input: TokenStream) -> TokenStream {
    let pools = syn::parse_macro_input!(input as pool::Pools);
    pool::expand(&pools).into()
}

/// Makes a type one that may live in a pool.
///
/// For structs, enums and tuples, generic ones too; a type that holds pointers into a pool takes
/// the pool as a parameter `P: MemPool`. Every field must be `PSafe<P>`; the type must say
/// `#[repr(C)]` (or, for enums, `#[repr(u8)]` and the like), so that its layout is the same in
/// every build, and cannot implement `Drop`. A `PhantomData` may hold anything, and a parameter
/// that occurs in such fields alone needs no bound; `#[persist(marker = U)]` says so of one that
/// other fields pass on to theirs.
///
/// `#[persist(pool = P)]` names the pool's parameter where its bound is not written `MemPool`.
/// `#[persist(version = 2, from = NodeV1<P>)]` numbers the layout and names the type that pools of
/// an older version hold: see `Migrate`. That type says `#[persist(version = 1, name = "Node")]`.
/// `#[persist(crate = unsafe(path))]` names this crate where it cannot be found: the derive
/// believes the items of that module.
#[proc_macro_derive(PSafe, attributes(persist))]
pub fn psafe(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    psafe::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Reads a persistent type from a format of serde, inside a transaction: see `PDeserialize` of
/// `everbyte-object`, which needs its feature `serde`.
///
/// Reads what serde's `#[derive(Serialize)]` writes. Of serde's attributes `rename` on fields and
/// variants, `default` and `skip` on fields are known; any other is an error.
#[proc_macro_derive(PDeserialize, attributes(persist, serde))]
pub fn deserialize(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    deserialize::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
