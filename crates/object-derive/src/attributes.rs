//! Attributes of a derived type.

use crate::names;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Ident, LitInt, LitStr, Meta, Path, Result, Token, Type};

/// `#[persist(..)]`.
pub(crate) struct Options {
    /// The path of the crate `everbyte-object`.
    pub object: TokenStream,
    /// An item that says `unsafe` where the program did.
    pub trust: TokenStream,
    pub version: u32,
    /// The name of the type in descriptions, if it differs from the type's own name.
    pub name: Option<String>,
    /// The type of an older version that this one is made from.
    pub from: Option<Type>,
    /// The parameter that is the pool, if its bounds do not say so.
    pub pool: Option<Ident>,
    /// Parameters that are markers, although a field that is none mentions them.
    pub markers: Vec<Ident>,
}

pub(crate) fn options(input: &DeriveInput) -> Result<Options> {
    let mut options = Options {
        object: names::object(),
        trust: TokenStream::new(),
        version: 1,
        name: None,
        from: None,
        pool: None,
        markers: Vec::new(),
    };
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("persist")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("version") {
                let version: LitInt = meta.value()?.parse()?;
                options.version = version.base10_parse()?;
                match options.version {
                    0 => Err(Error::new(version.span(), "versions are numbered from 1")),
                    _ => Ok(()),
                }
            } else if meta.path.is_ident("name") {
                let name: LitStr = meta.value()?.parse()?;
                let advice = "descriptions call a type by an identifier, without arguments";
                let ident = name.parse_with(Ident::parse_any).map_err(|_| Error::new(name.span(), advice))?;
                options.name = Some(ident.unraw().to_string());
                Ok(())
            } else if meta.path.is_ident("from") {
                options.from = Some(meta.value()?.parse()?);
                Ok(())
            } else if meta.path.is_ident("pool") {
                options.pool = Some(meta.value()?.parse()?);
                Ok(())
            } else if meta.path.is_ident("marker") {
                options.markers.push(meta.value()?.parse()?);
                Ok(())
            } else if meta.path.is_ident("crate") {
                let value = meta.value()?;
                let advice = "write `crate = unsafe(path)`: the derive trusts the items of that module";
                let trust: Token![unsafe] = value.parse().map_err(|_| Error::new(meta.path.span(), advice))?;
                let path;
                syn::parenthesized!(path in value);
                let path: Path = path.parse()?;
                options.object = quote!(#path);
                // In a crate that forbids unsafe code, the attribute is refused as well.
                options.trust = quote_spanned!(trust.span=> const _: () = unsafe {};);
                Ok(())
            } else {
                let known =
                    "`version = number`, `from = OlderType`, `name = \"Name\"`, `pool = P`, `marker = U` and `crate = unsafe(path)`";
                Err(meta.error(format!("`persist` knows {known}")))
            }
        })?;
    }
    match &options.from {
        Some(from) if options.version == 1 => {
            let advice = "a type made from an older one says which version it is: `#[persist(version = 2, from = ..)]`";
            Err(Error::new(from.span(), advice))
        }
        _ => Ok(options),
    }
}

/// Attributes that fix the layout.
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

    /// The value of a discriminant before it becomes a tag.
    pub(crate) fn discriminant_type(&self) -> TokenStream {
        match &self.tag {
            Some(tag) => quote!(#tag),
            None => quote!(isize),
        }
    }
}

pub(crate) fn repr(input: &DeriveInput) -> Result<Repr> {
    const TAGS: [&str; 10] = ["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize"];
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
        Data::Enum(_) if repr.tag.is_none() && !repr.is_c && is_fixed => {
            "write `#[repr(u8)]` in place of `transparent`: a persistent enum has a tag"
        }
        _ if is_fixed => return Ok(repr),
        Data::Enum(_) => "add `#[repr(u8)]`: a persistent type has the same layout in every build",
        _ => "add `#[repr(C)]`: a persistent type has the same layout in every build",
    };
    Err(Error::new(input.ident.span(), advice))
}
