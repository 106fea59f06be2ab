//! `pool!`: a pool type, its tag, and the statics behind it.

use crate::names;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, Token, Visibility};

/// `#[doc = ".."] pub P1, P2`.
pub(crate) struct Pools(Punctuated<One, Token![,]>);

struct One {
    attributes: Vec<Attribute>,
    /// Whether `PRefCell`s have flags.
    checks_borrows: bool,
    visibility: Visibility,
    name: Ident,
}

impl Parse for One {
    fn parse(input: ParseStream<'_>) -> syn::Result<One> {
        let (own, attributes): (Vec<_>, Vec<_>) =
            input.call(Attribute::parse_outer)?.into_iter().partition(|attribute| attribute.path().is_ident("persist"));
        own.iter().try_for_each(unchecked_borrows)?;
        Ok(One { attributes, checks_borrows: own.is_empty(), visibility: input.parse()?, name: input.parse()? })
    }
}

/// `#[persist(unsafe(unchecked_borrows))]`.
fn unchecked_borrows(attribute: &Attribute) -> syn::Result<()> {
    let known = "`persist` of a pool type knows `unsafe(unchecked_borrows)`";
    attribute.parse_args_with(|input: ParseStream<'_>| {
        input.parse::<Token![unsafe]>().map_err(|error| syn::Error::new(error.span(), known))?;
        let word;
        syn::parenthesized!(word in input);
        let word: Ident = word.parse()?;
        if word == "unchecked_borrows" { Ok(()) } else { Err(syn::Error::new(word.span(), known)) }
    })
}

impl Parse for Pools {
    fn parse(input: ParseStream<'_>) -> syn::Result<Pools> {
        let pools = Punctuated::parse_terminated(input)?;
        if pools.is_empty() {
            return Err(input.error("name at least one pool type: `pool!(P1);`"));
        }
        Ok(Pools(pools))
    }
}

pub(crate) fn expand(pools: &Pools) -> TokenStream {
    let object = names::object();
    pools.0.iter().map(|pool| one(pool, &object)).collect()
}

fn one(One { attributes, checks_borrows, visibility, name }: &One, object: &TokenStream) -> TokenStream {
    let tag = format_ident!("{name}Tag");
    let text = name.to_string();
    let about_tag = format!("The tag of pool type `{name}`.");
    let about = format!("A pool type: the parameter of what lies in the pool that is open as `{name}`.");
    let about = (!attributes.iter().any(|attribute| attribute.path().is_ident("doc"))).then(|| quote!(#[doc = #about]));
    quote! {
        #[doc = #about_tag]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        #visibility struct #tag;

        #about
        #(#attributes)*
        #visibility type #name = #object::Out<#tag>;

        const _: () = {
            static SLOT: #object::hidden::Slot = #object::hidden::Slot::new();
            ::std::thread_local! {
                static CURRENT: #object::hidden::Current = const { #object::hidden::Current::new() };
            }
            // SAFETY: statics of this tag alone.
            unsafe impl #object::PoolTag for #tag {
                const NAME: &'static str = #text;
                const CHECKS_BORROWS: bool = #checks_borrows;
                #[inline(always)]
                fn slot() -> &'static #object::hidden::Slot {
                    &SLOT
                }
                #[inline(always)]
                fn current<T>(with: impl ::core::ops::FnOnce(&#object::hidden::Current) -> T) -> T {
                    CURRENT.with(with)
                }
            }
        };
    }
}
