//! Libraries of functions, compiled.

use super::{Header, Interpreter, Purpose, Registered};
use std::collections::{BTreeMap, HashMap};

/// A library.
pub(crate) struct Library {
    /// Its code, as FUNCTION LOAD was given it.
    pub code: Vec<u8>,
    /// Its functions, in the order of their registration.
    pub functions: Vec<Registered>,
}

/// All libraries.
#[derive(Default)]
pub(crate) struct Functions {
    /// Made with the first library.
    interpreter: Option<Interpreter>,
    /// Libraries by their names.
    pub libraries: BTreeMap<Vec<u8>, Library>,
    /// Names of functions in lower case: the library, and the place in it.
    index: HashMap<Vec<u8>, (Vec<u8>, usize)>,
    /// The number of the change that made them (`Keyspace::functions_version`).
    pub version: u64,
}

impl Functions {
    /// Bytes of memory, libraries and functions.
    pub(crate) fn figures(&self) -> [usize; 3] {
        let memory = self.interpreter.as_ref().map_or(0, Interpreter::memory);
        [memory, self.libraries.len(), self.index.len()]
    }

    /// Compiles a library, in place of one of its name if it `replaces`; returns the name. An error
    /// is a text, and changes nothing.
    pub(crate) fn add(&mut self, code: &[u8], replaces: bool, memory_max: usize) -> Result<Vec<u8>, String> {
        let (name, size) = Header::of_library(code)?;
        if !replaces && self.libraries.contains_key(&name) {
            return Err(format!("Library '{}' already exists", String::from_utf8_lossy(&name)));
        }
        let interpreter = match &mut self.interpreter {
            Some(interpreter) => interpreter,
            none => none.insert(Interpreter::make(Purpose::Functions, memory_max)?),
        };
        let compiled = interpreter.compile(&code[size..]);
        let chunk = compiled.map_err(|text| format!("Error compiling function: {text}"))?;
        let functions = interpreter
            .load_library(&chunk)
            .map_err(|text| format!("Error registering functions: {}", String::from_utf8_lossy(&text)))?;
        if functions.is_empty() {
            return Err("No functions registered".into());
        }
        for function in &functions {
            let there = self.index.get(&function.name.to_ascii_lowercase());
            if there.is_some_and(|(library, _)| *library != name) {
                return Err(format!("Function {} already exists", String::from_utf8_lossy(&function.name)));
            }
        }
        self.remove(&name);
        for (place, function) in functions.iter().enumerate() {
            self.index.insert(function.name.to_ascii_lowercase(), (name.clone(), place));
        }
        self.libraries.insert(name.clone(), Library { code: code.to_vec(), functions });
        Ok(name)
    }

    /// Forgets a library; whether it was there.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        self.index.retain(|_, (library, _)| library != name);
        self.libraries.remove(name).is_some()
    }

    /// The function of a name, in any case, and its interpreter.
    pub(crate) fn function(&self, name: &[u8]) -> Option<(&Interpreter, &Registered)> {
        let (library, place) = self.index.get(&name.to_ascii_lowercase())?;
        let function = self.libraries.get(library)?.functions.get(*place)?;
        Some((self.interpreter.as_ref()?, function))
    }
}
