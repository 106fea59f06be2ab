//! Libraries of functions, compiled.
//!
//! A stored library that does not compile any more, because the memory of the interpreter is less
//! now or another one has a function of that name, has no functions. It can be listed, replaced and
//! deleted, and the others work.

use super::{Header, Interpreter, Purpose, Registered};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// The time that a new library has to register its functions, as in Redis.
const LOADING: Duration = Duration::from_millis(500);
/// The time of a stored one: it kept to that limit once, perhaps on a faster machine.
const LOADING_STORED: Duration = Duration::from_secs(10);

/// A library.
pub(crate) struct Library {
    /// Its code, as FUNCTION LOAD was given it.
    pub code: Vec<u8>,
    /// Its functions, in the order of their registration.
    pub functions: Vec<Registered>,
    /// The reason why it has none.
    pub broken: Option<String>,
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
    pub version: Option<u64>,
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
        let (name, _) = Header::of_library(code)?;
        if !replaces && self.libraries.contains_key(&name) {
            return Err(format!("Library '{}' already exists", String::from_utf8_lossy(&name)));
        }
        let functions = self.compile(&name, code, memory_max, LOADING)?;
        self.insert(name.clone(), Library { code: code.to_vec(), functions, broken: None });
        Ok(name)
    }

    /// Becomes what the store holds: names and code. Libraries that are compiled stay as they are.
    pub(crate) fn become_stored(&mut self, stored: Vec<(Vec<u8>, Vec<u8>)>, memory_max: usize) {
        let stored: BTreeMap<_, _> = stored.into_iter().collect();
        let is_stored = |name: &Vec<u8>, library: &Library| stored.get(name) == Some(&library.code);
        let others = self.libraries.iter().filter(|(name, library)| !is_stored(name, library));
        for name in others.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.remove(&name);
        }
        for (name, code) in stored {
            if !self.libraries.contains_key(&name) {
                self.keep(name, code, memory_max);
            }
        }
    }

    /// Compiles a stored library, which may be broken.
    pub(crate) fn keep(&mut self, name: Vec<u8>, code: Vec<u8>, memory_max: usize) {
        let (functions, broken) = match self.compile(&name, &code, memory_max, LOADING_STORED) {
            Ok(functions) => (functions, None),
            Err(text) => (Vec::new(), Some(text)),
        };
        self.insert(name, Library { code, functions, broken });
    }

    /// A library that does not compile, and the reason.
    pub(crate) fn broken(&self) -> Option<(&[u8], &str)> {
        self.libraries.iter().find_map(|(name, library)| Some((&name[..], library.broken.as_deref()?)))
    }

    fn compile(
        &mut self,
        name: &[u8],
        code: &[u8],
        memory_max: usize,
        time_max: Duration,
    ) -> Result<Vec<Registered>, String> {
        let (_, size) = Header::of_library(code)?;
        let interpreter = match &mut self.interpreter {
            Some(interpreter) => interpreter,
            none => none.insert(Interpreter::make(Purpose::Functions, memory_max)?),
        };
        let compiled = interpreter.compile(&code[size..]);
        let chunk = compiled.map_err(|text| format!("Error compiling function: {text}"))?;
        let functions = interpreter
            .load_library(&chunk, Some(time_max))
            .map_err(|text| format!("Error registering functions: {}", String::from_utf8_lossy(&text)))?;
        if functions.is_empty() {
            return Err("No functions registered".into());
        }
        for function in &functions {
            let there = self.index.get(&function.name.to_ascii_lowercase());
            if there.is_some_and(|(library, _)| library != name) {
                return Err(format!("Function {} already exists", String::from_utf8_lossy(&function.name)));
            }
        }
        Ok(functions)
    }

    fn insert(&mut self, name: Vec<u8>, library: Library) {
        self.remove(&name);
        for (place, function) in library.functions.iter().enumerate() {
            self.index.insert(function.name.to_ascii_lowercase(), (name.clone(), place));
        }
        self.libraries.insert(name, library);
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
