//! Names: in C++, and in documentation.

use syn::{Attribute, Expr, ExprLit, Ident, Lit, Meta};

/// `KvStore` as `kv_store`.
pub(crate) fn snake(name: &Ident) -> String {
    let mut snake = String::new();
    let name = name.to_string();
    for (index, character) in name.trim_start_matches("r#").chars().enumerate() {
        if character.is_uppercase() && index > 0 && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.extend(character.to_lowercase());
    }
    snake
}

/// The lines of documentation.
pub(crate) fn docs(attributes: &[Attribute]) -> String {
    let text = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value().trim().to_string()),
            _ => None,
        },
        _ => None,
    };
    attributes.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}
