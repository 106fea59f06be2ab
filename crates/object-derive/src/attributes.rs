//! What the attributes of a derived type say.

use crate::names;
use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Ident, LitInt, Meta, Path, Result, Token};

/// `#[persist(..)]`.
pub(crate) struct Options {
    /// The path of the crate `everbyte-object`.
    pub object: TokenStream,
    pub version: u32,
}

pub(crate) fn options(input: &DeriveInput) -> Result<Options> {
    let mut options = Options { object: names::object(), version: 1 };
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("persist")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("version") {
                options.version = meta.value()?.parse::<LitInt>()?.base10_parse()?;
                Ok(())
            } else if meta.path.is_ident("crate") {
                let path: Path = meta.value()?.parse()?;
                options.object = quote!(#path);
                Ok(())
            } else {
                Err(meta.error("`persist` knows `version = number` and `crate = path`"))
            }
        })?;
    }
    Ok(options)
}

/// What fixes the layout.
pub(crate) struct Repr {
    /// The integer that an enum's tag is; without one it is C's `int`.
    pub tag: Option<Ident>,
    /// `C`: of an enum, all variants begin at one place behind the tag.
    pub is_c: bool,
}

impl Repr {
    /// The tag's type.
    pub(crate) fn tag_type(&self) -> TokenStream {
        match &self.tag {
            Some(tag) => quote!(#tag),
            None => quote!(::core::ffi::c_int),
        }
    }

    /// What a discriminant is before it becomes a tag.
    pub(crate) fn discriminant_type(&self) -> TokenStream {
        match &self.tag {
            Some(tag) => quote!(#tag),
            None => quote!(isize),
        }
    }
}

pub(crate) fn repr(input: &DeriveInput) -> Result<Repr> {
    const TAGS: [&str; 8] = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"];
    let (mut repr, mut is_fixed) = (Repr { tag: None, is_c: false }, false);
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        let Meta::List(list) = &attribute.meta else { continue };
        let words = list.parse_args_with(syn::punctuated::Punctuated::<Meta, Token![,]>::parse_terminated)?;
        for word in words.iter().filter_map(|word| word.path().get_ident()) {
            if word == "packed" {
                let advice = "a persistent type cannot be packed: its fields are borrowed";
                return Err(Error::new(attribute.span(), advice));
            }
            if TAGS.iter().any(|tag| word == tag) {
                repr.tag = Some(word.clone());
            }
            repr.is_c |= word == "C";
            is_fixed |= repr.is_c || repr.tag.is_some() || word == "transparent";
        }
    }
    let advice = match input.data {
        _ if is_fixed => return Ok(repr),
        Data::Enum(_) => "add `#[repr(u8)]`: a persistent type has the same layout in every build",
        _ => "add `#[repr(C)]`: a persistent type has the same layout in every build",
    };
    Err(Error::new(input.ident.span(), advice))
}
