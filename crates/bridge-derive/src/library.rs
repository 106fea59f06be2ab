//! `library!`: the named roots of each pool as one type, the functions of its pools, and the two
//! symbols that C++ and tools look for.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Ident, LitStr, Path, PathArguments, Result, Token, braced};

mod word {
    syn::custom_keyword!(name);
    syn::custom_keyword!(pool);
    syn::custom_keyword!(std);
    syn::custom_keyword!(template);
}

/// `name events; pool Tally { Counter, Log<u64> as log_u64, std }`.
pub(crate) struct List {
    name: Ident,
    pools: Vec<Pool>,
}

struct Pool {
    of: Path,
    types: Vec<One>,
}

struct One {
    /// Names of the classes that C++ gives.
    classes: Vec<Ident>,
    of: Path,
    name: Option<Ident>,
}

impl Parse for List {
    fn parse(input: ParseStream<'_>) -> Result<List> {
        input.parse::<word::name>()?;
        let name = input.parse()?;
        input.parse::<Token![;]>()?;
        let mut pools = Vec::new();
        while !input.is_empty() {
            input.parse::<word::pool>()?;
            let of: Path = input.parse()?;
            let types;
            braced!(types in input);
            let types = Punctuated::<Item, Token![,]>::parse_terminated(&types)?;
            if types.is_empty() {
                return Err(Error::new_spanned(&of, "a pool has at least one type that may be its root"));
            }
            let types = types.into_iter().flat_map(|item| match item {
                Item::One(one) => vec![one],
                Item::Std => std_containers(),
            });
            pools.push(Pool { of, types: types.collect() });
        }
        match pools.is_empty() {
            true => Err(Error::new(name_span(&name), "a library exports at least one pool: `pool Name { Type }`")),
            false => Ok(List { name, pools }),
        }
    }
}

fn name_span(name: &Ident) -> proc_macro2::Span {
    name.span()
}

/// A part of a pool's list.
enum Item {
    One(One),
    /// The containers of C++'s standard library.
    Std,
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> Result<Item> {
        if input.peek(word::std) && !input.peek2(Token![::]) {
            input.parse::<word::std>()?;
            return Ok(Item::Std);
        }
        input.parse().map(Item::One)
    }
}

