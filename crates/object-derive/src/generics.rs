//! The parameters of a derived type: the pool, and the bounds of the others.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Error, GenericParam, Generics, Ident, Result, Type, TypeParamBound};

/// The parameter that is bounded by `MemPool`.
pub(crate) fn pool_parameter(generics: &Generics) -> Result<Option<Ident>> {
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
pub(crate) fn bounded_generics(generics: &Generics, pool: Option<&Ident>, object: &TokenStream) -> Generics {
    let mut generics = generics.clone();
    let Some(pool) = pool else { return generics };
    for parameter in generics.type_params_mut().filter(|parameter| parameter.ident != *pool) {
        parameter.bounds.push(syn::parse_quote!(#object::PSafe<#pool>));
    }
    generics
}

/// [`bounded_generics`], and a pool where the type has none: plain data may lie in any.
pub(crate) fn impl_generics(generics: &Generics, pool: Option<&Ident>, own: &Ident, object: &TokenStream) -> Generics {
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
pub(crate) fn at(generics: &Generics, brand: &TokenStream) -> TokenStream {
    if generics.params.is_empty() {
        return quote!();
    }
    let arguments = generics.params.iter().map(|parameter| match parameter {
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
