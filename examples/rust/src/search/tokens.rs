//! Text as a sequence of tokens: words in lower case, without the ones that every text has.

/// Words that are in every text and tell nothing; sorted.
const COMMON: [&str; 14] = ["a", "an", "and", "are", "as", "at", "in", "is", "it", "of", "or", "that", "the", "to"];

/// The tokens of a text.
pub fn tokens(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).filter(|word| COMMON.binary_search(&word.as_str()).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_words_in_lower_case_without_the_common_ones() {
        assert!(COMMON.is_sorted());
        let all: Vec<String> = tokens("The fence, and THE Größe: is-it 64 bytes?").collect();
        assert_eq!(all, ["fence", "größe", "64", "bytes"]);
    }
}
