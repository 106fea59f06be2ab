//! The export rules that can be told from the text of a program. The rest are bounds (`Passed`,
//! `Returned`, `Extern`).

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{
    Data, DeriveInput, Error, FnArg, GenericArgument, Generics, Ident, PathArguments, Result, ReturnType, Signature,
    Type,
};
use syn::{TypeParamBound, Visibility};

/// The one parameter that is bounded by `MemPool`.
pub(crate) fn pool(generics: &Generics, of: &impl Spanned) -> Result<Ident> {
    let is_pool = |bound: &TypeParamBound| match bound {
        TypeParamBound::Trait(bound) => bound.path.segments.last().is_some_and(|last| last.ident == "MemPool"),
        _ => false,
    };
    let written = generics.type_params().filter(|one| one.bounds.iter().any(is_pool)).map(|one| one.ident.clone());
    let clause = generics.where_clause.iter().flat_map(|clause| &clause.predicates).filter_map(|one| match one {
        syn::WherePredicate::Type(one) if one.bounds.iter().any(is_pool) => match &one.bounded_ty {
            Type::Path(path) => path.path.get_ident().cloned(),
            _ => None,
        },
        _ => None,
    });
    match written.chain(clause).collect::<Vec<_>>().as_slice() {
        [pool] => Ok(pool.clone()),
        [] => Err(Error::new(of.span(), "an exported type is generic over its pool: add the parameter `P: MemPool`")),
        [_, second, ..] => {
            let advice = "an exported type lies in one pool: take one parameter `P: MemPool`, and pass numbers or text between pools";
            Err(Error::new(second.span(), advice))
        }
    }
}

pub(crate) fn public(visibility: &Visibility, of: &Ident) -> Result<()> {
    match visibility {
        Visibility::Public(_) => Ok(()),
        _ => Err(Error::new(of.span(), "an exported type is public: write `pub struct`")),
    }
}

/// No field is a class of C++ itself: its size is unknown here.
pub(crate) fn no_direct_class(input: &DeriveInput) -> Result<()> {
    let is_class = |bound: &TypeParamBound| match bound {
        TypeParamBound::Trait(bound) => bound.path.segments.last().is_some_and(|last| last.ident == "CppClass"),
        _ => false,
    };
    let classes: Vec<_> = input.generics.type_params().filter(|one| one.bounds.iter().any(is_class)).collect();
    let Data::Struct(data) = &input.data else { return Ok(()) };
    for field in &data.fields {
        let mut of = &field.ty;
        while let Type::Array(array) = of {
            of = &array.elem;
        }
        if let Some(class) = classes.iter().find(|class| is_path(of, &class.ident.to_string())) {
            let advice =
                format!("the size of `{0}` is known to C++ alone: keep it in a `ByteArray<{0}, P>`", class.ident);
            return Err(Error::new(field.ty.span(), advice));
        }
    }
    Ok(())
}

/// The form of a method.
pub(crate) struct Form {
    pub changes: bool,
    /// Arguments but the journal: name, type.
    pub arguments: Vec<(Ident, Type)>,
    /// By argument, `None` for the journal.
    pub order: Vec<Option<usize>>,
    pub returns: TokenStream,
}

/// Whether the method is the constructor.
pub(crate) fn is_constructor(signature: &Signature) -> bool {
    signature.ident == "new" && signature.receiver().is_none()
}

/// `new(j: &Journal<P>) -> Self`.
pub(crate) fn constructor(signature: &Signature, pool: &Ident) -> Result<()> {
    let advice =
        "a root is made by `pub fn new(j: &Journal<P>) -> Self`: set values by a method that takes the journal";
    let takes = signature.inputs.iter().all(|input| matches!(input, FnArg::Typed(one) if is_journal(&one.ty, pool)));
    let returns = matches!(&signature.output, ReturnType::Type(_, of) if is_path(of, "Self"));
    match takes && signature.inputs.len() == 1 && returns {
        true => plain(signature),
        false => Err(Error::new(signature.span(), advice)),
    }
}

