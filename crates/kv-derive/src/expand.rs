//! `#[derive(Typed)]`: description, encoding, decoding, prefixes.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Ident, Index, LitStr, Path, Result, Type, parse_quote};

/// `#[typed(..)]`.
#[derive(Default)]
struct Options {
    name: Option<String>,
    path: Option<Path>,
}

fn options(attributes: &[Attribute]) -> Result<Options> {
    let mut options = Options::default();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("typed")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                options.name = Some(meta.value()?.parse::<LitStr>()?.value());
                Ok(())
            } else if meta.path.is_ident("crate") {
                options.path = Some(meta.value()?.parse()?);
                Ok(())
            } else {
                Err(meta.error("`typed` knows `name = \"Name\"` and `crate = path`"))
            }
        })?;
    }
    Ok(options)
}

/// The path of the crate `everbyte-kv`, or of its face in `everbyte`.
fn kv() -> TokenStream {
    let found = |package: &str, own: &str| {
        let name = match crate_name(package).ok()? {
            FoundCrate::Itself => own.into(),
            FoundCrate::Name(name) => name,
        };
        Some(Ident::new(&name, Span::call_site()))
    };
    if let Some(name) = found("everbyte-kv", "everbyte_kv") {
        return quote!(::#name);
    }
    match found("everbyte", "everbyte") {
        Some(name) => quote!(::#name::kv),
        None => quote!(::everbyte::kv),
    }
}

/// A field: its name in descriptions, and its type.
type Field<'a> = (String, &'a Type);

fn fields(fields: &Fields) -> Result<Vec<Field<'_>>> {
    let named = fields.iter().enumerate().map(|(index, field)| {
        let own = field.ident.as_ref().map_or(index.to_string(), |ident| ident.unraw().to_string());
        Ok((options(&field.attrs)?.name.unwrap_or(own), &field.ty))
    });
    named.collect()
}

/// How fields are encoded one after the other: all but the last end by themselves.
fn last(index: usize, count: usize) -> TokenStream {
    if index + 1 == count { quote!(last) } else { quote!(false) }
}

