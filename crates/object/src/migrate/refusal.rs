//! The reason why a pool cannot be migrated, with the names of the compared types.

use crate::Error;
use crate::description::described::Line;
use everbyte_media::Damage;

/// The reason why there is no plan.
#[doc(hidden)]
#[derive(Debug)]
pub struct Refusal(pub(super) Box<Reason>);

#[derive(Debug)]
pub(super) enum Reason {
    /// At a place of the pool lies another type than the program has there.
    Another { found: String, wanted: String },
    /// A type of this name lies there in a version that the program does not have.
    Version { found: Line, versions: Vec<u32>, wanted: String },
    /// Another difference.
    Differs(String),
    /// The description contradicts itself.
    Damaged(String),
}

impl Reason {
    pub(super) fn differs(what: impl Into<String>) -> Refusal {
        Refusal(Box::new(Reason::Differs(what.into())))
    }

    pub(super) fn another(found: impl Into<String>, wanted: impl Into<String>) -> Refusal {
        Refusal(Box::new(Reason::Another { found: found.into(), wanted: wanted.into() }))
    }

    pub(super) fn damaged(what: impl Into<String>) -> Refusal {
        Refusal(Box::new(Reason::Damaged(what.into())))
    }
}

impl Refusal {
    /// It was met at a field.
    pub(super) fn at_field(self, field: &str, stored: &str, wanted: &str) -> Refusal {
        match *self.0 {
            Reason::Another { found, wanted: inner } => {
                let (found, wanted) = if stored == wanted { (&*found, &*inner) } else { (stored, wanted) };
                Reason::differs(format!("{field} is `{found}` in the pool and `{wanted}` in the program"))
            }
            _ => self,
        }
    }

    /// The error that pool `object` is refused with; `at` is where its description lies.
    pub(crate) fn error(self, object: &str, at: u64) -> Error {
        let object = object.to_string();
        match *self.0 {
            Reason::Damaged(detail) => Error::from(Damage::at(at, detail).of_object(object)),
            Reason::Another { found, wanted } => {
                let difference = format!("its root is `{found}`, the program's is `{wanted}`");
                Error::NoMigration { object, difference }
            }
            Reason::Differs(difference) => Error::NoMigration { object, difference },
            Reason::Version { found, versions, wanted } => {
                let known = versions.iter().copied().max().unwrap_or(1);
                let name = base(&found.name);
                if found.version > known {
                    return Error::NewerVersion { object, name: name.into(), found: found.version, known };
                }
                let Line { version, text, .. } = &found;
                let difference = format!(
                    "no type of the program is version {version} of `{name}`\n  \
                     in the pool:    {text}\n  \
                     in the program: {wanted}\n\
                     keep the type as it was, with `#[persist(version = {version}, name = \"{name}\")]`; declare \
                     `from` with it, and implement `Migrate` from it"
                );
                Error::NoMigration { object, difference }
            }
        }
    }
}

/// The name of a type without arguments.
pub(super) fn base(name: &str) -> &str {
    name.split(['<', '#']).next().unwrap_or(name)
}
