//! `#[export]`: a C function for each public method, which runs compiled Rust.
//!
//! A method `add` becomes two functions inside of `Exports::methods`: `call_add`, generic over the
//! pool, which turns the arguments into Rust's; and `add`, generic over the pool's tag, which C++
//! calls.

use crate::names::docs;
use crate::rules::{self, Form};
use proc_macro2::{TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::{Error, GenericParam, Ident, ImplItem, ImplItemFn, ItemImpl, Result, Type, Visibility, WherePredicate};

pub(crate) fn expand(words: TokenStream, input: &ItemImpl) -> Result<TokenStream> {
    let with_instances = match words.to_string().as_str() {
        "" => false,
        "instances" => true,
        _ => return Err(Error::new_spanned(words, "`export` knows `instances`")),
    };
    if let Some((_, path, _)) = &input.trait_ {
        let advice = "C++ sees inherent methods: export an `impl` block without a trait, which may call the trait's";
        return Err(Error::new_spanned(path, advice));
    }
    let pool = rules::pool(&input.generics, &input.impl_token)?;
    let block = Block::new(input, pool, with_instances);
    let (mut methods, mut has_constructor) = (Vec::new(), false);
    for item in &input.items {
        let ImplItem::Fn(method) = item else { continue };
        if !matches!(method.vis, Visibility::Public(_)) {
            continue;
        }
        if rules::is_constructor(&method.sig) {
            rules::constructor(&method.sig, &block.pool)?;
            has_constructor = true;
            continue;
        }
        methods.push(block.method(method)?);
    }
    if !has_constructor {
        let advice = "an exported type has a transactional constructor: `pub fn new(j: &Journal<P>) -> Self`";
        return Err(Error::new_spanned(&input.self_ty, advice));
    }
    let (generics, of) = (block.tag_generics(), block.of_tag());
    let wheres = block.tag_wheres();
    Ok(quote! {
        #input

        #[automatically_derived]
        impl #generics ::everbyte_bridge::Exports<__G> for #of #wheres {
            fn methods() -> ::std::vec::Vec<::everbyte_bridge::Method> {
                ::std::vec![#(#methods),*]
            }
        }
    })
}

struct Block<'i> {
    input: &'i ItemImpl,
    pool: Ident,
    /// Type parameters but the pool.
    others: Vec<&'i syn::TypeParam>,
    /// Those that signatures cannot mention.
    hidden: Vec<Ident>,
}

