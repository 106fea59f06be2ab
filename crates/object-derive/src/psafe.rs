//! `#[derive(PSafe)]`: bounds, fields checked, description, tracer, no `Drop`.
//!
//! Fields are checked in the body of `trace`, which calls each field's own: a where-clause for each would overflow on
//! recursive types.

use crate::names;
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Data, DataEnum, DeriveInput, Error, Fields, GenericParam, Generics, Ident, Index, Member, Meta, Result, Type,
    TypeParamBound,
};

/// What the attributes say.
struct Options {
    object: TokenStream,
    version: u32,
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let options = options(input)?;
    let layout = layout(input)?;
    let object = &options.object;
    let name = &input.ident;
    let pool = pool_parameter(&input.generics)?;
    let own = format_ident!("__P");
    let pool_name = pool.as_ref().unwrap_or(&own);

    let (_, types, wheres) = input.generics.split_for_impl();
    let generics = impl_generics(&input.generics, pool.as_ref(), &own, object);
    let (impl_generics, _, _) = generics.split_for_impl();
    let at = at(&input.generics, pool.as_ref());
    let parameters: Vec<&Ident> =
        input.generics.type_params().map(|parameter| &parameter.ident).filter(|ident| *ident != pool_name).collect();
    let constants: Vec<&Ident> = input.generics.const_params().map(|parameter| &parameter.ident).collect();

