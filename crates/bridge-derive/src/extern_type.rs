//! `#[derive(Extern)]`: the name of a type, and the rules for the type itself.

use crate::names::{docs, snake};
use crate::rules;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Ident, LitStr, Result};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let pool = rules::pool(&input.generics, &input.ident)?;
    rules::public(&input.vis, &input.ident)?;
    rules::no_direct_class(input)?;
    let mut name = snake(&input.ident);
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("bridge")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("name") {
                return Err(meta.error("`bridge` knows `name = \"name\"`"));
            }
            let text: LitStr = meta.value()?.parse()?;
            let advice = "a name in C++ is an identifier";
            name = text.parse::<Ident>().map_err(|_| Error::new(text.span(), advice))?.to_string();
            Ok(())
        })?;
    }
    let docs = docs(&input.attrs);
    let ident = &input.ident;
    let (generics, types, _) = input.generics.split_for_impl();
    let predicates = input.generics.where_clause.iter().flat_map(|clause| &clause.predicates);
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::everbyte_bridge::Extern<#pool> for #ident #types
        where
            Self: ::everbyte_bridge::hidden::object::PSafe<#pool>,
            #(#predicates),*
        {
            const NAME: &'static str = #name;
            const DOCS: &'static str = #docs;
        }
    })
}
