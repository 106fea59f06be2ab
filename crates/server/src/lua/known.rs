//! The scripts that a server knows, by their SHA-1, and its functions.
//!
//! Scripts are known until the server ends or SCRIPT FLUSH. Those that only EVAL has brought are
//! forgotten when [`EVALUATED_MAX`] newer ones have come.

use super::libraries::Functions;
use super::{Header, Interpreter, Kept, Purpose};
use crate::sha1::sha1_hex;
use std::collections::{HashMap, VecDeque};

/// Scripts that came by EVAL alone and are kept.
const EVALUATED_MAX: usize = 500;

/// A script that is known.
#[derive(Clone)]
pub(crate) struct Script {
    /// Its function.
    pub function: Kept,
    /// Its first line.
    pub header: Header,
    /// Whether it came by SCRIPT LOAD.
    loaded: bool,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Scripts {
    /// `None`: there has been no script, or one is running.
    pub interpreter: Option<Interpreter>,
    known: HashMap<String, Script>,
    /// Names of the scripts that came by EVAL alone, the oldest first.
    evaluated: VecDeque<String>,
    /// Functions; `None`: not compiled yet, or one is running.
    pub functions: Option<Functions>,
}

impl Scripts {
    /// Scripts that are known, and bytes of memory of their interpreter.
    pub(crate) fn figures(&self) -> [usize; 2] {
        [self.known.len(), self.interpreter.as_ref().map_or(0, Interpreter::memory)]
    }

    /// Bytes of memory of the functions' interpreter, libraries and functions.
    pub(crate) fn function_figures(&self) -> [usize; 3] {
        self.functions.as_ref().map_or([0; 3], Functions::figures)
    }

    /// The script of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Script> {
        self.known.get(name)
    }

    /// Forgets all scripts.
    pub(crate) fn flush(&mut self) {
        *self = Scripts { functions: self.functions.take(), ..Scripts::default() };
    }

    /// Compiles a script if it is not known; returns its name. An error is a text.
    pub(crate) fn load(&mut self, code: &[u8], memory_max: usize, loaded: bool) -> Result<String, String> {
        let name = sha1_hex(code);
        if let Some(script) = self.known.get_mut(&name) {
            script.loaded |= loaded;
            return Ok(name);
        }
        let header = Header::of_script(code)?;
        let interpreter = match &mut self.interpreter {
            Some(interpreter) => interpreter,
            none => none.insert(Interpreter::make(Purpose::Scripts, memory_max)?),
        };
        let compiled = interpreter.compile(&code[header.size..]);
        let function = compiled.map_err(|text| format!("Error compiling script (new function): {text}"))?;
        self.known.insert(name.clone(), Script { function, header, loaded });
        if !loaded {
            self.evaluated.push_back(name.clone());
            if self.evaluated.len() > EVALUATED_MAX
                && let Some(oldest) = self.evaluated.pop_front()
                && self.known.get(&oldest).is_some_and(|script| !script.loaded)
            {
                self.known.remove(&oldest);
            }
        }
        Ok(name)
    }
}