fn described(kv: &TokenStream, fields: &[Field<'_>]) -> TokenStream {
    let each =
        fields.iter().map(|(name, ty)| quote!((::std::string::String::from(#name), <#ty as #kv::Typed>::encoding())));
    quote!(::std::vec![#(#each),*])
}

/// `{ name: decoded, .. }`.
fn decoded(kv: &TokenStream, fields: &Fields) -> TokenStream {
    let count = fields.len();
    let each = fields.iter().enumerate().map(|(index, field)| {
        let (ty, last) = (&field.ty, last(index, count));
        let member = field.ident.as_ref().map_or_else(
            || {
                let index = Index::from(index);
                quote!(#index)
            },
            |ident| quote!(#ident),
        );
        quote!(#member: <#ty as #kv::Typed>::decode(bytes, #last)?)
    });
    quote!({ #(#each),* })
}

/// A pattern that binds each field, and the code that encodes them.
fn encoded(kv: &TokenStream, fields: &Fields) -> (TokenStream, TokenStream) {
    let count = fields.len();
    let names: Vec<Ident> = (0..count).map(|index| format_ident!("field_{index}")).collect();
    let members = fields.iter().zip(&names).enumerate().map(|(index, (field, name))| match &field.ident {
        Some(ident) => quote!(#ident: #name),
        None => {
            let index = Index::from(index);
            quote!(#index: #name)
        }
    });
    let pattern = quote!({ #(#members),* });
    let each = names.iter().enumerate().map(|(index, name)| {
        let last = last(index, count);
        quote!(#kv::Typed::encode(#name, out, #last);)
    });
    (pattern, quote!(#(#each)*))
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let own = options(&input.attrs)?;
    let kv = own.path.map_or_else(kv, |path| quote!(#path));
    let ident = &input.ident;
    let name = own.name.unwrap_or_else(|| ident.unraw().to_string());
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return Err(Error::new(
            lifetime.span(),
            "a type of a table owns its fields: write `String` in place of `&str`",
        ));
    }
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(#kv::Typed));
    }
    let (impl_generics, types, wheres) = generics.split_for_impl();
    let (encoding, encode, decode, prefixes, all): (_, _, _, _, Vec<&Type>) = match &input.data {
        Data::Struct(data) => {
            let parts = fields(&data.fields)?;
            let described = described(&kv, &parts);
            let (pattern, encode) = encoded(&kv, &data.fields);
            let decoded = decoded(&kv, &data.fields);
            let types_of: Vec<&Type> = parts.iter().map(|(_, ty)| *ty).collect();
            let prefixes = (1..types_of.len().min(8)).map(|count| {
                let first = &types_of[..count];
                quote! {
                    #[automatically_derived]
                    impl #impl_generics #kv::KeyPrefix<#ident #types> for (#(#first,)*) #wheres {
                        fn encode_prefix(&self, out: &mut ::std::vec::Vec<u8>) {
                            #kv::Typed::encode(self, out, false);
                        }
                    }
                }
            });
            let prefixes: Vec<TokenStream> = if uses_all(input) { prefixes.collect() } else { Vec::new() };
            (
                quote!(#kv::Encoding::Struct(::std::string::String::from(#name), #described)),
                quote!(let Self #pattern = self; #encode),
                quote!(::core::result::Result::Ok(Self #decoded)),
                prefixes,
                types_of,
            )
        }
        Data::Enum(data) => {
            if data.variants.is_empty() || data.variants.len() > 256 {
                return Err(Error::new(ident.span(), "an enum of a table has 1 to 256 variants"));
            }
            let (mut described_each, mut encode_each, mut decode_each, mut all) = (vec![], vec![], vec![], vec![]);
            for (tag, variant) in data.variants.iter().enumerate() {
                if let Some((_, discriminant)) = &variant.discriminant {
                    let advice = "variants of a table's type are in the order in which they are written: \
                                  remove the discriminant";
                    return Err(Error::new(discriminant.span(), advice));
                }
                let (own, tag) = (&variant.ident, tag as u8);
                let name = options(&variant.attrs)?.name.unwrap_or_else(|| own.unraw().to_string());
                let parts = fields(&variant.fields)?;
                let described = described(&kv, &parts);
                let (pattern, encode) = encoded(&kv, &variant.fields);
                let decoded = decoded(&kv, &variant.fields);
                described_each.push(quote!((::std::string::String::from(#name), #described)));
                encode_each.push(quote!(Self::#own #pattern => { out.push(#tag); #encode }));
                decode_each.push(quote!(#tag => ::core::result::Result::Ok(Self::#own #decoded)));
                all.extend(parts.iter().map(|(_, ty)| *ty));
            }
            (
                quote!(#kv::Encoding::Enum(::std::string::String::from(#name), ::std::vec![#(#described_each),*])),
                quote!(match self { #(#encode_each)* }),
                quote! {
                    let wrong = bytes.error("a variant that the enum does not have");
                    match bytes.byte()? { #(#decode_each,)* _ => ::core::result::Result::Err(wrong) }
                },
                Vec::new(),
                all,
            )
        }
        Data::Union(_) => return Err(Error::new(ident.span(), "a union has no order: write an enum")),
    };
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables)]
        impl #impl_generics #kv::Typed for #ident #types #wheres {
            const DEPTH: u32 = {
                let depths: &[u32] = &[#(<#all as #kv::Typed>::DEPTH),*];
                let (mut index, mut most) = (0, 0);
                while index < depths.len() {
                    if depths[index] > most {
                        most = depths[index];
                    }
                    index += 1;
                }
                most + 1
            };

            fn encoding() -> #kv::Encoding {
                #encoding
            }

            fn encode(&self, out: &mut ::std::vec::Vec<u8>, last: bool) {
                #encode
            }

            fn decode(
                bytes: &mut #kv::Decoder<'_>,
                last: bool,
            ) -> ::core::result::Result<Self, #kv::DecodeError> {
                #decode
            }
        }

        #(#prefixes)*
    })
}

/// Whether prefixes can be implemented: with parameters of the type, they would need to occur in
/// the first fields.
fn uses_all(input: &DeriveInput) -> bool {
    input.generics.params.is_empty()
}

#[cfg(test)]
mod tests {
    use super::expand;
    use syn::{DeriveInput, parse_quote};

    fn refused(input: DeriveInput, why: &str) {
        let error = expand(&input).expect_err("the derive refuses it");
        assert!(error.to_string().contains(why), "{error}");
    }

    fn enum_of(variants: usize) -> DeriveInput {
        let variants: Vec<String> = (0..variants).map(|index| format!("V{index}")).collect();
        syn::parse_str(&format!("enum E {{ {} }}", variants.join(", "))).expect("an enum")
    }

    #[test]
    fn what_has_no_order_or_does_not_own_its_fields_is_refused() {
        refused(
            parse_quote!(
                struct S<'a> {
                    name: &'a str,
                }
            ),
            "write `String` in place of `&str`",
        );
        refused(parse_quote!(union U { one: u8, other: i8 }), "a union has no order");
        refused(
            parse_quote!(
                enum E {
                    A = 2,
                    B = 1,
                }
            ),
            "remove the discriminant",
        );
        refused(
            parse_quote!(
                #[typed(color = "red")]
                struct S(u8);
            ),
            "`typed` knows `name",
        );
        refused(
            parse_quote!(
                struct S {
                    #[typed(color = "red")]
                    field: u8,
                }
            ),
            "`typed` knows `name",
        );
        refused(
            parse_quote!(
                enum E {
                    #[typed(color = "red")]
                    A,
                }
            ),
            "`typed` knows `name",
        );
    }

    #[test]
    fn an_enum_has_as_many_variants_as_a_byte_numbers() {
        for count in [0, 257] {
            refused(enum_of(count), "1 to 256 variants");
        }
        for count in [1, 256] {
            assert!(expand(&enum_of(count)).is_ok());
        }
    }
}
