//! The output of a command: text, or JSON with one object per line, on standard output or for the
//! process that asked for it.

use crate::failure::Failure;
use crate::progress::{Form, Progress, Tell};
use serde_json::{Value, json};
use std::cell::{RefCell, RefMut};
use std::io::{self, BufWriter, Write};
use std::rc::Rc;

/// Bytes of an output that were written.
#[derive(Clone, Default)]
pub(crate) struct Kept(Rc<RefCell<Vec<u8>>>);

impl Kept {
    pub(crate) fn take(&self) -> Vec<u8> {
        self.0.take()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard output, buffered, in the requested form.
pub(crate) struct Output {
    json: bool,
    out: RefCell<BufWriter<Box<dyn Write>>>,
    /// The process that asked for the command, if it was another one.
    asked: Option<Rc<dyn Tell>>,
}

impl Output {
    pub(crate) fn new(json: bool) -> Output {
        Output { json, out: RefCell::new(BufWriter::new(Box::new(io::stdout().lock()))), asked: None }
    }

    /// The output of a command that another process asked for.
    pub(crate) fn served(json: bool, to: Box<dyn Write>, asked: Rc<dyn Tell>) -> Output {
        Output { json, out: RefCell::new(BufWriter::with_capacity(1 << 16, to)), asked: Some(asked) }
    }

    /// An output of the same form that is kept in memory, and its bytes.
    pub(crate) fn kept(&self) -> (Output, Kept) {
        let kept = Kept::default();
        let out = RefCell::new(BufWriter::new(Box::new(kept.clone()) as Box<dyn Write>));
        (Output { json: self.json, out, asked: self.asked.clone() }, kept)
    }

    /// A progress of the command.
    pub(crate) fn progress(&self, name: &'static str, form: Form) -> Progress {
        Progress::new(name, form, self.asked.clone())
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints one line of text, or one JSON object.
    pub(crate) fn say(&self, text: impl AsRef<str>, value: Value) -> Result<(), Failure> {
        let line = if self.json { value.to_string() } else { text.as_ref().to_string() };
        self.bytes(format!("{line}\n").as_bytes())
    }

    /// Prints rows of `name: value`, or the whole object. Keys of the object are the names.
    pub(crate) fn table(&self, rows: &Value) -> Result<(), Failure> {
        if self.json {
            return self.say("", rows.clone());
        }
        let object = rows.as_object().cloned().unwrap_or_default();
        let wide = object.keys().map(String::len).max().unwrap_or(0);
        for (name, value) in &object {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Null => continue,
                other => other.to_string(),
            };
            self.say(format!("{:wide$}  {value}", name.replace('_', " ")), Value::Null)?;
        }
        Ok(())
    }

    /// Prints bytes unchanged.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.borrow_mut().write_all(bytes).map_err(Failure::output)
    }

    /// The buffered output, for what is written unchanged.
    pub(crate) fn writer(&self) -> RefMut<'_, BufWriter<Box<dyn Write>>> {
        self.out.borrow_mut()
    }

    /// Flushes the buffered output.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        self.out.borrow_mut().flush().map_err(Failure::output)
    }

    /// Prints a failure on standard error.
    pub(crate) fn failure(&self, failure: &Failure) {
        let _ = self.finish();
        if self.json {
            eprintln!("{}", json!({ "error": failure.to_string(), "code": failure.code() }));
        } else {
            eprintln!("everbyte: {failure}");
        }
    }
}
