//! `#[derive(PDeserialize)]`: the fields of a type as nested pairs, `(A, (B, ()))`, which functions
//! of the library read.

use crate::attributes::options;
use crate::generics::pool_parameter;
use crate::markers::markers;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Data, DeriveInput, Error, Fields, GenericParam, LitStr, Result, Token};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let options = options(input)?;
    let object = &options.object;
    let hidden = quote!(#object::hidden);
    let serde = quote!(#object::hidden::serde);
    require_none(&input.attrs)?;
    let pool = pool_parameter(input, options.pool.as_ref())?;
    let mut markers = markers(input, pool.as_ref());
    markers.extend(options.markers.iter().cloned());
    let own = format_ident!("__P");
    let pool_name = pool.as_ref().unwrap_or(&own);

    let name = &input.ident;
    let text = name.unraw().to_string();
    let (_, types, wheres) = input.generics.split_for_impl();
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        if markers.contains(&parameter.ident) {
            parameter.bounds.push(syn::parse_quote!('static));
        } else if parameter.ident != *pool_name {
            parameter.bounds.push(syn::parse_quote!(#object::PSafe<#pool_name>));
            parameter.bounds.push(syn::parse_quote!(#object::PDeserialize<'__de, #pool_name>));
        }
    }
    generics.params.insert(0, GenericParam::Lifetime(syn::parse_quote!('__de)));
    if pool.is_none() {
        generics.params.push(GenericParam::Type(syn::parse_quote!(#own: #object::MemPool)));
    }
    let impl_generics = generics.split_for_impl().0;

    let (body, variants) = match &input.data {
        Data::Struct(data) => (read_struct(&data.fields, &text, &quote!(#name), &hidden)?, quote!()),
        Data::Enum(data) => {
            let mut names = Vec::new();
            let mut arms = Vec::new();
            for (index, variant) in data.variants.iter().enumerate() {
                let ident = &variant.ident;
                names.push(attributes(&variant.attrs, true)?.rename.unwrap_or_else(|| ident.unraw().to_string()));
                let read = read_variant(&variant.fields, &quote!(#name::#ident), &hidden)?;
                arms.push(quote!(#index => { #read }));
            }
            let body = quote!(#hidden::read_enum(deserializer, #text, &[#(#names),*], j));
            let variants = quote! {
                #[automatically_derived]
                impl #impl_generics #hidden::Variants<'__de, #pool_name> for #name #types #wheres {
                    fn variant<__A: #serde::de::VariantAccess<'__de>>(
                        index: usize,
                        access: __A,
                        j: &#object::Journal<#pool_name>,
                    ) -> ::core::result::Result<Self, __A::Error> {
                        match index {
                            #(#arms)*
                            _ => ::core::unreachable!("the index of a variant"),
                        }
                    }
                }
            };
            (body, variants)
        }
        Data::Union(_) => return Err(Error::new(name.span(), "a union cannot live in a pool: use an enum")),
    };
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables)]
        impl #impl_generics #object::PDeserialize<'__de, #pool_name> for #name #types #wheres {
            fn deserialize_in<__D: #serde::de::Deserializer<'__de>>(
                deserializer: __D,
                j: &#object::Journal<#pool_name>,
            ) -> ::core::result::Result<Self, __D::Error> {
                #body
            }
        }

        #variants
    })
}

fn read_struct(fields: &Fields, text: &str, make: &TokenStream, hidden: &TokenStream) -> Result<TokenStream> {
    let list = list(fields, make, hidden)?;
    let List { pattern, value, names, len } = &list;
    Ok(match fields {
        Fields::Unit => quote!({ #hidden::read_unit(deserializer, #text)?; ::core::result::Result::Ok(#make) }),
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 && *len == 1 => {
            let pattern = &list.pattern_of_one();
            quote!({ let #pattern = #hidden::read_newtype(deserializer, #text, j)?; ::core::result::Result::Ok(#value) })
        }
        Fields::Unnamed(_) => {
            quote!({ let #pattern = #hidden::read_tuple(deserializer, #text, #len, j)?; ::core::result::Result::Ok(#value) })
        }
        Fields::Named(_) => quote!({
            let #pattern = #hidden::read_named(deserializer, #text, &[#(#names),*], j)?;
            ::core::result::Result::Ok(#value)
        }),
    })
}

fn read_variant(fields: &Fields, make: &TokenStream, hidden: &TokenStream) -> Result<TokenStream> {
    let list = list(fields, make, hidden)?;
    let List { pattern, value, names, len } = &list;
    Ok(match fields {
        Fields::Unit => quote!(#hidden::variant_unit(access)?; ::core::result::Result::Ok(#make)),
        // serde writes a variant whose one field is skipped as one without fields
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 && *len == 0 => {
            quote!(#hidden::variant_unit(access)?; ::core::result::Result::Ok(#value))
        }
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 && *len == 1 => {
            let pattern = &list.pattern_of_one();
            quote!(let #pattern = #hidden::variant_newtype(access, j)?; ::core::result::Result::Ok(#value))
        }
        Fields::Unnamed(_) => {
            quote!(let #pattern = #hidden::variant_tuple(access, #len, j)?; ::core::result::Result::Ok(#value))
        }
        Fields::Named(_) => {
            quote!(let #pattern = #hidden::variant_named(access, &[#(#names),*], j)?; ::core::result::Result::Ok(#value))
        }
    })
}

/// The fields of a type that are read.
struct List {
    /// `(field_0, (field_1, ()))`.
    pattern: TokenStream,
    /// The type, made of the fields.
    value: TokenStream,
    names: Vec<String>,
    len: usize,
}

impl List {
    /// The pattern of the one field, without the pair around it.
    fn pattern_of_one(&self) -> TokenStream {
        let one = format_ident!("field_0");
        quote!(#one)
    }
}

fn list(fields: &Fields, make: &TokenStream, hidden: &TokenStream) -> Result<List> {
    let (mut values, mut names, mut patterns) = (Vec::new(), Vec::new(), Vec::new());
    let is_one = fields.len() == 1;
    for (index, field) in fields.iter().enumerate() {
        let found = attributes(&field.attrs, false)?;
        let local = format_ident!("field_{index}");
        let value = match (found.skip, found.default) {
            (true, _) => quote!(::core::default::Default::default()),
            (false, true) if is_one && field.ident.is_none() => quote!(#local),
            (false, true) => {
                patterns.push(quote!(#hidden::Defaulted(#local)));
                quote!(#local)
            }
            (false, false) => {
                patterns.push(quote!(#local));
                quote!(#local)
            }
        };
        if !found.skip {
            let own = field.ident.as_ref().map_or_else(|| index.to_string(), |ident| ident.unraw().to_string());
            names.push(found.rename.unwrap_or(own));
        }
        values.push(match &field.ident {
            Some(ident) => quote!(#ident: #value),
            None => quote!(#value),
        });
    }
    let pattern = patterns.iter().rev().fold(quote!(()), |rest, first| quote!((#first, #rest)));
    let value = match fields {
        Fields::Named(_) => quote!(#make { #(#values),* }),
        Fields::Unnamed(_) => quote!(#make(#(#values),*)),
        Fields::Unit => quote!(#make),
    };
    Ok(List { pattern, value, len: names.len(), names })
}

/// Attributes of serde on a field or a variant.
#[derive(Default)]
struct OfSerde {
    rename: Option<String>,
    default: bool,
    skip: bool,
}

fn attributes(attributes: &[Attribute], is_variant: bool) -> Result<OfSerde> {
    let mut found = OfSerde::default();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("rename") {
                found.rename = Some(meta.value()?.parse::<LitStr>()?.value());
                return Ok(());
            }
            if !is_variant && meta.path.is_ident("default") && !meta.input.peek(Token![=]) {
                found.default = true;
                return Ok(());
            }
            if !is_variant && meta.path.is_ident("skip") {
                found.skip = true;
                return Ok(());
            }
            Err(meta.error("`PDeserialize` knows `rename = \"..\"`, `default` and `skip` of serde's attributes"))
        })?;
    }
    Ok(found)
}

/// Attributes of serde on a type change its form in ways that are not read; `bound` does not.
fn require_none(attributes: &[Attribute]) -> Result<()> {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        attribute.parse_nested_meta(|meta| match meta.path.is_ident("bound") {
            true => meta.value()?.parse::<LitStr>().map(drop),
            false => Err(meta.error("`PDeserialize` knows no attribute of serde on a type but `bound`")),
        })?;
    }
    Ok(())
}
