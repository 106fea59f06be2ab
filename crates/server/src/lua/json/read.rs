//! JSON as values. The depth is bounded, since each level is one of the stack.

use super::Settings;
use crate::lua::fault::fault;
use mlua::{Lua, Result, Value};

/// The kind of a token, under the name that errors give it.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Wrong(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::String(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Wrong(text) => text,
        }
    }
}

struct Reader<'r> {
    lua: &'r Lua,
    text: &'r [u8],
    at: usize,
    depth: usize,
    settings: &'r Settings,
}

/// The value of a text.
pub(super) fn read(lua: &Lua, text: &[u8], settings: &Settings) -> Result<Value> {
    if text.len() > 1 && (text[0] == 0 || text[1] == 0) {
        return Err(fault(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut reader = Reader { lua, text, at: 0, depth: 0, settings };
    let (token, at) = reader.token();
    let value = reader.value(token, at)?;
    match reader.token() {
        (Token::End, _) => Ok(value),
        (token, at) => Err(reader.unexpected("the end", &token, at)),
    }
}

impl Reader<'_> {
    fn unexpected(&self, wanted: &str, found: &Token, at: usize) -> mlua::Error {
        fault(self.lua, format!("Expected {wanted} but found {} at character {}", found.name(), at + 1))
    }

    /// The next token, and its place.
    fn token(&mut self) -> (Token, usize) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let at = self.at;
        let rest = &self.text[at..];
        let (token, size) = match rest.first() {
            None => (Token::End, 0),
            Some(b'{') => (Token::ObjectBegin, 1),
            Some(b'}') => (Token::ObjectEnd, 1),
            Some(b'[') => (Token::ArrayBegin, 1),
            Some(b']') => (Token::ArrayEnd, 1),
            Some(b':') => (Token::Colon, 1),
            Some(b',') => (Token::Comma, 1),
            Some(b'"') => return self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(rest),
            _ if rest.starts_with(b"true") => (Token::Boolean(true), 4),
            _ if rest.starts_with(b"false") => (Token::Boolean(false), 5),
            _ if rest.starts_with(b"null") => (Token::Null, 4),
            _ if self.settings.read_invalid && self.is_special(rest) => self.number(rest),
            _ => (Token::Wrong("invalid token"), 0),
        };
        self.at += size;
        (token, at)
    }

    /// Whether a text begins with the name of a number that JSON does not have.
    fn is_special(&self, rest: &[u8]) -> bool {
        let begins = |word: &[u8]| rest.len() >= word.len() && rest[..word.len()].eq_ignore_ascii_case(word);
        begins(b"inf") || begins(b"nan") || begins(b"+")
    }

    fn number(&self, rest: &[u8]) -> (Token, usize) {
        let sign = usize::from(matches!(rest[0], b'-' | b'+'));
        let body = &rest[sign..];
        let negative = if rest[0] == b'-' { -1.0 } else { 1.0 };
        let begins = |word: &[u8]| body.len() >= word.len() && body[..word.len()].eq_ignore_ascii_case(word);
        for (word, value) in [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)] {
            if begins(word) {
                let token = if self.settings.read_invalid {
                    Token::Number(negative * value)
                } else {
                    Token::Wrong("invalid number")
                };
                return (token, sign + word.len());
            }
        }
        if begins(b"0x") {
            let digits = body[2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            let value = body[2..2 + digits]
                .iter()
                .fold(0.0, |value, digit| value * 16.0 + f64::from(char::from(*digit).to_digit(16).unwrap_or(0)));
            let good = self.settings.read_invalid && digits > 0;
            return (
                if good { Token::Number(negative * value) } else { Token::Wrong("invalid number") },
                sign + 2 + digits,
            );
        }
        let digits = |from: usize| body[from.min(body.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut end = digits(0);
        let leading_zero = end > 1 && body[0] == b'0';
        if body.get(end) == Some(&b'.') {
            end += 1 + digits(end + 1);
        }
        if matches!(body.get(end), Some(b'e' | b'E')) {
            let signed = usize::from(matches!(body.get(end + 1), Some(b'+' | b'-')));
            let count = digits(end + 1 + signed);
            if count > 0 {
                end += 1 + signed + count;
            }
        }
        let value = std::str::from_utf8(&rest[..sign + end]).ok().and_then(|text| text.parse::<f64>().ok());
        match value {
            Some(value) if !leading_zero || self.settings.read_invalid => (Token::Number(value), sign + end),
            _ => (Token::Wrong("invalid number"), sign + end),
        }
    }

    fn string(&mut self) -> (Token, usize) {
        let start = self.at;
        let mut text = Vec::new();
        let mut at = self.at + 1;
        loop {
            let Some(&byte) = self.text.get(at) else { return (Token::Wrong("unexpected end of string"), at) };
            at += 1;
            match byte {
                b'"' => break,
                b'\\' => match self.text.get(at) {
                    Some(b'u') => match self.code(at + 1) {
                        Some((character, size)) => {
                            let mut buffer = [0; 4];
                            text.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                            at += 1 + size;
                        }
                        None => return (Token::Wrong("invalid unicode escape code"), at - 1),
                    },
                    Some(escape) => {
                        let meant = match escape {
                            b'"' | b'\\' | b'/' => *escape,
                            b'b' => 8,
                            b't' => 9,
                            b'n' => 10,
                            b'f' => 12,
                            b'r' => 13,
                            _ => return (Token::Wrong("invalid escape code"), at - 1),
                        };
                        text.push(meant);
                        at += 1;
                    }
                    None => return (Token::Wrong("invalid escape code"), at - 1),
                },
                byte => text.push(byte),
            }
        }
        self.at = at;
        (Token::String(text), start)
    }

    /// The character of an escape, and the size of its digits: a pair of surrogates is two escapes.
    fn code(&self, at: usize) -> Option<(char, usize)> {
        let unit = |at: usize| {
            let digits = self.text.get(at..at + 4)?;
            digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
        };
        let first = unit(at)?;
        if !(0xd800..0xdc00).contains(&first) {
            return Some((char::from_u32(first)?, 4));
        }
        if self.text.get(at + 4..at + 6) != Some(b"\\u") {
            return None;
        }
        let second = unit(at + 6).filter(|unit| (0xdc00..0xe000).contains(unit))?;
        Some((char::from_u32(0x10000 + ((first & 0x3ff) << 10) + (second & 0x3ff))?, 10))
    }

    fn deeper(&mut self, at: usize) -> Result<()> {
        self.depth += 1;
        if self.depth > self.settings.read_depth_max {
            let text = format!("Found too many nested data structures ({}) at character {at}", self.depth);
            return Err(fault(self.lua, text));
        }
        Ok(())
    }

    fn value(&mut self, token: Token, at: usize) -> Result<Value> {
        match token {
            Token::String(text) => Ok(Value::String(self.lua.create_string(text)?)),
            Token::Number(value) => Ok(Value::Number(value)),
            Token::Boolean(value) => Ok(Value::Boolean(value)),
            Token::Null => Ok(Value::NULL),
            Token::ObjectBegin => self.object(at),
            Token::ArrayBegin => self.array(at),
            other => Err(self.unexpected("value", &other, at)),
        }
    }

    fn object(&mut self, at: usize) -> Result<Value> {
        self.deeper(at + 1)?;
        let table = self.lua.create_table()?;
        let (mut token, mut at) = self.token();
        if token != Token::ObjectEnd {
            loop {
                let Token::String(name) = token else {
                    return Err(self.unexpected("object key string", &token, at));
                };
                (token, at) = self.token();
                if token != Token::Colon {
                    return Err(self.unexpected("colon", &token, at));
                }
                (token, at) = self.token();
                let value = self.value(token, at)?;
                table.raw_set(self.lua.create_string(name)?, value)?;
                (token, at) = self.token();
                match token {
                    Token::ObjectEnd => break,
                    Token::Comma => (token, at) = self.token(),
                    other => return Err(self.unexpected("comma or object end", &other, at)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn array(&mut self, at: usize) -> Result<Value> {
        self.deeper(at + 1)?;
        let table = self.lua.create_table()?;
        let (mut token, mut at) = self.token();
        if token != Token::ArrayEnd {
            for index in 1.. {
                let value = self.value(token, at)?;
                table.raw_set(index, value)?;
                (token, at) = self.token();
                match token {
                    Token::ArrayEnd => break,
                    Token::Comma => (token, at) = self.token(),
                    other => return Err(self.unexpected("comma or array end", &other, at)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }
}
