//! An attribute that adds a field to a struct, or to the last variant of an enum: derives above it
//! do not see that.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

#[proc_macro_attribute]
pub fn adds_field(_: TokenStream, item: TokenStream) -> TokenStream {
    add(item)
}

/// Adds it to the last braces inside the last braces, or to those.
fn add(item: TokenStream) -> TokenStream {
    let mut trees: Vec<TokenTree> = item.into_iter().collect();
    let is_braces = |tree: &TokenTree| matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
    match trees.iter().rposition(is_braces) {
        Some(last) => {
            let TokenTree::Group(group) = &trees[last] else { unreachable!("a group") };
            trees[last] = Group::new(Delimiter::Brace, add(group.stream())).into();
        }
        None => trees.extend("added: std::cell::Cell<u32>,".parse::<TokenStream>().expect("a field")),
    }
    trees.into_iter().collect()
}
