//! The derive's code that makes a value of a stored one: field by field, or from the older type by
//! the program's `Migrate`.
//!
//! The expressions name every field. So an unchecked field, added by an attribute macro below the
//! derive, does not compile.

use crate::attributes::Options;
use crate::derived::members;
use crate::markers::is_marker;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields, Ident, Index, Type};

/// The body of `moved`.
pub(crate) fn moved(input: &DeriveInput, options: &Options, pool: &Ident) -> TokenStream {
    let (object, name) = (&options.object, &input.ident);
    let older = options.from.as_ref().map(|from| {
        let migrate = quote_spanned!(from.span()=> <Self as #object::Migrate<#from, #pool>>::migrate);
        quote! {
            if let ::core::option::Option::Some(older) = moving.older(part) {
                // SAFETY: planned as that type.
                let old = unsafe { moving.read::<#from>(from, older) };
                return #migrate(old, moving.journal());
            }
        }
    });
    let value = match &input.data {
        Data::Struct(data) => {
            let name = quote_spanned!(name.span()=> #name);
            let value = value(
                name,
                &data.fields,
                &|of, index| quote!(<#of as #object::PSafe<#pool>>::read_field(moving, from, part, #index)),
            );
            quote! {
                // SAFETY: the caller's; each field as it was planned.
                unsafe { #value }
            }
        }
        Data::Enum(data) => {
            let arms = data.variants.iter().enumerate().map(|(number, variant)| {
                let (number, ident) = (Index::from(number), &variant.ident);
                let read = |of: &Type, index| {
                    quote!(<#of as #object::PSafe<#pool>>::read_variant(moving, from, part, (#number, #index)))
                };
                let value = value(quote!(#name::#ident), &variant.fields, &read);
                quote! {
                    // SAFETY: as above; each field of this variant as it was planned.
                    #number => unsafe { #value },
                }
            });
            quote! {
                // SAFETY: the caller's.
                match unsafe { moving.variant(from, part) } {
                    #(#arms)*
                    _ => ::core::unreachable!("all variants were planned"),
                }
            }
        }
        Data::Union(_) => unreachable!("refused"),
    };
    quote!(#older #value)
}

/// `name { field: .., }`.
fn value(name: TokenStream, fields: &Fields, read: &dyn Fn(&Type, Index) -> TokenStream) -> TokenStream {
    let members = members(fields);
    let reads = fields.iter().enumerate().map(|(index, field)| match is_marker(&field.ty) {
        true => quote!(::core::marker::PhantomData),
        false => read(&field.ty, Index::from(index)),
    });
    quote!(#name { #(#members: #reads,)* })
}
