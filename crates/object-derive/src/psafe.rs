//! `#[derive(PSafe)]`: bounds, fields checked, tracer, no `Drop`.
//!
//! Fields are checked in the body of `trace`, which calls each field's own: a where-clause for each
//! would overflow on recursive types.

use crate::attributes::{Repr, options, repr};
use crate::derived::{derived, label, members, niche, tags};
use crate::generics::{at, bounded_generics, impl_generics, pool_parameter};
use crate::markers::{is_marker, markers, without_markers};
use crate::moved::moved;
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Data, DataEnum, DeriveInput, Error, Fields, Ident, Result, Type};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let options = options(input)?;
    let written = input;
    let input = &without_markers(input);
    let repr = repr(input)?;
    let (object, trust) = (&options.object, &options.trust);
    let name = &input.ident;
    let pool = pool_parameter(input, options.pool.as_ref())?;
    let mut markers = markers(written, pool.as_ref());
    markers.extend(options.markers.iter().cloned());
    let own = format_ident!("__P");
    let pool_name = pool.as_ref().unwrap_or(&own);

    let (_, types, wheres) = input.generics.split_for_impl();
    let generics = impl_generics(&input.generics, pool.as_ref(), &markers, &own, object);
    let (impl_generics, _, _) = generics.split_for_impl();
    let (at, outside) =
        (at(&input.generics, &markers, &quote!(At<'__x>)), at(&input.generics, &markers, &quote!(Outside)));
    let types_of_fields: Vec<&Type> = all_fields(&input.data).into_iter().flat_map(types_of).collect();
    let trace = trace(input, &repr, object, pool_name)?;
    let moved = moved(input, &options, pool_name);
    let derived = derived(input, &options, &repr, pool_name, &markers);
    let niche = niche(input, &repr, object, pool_name);
    let bounded = bounded_generics(&input.generics, pool.as_ref(), &markers, object);
    let drop_generics = bounded.split_for_impl().0;

    Ok(quote! {
        #[allow(unused_unsafe)]
        #trust

        // SAFETY: `trace` calls every field as `PSafe` in the same pool, the layout is fixed by a
        // `repr`, and `At` and `Outside` differ in the brand alone.
        #[automatically_derived]
        unsafe impl #impl_generics #object::PSafe<#pool_name> for #name #types #wheres {
            type At<'__x> = #name #at;
            type Outside = #name #outside;
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
            const NICHE: #object::Niche = #niche;

            fn describe(schema: &mut #object::Schema) -> #object::TypeName {
                schema.derived::<Self, #pool_name>()
            }

            #[allow(unused_variables)]
            unsafe fn trace(this: *const Self, tracer: &mut #object::Tracer<'_>) { #trace }

            fn plan(
                planner: &mut #object::hidden::Planner<#pool_name>,
                stored: &str,
            ) -> ::core::result::Result<#object::hidden::PartId, #object::hidden::Refusal> {
                planner.derived::<Self>(stored)
            }

            #[allow(unused_variables, unused_unsafe)]
            unsafe fn moved(
                from: *const u8,
                part: #object::hidden::PartId,
                moving: &#object::hidden::Moving<'_, #pool_name>,
            ) -> Self { #moved }
        }

        #[automatically_derived]
        impl #impl_generics #object::hidden::Derived<#pool_name> for #name #types #wheres { #derived }

        #[automatically_derived]
        impl #drop_generics #object::PersistentTypesMustNotImplementDrop for #name #types #wheres {}
    })
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

fn trace(input: &DeriveInput, repr: &Repr, object: &TokenStream, pool: &Ident) -> Result<TokenStream> {
    match &input.data {
        Data::Struct(data) => {
            let members = members(&data.fields);
            let lines = data.fields.iter().zip(&members).map(|(field, member)| {
                let of = &field.ty;
                let label = label(member);
                if is_marker(of) {
                    // SAFETY: a field of the bytes at `this`.
                    return quote!(let _: *const ::core::marker::PhantomData<_> = unsafe { &raw const (*this).#member };);
                }
                quote! {
                    tracer.enter(#label);
                    // SAFETY: a field of the bytes at `this`.
                    unsafe { <#of as #object::PSafe<#pool>>::trace(&raw const (*this).#member, tracer) };
                    tracer.leave();
                }
            });
            Ok(quote!(#(#lines)*))
        }
        Data::Enum(data) => Ok(trace_enum(input, data, repr, object, pool)),
        Data::Union(_) => Err(Error::new(input.ident.span(), "a union cannot live in a pool: use an enum")),
    }
}

fn trace_enum(input: &DeriveInput, data: &DataEnum, repr: &Repr, object: &TokenStream, pool: &Ident) -> TokenStream {
    let name = &input.ident;
    let (tag, tags) = (repr.tag_type(), tags(data, repr));
    let arms = data.variants.iter().map(|variant| {
        let ident = &variant.ident;
        let members = members(&variant.fields);
        let names: Vec<Ident> = (0..members.len()).map(|index| format_ident!("field_{index}")).collect();
        let labels: Vec<String> = members.iter().map(|member| format!("{}.{}", ident.unraw(), label(member))).collect();
        let lines = types_of(&variant.fields).into_iter().zip(&names).zip(&labels).map(|((of, name), label)| {
            if is_marker(of) {
                return quote!(let _: &::core::marker::PhantomData<_> = #name;);
            }
            quote! {
                tracer.enter(#label);
                // SAFETY: a field of the bytes at `this`.
                unsafe { <#of as #object::PSafe<#pool>>::trace(#name, tracer) };
                tracer.leave();
            }
        });
        let pattern = quote_spanned!(name.span()=> #name::#ident { #(#members: #names,)* });
        quote! {
            #pattern => { #(#lines)* }
        }
    });
    let what = format!("not a variant of `{}`", name.unraw());
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