/// Reads a method; refuses what C++ could not call, or what would let it break the pool.
pub(crate) fn form(signature: &Signature, pool: &Ident, parameters: &[Ident]) -> Result<Form> {
    plain(signature)?;
    match signature.receiver() {
        Some(receiver) if receiver.lifetime().is_some() => {
            let advice = "the object lives for the length of the call: write `&self`";
            return Err(Error::new(receiver.span(), advice));
        }
        Some(receiver) if receiver.reference.is_some() && receiver.mutability.is_none() => {}
        Some(receiver) => {
            let advice = "an exported method takes `&self`: no `&mut` crosses, so change fields through `PCell`, `PRefCell` or \
                `PMutex` with the journal";
            return Err(Error::new(receiver.span(), advice));
        }
        None => {
            let advice = "an exported function is a method, with `&self`, or `new`: make others private";
            return Err(Error::new(signature.ident.span(), advice));
        }
    }
    let (mut arguments, mut order, mut changes) = (Vec::new(), Vec::new(), false);
    for (index, input) in signature.inputs.iter().enumerate().skip(1) {
        let FnArg::Typed(input) = input else { continue };
        if is_journal(&input.ty, pool) {
            if changes {
                return Err(Error::new(input.span(), "a method belongs to one transaction: take one `&Journal<P>`"));
            }
            changes = true;
            order.push(None);
            continue;
        }
        passed(&input.ty, pool, parameters)?;
        let name = match &*input.pat {
            syn::Pat::Ident(one) => one.ident.clone(),
            _ => quote::format_ident!("argument_{index}"),
        };
        order.push(Some(arguments.len()));
        arguments.push((name, (*input.ty).clone()));
    }
    let returns = match &signature.output {
        ReturnType::Default => quote::quote!(()),
        ReturnType::Type(_, of) => {
            returned(of, pool, parameters)?;
            of.to_token_stream()
        }
    };
    Ok(Form { changes, arguments, order, returns })
}

fn plain(signature: &Signature) -> Result<()> {
    if let Some(word) = &signature.asyncness {
        let advice = "an exported method is not `async`: a transaction ends before its thread waits";
        return Err(Error::new(word.span(), advice));
    }
    if let Some(word) = &signature.unsafety {
        return Err(Error::new(word.span(), "an exported method is safe: C++ cannot keep what `unsafe` asks for"));
    }
    if let Some(one) = signature.generics.params.first() {
        let advice = "an exported method has no parameters of its own, since C++ calls compiled code: put them on the type and \
            name its instances in `library!`";
        return Err(Error::new(one.span(), advice));
    }
    Ok(())
}

/// The type of an argument.
fn passed(of: &Type, pool: &Ident, parameters: &[Ident]) -> Result<()> {
    if let Type::Reference(reference) = of {
        if reference.mutability.is_some() {
            let advice = "no `&mut` crosses: take the value, and return the new one";
            return Err(Error::new(of.span(), advice));
        }
        if let Some(lifetime) = reference.lifetime.as_ref().filter(|lifetime| lifetime.ident != "_") {
            let advice = "text from C++ lives for the length of the call: write `&str`";
            return Err(Error::new(lifetime.span(), advice));
        }
        if is_path(&reference.elem, "str") {
            return Ok(());
        }
        let advice = "a reference into a pool does not cross: take the value, or the number or text that finds it";
        return Err(Error::new(of.span(), advice));
    }
    if let Some(word) = lent(of).filter(|_| is_of_class(of)) {
        let advice = format!("a value of C++ lives for the length of the call: write `{word}<'_, ..>`");
        return Err(Error::new(of.span(), advice));
    }
    common(of, pool, parameters)
}

/// The name of a type that C++ lends, if it is not written with `'_`.
fn lent(of: &Type) -> Option<&Ident> {
    let Type::Path(path) = of else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let is_elided = |one: &GenericArgument| matches!(one, GenericArgument::Lifetime(one) if one.ident == "_");
    let is_lent = matches!(last.ident.to_string().as_str(), "Gen" | "Hash" | "Equal" | "Order" | "Visit");
    (is_lent && !arguments.args.first().is_some_and(is_elided)).then_some(&last.ident)
}