impl<'i> Block<'i> {
    fn new(input: &'i ItemImpl, pool: Ident, with_instances: bool) -> Block<'i> {
        let others: Vec<_> = input.generics.type_params().filter(|one| one.ident != pool).collect();
        let hidden = others.iter().filter(|_| !with_instances).map(|one| one.ident.clone()).collect();
        Block { input, pool, others, hidden }
    }

    /// The parameters with the pool's tag in place of the pool.
    fn tag_generics(&self) -> TokenStream {
        let constants = self.input.generics.params.iter().filter(|one| matches!(one, GenericParam::Const(_)));
        let others = self.others.iter().map(|one| &one.ident);
        quote!(<#(#others,)* __G: ::everbyte_bridge::hidden::object::PoolTag, #(#constants),*>)
    }

    fn tag_arguments(&self) -> TokenStream {
        let constants = self.input.generics.const_params().map(|one| &one.ident);
        let others = self.others.iter().map(|one| &one.ident);
        quote!(<#(#others,)* __G, #(#constants),*>)
    }

    /// The bounds, for the pool outside of transactions and for the pool inside of every one.
    fn tag_wheres(&self) -> TokenStream {
        let object = quote!(::everbyte_bridge::hidden::object);
        let bounds = self.others.iter().flat_map(|one| {
            let (ident, bounds) = (&one.ident, &one.bounds);
            let outside = rules::with_pool(quote!(#bounds), &self.pool, &quote!(#object::Out<__G>));
            let inside = bounds.iter().map(|bound| {
                let bound = rules::with_pool(quote!(#bound), &self.pool, &quote!(#object::In<'__x, __G>));
                quote!(for<'__x> #ident: #bound)
            });
            std::iter::once(quote!(#ident: #outside)).chain(inside).collect::<Vec<_>>()
        });
        let of_pool = |one: &&WherePredicate| match one {
            WherePredicate::Type(one) => matches!(&one.bounded_ty, Type::Path(path) if path.path.is_ident(&self.pool)),
            _ => false,
        };
        let written = self.input.generics.where_clause.iter().flat_map(|clause| &clause.predicates);
        let written = written.filter(|one| !of_pool(one)).flat_map(|one| {
            let inside = rules::with_pool(quote!(#one), &self.pool, &quote!(#object::In<'__x, __G>));
            [rules::with_pool(quote!(#one), &self.pool, &quote!(#object::Out<__G>)), quote!(for<'__x> #inside)]
        });
        quote!(where #(#bounds,)* #(#written),*)
    }

    /// The type, in the pool outside of transactions.
    fn of_tag(&self) -> TokenStream {
        let of = &self.input.self_ty;
        rules::with_pool(quote!(#of), &self.pool, &quote!(::everbyte_bridge::hidden::object::Out<__G>))
    }

    fn method(&self, method: &ImplItemFn) -> Result<TokenStream> {
        let signature = &method.sig;
        let Form { changes, arguments, order, returns } = rules::form(signature, &self.pool, &self.hidden)?;
        let bridge = quote!(::everbyte_bridge);
        let (own, call) = (&signature.ident, format_ident!("call_{}", signature.ident));
        let names: Vec<Ident> = (0..arguments.len()).map(|index| format_ident!("argument_{index}")).collect();
        let types: Vec<TokenStream> = arguments.iter().map(|(_, of)| with_static(quote!(#of))).collect();
        let values = order.iter().map(|place| match place {
            Some(index) => {
                let name = &names[*index];
                quote!(#name)
            }
            None => quote!(j),
        });
        let (pool, of) = (&self.pool, &self.input.self_ty);
        let instance: Vec<TokenStream> = self
            .input
            .generics
            .params
            .iter()
            .filter_map(|one| match one {
                GenericParam::Type(one) if one.ident == *pool => Some(quote!(_)),
                GenericParam::Type(syn::TypeParam { ident, .. })
                | GenericParam::Const(syn::ConstParam { ident, .. }) => Some(quote!(#ident)),
                GenericParam::Lifetime(_) => None,
            })
            .collect();
        let (generics, _, wheres) = self.input.generics.split_for_impl();
        let (context, context_type) = match changes {
            true => (quote!(j), quote!(&#bridge::hidden::object::Journal<#pool>)),
            false => (quote!(_), quote!(::core::marker::PhantomData<#pool>)),
        };
        let (tag_generics, tag_arguments, tag_wheres) = (self.tag_generics(), self.tag_arguments(), self.tag_wheres());
        let run = |context: TokenStream| {
            quote! {
                // SAFETY: the caller's: types that differ in the brand are the same bytes.
                unsafe { #call::<#(#instance),*>(this, #context, #(#names),*) }
            }
        };
        let inside = run(quote!(context));
        let (number, body) = match changes {
            true => (
                quote!(number: u64,),
                quote!(#bridge::hidden::changing::<__G, #returns>(number, out, |context| #inside)),
            ),
            false => {
                (quote!(), quote!(#bridge::hidden::reading::<__G, #returns>(out, |context| #inside, |context| #inside)))
            }
        };
        let text = own.to_string();
        let text = text.trim_start_matches("r#");
        let docs = docs(&method.attrs);
        let parameters = arguments.iter().zip(&types).map(|((name, _), of)| {
            let name = name.to_string();
            quote!((#name, <#of as #bridge::Argument<'static>>::NAME))
        });
        Ok(quote! {{
            #[allow(clippy::too_many_arguments)]
            unsafe fn #call #generics(
                this: *const ::core::ffi::c_void,
                #context: #context_type,
                #(#names: <#types as #bridge::Argument<'static>>::Raw),*
            ) -> ::core::result::Result<#returns, #bridge::Fault> #wheres {
                let call = #bridge::hidden::Call::new(); // PASS-1
                // SAFETY: the caller's: an object of the pool, which lives during the call.
                let this = unsafe { call.object::<#of, #pool>(this) }?;
                #(
                    // SAFETY: the caller's: what it points to lives during the call.
                    let #names = unsafe { call.argument(#names) }?;
                )*
                let returned = <#of>::#own(this, #(#values),*);
                call.finish(false #(| <#types as #bridge::Argument<'static>>::CALLS_BACK)*)?; // PASS-3
                ::core::result::Result::Ok(returned)
            }
            #[allow(clippy::too_many_arguments, unused_unsafe)]
            unsafe extern "C" fn #own #tag_generics(
                this: *const ::core::ffi::c_void,
                #number
                #(#names: <#types as #bridge::Argument<'static>>::Raw,)*
                out: *mut <#returns as #bridge::Returned>::Raw,
            ) -> u32 #tag_wheres {
                // SAFETY: the caller's: `out` may be written to.
                unsafe { #body }
            }
            #bridge::Method::new(
                #text,
                #docs,
                #changes,
                &[#(#parameters),*],
                <#returns as #bridge::Returned>::NAME,
                #own::#tag_arguments as *const ::core::ffi::c_void,
            )
        }})
    }
}

/// A type with `'static` in place of lifetimes that are left out: its form in C++ is the same for
/// all of them.
fn with_static(of: TokenStream) -> TokenStream {
    let (mut done, mut tokens) = (TokenStream::new(), of.into_iter().peekable());
    while let Some(token) = tokens.next() {
        match &token {
            TokenTree::Punct(mark) if mark.as_char() == '&' => {
                done.extend([token]);
                if !matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == '\'') {
                    done.extend(quote!('static));
                }
            }
            TokenTree::Punct(mark) if mark.as_char() == '\'' => {
                match tokens.next_if(|next| matches!(next, TokenTree::Ident(name) if name == "_")) {
                    Some(_) => done.extend(quote!('static)),
                    None => done.extend([token]),
                }
            }
            _ => done.extend([token]),
        }
    }
    done
}
