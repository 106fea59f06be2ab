//! Entries as lines of a file: JSON lines, or tab-separated values. Format:
//! docs/formats/exchange.md.
//!
//! Both forms restore every byte string unchanged.

use crate::args::Form;
use crate::text;
use serde_json::{Map, Value};
use std::path::Path;

/// Key and value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// The form for a file's extension.
pub(super) fn form_of(path: &Path, asked: Option<Form>) -> Form {
    let tsv = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("tsv"));
    asked.unwrap_or(if tsv { Form::Tsv } else { Form::Jsonl })
}

/// One entry as a line, without a line end. `value` is absent if only keys are printed.
pub(super) fn write(form: Form, key: &[u8], value: Option<&[u8]>) -> String {
    match (form, value) {
        (Form::Tsv, None) => text::escape(key),
        (Form::Tsv, Some(value)) => format!("{}\t{}", text::escape(key), text::escape(value)),
        (Form::Jsonl, value) => Value::Object(object(key, value)).to_string(),
    }
}

/// An entry as an object of JSON.
pub(super) fn object(key: &[u8], value: Option<&[u8]>) -> Map<String, Value> {
    let mut object = Map::new();
    text::set_json(&mut object, "key", key);
    if let Some(value) = value {
        text::set_json(&mut object, "value", value);
    }
    object
}

/// The entry on a line; nothing for an empty line.
///
/// # Errors
/// Describes the error in the line.
pub(super) fn read(form: Form, line: &[u8]) -> Result<Option<Pair>, String> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Ok(None);
    }
    let line = std::str::from_utf8(line)
        .map_err(|error| format!("not UTF-8 ({error}); escape such bytes as \\xNN, or use jsonl"))?;
    match form {
        Form::Tsv => {
            let (key, value) = line.split_once('\t').ok_or("lacks a tab between key and value")?;
            Ok(Some((text::unescape(key)?, text::unescape(value)?)))
        }
        Form::Jsonl => {
            let value: Value = serde_json::from_str(line).map_err(|error| format!("not JSON: {error}"))?;
            let object = value.as_object().ok_or("not a JSON object")?;
            Ok(Some((text::get_json(object, "key")?, text::get_json(object, "value")?)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_survives_the_way_out_and_back() {
        let all: Vec<u8> = (0..=255).collect();
        for form in [Form::Jsonl, Form::Tsv] {
            for (key, value) in
                [(&b"a"[..], &b"b"[..]), (b"", b"x"), (&all, &all), ("grüße".as_bytes(), b"\t\n"), (b"k", b"")]
            {
                let line = write(form, key, Some(value));
                assert!(!line.contains('\n'));
                assert_eq!(
                    read(form, format!("{line}\n").as_bytes()).unwrap().unwrap(),
                    (key.to_vec(), value.to_vec())
                );
            }
        }
    }

    #[test]
    fn wrong_lines_are_explained() {
        for (form, line, why) in [
            (Form::Tsv, &b"no tab"[..], "lacks a tab"),
            (Form::Tsv, b"\xff\ta", "not UTF-8"),
            (Form::Jsonl, b"{", "not JSON"),
            (Form::Jsonl, b"[1]", "not a JSON object"),
            (Form::Jsonl, b"{\"key\":\"a\"}", "lacks `value`"),
            (Form::Jsonl, b"{\"key\":1,\"value\":\"\"}", "not a string"),
        ] {
            assert!(read(form, line).unwrap_err().contains(why), "{why}");
        }
        assert_eq!(read(Form::Tsv, b"\r\n").unwrap(), None, "an empty line is nothing");
    }
}
