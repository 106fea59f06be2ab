//! The one engine that may change an object.

/// Who may change the object. Stored as a number that never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum Engine {
    /// None: the program stores what it likes.
    None = 0,
    /// Undo transactions (typed Rust objects).
    Undo = 1,
    /// Redo transactions with isolation (C, C++, word cells).
    Redo = 2,
    /// Versioned trees and tables.
    Cdds = 3,
    /// HEAPO's key-value library.
    Hkv = 4,
    /// A file volume.
    Fs = 5,
    /// Blocks allocated atomically outside transactions, and nothing above them.
    Heap = 6,
    /// The store's own: its names.
    Names = 7,
}

impl Engine {
    const ALL: [(Engine, &'static str); 8] = [
        (Engine::None, "none"),
        (Engine::Undo, "undo"),
        (Engine::Redo, "redo"),
        (Engine::Cdds, "cdds"),
        (Engine::Hkv, "hkv"),
        (Engine::Fs, "fs"),
        (Engine::Heap, "heap"),
        (Engine::Names, "names"),
    ];

    /// The number on media.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// The engine of a number read from media.
    pub fn from_code(code: u32) -> Option<Engine> {
        Engine::ALL.iter().map(|(engine, _)| *engine).find(|engine| engine.code() == code)
    }

    /// Its name, for messages.
    pub fn name(self) -> &'static str {
        Engine::ALL.iter().find(|(engine, _)| *engine == self).map_or("unknown", |(_, name)| name)
    }
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
