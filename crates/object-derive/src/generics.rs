//! The parameters of a derived type: the pool, and the bounds of the others.

use crate::markers::{all, bound};
use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{
    DeriveInput, Error, GenericArgument, GenericParam, Generics, Ident, PathArguments, Result, Type, TypeParamBound,
};

/// The parameter that is named as the pool, or is bounded by `MemPool`.
pub(crate) fn pool_parameter(input: &DeriveInput, named: Option<&Ident>) -> Result<Option<Ident>> {
    let generics = &input.generics;
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
    if let Some(named) = named {
        return match generics.type_params().any(|parameter| parameter.ident == *named) {
            true => Ok(Some(named.clone())),
            false => Err(Error::new(named.span(), "`pool` names a parameter of the type")),
        };
    }
    // A parameter bounded by a trait of another name that implies `MemPool`.
    let is_used = |parameter: &&syn::TypeParam| {
        !parameter.bounds.is_empty() && all(&input.data).any(|field| is_pool_in(&field.ty, &parameter.ident))
    };
    Ok(pools.pop().or_else(|| generics.type_params().find(is_used).map(|parameter| parameter.ident.clone())))
}

/// Whether a type is one of this crate's in the pool `pool`, as `Pbox<T, P>`, or holds one.
fn is_pool_in(of: &Type, pool: &Ident) -> bool {
    let Type::Path(path) = of else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
    let types: Vec<&Type> = arguments
        .args
        .iter()
        .filter_map(|argument| match argument {
            GenericArgument::Type(of) => Some(of),
            _ => None,
        })
        .collect();
    let is_pool = |of: &&Type| matches!(of, Type::Path(path) if path.path.is_ident(pool));
    let of_ours = last.ident.to_string().starts_with('P') && last.ident != "PhantomData";
    of_ours && types.last().is_some_and(is_pool) || types.iter().any(|of| is_pool_in(of, pool))
}

/// The type's own parameters, each but the pool bounded by `PSafe`.
pub(crate) fn bounded_generics(
    generics: &Generics,
    pool: Option<&Ident>,
    markers: &[Ident],
    object: &TokenStream,
) -> Generics {
    let mut generics = generics.clone();
    bound(&mut generics, markers);
    let Some(pool) = pool else { return generics };
    let is_value = |ident: &Ident| ident != pool && !markers.contains(ident);
    for parameter in generics.type_params_mut().filter(|parameter| is_value(&parameter.ident)) {
        parameter.bounds.push(syn::parse_quote!(#object::PSafe<#pool>));
    }
    generics
}

/// [`bounded_generics`], and a pool where the type has none: plain data may lie in any.
pub(crate) fn impl_generics(
    generics: &Generics,
    pool: Option<&Ident>,
    markers: &[Ident],
    own: &Ident,
    object: &TokenStream,
) -> Generics {
    let mut with = bounded_generics(generics, pool, markers, object);
    if pool.is_none() {
        for parameter in with.type_params_mut().filter(|parameter| !markers.contains(&parameter.ident)) {
            parameter.bounds.push(syn::parse_quote!(#object::PSafe<#own>));
        }
        with.params.push(GenericParam::Type(syn::parse_quote!(#own: #object::MemPool)));
    }
    with
}

/// The type's arguments with another brand.
pub(crate) fn at(generics: &Generics, markers: &[Ident], brand: &TokenStream) -> TokenStream {
    if generics.params.is_empty() {
        return quote!();
    }
    let arguments = generics.params.iter().map(|parameter| match parameter {
        GenericParam::Type(parameter) if markers.contains(&parameter.ident) => {
            let ident = &parameter.ident;
            quote!(#ident)
        }
        GenericParam::Type(parameter) => {
            let ident = &parameter.ident;
            quote!(#ident::#brand)
        }
        GenericParam::Const(parameter) => {
            let ident = &parameter.ident;
            quote!(#ident)
        }
        GenericParam::Lifetime(_) => unreachable!("refused"),
    });
    quote!(<#(#arguments),*>)
}