/// The types that `std.hpp` is over.
fn std_containers() -> Vec<One> {
    let one = |of: &str, name: &str, classes: &[&str]| {
        let (of, name) = (format_ident!("{of}"), Some(format_ident!("{name}")));
        let classes: Vec<Ident> = classes.iter().map(|class| format_ident!("{class}")).collect();
        let of = syn::parse_quote!(::everbyte_bridge::containers::#of<#(#classes),*>);
        One { classes, of, name }
    };
    vec![
        one("Vector", "std_vector", &["T"]),
        one("Deque", "std_deque", &["T"]),
        one("Map", "std_map", &["K", "V"]),
        one("Set", "std_set", &["K"]),
        one("HashMap", "std_hash_map", &["K", "V"]),
        one("HashSet", "std_hash_set", &["K"]),
    ]
}

impl Parse for One {
    fn parse(input: ParseStream<'_>) -> Result<One> {
        let mut classes = Vec::new();
        if input.peek(word::template) {
            input.parse::<word::template>()?;
            input.parse::<Token![<]>()?;
            classes = Punctuated::<Ident, Token![,]>::parse_separated_nonempty(input)?.into_iter().collect();
            input.parse::<Token![>]>()?;
        }
        let of = input.parse()?;
        let name = if input.parse::<Option<Token![as]>>()?.is_some() { Some(input.parse()?) } else { None };
        Ok(One { classes, of, name })
    }
}

/// A type with its pool as the last argument, and with classes of C++ in their places.
fn with_pool(One { classes, of, .. }: &One, pool: &TokenStream) -> TokenStream {
    let mut of = of.clone();
    let last = of.segments.last_mut().expect("a path has a segment");
    let arguments = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            let arguments = arguments.args.iter().map(|argument| {
                let argument = quote!(#argument);
                let written = argument.to_string();
                let index = classes.iter().position(|class| *class == written);
                index.map_or(argument, |index| quote!(::everbyte_bridge::Cpp<#index>))
            });
            quote!(<#(#arguments,)* #pool>)
        }
        _ => quote!(<#pool>),
    };
    last.arguments = PathArguments::None;
    quote!(#of #arguments)
}

pub(crate) fn expand(list: &List) -> TokenStream {
    let bridge = quote!(::everbyte_bridge);
    let library = list.name.to_string();
    let (items, builds): (Vec<_>, Vec<_>) = list.pools.iter().map(pool).unzip();
    let symbol = LitStr::new(&format!("everbyte_bridge_{library}"), list.name.span());
    quote! {
        #[cfg(panic = "abort")]
        ::core::compile_error!("a library for C++ unwinds, since a panic becomes an exception and is rolled back: compile it with `panic = \"unwind\"`");

        const _: () = {
            #(#items)*

            fn __table() -> &'static #bridge::hidden::Library {
                static TABLE: ::std::sync::OnceLock<#bridge::hidden::Library> = ::std::sync::OnceLock::new();
                TABLE.get_or_init(|| {
                    let mut builder = #bridge::hidden::Builder::new(#library);
                    #(#builds)*
                    builder.build()
                })
            }

            /// The table, for a header that fits.
            #[unsafe(export_name = #symbol)]
            unsafe extern "C" fn __attach(
                expected: #bridge::hidden::RawText,
                difference: *mut #bridge::hidden::RawText,
            ) -> *const #bridge::hidden::Entry {
                let attach = || {
                    // SAFETY: the caller's.
                    unsafe { __table().attach(expected, difference) }
                };
                ::std::panic::catch_unwind(attach).unwrap_or(::core::ptr::null())
            }

            /// The description, for tools.
            #[unsafe(export_name = "everbyte_bridge_description")]
            extern "C" fn __description() -> #bridge::hidden::RawText {
                __table().text()
            }
        };
    }
}

fn pool(Pool { of: pool, types }: &Pool) -> (TokenStream, TokenStream) {
    let bridge = quote!(::everbyte_bridge);
    let object = quote!(#bridge::hidden::object);
    let last = &pool.segments.last().expect("a path has a segment").ident;
    let name = crate::names::snake(last);
    let [one_of, named] = ["Object", "Named"].map(|word| format_ident!("__{word}{last}"));
    let mut tag = pool.clone();
    tag.segments.last_mut().expect("a path has a segment").ident = format_ident!("{last}Tag"); // as `pool!` names it
    let variants: Vec<Ident> = types
        .iter()
        .enumerate()
        .map(|(index, one)| match &one.name {
            Some(name) => format_ident!("{}", name),
            None => {
                format_ident!("{}", one.of.segments.last().map_or(format!("T{index}"), |last| last.ident.to_string()))
            }
        })
        .collect();
    let of_any: Vec<TokenStream> = types.iter().map(|one| with_pool(one, &quote!(__P))).collect();
    let objects = types.iter().zip(&variants).map(|(one, variant)| {
        let of_out = with_pool(one, &quote!(#pool));
        let of_inside = with_pool(one, &quote!(_));
        let classes = one.classes.iter().map(Ident::to_string);
        let name = match &one.name {
            Some(name) => {
                let name = name.to_string();
                quote!(::core::option::Option::Some(#name))
            }
            None => quote!(::core::option::Option::None),
        };
            quote! {{
            fn address<__P: #object::MemPool>(object: &#one_of<__P>) -> ::core::option::Option<*const ::core::ffi::c_void> {
                match object {
                    #one_of::#variant(object) => ::core::option::Option::Some((&raw const **object).cast()),
                    _ => ::core::option::Option::None,
                }
            }
            unsafe extern "C" fn root(
                handle: *const ::core::ffi::c_void,
                name: #bridge::hidden::RawText,
                classes: *const #bridge::hidden::RawObject,
                count: usize,
                out: *mut *const ::core::ffi::c_void,
            ) -> u32 {
                let find = |handle: &#bridge::hidden::Handle<#named<#pool>, #tag>, name: &str| {
                    let found = handle.pool.try_tx(|j, roots| {
                        // SAFETY: the caller's.
                        let classes = unsafe { #bridge::hidden::classes(classes, count, roots, j) }?;
                        let found = |one: &#named<_>| match address(&one.object) {
                            ::core::option::Option::Some(at) if one.classes.as_slice() == classes => {
                                ::core::result::Result::Ok(at)
                            }
                            ::core::option::Option::Some(_) => {
                                ::core::result::Result::Err(#bridge::Fault::other_classes(name))
                            }
                            ::core::option::Option::None => {
                                ::core::result::Result::Err(#bridge::Fault::another_type(name, stringify!(#variant)))
                            }
                        };
                        roots.find_or_add(name, j, found, |name| {
                            let object = #one_of::#variant(#object::Pbox::new(<#of_inside>::new(j), j));
                            let at = address(&object).expect("made so");
                            let classes = #object::PVec::from(classes.iter().copied(), j);
                            ::core::result::Result::Ok((#named { name, classes, object }, at))
                        })
                    });
                    found.map_err(#bridge::Fault::of_transaction)
                };
                // SAFETY: the caller's; roots are never freed.
                unsafe { #bridge::hidden::root::<#named<#pool>, #tag>(handle, name, out, find) }
            }
            builder.object::<#of_out, #tag>(#name, &[#(#classes),*], root as *const ::core::ffi::c_void);
        }}
    });
    let accesses = of_any.iter().zip(&variants).map(|(of, variant)| {
        quote! {
            impl<__P: #object::MemPool> #bridge::AsObject<#of> for #named<__P> {
                fn as_object(&self) -> ::core::option::Option<&#of> {
                    match &self.object {
                        #one_of::#variant(object) => ::core::option::Option::Some(&**object),
                        _ => ::core::option::Option::None,
                    }
                }
            }
        }
    });
    let items = quote! {
        /// A root: one of the types of the pool.
        #[derive(#object::PSafe)]
        #[persist(name = "Object", crate = unsafe(#object))]
        #[repr(u8)]
        #[allow(non_camel_case_types, dead_code)]
        pub enum #one_of<__P: #object::MemPool> {
            __Cpp(#bridge::hidden::CppObject<__P>),
            #(#variants(#object::Pbox<#of_any, __P>)),*
        }

        /// A root with its name.
        #[derive(#object::PSafe)]
        #[persist(name = "Named", crate = unsafe(#object))]
        #[repr(C)]
        pub struct #named<__P: #object::MemPool> {
            name: #object::PString<__P>,
            classes: #object::PVec<u64, __P>,
            object: #one_of<__P>,
        }

        impl<__P: #object::MemPool> #bridge::NamedRoot for #named<__P> {
            fn name(&self) -> &str {
                &self.name
            }
        }

        impl #bridge::Exported for #tag {
            type Named = #named<#pool>;
        }

        #(#accesses)*
    };
    let build = quote! {{
        unsafe extern "C" fn cpp_root(
            handle: *const ::core::ffi::c_void,
            name: #bridge::hidden::RawText,
            value: *const #bridge::hidden::RawObject,
            out: *mut *const ::core::ffi::c_void,
        ) -> u32 {
            let find = |handle: &#bridge::hidden::Handle<#named<#pool>, #tag>, name: &str| {
                #bridge::hidden::require_place(value, "a value")?; // PASS-2
                let found = handle.pool.try_tx(|j, roots| {
                    // SAFETY: the caller's.
                    let value = unsafe { value.read() };
                    let found = |one: &#named<_>| match &one.object {
                        #one_of::__Cpp(object) => {
                            // SAFETY: the caller's.
                            unsafe { object.require(name, value, roots, j) }?;
                            ::core::result::Result::Ok(object.address())
                        }
                        _ => ::core::result::Result::Err(#bridge::Fault::another_type(name, "class of C++")),
                    };
                    roots.find_or_add(name, j, found, |name| {
                        // SAFETY: the caller's.
                        let object = unsafe { #bridge::hidden::CppObject::new(value, roots, j) }?;
                        let at = object.address();
                        let object = #one_of::__Cpp(object);
                        ::core::result::Result::Ok((#named { name, classes: #object::PVec::new(), object }, at))
                    })
                });
                found.map_err(#bridge::Fault::of_transaction)
            };
            // SAFETY: the caller's; roots are never freed.
            unsafe { #bridge::hidden::root::<#named<#pool>, #tag>(handle, name, out, find) }
        }

        builder.pool(
            #name,
            [
                #bridge::hidden::open::<#named<#pool>, #tag> as *const ::core::ffi::c_void,
                #bridge::hidden::close::<#named<#pool>, #tag> as *const ::core::ffi::c_void,
                #bridge::hidden::close_root::<#named<#pool>, #tag> as *const ::core::ffi::c_void,
                #bridge::hidden::transaction::<#tag> as *const ::core::ffi::c_void,
                cpp_root as *const ::core::ffi::c_void,
                #bridge::hidden::make::<#named<#pool>, #tag> as *const ::core::ffi::c_void,
                #bridge::hidden::destroy::<#named<#pool>, #tag> as *const ::core::ffi::c_void,
                #bridge::hidden::change::<#tag> as *const ::core::ffi::c_void,
                #bridge::hidden::sync::<#named<#pool>, #tag> as *const ::core::ffi::c_void,
            ],
        );
        #(#objects)*
    }};
    (items, build)
}