    let types_of_fields: Vec<&Type> = all_fields(&input.data).into_iter().flat_map(types_of).collect();
    let shape = shape(input, &options, pool_name);
    let trace = trace(input, &layout, object, pool_name)?;
    let text = name.to_string();
    let described = if parameters.is_empty() && constants.is_empty() {
        quote!(::std::string::String::from(#text))
    } else {
        quote! {{
            let arguments: &[::std::string::String] = &[
                #(::std::string::ToString::to_string(&<#parameters as #object::PSafe<#pool_name>>::describe(schema)),)*
                #(::std::string::ToString::to_string(&#constants),)*
            ];
            ::std::format!("{}<{}>", #text, arguments.join(", "))
        }}
    };
    let (drop_impl, _, _) = input.generics.split_for_impl();
    let bounded = bounded_generics(&input.generics, pool.as_ref(), object);
    let drop_generics = bounded.split_for_impl().0;
    let _ = drop_impl;

    Ok(quote! {
        // SAFETY: `trace` calls every field as `PSafe` in the same pool, the layout is fixed by a `repr`, and
        // `At` differs in the brand alone.
        #[automatically_derived]
        unsafe impl #impl_generics #object::PSafe<#pool_name> for #name #types #wheres {
            type At<'__x> = #name #at;
            const CELLS: u8 = {
                let cells: &[u8] = &[#(<#types_of_fields as #object::PSafe<#pool_name>>::CELLS),*];
                let (mut index, mut most) = (0, 0);
                while index < cells.len() {
                    if cells[index] > most {
                        most = cells[index];
                    }
                    index += 1;
                }
                most
            };

            fn describe(schema: &mut #object::Schema) -> #object::TypeName {
                let name = #described;
                schema.define::<Self>(::core::convert::From::from(name), |schema| { #shape })
            }

            #[allow(unused_variables)]
            unsafe fn trace(this: *const Self, tracer: &mut #object::Tracer<'_>) { #trace }
        }

        #[automatically_derived]
        impl #drop_generics #object::PersistentTypesMustNotImplementDrop for #name #types #wheres {}
    })
}

fn options(input: &DeriveInput) -> Result<Options> {
    let mut options = Options { object: names::object(), version: 1 };
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("persist")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("version") {
                options.version = meta.value()?.parse::<syn::LitInt>()?.base10_parse()?;
                Ok(())
            } else if meta.path.is_ident("crate") {
                let path: syn::Path = meta.value()?.parse()?;
                options.object = quote!(#path);
                Ok(())
            } else {
                Err(meta.error("`persist` knows `version = number` and `crate = path`"))
            }
        })?;
    }
    Ok(options)
}

/// What fixes the layout: `C`, `transparent`, or the integer of an enum's tag.
fn layout(input: &DeriveInput) -> Result<Ident> {
    const TAGS: [&str; 8] = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"];
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        let Meta::List(list) = &attribute.meta else { continue };
        let words = list.parse_args_with(syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated)?;
        let mut found: Vec<Ident> = words.iter().filter_map(|word| word.path().get_ident().cloned()).collect();
        if found.iter().any(|word| word == "packed") {
            return Err(Error::new(attribute.span(), "a persistent type cannot be packed: its fields are borrowed"));
        }
        found.sort_by_key(|word| word == "C"); // `repr(C, u8)`: the tag is a `u8`
        let fits = |word: &&Ident| *word == "C" || *word == "transparent" || TAGS.iter().any(|tag| *word == tag);
        if let Some(word) = found.iter().find(fits) {
            return Ok(word.clone());
        }
    }
    let advice = match input.data {
        Data::Enum(_) => "add `#[repr(u8)]`: a persistent type has the same layout in every build",
        _ => "add `#[repr(C)]`: a persistent type has the same layout in every build",
    };
    Err(Error::new(input.ident.span(), advice))
}

/// The parameter that is bounded by `MemPool`.
fn pool_parameter(generics: &Generics) -> Result<Option<Ident>> {
    let is_pool = |bound: &TypeParamBound| match bound {
        TypeParamBound::Trait(bound) => bound.path.segments.last().is_some_and(|last| last.ident == "MemPool"),
        _ => false,
    };
    let mut pools: Vec<Ident> = generics
        .type_params()
        .filter(|parameter| parameter.bounds.iter().any(is_pool))
        .map(|parameter| parameter.ident.clone())
        .collect();
    for predicate in generics.where_clause.iter().flat_map(|clause| &clause.predicates) {
        if let syn::WherePredicate::Type(predicate) = predicate
            && predicate.bounds.iter().any(is_pool)
            && let Type::Path(path) = &predicate.bounded_ty
            && let Some(ident) = path.path.get_ident()
        {
            pools.push(ident.clone());
        }
    }
    if let [_, second, ..] = &pools[..] {
        return Err(Error::new(second.span(), "a persistent type lives in one pool: take one parameter `P: MemPool`"));
    }
    if let Some(lifetime) = generics.lifetimes().next() {
        let advice = "a persistent type holds no references: take the pool as a parameter, `P: MemPool`";
        return Err(Error::new(lifetime.span(), advice));
    }
    Ok(pools.pop())
}

/// The type's own parameters, each but the pool bounded by `PSafe`.
fn bounded_generics(generics: &Generics, pool: Option<&Ident>, object: &TokenStream) -> Generics {
    let mut generics = generics.clone();
    let Some(pool) = pool else { return generics };
    for parameter in generics.type_params_mut().filter(|parameter| parameter.ident != *pool) {
        parameter.bounds.push(syn::parse_quote!(#object::PSafe<#pool>));
    }
    generics
}

/// [`bounded_generics`], and a pool where the type has none: plain data may lie in any.
fn impl_generics(generics: &Generics, pool: Option<&Ident>, own: &Ident, object: &TokenStream) -> Generics {
    let mut with = bounded_generics(generics, pool, object);
    if pool.is_none() {
        for parameter in with.type_params_mut() {
            parameter.bounds.push(syn::parse_quote!(#object::PSafe<#own>));
        }
        with.params.push(GenericParam::Type(syn::parse_quote!(#own: #object::MemPool)));
    }
    with
}

/// The type's arguments with another brand.
fn at(generics: &Generics, pool: Option<&Ident>) -> TokenStream {
    if generics.params.is_empty() {
        return quote!();
    }
    let arguments = generics.params.iter().map(|parameter| match parameter {
        GenericParam::Type(parameter) => {
            let ident = &parameter.ident;
            quote!(#ident::At<'__x>)
        }
        GenericParam::Const(parameter) => {
            let ident = &parameter.ident;
            quote!(#ident)
        }
        GenericParam::Lifetime(_) => quote!('__x),
    });
    let _ = pool;
    quote!(<#(#arguments),*>)
}

fn all_fields(data: &Data) -> Vec<&Fields> {
    match data {
        Data::Struct(data) => vec![&data.fields],
        Data::Enum(data) => data.variants.iter().map(|variant| &variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    }
}

fn types_of(fields: &Fields) -> Vec<&Type> {
    fields.iter().map(|field| &field.ty).collect()
}

fn shape(input: &DeriveInput, options: &Options, pool: &Ident) -> TokenStream {
    let object = &options.object;
    let version = options.version;
    let field = |label: String, of: &Type, offset: TokenStream| {
        quote! {
            let of = <#of as #object::PSafe<#pool>>::describe(schema);
            let shape = shape.field(#label, &of, #offset);
        }
    };
    let fields: Vec<TokenStream> = match &input.data {
        Data::Struct(data) => data
            .fields
            .iter()
            .enumerate()
            .map(|(index, of)| {
                let member = member(index, of);
                let label = quote!(#member).to_string();
                field(label, &of.ty, quote!(::core::mem::offset_of!(Self, #member)))
            })
            .collect(),
        // Where a variant's fields lie follows from their order and the `repr`.
        Data::Enum(data) => data
            .variants
            .iter()
            .flat_map(|variant| {
                let name = variant.ident.to_string();
                let tag = quote!({
                    let shape = shape.field(concat!(#name, " (variant)"), &::core::convert::From::from(""), 0);
                    shape
                });
                let mut lines = vec![quote!(let shape = #tag;)];
                lines.extend(variant.fields.iter().enumerate().map(|(index, of)| {
                    let member = member(index, of);
                    field(format!("{name}.{}", quote!(#member)), &of.ty, quote!(#index))
                }));
                lines
            })
            .collect(),
        Data::Union(_) => Vec::new(),
    };
    quote! {
        let shape = #object::Shape::of::<Self>().version(#version);
        #(#fields)*
        shape
    }
}

fn member(index: usize, field: &syn::Field) -> Member {
    match &field.ident {
        Some(ident) => Member::Named(ident.clone()),
        None => Member::Unnamed(Index::from(index)),
    }
}

fn trace(input: &DeriveInput, layout: &Ident, object: &TokenStream, pool: &Ident) -> Result<TokenStream> {
    match &input.data {
        Data::Struct(data) => {
            let members: Vec<Member> = data.fields.iter().enumerate().map(|(index, of)| member(index, of)).collect();
            let lines = data.fields.iter().zip(&members).map(|(field, member)| {
                let of = &field.ty;
                quote! {
                    // SAFETY: a field of the bytes at `this`.
                    unsafe { <#of as #object::PSafe<#pool>>::trace(&raw const (*this).#member, tracer) };
                }
            });
            // A macro below this one may add fields that it has not seen: then the pattern does not compile.
            let name = &input.ident;
            let pattern = quote_spanned!(name.span()=> #name { #(#members: _,)* });
            Ok(quote! {
                let _ = |whole: &Self| { let #pattern = whole; };
                #(#lines)*
            })
        }
        Data::Enum(data) => Ok(trace_enum(input, data, layout, object, pool)),
        Data::Union(_) => Err(Error::new(input.ident.span(), "a union cannot live in a pool: use an enum")),
    }
}

fn trace_enum(input: &DeriveInput, data: &DataEnum, layout: &Ident, object: &TokenStream, pool: &Ident) -> TokenStream {
    let name = &input.ident;
    let tag = if layout == "C" { quote!(::core::ffi::c_int) } else { quote!(#layout) };
    let mut last: Option<(TokenStream, i64)> = None;
    let tags: Vec<TokenStream> = data
        .variants
        .iter()
        .map(|variant| {
            let (base, plus) = match (&variant.discriminant, last.take()) {
                (Some((_, expression)), _) => (quote!((#expression)), 0),
                (None, Some((base, plus))) => (base, plus + 1),
                (None, None) => (quote!(0), 0),
            };
            last = Some((base.clone(), plus));
            quote!((#base as i128 + #plus as i128))
        })
        .collect();
    let arms = data.variants.iter().map(|variant| {
        let ident = &variant.ident;
        let members: Vec<Member> =
            variant.fields.iter().enumerate().map(|(index, field)| member(index, field)).collect();
        let names: Vec<Ident> = (0..members.len()).map(|index| format_ident!("field_{index}")).collect();
        let of: Vec<&Type> = types_of(&variant.fields);
        let pattern = quote_spanned!(name.span()=> #name::#ident { #(#members: #names,)* });
        quote! {
            #pattern => {
                // SAFETY: fields of the bytes at `this`.
                #(unsafe { <#of as #object::PSafe<#pool>>::trace(#names, tracer) };)*
            }
        }
    });
    let what = format!("not a variant of `{name}`");
    quote! {
        // SAFETY: the tag is the first field, of this integer type (`repr`).
        let tag = unsafe { this.cast::<#tag>().read() } as i128;
        if !(false #(|| tag == #tags)*) {
            return tracer.invalid(this.cast(), #what);
        }
        // SAFETY: the tag names a variant; fields are looked at by their own types.
        match unsafe { &*this } {
            #(#arms)*
        }
    }
}
