//! [`Engine`]: the one engine that may change an object.

/// The engine that may change an object. Stored as a number that never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// None: the program stores what it likes.
    None,
    /// Undo transactions (typed Rust objects).
    Undo,
    /// Redo transactions with isolation (C, C++, word cells).
    Redo,
    /// Versioned trees and tables.
    Cdds,
    /// HEAPO's key-value library.
    Hkv,
    /// A file volume.
    Fs,
    /// Blocks allocated atomically outside transactions, and nothing above them.
    Heap,
    /// The store's own: its names.
    Names,
    /// An engine outside of this workspace, by its number.
    Custom(CustomEngine),
}

/// The number of an engine outside of this workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CustomEngine(u32);

impl CustomEngine {
    /// The least number; smaller ones belong to Everbyte.
    pub const LEAST: u32 = 0x1_0000;

    /// The engine with this number.
    ///
    /// # Panics
    /// If `code` is below [`CustomEngine::LEAST`]; in a constant that is an error of the compiler.
    pub const fn new(code: u32) -> CustomEngine {
        assert!(code >= CustomEngine::LEAST, "smaller numbers belong to Everbyte");
        CustomEngine(code)
    }
}

impl Engine {
    /// The engines of this workspace, in the order of their numbers.
    pub const ALL: [Engine; 8] =
        [Engine::None, Engine::Undo, Engine::Redo, Engine::Cdds, Engine::Hkv, Engine::Fs, Engine::Heap, Engine::Names];

    /// The number on media.
    pub const fn code(self) -> u32 {
        match self {
            Engine::None => 0,
            Engine::Undo => 1,
            Engine::Redo => 2,
            Engine::Cdds => 3,
            Engine::Hkv => 4,
            Engine::Fs => 5,
            Engine::Heap => 6,
            Engine::Names => 7,
            Engine::Custom(CustomEngine(code)) => code,
        }
    }

    /// The engine of a number read from media.
    pub fn from_code(code: u32) -> Option<Engine> {
        match code {
            CustomEngine::LEAST.. => Some(Engine::Custom(CustomEngine(code))),
            _ => Engine::ALL.into_iter().find(|engine| engine.code() == code),
        }
    }

    /// Its name, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Engine::None => "none",
            Engine::Undo => "undo",
            Engine::Redo => "redo",
            Engine::Cdds => "cdds",
            Engine::Hkv => "hkv",
            Engine::Fs => "fs",
            Engine::Heap => "heap",
            Engine::Names => "names",
            Engine::Custom(_) => "custom",
        }
    }
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Engine::Custom(CustomEngine(code)) => write!(f, "custom {code:#x}"),
            known => f.write_str(known.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_on_media_has_one_engine() {
        let engines = (0..20).chain([0x1_0000, u32::MAX]).filter_map(|code| Some((code, Engine::from_code(code)?)));
        let engines: Vec<_> = engines.collect();
        assert_eq!(engines.len(), 10);
        engines.iter().for_each(|(code, engine)| assert_eq!(engine.code(), *code, "{engine}"));
        assert_eq!(Engine::from_code(0xffff), None);
    }
}
