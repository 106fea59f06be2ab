//! Fields of type `PhantomData`, and parameters that occur in such fields alone: markers, such as
//! units of measure. They have no bytes, so their types need not be persistent.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Data, DeriveInput, Field, Fields, Generics, Ident, Type};

/// The type that stands in for every marker.
fn stand_in() -> Type {
    syn::parse_quote!(::core::marker::PhantomData<()>)
}

/// Whether a field is written as a `PhantomData`. The derive's code names the standard library's,
/// so another type of that name does not compile.
pub(crate) fn is_marker(of: &Type) -> bool {
    matches!(of, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "PhantomData"))
}

/// The parameters of a type that only markers mention; `pool` is none of them.
pub(crate) fn markers(input: &DeriveInput, pool: Option<&Ident>) -> Vec<Ident> {
    let fields = all(&input.data).filter(|field| !is_marker(&field.ty));
    let rest: TokenStream = fields.map(|field| field.ty.to_token_stream()).collect();
    let clause = input.generics.where_clause.to_token_stream();
    let parameters = input.generics.type_params().map(|parameter| &parameter.ident);
    let own = parameters.filter(|ident| pool != Some(ident) && !mentions(rest.clone(), ident));
    let has_marker = all(&input.data).any(|field| is_marker(&field.ty));
    own.filter(|ident| has_marker && !mentions(clause.clone(), ident)).cloned().collect()
}

/// The type with the stand-in for each marker.
pub(crate) fn without_markers(input: &DeriveInput) -> DeriveInput {
    let mut input = input.clone();
    let fields: Vec<&mut Fields> = match &mut input.data {
        Data::Struct(data) => vec![&mut data.fields],
        Data::Enum(data) => data.variants.iter_mut().map(|variant| &mut variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    };
    for field in fields.into_iter().flatten().filter(|field| is_marker(&field.ty)) {
        field.ty = stand_in();
    }
    input
}

/// Markers live as long as everything.
pub(crate) fn bound(generics: &mut Generics, markers: &[Ident]) {
    for parameter in generics.type_params_mut().filter(|parameter| markers.contains(&parameter.ident)) {
        parameter.bounds.push(syn::parse_quote!('static));
    }
}

/// All fields of a type.
pub(crate) fn all(data: &Data) -> Box<dyn Iterator<Item = &Field> + '_> {
    match data {
        Data::Struct(data) => Box::new(data.fields.iter()),
        Data::Enum(data) => Box::new(data.variants.iter().flat_map(|variant| &variant.fields)),
        Data::Union(_) => Box::new(std::iter::empty()),
    }
}

fn mentions(tokens: TokenStream, ident: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(found) => found == *ident,
        TokenTree::Group(group) => mentions(group.stream(), ident),
        _ => false,
    })
}
