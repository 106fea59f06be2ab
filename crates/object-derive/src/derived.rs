//! Name, version and parts of a type, written by the derive for descriptions and migrations.

use crate::attributes::{Options, Repr};
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Data, DataEnum, DeriveInput, Fields, Ident, Index, Member};

/// The items of `impl Derived`.
pub(crate) fn derived(
    input: &DeriveInput,
    options: &Options,
    repr: &Repr,
    pool: &Ident,
    markers: &[Ident],
) -> TokenStream {
    let Options { object, version, .. } = options;
    let name = options.name.clone().unwrap_or_else(|| input.ident.unraw().to_string());
    let types = input.generics.type_params().map(|parameter| &parameter.ident);
    let types = types.filter(|ident| *ident != pool && !markers.contains(ident));
    let constants = input.generics.const_params().map(|parameter| &parameter.ident);
    let parts = match &input.data {
        Data::Struct(data) => {
            let fields = fields(&data.fields, object, pool, |member| quote!(::core::mem::offset_of!(Self, #member)));
            quote!(Fields(#fields))
        }
        Data::Enum(data) => {
            let tag = repr.tag.as_ref().map_or("C".into(), Ident::to_string);
            let layout = if repr.is_c { quote!(Union) } else { quote!(Structs) };
            let tags = tags(data, repr);
            let variants = data.variants.iter().zip(tags).map(|(variant, value)| {
                let name = variant.ident.unraw().to_string();
                let fields = fields(&variant.fields, object, pool, |_| quote!(0));
                quote!(#object::hidden::Variant::new(#name, #value, #fields))
            });
            quote!(of_enum(#tag, #object::hidden::EnumLayout::#layout, ::std::vec![#(#variants),*]))
        }
        Data::Union(_) => unreachable!("refused"),
    };
    let older = options.from.as_ref().map(|from| {
        quote! {
            fn older() -> ::core::option::Option<#object::hidden::Older<#pool>> {
                const {
                    ::core::assert!(
                        <#from as #object::hidden::Derived<#pool>>::VERSION < #version,
                        "the type in `from` is not of an older version"
                    );
                }
                ::core::option::Option::Some(#object::hidden::Older::of::<#from>())
            }
        }
    });
    quote! {
        const NAME: &'static str = #name;
        const VERSION: u32 = #version;

        #[allow(unused_variables)]
        fn arguments(schema: &mut #object::Schema) -> ::std::vec::Vec<::std::string::String> {
            ::std::vec![
                #(::std::string::ToString::to_string(&<#types as #object::PSafe<#pool>>::describe(schema)),)*
                #(::std::string::ToString::to_string(&#constants),)*
            ]
        }

        fn parts() -> #object::hidden::Parts<#pool> {
            #object::hidden::Parts::#parts
        }

        #older
    }
}

/// The constant `NICHE`.
pub(crate) fn niche(input: &DeriveInput, repr: &Repr, object: &TokenStream, pool: &Ident) -> TokenStream {
    match &input.data {
        Data::Struct(data) => {
            let fields = data.fields.iter().zip(members(&data.fields)).map(|(field, member)| {
                let of = &field.ty;
                quote!((::core::mem::offset_of!(Self, #member), <#of as #object::PSafe<#pool>>::NICHE))
            });
            quote!(#object::Niche::of_struct(::core::mem::size_of::<Self>(), &[#(#fields),*]))
        }
        Data::Enum(data) => {
            let (tag, tags) = (repr.tag_type(), tags(data, repr));
            quote!(#object::Niche::of_tag(::core::mem::size_of::<#tag>(), &[#(#tags),*]))
        }
        Data::Union(_) => unreachable!("refused"),
    }
}

/// A vector of `Field`s.
fn fields(fields: &Fields, object: &TokenStream, pool: &Ident, offset: impl Fn(&Member) -> TokenStream) -> TokenStream {
    let fields = fields.iter().zip(members(fields)).map(|(field, member)| {
        let (of, offset, label) = (&field.ty, offset(&member), label(&member));
        quote!(<#of as #object::PSafe<#pool>>::as_field(#label, #offset))
    });
    quote!(::std::vec![#(#fields),*])
}

/// The name of a field in descriptions: without `r#`, which depends on the edition; or its number.
pub(crate) fn label(member: &Member) -> String {
    match member {
        Member::Named(ident) => ident.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

/// The names of the fields: identifiers, or numbers.
pub(crate) fn members(fields: &Fields) -> Vec<Member> {
    let member = |(index, field): (usize, &syn::Field)| match &field.ident {
        Some(ident) => Member::Named(ident.clone()),
        None => Member::Unnamed(Index::from(index)),
    };
    fields.iter().enumerate().map(member).collect()
}

/// The tags of an enum's variants, as `i128`.
pub(crate) fn tags(data: &DataEnum, repr: &Repr) -> Vec<TokenStream> {
    let of = repr.discriminant_type();
    let mut last: Option<(TokenStream, i128)> = None;
    let tag = |variant: &syn::Variant| {
        let (base, plus) = match (&variant.discriminant, last.take()) {
            (Some((_, expression)), _) => (quote!({ const TAG: #of = #expression; TAG as i128 }), 0),
            (None, Some((base, plus))) => (base, plus + 1),
            (None, None) => (quote!(0), 0),
        };
        last = Some((base.clone(), plus));
        quote!((#base + #plus))
    };
    data.variants.iter().map(tag).collect()
}