/// The type of a result.
fn returned(of: &Type, pool: &Ident, parameters: &[Ident]) -> Result<()> {
    if let Type::Reference(_) = of {
        let advice = "no reference leaves a method, since C++ does not end it with the transaction: return the value, or a \
            `String`";
        return Err(Error::new(of.span(), advice));
    }
    if is_path(of, "Self") {
        let advice = "a persistent value does not leave its pool: return what identifies it";
        return Err(Error::new(of.span(), advice));
    }
    common(of, pool, parameters)
}

/// Whether it is one of the bridge's types over classes of C++, or an option of one.
fn is_of_class(of: &Type) -> bool {
    let Type::Path(path) = of else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
    match last.ident.to_string().as_str() {
        "Gen" | "Hash" | "Equal" | "Order" | "Visit" | "Copied" | "Lent" | "LentPair" => true,
        "Option" => matches!(arguments.args.first(), Some(GenericArgument::Type(inner)) if is_of_class(inner)),
        _ => false,
    }
}

fn common(of: &Type, pool: &Ident, parameters: &[Ident]) -> Result<()> {
    if is_of_class(of) {
        return Ok(());
    }
    match of {
        Type::Ptr(_) => {
            let advice = "a raw pointer does not cross: take the value, or the number or text that finds it";
            return Err(Error::new(of.span(), advice));
        }
        Type::ImplTrait(_) | Type::TraitObject(_) => {
            let advice = "an exported method has one compiled form: name the type";
            return Err(Error::new(of.span(), advice));
        }
        _ => {}
    }
    if let Some(ident) = find(of.to_token_stream(), pool) {
        let advice = "what lies in a pool does not cross: take or return a number, a text, or a copy of the value";
        return Err(Error::new(ident.span(), advice));
    }
    for parameter in parameters {
        if let Some(ident) = find(of.to_token_stream(), parameter) {
            let advice = format!(
                "`{parameter}` is a parameter of the type, and C++ calls compiled code: take `Gen<'_, {parameter}>` and return \
                 `Copied<{parameter}>`; or bound it by `Passed` and `Returned`, mark the block `#[export(instances)]`, \
                 and name the instances in `library!`"
            );
            return Err(Error::new(ident.span(), advice));
        }
    }
    Ok(())
}

/// `&Journal<P>`.
fn is_journal(of: &Type, pool: &Ident) -> bool {
    let Type::Reference(reference) = of else { return false };
    let Type::Path(path) = &*reference.elem else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
    let is_pool = |one: &GenericArgument| matches!(one, GenericArgument::Type(of) if is_path(of, &pool.to_string()));
    last.ident == "Journal" && reference.mutability.is_none() && arguments.args.iter().any(is_pool)
}

fn is_path(of: &Type, name: &str) -> bool {
    matches!(of, Type::Path(path) if path.path.is_ident(name))
}

/// The first `ident` in a piece of text.
fn find(text: TokenStream, ident: &Ident) -> Option<Ident> {
    text.into_iter().find_map(|token| match token {
        TokenTree::Ident(one) if one == *ident => Some(one),
        TokenTree::Group(group) => find(group.stream(), ident),
        _ => None,
    })
}

/// A piece of text with a pool in place of the parameter.
pub(crate) fn with_pool(text: TokenStream, pool: &Ident, other: &TokenStream) -> TokenStream {
    text.into_iter()
        .flat_map(|token| match token {
            TokenTree::Ident(one) if one == *pool => other.clone(),
            TokenTree::Group(group) => {
                let inner = with_pool(group.stream(), pool, other);
                let mut changed = proc_macro2::Group::new(group.delimiter(), inner);
                changed.set_span(group.span());
                TokenTree::Group(changed).into()
            }
            token => token.into(),
        })
        .collect()
}
