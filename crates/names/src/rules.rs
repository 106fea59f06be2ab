//! The rules for names: UTF-8 paths such as `shop/orders`.

/// The longest name in bytes.
pub const NAME_MAX: usize = 128;

/// The rule that `name` breaks, if it breaks one.
pub fn complaint(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it is empty");
    }
    if name.len() > NAME_MAX {
        return Some("it is longer than 128 bytes");
    }
    if name.chars().any(char::is_control) {
        return Some("it holds a control character");
    }
    if name.split('/').any(str::is_empty) {
        return Some("a part between slashes is empty (names start and end without a slash)");
    }
    if name.split('/').any(|part| part == "." || part == "..") {
        return Some("`.` and `..` are not names");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_utf8_and_nothing_else() {
        for good in ["a", "shop/orders", "Größe/naïve ключ", "...", "a b", &"x".repeat(128)] {
            assert_eq!(complaint(good), None, "{good}");
        }
        for bad in ["", "/a", "a/", "a//b", ".", "a/../b", "a\nb", "a\0", &"x".repeat(129)] {
            assert!(complaint(bad).is_some(), "{bad:?}");
        }
    }
}
