//! `#[derive(Passed)]`: a struct of numbers that both languages declare.

use crate::names::snake;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Ident, Result, Type};

/// Fields that `EVERBYTE_FIELDS` of C++ lists.
const MOST: usize = 16;

/// The bytes of a number, which are its alignment, too.
fn size_of(number: &Type) -> Option<(Ident, usize)> {
    let Type::Path(path) = number else { return None };
    let ident = path.path.get_ident()?;
    let size = match ident.to_string().as_str() {
        "u8" | "i8" => 1,
        "u16" | "i16" => 2,
        "u32" | "i32" | "f32" => 4,
        "u64" | "i64" | "f64" | "usize" | "isize" => 8,
        _ => return None,
    };
    Some((ident.clone(), size))
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    if let Some(one) = input.generics.params.first() {
        return Err(Error::new_spanned(one, "a struct that crosses has no parameters: C++ declares it once"));
    }
    let reprs = input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr"));
    let words = reprs.filter_map(|attribute| attribute.meta.require_list().ok()).map(|list| list.tokens.to_string());
    if words.collect::<Vec<_>>() != ["C"] {
        return Err(Error::new_spanned(
            &input.ident,
            "a struct that crosses is `#[repr(C)]` and nothing else: C++ lays it out so",
        ));
    }
    let advice = "a struct that crosses has named fields that are numbers";
    let fields = match &input.data {
        Data::Struct(syn::DataStruct { fields: Fields::Named(fields), .. }) if !fields.named.is_empty() => {
            &fields.named
        }
        _ => return Err(Error::new_spanned(&input.ident, advice)),
    };
    if let Some(one) = fields.iter().nth(MOST) {
        return Err(Error::new_spanned(one, "a struct that crosses has 16 fields at most, as `EVERBYTE_FIELDS` lists"));
    }
    let (mut at, mut align, mut lines, mut places) = (0usize, 1, Vec::new(), Vec::new());
    for field in fields {
        let (of, size) = size_of(&field.ty).ok_or_else(|| Error::new_spanned(&field.ty, advice))?;
        at = at.next_multiple_of(size);
        let ident = field.ident.as_ref().expect("it is named");
        lines.push(format!("{ident}: {of} @{at}"));
        places.push(quote!(::core::mem::offset_of!(Self, #ident) == #at));
        (at, align) = (at + size, align.max(size));
    }
    let (size, own) = (at.next_multiple_of(align), &input.ident);
    let name = format!("struct {} {size} {align} {{ {} }}", snake(own), lines.join("; "));
    let option = format!("Option<{name}>");
    Ok(quote! {
        // SAFETY: numbers alone, at the places that the name lists.
        #[automatically_derived]
        unsafe impl ::everbyte_bridge::Passed for #own {
            type Raw = Self;
            const NAME: &'static str = {
                assert!(::core::mem::size_of::<Self>() == #size && ::core::mem::align_of::<Self>() == #align #(&& #places)*);
                #name
            };

            fn from_raw(raw: Self) -> ::core::result::Result<Self, ::everbyte_bridge::Fault> {
                ::core::result::Result::Ok(raw)
            }
        }

        // SAFETY: as above.
        #[automatically_derived]
        unsafe impl ::everbyte_bridge::Returned for #own {
            type Raw = Self;
            const NAME: &'static str = <Self as ::everbyte_bridge::Passed>::NAME;

            fn into_raw(self) -> ::core::result::Result<Self, ::everbyte_bridge::Fault> {
                ::core::result::Result::Ok(self)
            }
        }

        // SAFETY: as above.
        #[automatically_derived]
        unsafe impl ::everbyte_bridge::hidden::Declared for #own {
            const OPTION: &'static str = #option;
        }
    })
}
