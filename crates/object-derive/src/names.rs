//! The name under which the program imports the crate of these macros.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::Ident;

/// The path of the crate `everbyte-object`, or of its face in `everbyte`.
pub(crate) fn object() -> TokenStream {
    if let Some(name) = found("everbyte-object", "everbyte_object") {
        return quote!(::#name);
    }
    match found("everbyte", "everbyte") {
        Some(name) => quote!(::#name::object),
        None => quote!(::everbyte::object),
    }
}

fn found(package: &str, own: &str) -> Option<Ident> {
    let name = match crate_name(package).ok()? {
        FoundCrate::Itself => own.into(),
        FoundCrate::Name(name) => name,
    };
    Some(Ident::new(&name, Span::call_site()))
}
