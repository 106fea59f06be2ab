//! The keys of the next puts in a connection's input, for prefetching. Only the common form of SET
//! is recognised, and the result is a hint: `parse` parses the requests for execution.

/// The keys of the `SET key value` requests at the beginning of `input`, up to the first other or
/// incomplete request.
pub(crate) fn puts(mut input: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (key, rest) = put(input)?;
        input = rest;
        Some(key)
    })
}

fn put(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = input.strip_prefix(b"*3\r\n$3\r\n")?;
    let (name, rest) = rest.split_at_checked(3)?;
    if !name.eq_ignore_ascii_case(b"set") {
        return None;
    }
    let (key, rest) = bulk(rest.strip_prefix(b"\r\n")?)?;
    let (_, rest) = bulk(rest)?;
    Some((key, rest))
}

/// One argument with its length before and its line end behind.
fn bulk(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let input = input.strip_prefix(b"$")?;
    let digits = input.iter().take(9).position(|byte| !byte.is_ascii_digit())?;
    let len = input[..digits].iter().fold(0, |len, digit| len * 10 + usize::from(digit - b'0'));
    let (bytes, rest) = input[digits..].strip_prefix(b"\r\n")?.split_at_checked(len)?;
    Some((bytes, rest.strip_prefix(b"\r\n")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_plain_puts_are_seen_ahead() {
        let one = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\n1\r\n\r\n";
        let two = b"*3\r\n$3\r\nset\r\n$0\r\n\r\n$0\r\n\r\n";
        let seen = |input: &[u8]| puts(input).map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(seen(&[&one[..], two, one].concat()), [b"a".to_vec(), vec![], b"a".to_vec()]);
        assert_eq!(seen(&[&one[..], b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", two].concat()).len(), 1);
        for cut in 0..one.len() {
            assert!(seen(&one[..cut]).is_empty(), "{cut}");
        }
        for odd in [
            &b"*3\r\n$3\r\nSET\r\n$99999999999999999999\r\n"[..],
            b"*3\r\n$3\r\nSET\r\n$-1\r\n",
            b"*3\r\n$3\r\nSET\r\n$\r\n",
        ] {
            assert!(seen(odd).is_empty());
        }
    }
}
